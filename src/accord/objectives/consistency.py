"""Decode-free consistency: a target's words should not depend on which language they are read in.

For a pair (x, y) the decoder is led along the gold y twice. Once it reads x, as in the likelihood;
once it reads y itself, tagged with y's own language. At every position the two distributions should
agree (CrossConST). Nothing is translated.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from accord.data.vocabulary import PAD
from accord.models.base import Seq2Seq
from accord.models.tensor_batch import TensorBatch
from accord.objectives.likelihood import Likelihood, composite_likelihood, likelihood_of
from accord.ops.softmax_cross_entropy import dense_cross_entropy

Divergence = Literal["forward", "symmetric"]


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
    source_ND, target_ND = (
        half_BTD.flatten(0, 1).index_select(0, batch.places_N) for half_BTD in hidden_RTD.chunk(2)
    )
    likelihood = likelihood_of(
        model, source_ND, batch, label_smoothing=label_smoothing, chunk=chunk
    )
    real_N = (batch.target_BT.flatten().index_select(0, batch.places_N) != PAD).float()
    loss = _divergence(model.output_weight, source_ND, target_ND, real_N, divergence, chunk)
    return likelihood, Consistency(loss, real_N.sum())


def _read_twice(batch: TensorBatch) -> tuple[Tensor, Tensor]:
    """2 B rows and their lengths: the sources, then the targets under the same tags, which are
    those of the target's language. A row without a target reads just the end of sentence."""
    copies_BS = torch.cat([batch.source_BS[:, :1], batch.target_BT], dim=1)
    width = max(batch.source_BS.shape[1], copies_BS.shape[1])
    rows_RS = torch.cat(
        [
            functional.pad(rows, (0, width - rows.shape[1]), value=PAD)
            for rows in (batch.source_BS, copies_BS)
        ]
    )
    return rows_RS, torch.cat([batch.source_lengths_B, batch.target_lengths_B + 1])


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
