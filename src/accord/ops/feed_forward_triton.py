"""Linear and feed-forward layers with products in one type and gradients of weights in another.

Weights come twice, as parameters and as copies in the type of products: a pass casts each of them
once. Gradients go to the parameters as the product has summed them, without a rounding between.
"""

from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor

from accord.ops.linear_cross_entropy import product

# mypy: disable-error-code="untyped-decorator,no-untyped-def"


def linear(x_NE: Tensor, weight: Tensor, low: Tensor) -> Tensor:
    """x W^T by a copy of the weight in the type of x."""
    return cast(Tensor, _Linear.apply(x_NE, weight, low))  # type: ignore[no-untyped-call]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_NE: Tensor, weight: Tensor, low: Tensor) -> Tensor:
        ctx.dtype = weight.dtype
        ctx.save_for_backward(x_NE, low)
        with torch.autocast(x_NE.device.type, enabled=False):
            return torch.mm(x_NE, low.t())

    @staticmethod
    def backward(ctx: Any, grad_NF: Tensor) -> tuple[Tensor | None, ...]:
        x_NE, low = ctx.saved_tensors
        grad_NF = grad_NF.contiguous()
        with torch.autocast(x_NE.device.type, enabled=False):
            grad_x = torch.mm(grad_NF, low) if ctx.needs_input_grad[0] else None
            return grad_x, product(grad_NF.t(), x_NE, ctx.dtype), None


def feed_forward(
    x_ND: Tensor,
    inner: Tensor,
    inner_bias: Tensor,
    low_inner: Tensor,
    outer: Tensor,
    low_outer: Tensor,
) -> Tensor:
    """relu(x W^T + b) V^T."""
    return cast(
        Tensor,
        _FeedForward.apply(  # type: ignore[no-untyped-call]
            x_ND, inner, inner_bias, low_inner, outer, low_outer
        ),
    )


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x_ND: Tensor,
        inner: Tensor,
        inner_bias: Tensor,
        low_inner: Tensor,
        outer: Tensor,
        low_outer: Tensor,
    ) -> Tensor:
        ctx.dtype = inner.dtype
        with torch.autocast(x_ND.device.type, enabled=False):
            hidden_NF = torch._addmm_activation(inner_bias.to(x_ND.dtype), x_ND, low_inner.t())
            ctx.save_for_backward(x_ND, hidden_NF, low_inner, low_outer)
            return torch.mm(hidden_NF, low_outer.t())

    @staticmethod
    def backward(ctx: Any, grad_ND: Tensor) -> tuple[Tensor | None, ...]:
        x_ND, hidden_NF, low_inner, low_outer = ctx.saved_tensors
        dtype = ctx.dtype
        with torch.autocast(x_ND.device.type, enabled=False):
            grad_outer = product(grad_ND.t(), hidden_NF, dtype)
            grad_NF = torch.mm(grad_ND, low_outer)
            grad_inner_bias = _relu_backward(grad_NF, hidden_NF).to(dtype)
            grad_inner = product(grad_NF.t(), x_ND, dtype)
            grad_x = torch.mm(grad_NF, low_inner)
        return grad_x, grad_inner, grad_inner_bias, None, grad_outer, None


def _relu_backward(grad_NF: Tensor, hidden_NF: Tensor) -> Tensor:
    """Zeroes gradients in place where nothing was passed on; returns the sums of columns."""
    rows, size = grad_NF.shape
    share, block = 256, 128
    programs = -(-rows // share)
    parts = torch.empty(programs, size, dtype=torch.float32, device=grad_NF.device)
    _zeroed[(programs, -(-size // block))](
        grad_NF, hidden_NF, parts, rows, size, share, ROWS=16, BLOCK=block, num_warps=4
    )
    return parts.sum(dim=0)


@triton.jit
def _zeroed(
    grads,
    hidden,
    parts,
    rows,
    size,
    share,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """grads are zeroed in place where nothing was passed on; parts [programs, size] are sums."""
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first = tl.program_id(0) * share
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(first, tl.minimum(first + share, rows), ROWS):
        row = start + tl.arange(0, ROWS)
        here = (row < tl.minimum(first + share, rows))[:, None] & (column < size)[None, :]
        place = row[:, None].to(tl.int64) * size + column[None, :]
        grad = tl.load(grads + place, mask=here, other=0.0)
        passed = tl.load(hidden + place, mask=here, other=0.0) > 0.0
        grad = tl.where(passed, grad, 0.0)
        tl.store(grads + place, grad, mask=here)
        total += grad.to(tl.float32)
    out = parts + tl.program_id(0) * size + column
    tl.store(out, tl.sum(total, axis=0), mask=column < size)
