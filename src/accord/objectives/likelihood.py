"""Composite likelihood: every training direction on its own, all mixed in one batch (Basic)."""

from dataclasses import dataclass

from torch import Tensor

from accord.models.base import Seq2Seq
from accord.models.tensor_batch import TensorBatch
from accord.ops.linear_cross_entropy import Likely, linear_cross_entropy


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
    memory = model.encode(batch.source_BS, batch.source_lengths_B)
    hidden_BTD = model.decode(memory, model.shifted_embeddings(batch.target_BT))
    return likelihood_of(
        model,
        hidden_BTD.flatten(0, 1).index_select(0, batch.places_N),
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
        batch.target_BT.flatten().index_select(0, batch.places_N),
        label_smoothing=label_smoothing,
        chunk=chunk,
        likely=likely,
    )
    return Likelihood(loss, nll, batch.target_tokens)
