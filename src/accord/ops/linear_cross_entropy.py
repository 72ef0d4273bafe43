"""Softmax cross-entropy straight from hidden vectors, without ever holding all logits.

With smoothing the wanted distribution is 1 - s on the gold token and s / (V - 1) on every other.
Instead of one gold token there may be several, each with its share (`Likely`).
The distribution's entropy, which no model can get below, is subtracted: the smallest possible loss
is 0. Positions whose target is PAD add nothing.

Only the wanted tokens and the normaliser need the matrix of logits. The rest is linear in them, and
so is found from the sum of the weight's rows: the logits are read once, the softmax once.
"""

import math
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from accord.data.vocabulary import PAD
from accord.ops.softmax import against_tokens, compute_dtype


@dataclass(frozen=True)
class Likely:
    """K different tokens that are wanted at each position, and shares that sum to 1."""

    token_NK: Tensor
    share_NK: Tensor

    def at(self, places: Tensor) -> "Likely":
        """At some of the positions."""
        chosen = (each.index_select(0, places) for each in (self.token_NK, self.share_NK))
        return Likely(*chosen)

    def pinned(self) -> "Likely":
        """In memory that a GPU can read by itself."""
        return Likely(self.token_NK.pin_memory(), self.share_NK.pin_memory())

    def to(self, device: torch.device) -> "Likely":
        """On a device."""
        moved = (each.to(device, non_blocking=True) for each in (self.token_NK, self.share_NK))
        return Likely(*moved)

    def copy_from(self, other: "Likely") -> None:
        """Take over the contents of one of the same shape."""
        self.token_NK.copy_(other.token_NK, non_blocking=True)
        self.share_NK.copy_(other.share_NK, non_blocking=True)


def linear_cross_entropy(
    hidden_ND: Tensor,
    weight_VD: Tensor,
    targets_N: Tensor,
    *,
    label_smoothing: float,
    chunk: int,
    likely: Likely | None = None,
) -> tuple[Tensor, Tensor]:
    """The summed smoothed loss, and the summed plain one without gradient.

    With `likely`, its tokens are wanted in place of the targets; the plain loss is of these still.
    Products are taken in the type of `hidden_ND` (or of autocast), the softmax at least in fp32.
    Logits exist for `chunk` positions at a time; gradients are found in the forward pass.
    """
    losses = _LinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden_ND.to(compute_dtype(hidden_ND)),
        weight_VD,
        targets_N,
        label_smoothing,
        chunk,
        torch.is_grad_enabled(),
        likely,
    )
    return cast(tuple[Tensor, Tensor], losses)


def smoothing_entropy(label_smoothing: float, vocabulary_size: int) -> float:
    """The entropy of the smoothed distribution: the constant that is subtracted."""
    if label_smoothing == 0:
        return 0.0
    gold, other = 1 - label_smoothing, label_smoothing / (vocabulary_size - 1)
    return -gold * math.log(gold) - label_smoothing * math.log(other)


def _likely_entropy(share_NK: Tensor, extra: float, other: float, size: int) -> Tensor:
    """The same where several tokens are wanted."""
    wanted_NK = extra * share_NK + other
    rest = (size - share_NK.shape[1]) * (other * math.log(other) if other else 0.0)
    return -torch.xlogy(wanted_NK, wanted_NK).sum(dim=1) - rest


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden_ND: Tensor,
        weight_VD: Tensor,
        targets_N: Tensor,
        smoothing: float,
        chunk: int,
        with_grad: bool,
        likely: Likely | None,
    ) -> tuple[Tensor, Tensor]:
        size = weight_VD.shape[0]
        exact = torch.promote_types(hidden_ND.dtype, torch.float32)
        other = smoothing / (size - 1)
        extra = 1 - smoothing - other  # what gold tokens have together more than as many others
        weight = weight_VD.to(hidden_ND.dtype)
        total_D = weight.sum(dim=0, dtype=exact)
        real_N = (targets_N != PAD).to(exact)
        losses = hidden_ND.new_zeros(2, dtype=exact)
        grads = _Gradients(hidden_ND, weight_VD, real_N) if with_grad else None
        with torch.autocast(hidden_ND.device.type, enabled=False):
            for start in range(0, len(hidden_ND), chunk):
                rows = slice(start, start + chunk)
                hidden, real = hidden_ND[rows], real_N[rows]
                logits_NV = product(hidden, weight.t(), exact)
                log_gold_N, normaliser_N, grad_NV = against_tokens(
                    logits_NV,
                    targets_N[rows].long(),
                    extra if likely is None else 0.0,
                    real,
                    hidden.dtype if grads else None,
                )
                log_wanted_N = log_gold_N
                if likely is not None:
                    token_NK, share_NK = likely.token_NK[rows], likely.share_NK[rows].to(exact)
                    log_p_NK = logits_NV.gather(1, token_NK) - normaliser_N.unsqueeze(1)
                    log_wanted_N = torch.linalg.vecdot(share_NK, log_p_NK)
                    if grad_NV is not None:
                        # Small differences, as that of one token: taken before any rounding.
                        entries_NK = (log_p_NK.exp() - extra * share_NK) * real.unsqueeze(1)
                        grad_NV.scatter_(1, token_NK, entries_NK.to(grad_NV.dtype))
                    entropy_N = _likely_entropy(share_NK, extra, other, size)
                    losses[0] -= torch.dot(entropy_N, real)
                log_p_sum_N = hidden.to(exact) @ total_D - size * normaliser_N
                losses[0] -= torch.dot(extra * log_wanted_N + other * log_p_sum_N, real)
                losses[1] -= torch.dot(log_gold_N, real)
                if grads and grad_NV is not None:
                    grads.add(rows, weight, grad_NV)
            if likely is None:
                losses[0] -= real_N.sum() * smoothing_entropy(smoothing, size)
            if grads:
                ctx.save_for_backward(*grads.finish(total_D, other))
        loss, nll = losses[0].clone(), losses[1].clone()
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden_ND, weight_VD = ctx.saved_tensors
        scale = grads[0]
        return hidden_ND * scale.to(hidden_ND.dtype), weight_VD * scale, *[None] * 5


class _Gradients:
    """Gradients of the summed loss, chunk by chunk; padding is zeroed where that is cheap."""

    def __init__(self, hidden_ND: Tensor, weight_VD: Tensor, real_N: Tensor) -> None:
        self.real_N1 = real_N.to(hidden_ND.dtype).unsqueeze(1)
        self.inputs_ND = hidden_ND * self.real_N1
        self.hidden_ND = torch.empty_like(hidden_ND)
        self.weight_VD = torch.zeros_like(weight_VD, dtype=real_N.dtype)

    def add(self, rows: slice, weight: Tensor, grad_NV: Tensor) -> None:
        """Add the part that goes through the chunk's softmax and gold tokens."""
        torch.mm(grad_NV, weight, out=self.hidden_ND[rows])
        add_product(self.weight_VD, grad_NV.t(), self.inputs_ND[rows])

    def finish(self, total_D: Tensor, other: float) -> tuple[Tensor, Tensor]:
        """Add the part of the evenly spread mass, which is the same in every row and column."""
        self.hidden_ND -= (other * total_D).to(self.hidden_ND)
        self.weight_VD -= other * self.inputs_ND.sum(dim=0, dtype=total_D.dtype)
        return self.hidden_ND.mul_(self.real_N1), self.weight_VD


def product(left: Tensor, right: Tensor, dtype: torch.dtype) -> Tensor:
    """A matrix product whose sums, kept in fp32 by the hardware, are not rounded again."""
    if left.is_cuda and left.dtype != dtype:
        return torch.mm(left, right, out_dtype=dtype)
    return torch.mm(left, right).to(dtype)


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add such a product to what is there."""
    if left.is_cuda and left.dtype != total.dtype:
        torch.addmm(total, left, right, out_dtype=total.dtype, out=total)
    else:
        total += torch.mm(left, right)
