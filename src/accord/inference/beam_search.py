"""Beam search over a batch of sentences, whatever languages they are to be translated into.

The target language is part of a sentence's source, as its tag; rows know nothing else about it.
The device is asked now and then which sentences are done. Those are put aside as soon as half of
a batch is done, so that a few long translations do not keep a whole batch busy.
"""

import functools
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from accord.data.vocabulary import EOS, PAD
from accord.inference.backtrace import Choices, Floats, Found, History
from accord.inference.beam_step import Beam, Record, Rules, Task, advance, start
from accord.inference.cuda_steps import (
    CudaRecorder,
    EagerStepper,
    FixedShapes,
    Stepper,
    graph_rows,
    graph_width,
)
from accord.inference.results import SearchSettings
from accord.inference.text import (
    Search,
    fitting_on_cpu,
    most_tokens,
    padded_array,
)
from accord.models.base import Seq2Seq

_SHARE_OF_GPU = 1 / 8
_LOOK_EVERY = 8  # steps between two looks at a GPU, each of which waits for it


class BeamSearch:
    """A search with fixed settings. It keeps recorded graphs: use it again rather than anew.

    `forbidden_F` are ids that no translation may contain, on the device of the model. With several
    `weights`, which sum to 1, every sentence has as many sources. On CUDA, steps are replayed as
    graphs unless `graphs` is false.
    """

    def __init__(
        self,
        model: Seq2Seq,
        settings: SearchSettings,
        forbidden_F: Tensor,
        *,
        weights: tuple[float, ...] = (1.0,),
        graphs: bool = True,
    ) -> None:
        self.model = model
        self._device = forbidden_F.device
        self.rules = Rules(
            settings.beam,
            settings.nbest,
            settings.length_penalty,
            settings.no_repeat_ngram,
            # Ends are looked at on their own, not as one continuation among others.
            torch.cat([forbidden_F, forbidden_F.new_tensor([PAD, EOS])]),
            weights,
        )
        on_gpu = self._device.type == "cuda"
        self._advance = functools.partial(advance, model, self.rules)
        self._shapes: FixedShapes | None = None
        if graphs and on_gpu:
            self._shapes = FixedShapes(self._advance, CudaRecorder(self._device))
        self._look_every = _LOOK_EVERY if on_gpu else 1

    @torch.no_grad()
    def __call__(
        self,
        source_BS: Tensor,
        lengths_B: Tensor,
        limits_B: Tensor | None = None,
        language_B: Tensor | None = None,
    ) -> list[list[Found]]:
        """The best hypotheses of each sentence of a batch on the host, best first.

        A row is a sentence; of M sources, the rows of the first come before those of the second.
        At most `limits_B` tokens each, by default 2 n + 50 by the longest source; then only the
        end may follow. There are `nbest`, but up to `beam` where more than one is asked for, since
        some may read the same. `language_B` is for models that read the source language.
        """
        if limits_B is None:
            longest_B = lengths_B.view(len(self.rules.weights), -1).amax(dim=0)
            limits_B = torch.tensor([most_tokens(length) for length in longest_B.tolist()])
        history = self._run(*self._begin(source_BS, lengths_B, limits_B, language_B))
        count = 1 if self.rules.nbest == 1 else self.rules.beam
        return history.best(count, self.rules.alpha)[: len(limits_B)]

    def _begin(
        self, source_BS: Tensor, lengths_B: Tensor, limits_B: Tensor, language_B: Tensor | None
    ) -> tuple[Task, Stepper]:
        sentences, most = len(limits_B), int(limits_B.max())
        if self._shapes:
            source_BS, lengths_B, limits_B, language_B = _filled(
                source_BS, lengths_B, limits_B, language_B
            )
            # By the padded width, so that the room for steps follows from the shape of the batch.
            most = max(most, most_tokens(source_BS.shape[1]))
        # One step more gives the end; and steps are made up to the next look, needed or not.
        steps = -(-(most + 1) // self._look_every) * self._look_every
        done_B = torch.arange(len(limits_B)) >= sentences  # rows that only fill up the shape
        source_BS, limits_B, done_B = (x.to(self._device) for x in (source_BS, limits_B, done_B))
        if language_B is not None:
            language_B = language_B.to(self._device)
        task = Task(self.model.encode(source_BS, lengths_B, language_B), limits_B)
        return task, self._stepper(task, start(self.model, self.rules, task, steps, done_B))

    def _run(self, task: Task, stepper: Stepper) -> History:
        sentences_B = np.arange(len(stepper.beam.done_B))
        history = History(len(sentences_B))
        while True:
            records = [stepper.step() for _ in range(self._look_every)]
            history.add(sentences_B, *_on_host(records))
            done_B = stepper.beam.done_B.cpu()
            alive = len(done_B) - int(done_B.sum())
            if not alive:
                return history
            rows = graph_rows(alive) if self._shapes else alive
            if rows <= len(done_B) // 2:
                # Those still in work first; done ones fill up the shape, where it needs that.
                kept_N = done_B.int().argsort(stable=True)[:rows]
                sentences_B = sentences_B[kept_N.numpy()]
                kept_N = kept_N.to(self._device)
                task = task.select(kept_N)
                stepper = self._stepper(task, stepper.beam.select(kept_N))

    def _stepper(self, task: Task, beam: Beam) -> Stepper:
        if self._shapes:
            return self._shapes.load(task, beam)
        return EagerStepper(self._advance, task, beam)


def _on_host(records: Sequence[Record]) -> tuple[Choices, Floats]:
    choices_T3BK = torch.stack([record.choices_3BK for record in records])
    ends_TBK = torch.stack([record.ends_BK for record in records])
    return choices_T3BK.cpu().numpy(), ends_TBK.cpu().double().numpy()


def _filled(
    source_BS: Tensor, lengths_B: Tensor, limits_B: Tensor, language_B: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """A batch padded to a shape that graphs are recorded for; added rows read one end."""
    sentences, width = len(limits_B), source_BS.shape[1]
    more, wider = graph_rows(sentences) - sentences, graph_width(width) - width
    source_MBS = source_BS.view(-1, sentences, width)
    source_MBS = functional.pad(source_MBS, (0, wider, 0, more), value=PAD)
    source_MBS[:, sentences:, 0] = EOS
    if language_B is not None:
        language_B = functional.pad(language_B.view(-1, sentences), (0, more)).flatten()
    return (
        source_MBS.flatten(0, 1),
        functional.pad(lengths_B.view(-1, sentences), (0, more), value=1).flatten(),
        functional.pad(limits_B, (0, more)),
        language_B,
    )


def padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows of ids as one tensor [B, S], and their lengths."""
    source_BS, lengths_B = padded_array(rows)
    return torch.from_numpy(source_BS).to(device), torch.from_numpy(lengths_B).to(device)


_CPU = torch.device("cpu")


class TorchEngine:
    """A model on a device. It is used as it is: put it into evaluation mode first.

    With `bf16` its products are computed in bfloat16; softmax and scores are at least fp32.
    """

    def __init__(self, model: Seq2Seq, device: torch.device, *, bf16: bool = False) -> None:
        self.model = model
        self.device = device
        self.bf16 = bf16

    def search(self, settings: SearchSettings, forbidden: Sequence[int]) -> Search:
        """A beam search that never generates the forbidden ids."""
        forbidden_F = torch.tensor(forbidden, dtype=torch.int64, device=self.device)
        search = BeamSearch(self.model, settings, forbidden_F)

        def run(rows: Sequence[Sequence[int]], language: int | None = None) -> list[list[Found]]:
            language_B = None if language is None else torch.full((len(rows),), language)
            with self.precision():
                return search(*padded(rows, _CPU), language_B=language_B)

        return run

    def fitting(self, longest: int, settings: SearchSettings) -> int:
        """How many rows to search at once; on a GPU a power of two, as its graphs have.

        Caches of a batch take at most `_SHARE_OF_GPU` of its memory: when a batch is made smaller
        in the middle of a search, the old ones and the new ones are there.
        """
        if self.device.type != "cuda":
            return fitting_on_cpu(longest, settings.batch_tokens, settings.beam)
        width = graph_width(longest)
        rows = settings.batch_tokens // width
        bytes_each = 2 if self.bf16 else self.model.output_weight.element_size()
        kept = settings.beam * bytes_each * self.model.kept_numbers(most_tokens(width))
        if kept:
            memory = torch.cuda.get_device_properties(self.device).total_memory
            rows = min(rows, int(_SHARE_OF_GPU * memory) // kept)
        return 1 << (max(1, rows).bit_length() - 1)

    def precision(self) -> AbstractContextManager[object]:
        """What to compute in; where bf16 is off, whatever is in force."""
        if not self.bf16:
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)
