"""What the agreement objective reads: both sides of every pair, tagged with a third language."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from accord.config.checks import refuse
from accord.config.objective_checks import bad_agreement
from accord.config.third_languages import Auxiliary, Law, Protection
from accord.data.batches import Batch, Bools, Int16s, Int32s, Position
from accord.data.epoch_plan import Int64s
from accord.data.vocabulary import EOS, PAD
from accord.graph import TranslationGraph
from accord.models.base import TensorMap

# --- The choice of the auxiliary language: which third language the two sides of a pair agree in.
#
# It is drawn on the host, with random numbers of its own, so that it disturbs no others. Every
# example's draw follows from seed, position and its place in the update alone: neither the number
# of processes nor the number of micro-batches changes it.


NONE = -1  # instead of a language: nothing to agree in
_STREAM = 0x41475245  # keeps these random numbers apart from others of the same seed


class AuxiliaryLanguages(Auxiliary):
    """Draws auxiliary languages for the rows of a batch."""

    def __init__(
        self,
        graph: TranslationGraph,
        tags: Mapping[str, int],
        *,
        law: Law = "zero-shot",
        protect: Protection = "supervised",
    ) -> None:
        super().__init__(graph, law, protect)
        refuse(bad_agreement(self))
        self.tags_L = np.array([tags[language] for language in graph.languages], dtype=np.int32)
        size = len(graph.languages)
        self._supervised_LL = np.zeros((size, size), dtype=np.bool_)
        self._counts_LL = np.zeros((size, size), dtype=np.int64)
        self._choices_LLK = np.full((size, size, size), NONE, dtype=np.int16)
        for direction in graph.supervised_directions:
            source, target = map(graph.languages.index, direction)
            choices = [graph.languages.index(x) for x in self.candidates(*direction)]
            self._supervised_LL[source, target] = True
            self._counts_LL[source, target] = len(choices)
            self._choices_LLK[source, target, : len(choices)] = choices

    @cached_property
    def one_sided(self) -> bool:
        """Whether gradients can reach at most one side of a pair, whatever is drawn.

        So it is with English-centric data. Then the other side needs no backward pass.
        """
        return all(
            sum(self.is_live(side, auxiliary) for side in direction) < 2
            for direction in self.graph.supervised_directions
            for auxiliary in self.candidates(*direction)
        )

    def live(self, language_B: Int16s, auxiliary_B: Int16s) -> Bools:
        """`is_live` of many; false where there is no auxiliary language."""
        drawn_B: Bools = auxiliary_B != NONE
        if self.protect == "none":
            return drawn_B
        live_B: Bools = drawn_B & ~self._supervised_LL[language_B, auxiliary_B]
        return live_B

    def draw(
        self, batch: Batch, *, seed: int, position: Position, rank: int = 0, world_size: int = 1
    ) -> Int16s:
        """An auxiliary language for every row of a process's batch, `NONE` where none is useful.

        `position` is any that identifies the batch, for example the one that comes with it.
        """
        key = (seed, position.epoch, position.number, _STREAM)
        pairs_B = batch.source_language_B, batch.target_language_B
        picks_B = draw_below(self._counts_LL[pairs_B], key, batch.update_rows, rank, world_size)
        drawn_B: Int16s = self._choices_LLK[(*pairs_B, picks_B)]
        return drawn_B


def draw_below(
    counts_B: Int64s, key: Sequence[int], update_rows: int, rank: int, world_size: int
) -> Int64s:
    """A number below each count (0 where that is 0), for a process's rows of an update.

    It follows from the key and the row's place in the whole update.
    """
    words = np.random.Philox(np.random.SeedSequence(key)).random_raw(update_rows)
    picks_B = words[rank::world_size] % np.maximum(counts_B, 1).astype(np.uint64)
    return picks_B.astype(np.int64)


@dataclass(frozen=True)
class AgreementInputs:
    """R = 2 B rows [auxiliary tag, subwords, EOS]: row b and row B + b are the sides of pair b.

    Gradients flow through the rows marked in `live_R`. If just one side of a pair is live, it
    stands in the second half; `one_sided` promises that this holds for every pair that counts.
    Where `judged_learn` is false, a row that is not live also teaches nothing as a reader.
    Pairs of weight 0 have nothing to agree on, or only fill up the shape; they read just EOS.
    `auxiliary_B` numbers the languages that are translated into, as in the translation graph;
    `language_R` those of the sentences, 0 where a row only fills up the shape.
    """

    sentences_RS: Tensor
    lengths_R: Tensor
    language_R: Tensor
    live_R: Tensor
    weight_B: Tensor
    auxiliary_B: Tensor
    one_sided: bool
    judged_learn: bool

    @staticmethod
    def of(
        batch: Batch,
        auxiliary_B: Int16s,
        languages: AuxiliaryLanguages,
        shape: tuple[int, int] | None = None,
    ) -> "AgreementInputs":
        """The pairs of a batch and the languages drawn for them, in host memory.

        `shape` is that of a `TensorBatch.of_shape`: rows and tokens a row to be filled up to. A
        target gains a tag here, so rows are one token longer than that.
        """
        widest = max(batch.source_BS.shape[1], batch.target_BT.shape[1])
        rows, length = shape or (batch.rows, widest)
        sides = batch.source_language_B, batch.target_language_B
        live_2B = np.stack([languages.live(side_B, auxiliary_B) for side_B in sides])
        language_2B = np.stack(sides).astype(np.int64)
        tagged_2BS, lengths_2B = tagged_sides(batch, languages.tags_L[auxiliary_B], length + 1)
        counts_B = live_2B[0] | live_2B[1]
        tagged_2BS[:, ~counts_B] = PAD
        tagged_2BS[:, ~counts_B, 0] = EOS
        lengths_2B[:, ~counts_B] = 1
        order_2B = _teachers_first(live_2B)

        sentences_2BS = np.full((2, rows, length + 1), PAD, dtype=np.int64)
        sentences_2BS[:, :, 0] = EOS
        sentences_2BS[:, : batch.rows] = np.take_along_axis(tagged_2BS, order_2B[..., None], axis=0)
        return AgreementInputs(
            torch.from_numpy(sentences_2BS).flatten(0, 1),
            filled(np.take_along_axis(lengths_2B, order_2B, axis=0), rows, 1).flatten(),
            filled(np.take_along_axis(language_2B, order_2B, axis=0), rows, 0).flatten(),
            filled(np.take_along_axis(live_2B, order_2B, axis=0), rows, False).flatten(),
            filled(counts_B.astype(np.float32), rows, 0),
            filled(np.maximum(auxiliary_B, 0).astype(np.int64), rows, 0),
            languages.one_sided,
            languages.protect != "supervised-scores",
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """All that a CUDA graph depends on."""
        return tuple(self.sentences_RS.shape)

    @property
    def pairs(self) -> int:
        """The number of pairs B, those of weight 0 included."""
        return len(self.weight_B)

    def map_tensors(self, change: TensorMap) -> "AgreementInputs":
        """The inputs with `change` applied to every tensor."""
        changed: dict[str, Any] = {name: change(getattr(self, name)) for name in _TENSORS}
        return replace(self, **changed)

    def pinned(self) -> "AgreementInputs":
        """The inputs in memory that a GPU can read by itself."""
        return self.map_tensors(Tensor.pin_memory)

    def to(self, device: torch.device, pin: bool = False) -> "AgreementInputs":
        """The inputs on a device; `pin` makes the transfer asynchronous on CUDA."""
        source = self.pinned() if pin else self
        return source.map_tensors(lambda tensor: tensor.to(device, non_blocking=True))

    def copy_from(self, other: "AgreementInputs") -> None:
        """Take over the contents of inputs of the same shape."""
        for name in _TENSORS:
            getattr(self, name).copy_(getattr(other, name), non_blocking=True)


_TENSORS = [field.name for field in fields(AgreementInputs) if field.type is Tensor]


def tagged_sides(batch: Batch, tags_B: Int32s, width: int) -> tuple[Int64s, Int64s]:
    """Sources and targets [2, B, width] with the same tag before both, and their lengths."""
    both_2BS = np.full((2, batch.rows, width), PAD, dtype=np.int64)
    both_2BS[:, :, 0] = tags_B
    both_2BS[0, :, 1 : batch.source_BS.shape[1]] = batch.source_BS[:, 1:]
    both_2BS[1, :, 1 : 1 + batch.target_BT.shape[1]] = batch.target_BT
    return both_2BS, np.stack([batch.source_lengths_B, batch.target_lengths_B + 1])


def _teachers_first(live_2B: Bools) -> Int64s:
    """Which side (0 the source, 1 the target) stands in the first half, and which in the second."""
    swapped_B = live_2B[0] & ~live_2B[1]
    return np.stack([swapped_B, ~swapped_B]).astype(np.int64)


def filled(values: npt.NDArray[Any], rows: int, filler: float) -> Tensor:
    """A tensor whose last dimension is filled up to `rows`."""
    more = [(0, 0)] * (values.ndim - 1) + [(0, rows - values.shape[-1])]
    return torch.from_numpy(np.pad(values, more, constant_values=filler))
