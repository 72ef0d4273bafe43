"""Soft pivot: a subword should have one vector as a source and as a target (Cheng et al. 2017).

A translation through a pivot is two steps: one writes the pivot language, one reads it. Two models
trained for these steps are tied where they meet, in the pivot's word vectors. In one multilingual
model they meet as well: the target table writes the pivot, the source table reads it. Here V is the
set of subwords that all given languages have in training on both sides:

    R = (1 / |V|) sum_{w in V} || E_source^w - E_target^w ||_2

Lengths, not squares; a mean, where the paper has a sum: a sum over a vocabulary would drown a loss
per token. One table for both (`model.tables: shared`) is the hard form of the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from accord.config.objectives import TieConfig
from accord.data.batches import Batch, Position
from accord.data.store import ParallelCorpus, trained_corpora
from accord.data.vocabulary import Vocabulary
from accord.errors import AccordError
from accord.inference.training_text import is_byte
from accord.models.base import Seq2Seq
from accord.objectives.base import Context, Cut, Objective, Shape, Tally, Terms, Work

# Added to squared distances: where both vectors are equal the gradient is then 0, not undefined.
_EPSILON_SQUARED = 1e-12


@dataclass(frozen=True)
class NoInputs:
    """It reads no sentences."""

    shape: tuple[int, ...] = ()

    def to(self, device: torch.device) -> "NoInputs":
        """On a device."""
        return self

    def copy_from(self, other: "NoInputs") -> None:
        """There is nothing to take over."""


class TieObjective(Objective[NoInputs]):
    """The mean distance between the two vectors of some subwords."""

    name = "tie"
    counts = ("updates",)

    def __init__(self, config: TieConfig, word_N: Tensor) -> None:
        """`word_N` are the subwords, on the device of the model: they never change."""
        self.config = config
        self.word_N = word_N

    @staticmethod
    def of(config: TieConfig, context: Context) -> "TieObjective":
        """For the training text of an experiment."""
        store, graph = context.store, context.experiment.graph
        corpora = trained_corpora(store.corpora, graph.supervised)
        word_N = tied_words(store.vocabulary, corpora, config.languages)
        return TieObjective(config, torch.from_numpy(word_N).to(context.world.device))

    def weight(self, step: int) -> float:
        """The same in every update after the start."""
        return self.config.weight if step > self.config.start else 0.0

    def inputs(self, step: int, position: Position, batch: Batch, cut: Cut) -> list[NoInputs]:
        """Nothing of a batch, and once for all its parts."""
        return [NoInputs()]

    def work(self, step: int, batch: Batch, inputs: list[NoInputs]) -> Work[NoInputs]:
        """Every process brings as much of it as it has of the target tokens."""
        scale = self.weight(step) * batch.target_tokens
        return Work(inputs, (scale,), batch.target_tokens)

    def loss(self, model: Seq2Seq, inputs: NoInputs) -> Terms:
        """The mean distance."""
        distance = mean_distance(model, self.word_N)
        return Terms({"loss": distance}, {"updates": torch.ones_like(distance)})

    def metrics(self, tally: Tally, sentences: float) -> dict[str, float | None]:
        """The mean distance, without the weight, over the updates that computed it."""
        updates = tally.sums.get("updates", 0.0)
        return {"tie_distance": tally.sums["loss"] / updates} if updates else {}

    def largest(self, batch: Batch, shape: Shape | None) -> NoInputs:
        """It takes as much memory in every update."""
        return NoInputs()


def mean_distance(model: Seq2Seq, word_N: Tensor) -> Tensor:
    """The mean Euclidean distance between the source's and the target's vectors of subwords."""
    if model.source_embedding is None:
        raise ValueError("one table for sources and targets: there is nothing to tie")
    source_ND = model.source_embedding.weight.index_select(0, word_N)
    target_ND = model.target_embedding.weight.index_select(0, word_N)
    square_N = (source_ND - target_ND).square().sum(dim=1)
    return (square_N + _EPSILON_SQUARED).sqrt().mean()


def tied_words(
    vocabulary: Vocabulary, corpora: Sequence[ParallelCorpus], languages: Sequence[str]
) -> npt.NDArray[np.int64]:
    """The subwords that all these languages have in the corpora, as source and as target."""
    # Tags and ends of sentence stand in no text.
    common_V = np.array([not is_byte(piece) for piece in vocabulary.pieces()])
    for language in languages:
        for side in (0, 1):
            counts_V = np.zeros(len(vocabulary), dtype=np.int64)
            for corpus in corpora:
                if any(direction[side] == language for direction in corpus.directions):
                    counts_V += corpus.side(language).token_counts(len(vocabulary))
            common_V &= counts_V > 0
    if not common_V.any():
        raise AccordError(
            f"there is no subword to tie: none is in the training text of {', '.join(languages)} "
            "both as a source and as a target",
            where="objective.tie.languages",
            fix="name one language only, or leave objective.tie out",
        )
    return np.flatnonzero(common_V)
