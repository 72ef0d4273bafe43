"""Likelihood: every training direction on its own, all mixed in one batch (Basic).

The composite likelihood of the paper (its Eq. 1): what Accord trains where nothing else is asked
for, and what all other objectives are added to.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from accord.data.batches import Batch, Position
from accord.models.base import Seq2Seq
from accord.models.tensor_batch import TensorBatch
from accord.objectives.base import Cut, Objective, Shape, Tally, Terms, Work, tensors_of
from accord.ops.linear_cross_entropy import Likely, linear_cross_entropy


@dataclass(frozen=True)
class PairInputs:
    """Sentence pairs and, where a teacher wants something else than the targets, what that is."""

    pairs: TensorBatch
    soft_targets: Likely | None = None
    """At every place b * T + t of the targets."""

    @property
    def shape(self) -> tuple[int, ...]:
        """All that a CUDA graph depends on."""
        found = (*self.pairs.source_BS.shape, *self.pairs.target_BT.shape)
        return found if self.soft_targets is None else (*found, self.soft_targets.token_NK.shape[1])

    def to(self, device: torch.device) -> "PairInputs":
        """On a device."""
        soft = self.soft_targets.to(device) if self.soft_targets is not None else None
        return PairInputs(self.pairs.to(device), soft)

    def copy_from(self, other: "PairInputs") -> None:
        """Take over the contents of one of the same shape."""
        self.pairs.copy_from(other.pairs)
        if self.soft_targets is not None and other.soft_targets is not None:
            self.soft_targets.copy_from(other.soft_targets)


class LikelihoodObjective(Objective[PairInputs]):
    """The likelihood of gold pairs; of others, for an objective that has this one as its scorer."""

    name = "likelihood"
    counts = ("nll",)

    def __init__(self, label_smoothing: float) -> None:
        self.label_smoothing = label_smoothing

    def weight(self, step: int) -> float:
        """It is always on."""
        return 1.0

    def inputs(self, step: int, position: Position, batch: Batch, cut: Cut) -> list[PairInputs]:
        """The pairs of the batch."""
        return [PairInputs(tensors_of(part, shape)) for part, shape in cut(batch)]

    def work(self, step: int, batch: Batch, inputs: list[PairInputs]) -> Work[PairInputs]:
        """A mean over the target tokens of the update."""
        return Work(inputs, (1.0,), batch.target_tokens)

    def loss(self, model: Seq2Seq, inputs: PairInputs) -> Terms:
        """Smoothed and plain negative log-likelihood, summed over target tokens."""
        found = composite_likelihood(
            model,
            inputs.pairs,
            label_smoothing=self.label_smoothing,
            likely=inputs.soft_targets,
        )
        return Terms({"loss": found.loss}, {"nll": found.nll})

    def metrics(self, tally: Tally, sentences: float) -> dict[str, float | None]:
        """Nats per target subword; None where no update was applied."""
        nll = tally.mean("nll")
        perplexity = math.exp(min(nll, 50.0)) if nll is not None else None
        return {"loss": tally.mean("loss"), "nll": nll, "perplexity": perplexity}

    def largest(self, batch: Batch, shape: Shape | None) -> PairInputs:
        """The whole batch."""
        return PairInputs(tensors_of(batch, shape))


@dataclass(frozen=True)
class Likelihood:
    """Sums over the target tokens of a batch, not means.

    Divide by the tokens of the whole update: then accumulated batches and several devices give
    the very gradient of one large batch. `nll` is without smoothing and carries no gradient.
    """

    loss: Tensor
    nll: Tensor
    tokens: int


def composite_likelihood(
    model: Seq2Seq,
    batch: TensorBatch,
    *,
    label_smoothing: float = 0.1,
    chunk: int = 8192,
    likely: Likely | None = None,
) -> Likelihood:
    """The negative log-likelihood of the targets given their sources, smoothed and plain.

    With `likely` the smoothed one is of what that wants, at every place b * T + t of the targets.
    """
    if not len(batch.places_N):  # one process's share of a small last batch may be empty
        zero = model.output_weight.new_zeros((), requires_grad=True)
        return Likelihood(zero, zero.detach(), 0)
    memory = model.encode(batch.source_BS, batch.source_lengths_B, batch.source_language_B)
    hidden_BTD = model.decode(memory, model.shifted_embeddings(batch.target_BT))
    return likelihood_of(
        model,
        batch.scored(hidden_BTD),
        batch,
        label_smoothing=label_smoothing,
        chunk=chunk,
        likely=likely and likely.at(batch.places_N),
    )


def likelihood_of(
    model: Seq2Seq,
    hidden_ND: Tensor,
    batch: TensorBatch,
    *,
    label_smoothing: float,
    chunk: int,
    likely: Likely | None = None,
) -> Likelihood:
    """The same from the decoder's hidden vectors at the places to be scored."""
    loss, nll = linear_cross_entropy(
        hidden_ND,
        model.output_weight,
        batch.scored(batch.target_BT),
        label_smoothing=label_smoothing,
        chunk=chunk,
        likely=likely,
    )
    return Likelihood(loss, nll, batch.target_tokens)
