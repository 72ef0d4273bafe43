"""What dual learning reads: one side of every pair, tagged with a language it has no data into."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from accord.config.third_languages import round_trips
from accord.data.batches import Batch, Int16s, Position
from accord.data.vocabulary import EOS, PAD
from accord.graph import TranslationGraph
from accord.models.base import TensorMap
from accord.objectives.agreement.inputs import NONE, draw_below, filled, tagged_sides

_STREAM = 0x4455414C  # keeps these random numbers apart from others of the same seed


class RoundTrips:
    """Draws, for the rows of a batch, a side of the pair and the language that it is sent to.

    With English-centric data that is the other side than English. Pairs of directions are so
    trained in turn: what is German goes into French and back, what is French into German.
    """

    def __init__(self, graph: TranslationGraph, tags: Mapping[str, int]) -> None:
        self.tags_L = np.array([tags[language] for language in graph.languages], dtype=np.int32)
        size = len(graph.languages)
        self._counts_LL = np.zeros((size, size), dtype=np.int64)
        self._choices_LLK = np.full((size, size, 2 * size), NONE, dtype=np.int16)
        for direction in graph.supervised_directions:
            choices = [
                side * size + graph.languages.index(other)
                for side, language in enumerate(direction)
                for other in round_trips(graph, language)
            ]
            source, target = map(graph.languages.index, direction)
            self._counts_LL[source, target] = len(choices)
            self._choices_LLK[source, target, : len(choices)] = choices

    def draw(
        self, batch: Batch, *, seed: int, position: Position, rank: int = 0, world_size: int = 1
    ) -> Int16s:
        """A choice for every row of a process's batch, `NONE` where there is none: a language as
        in the graph, plus the number of all languages where the target is sent and not the source.

        Neither the number of processes nor that of micro-batches changes it.
        """
        key = (seed, position.epoch, position.number, _STREAM)
        pairs_B = batch.source_language_B, batch.target_language_B
        picks_B = draw_below(self._counts_LL[pairs_B], key, batch.update_rows, rank, world_size)
        drawn_B: Int16s = self._choices_LLK[(*pairs_B, picks_B)]
        return drawn_B


@dataclass(frozen=True)
class DualInputs:
    """B rows [tag of the other language, subwords, EOS], and the languages of the round trip.

    `tag_B` is the tag of the sentence's own language, which its translation is to come back to;
    `language_B` numbers that language and `other_B` the one between, as in the translation graph.
    Rows of weight 0 have nowhere to go, are too long or only fill up the shape: they read just EOS.
    """

    sentences_BS: Tensor
    lengths_B: Tensor
    tag_B: Tensor
    language_B: Tensor
    other_B: Tensor
    weight_B: Tensor

    @staticmethod
    def of(
        batch: Batch,
        drawn_B: Int16s,
        trips: RoundTrips,
        longest: int,
        shape: tuple[int, int] | None = None,
    ) -> "DualInputs":
        """What was drawn for the rows of a batch, but not those of more subwords than `longest`.

        `shape` is that of a `TensorBatch.of_shape`: rows and tokens a row to be filled up to, with
        one more for a tag before a target.
        """
        widest = max(batch.source_BS.shape[1], batch.target_BT.shape[1])
        rows, length = shape or (batch.rows, widest)
        width = min(length, longest + 1) + 1
        side_B, other_B = np.divmod(np.maximum(drawn_B, 0).astype(np.int64), len(trips.tags_L))
        languages_2B = np.stack([batch.source_language_B, batch.target_language_B])
        language_B = np.take_along_axis(languages_2B, side_B[None], axis=0)[0].astype(np.int64)
        tagged_2BS, lengths_2B = tagged_sides(batch, trips.tags_L[other_B], length + 1)
        lengths_B = np.take_along_axis(lengths_2B, side_B[None], axis=0)[0]
        counts_B = (drawn_B != NONE) & (lengths_B <= width)

        sentences_BS = np.full((rows, width), PAD, dtype=np.int64)
        sentences_BS[:, 0] = EOS
        chosen_BS = np.take_along_axis(tagged_2BS, side_B[None, :, None], axis=0)[0, :, :width]
        sentences_BS[: batch.rows][counts_B] = chosen_BS[counts_B]
        return DualInputs(
            torch.from_numpy(sentences_BS),
            filled(np.where(counts_B, lengths_B, 1), rows, 1),
            filled(trips.tags_L[language_B].astype(np.int64), rows, EOS),
            filled(language_B, rows, 0),
            filled(other_B, rows, 0),
            filled(counts_B.astype(np.float32), rows, 0),
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """All that a CUDA graph depends on."""
        return tuple(self.sentences_BS.shape)

    def map_tensors(self, change: TensorMap) -> "DualInputs":
        """The inputs with `change` applied to every tensor."""
        changed: dict[str, Any] = {name: change(getattr(self, name)) for name in _TENSORS}
        return replace(self, **changed)

    def pinned(self) -> "DualInputs":
        """The inputs in memory that a GPU can read by itself."""
        return self.map_tensors(Tensor.pin_memory)

    def to(self, device: torch.device) -> "DualInputs":
        """The inputs on a device."""
        return self.map_tensors(lambda tensor: tensor.to(device, non_blocking=True))

    def copy_from(self, other: "DualInputs") -> None:
        """Take over the contents of inputs of the same shape."""
        for name in _TENSORS:
            getattr(self, name).copy_(getattr(other, name), non_blocking=True)


_TENSORS = [field.name for field in fields(DualInputs)]
