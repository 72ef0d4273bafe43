"""Beam search over a batch of sentences, whatever languages they are to be translated into.

The target language is part of a sentence's source, as its tag; rows know nothing else about it.
The device is asked now and then which sentences are done. Those are put aside as soon as half of
a batch is done, so that a few long translations do not keep a whole batch busy.
"""

import functools

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from accord.corpus.vocabulary import EOS, PAD
from accord.model.protocol import Seq2Seq
from accord.search.history import Found, History
from accord.search.result import SearchSettings
from accord.search.step import Beam, Rules, Task, advance, most_tokens, start
from accord.search.stepping import (
    CudaRecorder,
    EagerStepper,
    FixedShapes,
    Stepper,
    graph_rows,
    graph_width,
)

_LOOK_EVERY = 8  # steps between two looks at a GPU, each of which waits for it


class BeamSearch:
    """A search with fixed settings. It keeps recorded graphs: use it again rather than anew.

    `forbidden_F` are ids that no translation may contain, on the device of the model. On CUDA,
    steps are replayed as graphs unless `graphs` is false.
    """

    def __init__(
        self,
        model: Seq2Seq,
        settings: SearchSettings,
        forbidden_F: Tensor,
        *,
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
        )
        on_gpu = self._device.type == "cuda"
        self._advance = functools.partial(advance, model, self.rules)
        self._shapes = FixedShapes(self._advance, CudaRecorder()) if graphs and on_gpu else None
        self._look_every = _LOOK_EVERY if on_gpu else 1

    @torch.no_grad()
    def __call__(
        self, source_BS: Tensor, lengths_B: Tensor, limits_B: Tensor | None = None
    ) -> list[list[Found]]:
        """The best hypotheses of each row of a batch on the host, best first.

        At most `limits_B` tokens each, by default 2 n + 50; then only the end may follow. There are
        `nbest`, but up to `beam` where more than one is asked for, since some may read the same.
        """
        sentences = len(source_BS)
        if limits_B is None:
            limits_B = torch.tensor([most_tokens(length) for length in lengths_B.tolist()])
        task, beam = self._begin(source_BS, lengths_B, limits_B)
        history = self._run(task, beam)
        count = 1 if self.rules.nbest == 1 else self.rules.beam
        return history.best(count, self.rules.alpha)[:sentences]

    def _begin(self, source_BS: Tensor, lengths_B: Tensor, limits_B: Tensor) -> tuple[Task, Beam]:
        sentences = len(source_BS)
        if self._shapes:
            source_BS, lengths_B, limits_B = _filled(source_BS, lengths_B, limits_B)
        done_B = torch.arange(len(source_BS)) >= sentences  # rows that only fill up the shape
        source_BS, limits_B, done_B = (x.to(self._device) for x in (source_BS, limits_B, done_B))
        task = Task(self.model.encode(source_BS, lengths_B), limits_B)
        return task, start(self.model, self.rules, task, done_B)

    def _run(self, task: Task, beam: Beam) -> History:
        sentences_B = np.arange(len(beam.done_B))
        history = History(len(sentences_B))
        stepper = self._stepper(task, beam)
        while True:
            records = [stepper.step() for _ in range(self._look_every)]
            history.add(sentences_B, records)
            done_B = stepper.beam.done_B.cpu()
            alive = len(done_B) - int(done_B.sum())
            if not alive:
                return history
            rows = graph_rows(alive) if self._shapes else alive
            if rows <= len(done_B) // 2:
                # Those still in work first; done ones fill up the shape, where it needs that.
                kept_N = done_B.int().argsort(stable=True)[:rows]
                sentences_B = sentences_B[kept_N.numpy()]
                task, beam = _selected(task, stepper.beam, kept_N.to(self._device))
                stepper = self._stepper(task, beam)

    def _stepper(self, task: Task, beam: Beam) -> Stepper:
        if self._shapes:
            return self._shapes.load(task, beam)
        return EagerStepper(self._advance, task, beam)


def _selected(task: Task, beam: Beam, sentences_N: Tensor) -> tuple[Task, Beam]:
    rest = Task(task.memory.select(sentences_N), task.limits_B[sentences_N])
    return rest, beam.select(sentences_N)


def _filled(
    source_BS: Tensor, lengths_B: Tensor, limits_B: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """A batch padded to a shape that graphs are recorded for; added rows read one end."""
    rows, width = source_BS.shape
    more, wider = graph_rows(rows) - rows, graph_width(width) - width
    source_BS = functional.pad(source_BS, (0, wider, 0, more), value=PAD)
    source_BS[rows:, 0] = EOS
    return (
        source_BS,
        functional.pad(lengths_B, (0, more), value=1),
        functional.pad(limits_B, (0, more)),
    )
