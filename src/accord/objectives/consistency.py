"""Consistency without decoding: a target's words should not depend on the language read.

For a pair (x, y) the decoder is led along the gold y twice. Once it reads x, as in the likelihood;
once it reads y itself, tagged with y's own language. At every position the two distributions should
agree (CrossConST). Nothing is translated.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from accord.config.objectives import ConsistencyConfig
from accord.data.batches import Batch, Position
from accord.data.vocabulary import PAD
from accord.models.base import Seq2Seq
from accord.models.tensor_batch import TensorBatch
from accord.objectives.base import Cut, Objective, Shape, Tally, Terms, Work
from accord.objectives.likelihood import (
    Likelihood,
    LikelihoodObjective,
    PairInputs,
    composite_likelihood,
    likelihood_of,
)
from accord.ops.softmax_cross_entropy import dense_cross_entropy

Divergence = Literal["forward", "symmetric"]


@dataclass(frozen=True)
class ConsistencyInputs:
    """Sentence pairs, and whether consistency is on; all that it reads is in them."""

    gold: PairInputs
    consistent: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """All that a CUDA graph depends on."""
        return (self.consistent, *self.gold.shape)

    def to(self, device: torch.device) -> "ConsistencyInputs":
        """On a device."""
        return ConsistencyInputs(self.gold.to(device), self.consistent)

    def copy_from(self, other: "ConsistencyInputs") -> None:
        """Take over the contents of one of the same shape."""
        self.gold.copy_from(other.gold)


class ConsistencyObjective(Objective[ConsistencyInputs]):
    """The likelihood and, from the same pass, consistency: it takes the likelihood's place.

    Up to its start it is the likelihood, bit for bit.
    """

    name = "consistency"
    losses = ("loss", "consistency_loss")
    counts = ("nll", "consistency_tokens")

    def __init__(self, config: ConsistencyConfig, likelihood: LikelihoodObjective) -> None:
        self.config = config
        self.likelihood = likelihood

    def weight(self, step: int) -> float:
        """The likelihood is always on."""
        return 1.0

    def inputs(
        self, step: int, position: Position, batch: Batch, cut: Cut
    ) -> list[ConsistencyInputs]:
        """The pairs of the batch."""
        consistent = step > self.config.start
        gold = self.likelihood.inputs(step, position, batch, cut)
        return [ConsistencyInputs(part, consistent) for part in gold]

    def work(
        self, step: int, batch: Batch, inputs: list[ConsistencyInputs]
    ) -> Work[ConsistencyInputs]:
        """Both are means over the target tokens of the update."""
        return Work(inputs, (1.0, self.config.weight), batch.target_tokens)

    def loss(self, model: Seq2Seq, inputs: ConsistencyInputs) -> Terms:
        """Sums over target tokens."""
        if not inputs.consistent:
            terms = self.likelihood.loss(model, inputs.gold)
            zero = torch.zeros_like(terms.counts["nll"])
            none = {"consistency_loss": zero}, {"consistency_tokens": zero}
            return Terms({**terms.losses, **none[0]}, {**terms.counts, **none[1]})
        gold, found = consistent_likelihood(
            model,
            inputs.gold.pairs,
            divergence=self.config.divergence,
            label_smoothing=self.likelihood.label_smoothing,
        )
        return Terms(
            {"loss": gold.loss, "consistency_loss": found.loss},
            {"nll": gold.nll, "consistency_tokens": found.tokens},
        )

    def metrics(self, tally: Tally, sentences: float) -> dict[str, float | None]:
        """Those of the likelihood, and nats per target subword of the updates with consistency."""
        found = self.likelihood.metrics(tally, sentences)
        if tokens := tally.sums.get("consistency_tokens", 0.0):
            found["consistency_loss"] = tally.sums["consistency_loss"] / tokens
        return found

    def largest(self, batch: Batch, shape: Shape | None) -> ConsistencyInputs:
        """The whole batch, both readings of it."""
        return ConsistencyInputs(self.likelihood.largest(batch, shape), True)


@dataclass(frozen=True)
class Consistency:
    """Sums over the target tokens of a batch, not means: divide by the tokens of the whole update.

    `tokens` counts them on the device, which need not be waited for.
    """

    loss: Tensor
    tokens: Tensor


def consistent_likelihood(
    model: Seq2Seq,
    batch: TensorBatch,
    *,
    divergence: Divergence = "forward",
    label_smoothing: float = 0.1,
    chunk: int = 8192,
) -> tuple[Likelihood, Consistency]:
    """The composite likelihood, and the divergence between reading the source and the target.

    Both readings are halves of one batch, and the first also serves the likelihood. Gradients flow
    into both: neither is the teacher. Shapes follow from those of the batch alone.
    """
    if not len(batch.places_N):  # one process's share of a small last batch may be empty
        terms = composite_likelihood(model, batch)
        return terms, Consistency(torch.zeros_like(terms.loss), terms.nll)
    memory = model.encode(*_read_twice(batch))
    inputs_BTD = model.shifted_embeddings(batch.target_BT)
    hidden_RTD = model.decode(memory, torch.cat([inputs_BTD, inputs_BTD]))
    source_ND, target_ND = (batch.scored(half_BTD) for half_BTD in hidden_RTD.chunk(2))
    likelihood = likelihood_of(
        model, source_ND, batch, label_smoothing=label_smoothing, chunk=chunk
    )
    real_N = (batch.scored(batch.target_BT) != PAD).float()
    loss = _divergence(model.output_weight, source_ND, target_ND, real_N, divergence, chunk)
    return likelihood, Consistency(loss, real_N.sum())


def _read_twice(batch: TensorBatch) -> tuple[Tensor, Tensor, Tensor]:
    """2 B rows, their lengths and languages: the sources, then the targets under the same tags,
    which are those of the target's language. A row without a target reads just the end of sentence.
    """
    copies_BS = torch.cat([batch.source_BS[:, :1], batch.target_BT], dim=1)
    width = max(batch.source_BS.shape[1], copies_BS.shape[1])
    rows_RS = torch.cat(
        [
            functional.pad(rows, (0, width - rows.shape[1]), value=PAD)
            for rows in (batch.source_BS, copies_BS)
        ]
    )
    lengths_R = torch.cat([batch.source_lengths_B, batch.target_lengths_B + 1])
    return rows_RS, lengths_R, torch.cat([batch.source_language_B, batch.target_language_B])


def _divergence(
    weight_VD: Tensor,
    source_ND: Tensor,
    target_ND: Tensor,
    weights_N: Tensor,
    kind: Divergence,
    chunk: int,
) -> Tensor:
    """The sum of KL(P(. | source) || P(. | target)), or of the mean of both directions."""
    wanted_ND, scorer_ND = source_ND, target_ND
    if kind == "symmetric":
        wanted_ND, scorer_ND = torch.cat([source_ND, target_ND]), torch.cat([target_ND, source_ND])
        weights_N = weights_N.repeat(2) / 2
    loss, _ = dense_cross_entropy(
        wanted_ND, scorer_ND, weight_VD, weights_N, divergence=True, chunk=chunk
    )
    return loss
