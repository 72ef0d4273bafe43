"""Cross-entropy between two softmaxes, straight from hidden vectors, a few positions at a time.

What is compared are distributions over the whole vocabulary at every position. Only a chunk of them
exists at once: gradients are found in the forward pass, where all that they need is at hand.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from accord.ops.linear_cross_entropy import add_product, product
from accord.ops.softmax import against_softmax, against_tokens, compute_dtype


def dense_cross_entropy(
    wanted: Tensor,
    scorer_ND: Tensor,
    weight_VD: Tensor,
    weights_N: Tensor,
    *,
    wanted_weight_VD: Tensor | None = None,
    live_wanted_N: Tensor | None = None,
    live_scorer_N: Tensor | None = None,
    temperature: float = 1.0,
    divergence: bool = False,
    chunk: int = 1024,
) -> tuple[Tensor, Tensor]:
    """The weighted sum of `- sum_v P_v log Q_v` over positions, and each, without gradient.

    Q is the softmax of `scorer_ND`. P is the softmax, at a temperature, of hidden vectors `wanted`
    [N, D], or puts all its mass on the tokens `wanted` [N]. With `divergence`, P's entropy is taken
    off. A side whose vectors need no gradient is a constant, and so is its use of the table; where
    `live` is given and 0, so is that position of that side. Another model's vectors `wanted` need
    that model's own table, `wanted_weight_VD`, and get no gradient.
    """
    dtype = compute_dtype(scorer_ND)
    found = _DenseCrossEntropy.apply(  # type: ignore[no-untyped-call]
        wanted.to(dtype) if wanted.is_floating_point() else wanted,
        scorer_ND.to(dtype),
        weight_VD,
        _Terms(
            weights_N,
            wanted_weight_VD,
            live_wanted_N,
            live_scorer_N,
            temperature,
            divergence,
            chunk,
        ),
        torch.is_grad_enabled(),
    )
    return cast(tuple[Tensor, Tensor], found)


@dataclass(frozen=True)
class _Terms:
    weights_N: Tensor
    wanted_weight_VD: Tensor | None
    live_wanted_N: Tensor | None
    live_scorer_N: Tensor | None
    temperature: float
    divergence: bool
    chunk: int


class _Side:
    """Gradients of one side's hidden vectors, and of the table through it, chunk by chunk."""

    def __init__(
        self, inputs_ND: Tensor, scale_N: Tensor, live_N: Tensor | None, table_VD: Tensor
    ) -> None:
        self.inputs_ND = inputs_ND
        self.scale_N = scale_N if live_N is None else scale_N * live_N
        self.hidden_ND = torch.empty_like(inputs_ND)
        self.table_VD = table_VD

    def add(self, rows: slice, grad_NV: Tensor, weight: Tensor) -> None:
        """Take the gradient of a chunk's logits."""
        torch.mm(grad_NV, weight, out=self.hidden_ND[rows])
        add_product(self.table_VD, grad_NV.t(), self.inputs_ND[rows])


class _Work:
    """One pass over all positions."""

    def __init__(self, wanted: Tensor, scorer_ND: Tensor, weight_VD: Tensor, terms: _Terms) -> None:
        self.exact = torch.promote_types(scorer_ND.dtype, torch.float32)
        self.wanted = wanted
        self.scorer_ND = scorer_ND
        self.weight = weight_VD.to(scorer_ND.dtype)
        other_VD = terms.wanted_weight_VD
        self.wanted_weight = self.weight if other_VD is None else other_VD.to(scorer_ND.dtype)
        self.weights_N = terms.weights_N.to(self.exact)
        self.terms = terms
        self.table_VD: Tensor | None = None
        self.wanted_side: _Side | None = None
        self.scorer_side: _Side | None = None

    def want_gradients(self, of_wanted: bool, of_scorer: bool) -> None:
        """Also find these gradients; the table's own goes through the same sides."""
        terms, scale_N = self.terms, self.weights_N
        table_VD = self.table_VD = torch.zeros_like(self.weight, dtype=self.exact)
        if of_wanted:
            self.wanted_side = _Side(self.wanted, scale_N, terms.live_wanted_N, table_VD)
        if of_scorer:
            self.scorer_side = _Side(self.scorer_ND, scale_N, terms.live_scorer_N, table_VD)

    def run(self) -> tuple[Tensor, Tensor]:
        """The weighted sum, and the cross-entropy of every position."""
        loss = self.weights_N.new_zeros(())
        found_N = torch.empty_like(self.weights_N)
        chunk = self.soft_chunk if self.wanted.is_floating_point() else self.token_chunk
        for start in range(0, len(self.scorer_ND), self.terms.chunk):
            rows = slice(start, start + self.terms.chunk)
            logits_NV = product(self.scorer_ND[rows], self.weight.t(), self.exact)
            value_N, found_N[rows] = chunk(rows, logits_NV)
            loss += torch.dot(self.weights_N[rows], value_N)
        return loss, found_N

    def soft_chunk(self, rows: slice, logits_NV: Tensor) -> tuple[Tensor, Tensor]:
        """The measure and the cross-entropy of positions whose P is a softmax."""
        value_N, found_N, scorer_NV, wanted_NV = against_softmax(
            logits_NV,
            product(self.wanted[rows], self.wanted_weight.t(), self.exact),
            temperature=self.terms.temperature,
            divergence=self.terms.divergence,
            scorer_scale_N=self.scorer_side.scale_N[rows] if self.scorer_side else None,
            wanted_scale_N=self.wanted_side.scale_N[rows] if self.wanted_side else None,
            dtype=self.weight.dtype,
        )
        if self.scorer_side and scorer_NV is not None:
            self.scorer_side.add(rows, scorer_NV, self.weight)
        if self.wanted_side and wanted_NV is not None:
            self.wanted_side.add(rows, wanted_NV, self.weight)
        return value_N, found_N

    def token_chunk(self, rows: slice, logits_NV: Tensor) -> tuple[Tensor, Tensor]:
        """The same, twice, of positions whose P is a token."""
        side = self.scorer_side
        scale_N = side.scale_N[rows] if side else self.weights_N[rows]
        log_p_N, _, grad_NV = against_tokens(
            logits_NV, self.wanted[rows], 1.0, scale_N, self.weight.dtype if side else None
        )
        if side and grad_NV is not None:
            side.add(rows, grad_NV, self.weight)
        return -log_p_N, -log_p_N


class _DenseCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        wanted: Tensor,
        scorer_ND: Tensor,
        weight_VD: Tensor,
        terms: _Terms,
        with_grad: bool,
    ) -> tuple[Tensor, Tensor]:
        work = _Work(wanted, scorer_ND, weight_VD, terms)
        if with_grad:
            work.want_gradients(*ctx.needs_input_grad[:2])
        with torch.autocast(scorer_ND.device.type, enabled=False):
            loss, found_N = work.run()
        sides = (work.wanted_side, work.scorer_side)
        ctx.save_for_backward(*(side and side.hidden_ND for side in sides), work.table_VD)
        ctx.mark_non_differentiable(found_N)
        return loss, found_N

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        wanted_ND, scorer_ND, table_VD = (
            None if found is None else found * grads[0].to(found.dtype)
            for found in ctx.saved_tensors
        )
        return wanted_ND, scorer_ND, table_VD, None, None
