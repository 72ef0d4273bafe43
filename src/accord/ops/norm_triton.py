"""Dropout, residual sum and layer norm as one Triton kernel, with its gradient.

Rows are read once and written once; sums are in fp32. Dropout is not stored but drawn again in the
backward pass: whether an element is kept is a hash of its place and of two random words, which a
recorded graph draws anew every time.
"""

from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor

# mypy: disable-error-code="untyped-decorator,no-untyped-def"

_PROGRAMS = 132 * 8  # that walk over rows and add up as they go


class Seeds:
    """Random words for every dropout of a pass, drawn together on the device."""

    _MOST = 128

    def __init__(self, device: torch.device) -> None:
        self._words = torch.randint(-(2**31), 2**31, (self._MOST, 2), device=device).int()
        self._used = 0

    def next(self) -> Tensor:
        """Two words that nobody has had."""
        self._used += 1
        return self._words[(self._used - 1) % self._MOST]


def add_norm(
    x_ND: Tensor | None,
    y_ND: Tensor,
    y_bias_D: Tensor | None,
    weight_D: Tensor,
    bias_D: Tensor,
    epsilon: float,
    rate: float,
    seed: Tensor | None,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """`x + dropout(y + its bias)` and its norm, both in the given type.

    Without a seed nothing is dropped.
    """
    rate = rate if seed is not None else 0.0
    found = _AddNorm.apply(  # type: ignore[no-untyped-call]
        x_ND, y_ND, y_bias_D, weight_D, bias_D, epsilon, rate, seed, dtype
    )
    return cast(tuple[Tensor, Tensor], found)


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x_ND: Tensor | None,
        y_ND: Tensor,
        y_bias_D: Tensor | None,
        weight_D: Tensor,
        bias_D: Tensor,
        epsilon: float,
        rate: float,
        seed: Tensor | None,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        y_ND = y_ND.contiguous()
        rows, size = y_ND.shape
        sums_ND, normed_ND = (torch.empty_like(y_ND, dtype=dtype) for _ in range(2))
        statistics_N2 = torch.empty(rows, 2, dtype=torch.float32, device=y_ND.device)
        block = 1 << (size - 1).bit_length()
        lines = max(1, 2048 // block)
        ctx.threshold, ctx.scale = round(rate * 2**32), 1 / (1 - rate)
        _add_norm[(-(-rows // lines),)](
            y_ND if x_ND is None else x_ND.contiguous(),
            y_ND,
            bias_D if y_bias_D is None else y_bias_D,
            weight_D,
            bias_D,
            y_ND if seed is None else seed,
            sums_ND,
            normed_ND,
            statistics_N2,
            rows,
            size,
            epsilon,
            ctx.threshold,
            ctx.scale,
            RESIDUAL=x_ND is not None,
            BIAS=y_bias_D is not None,
            DROP=rate > 0,
            ROWS=lines,
            BLOCK=block,
            num_warps=4,
        )
        ctx.set_materialize_grads(False)
        ctx.types = None if x_ND is None else x_ND.dtype, y_ND.dtype, weight_D.dtype
        ctx.save_for_backward(sums_ND, statistics_N2, weight_D, *([] if seed is None else [seed]))
        ctx.drop, ctx.bias = rate > 0, y_bias_D is not None
        return sums_ND, normed_ND

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        sums_ND, statistics_N2, weight_D, *seed = ctx.saved_tensors
        grad_sums, grad_normed = grads
        x_type, y_type, weight_type = ctx.types
        rows, size = sums_ND.shape
        grad_normed = torch.zeros_like(sums_ND) if grad_normed is None else grad_normed.contiguous()
        grad_sums = None if grad_sums is None else grad_sums.contiguous()
        residual = x_type is not None
        apart = ctx.drop or not residual or x_type != y_type
        grad_x = torch.empty_like(sums_ND, dtype=x_type) if residual else None
        grad_y = torch.empty_like(sums_ND, dtype=y_type) if apart else grad_x
        block = 1 << (size - 1).bit_length()
        lines = max(1, 2048 // block)
        programs = min(-(-rows // lines), _PROGRAMS)
        sums = 3 if ctx.bias else 2
        parts = torch.empty(programs, sums, size, dtype=torch.float32, device=sums_ND.device)
        _add_norm_backward[(programs,)](
            grad_normed if grad_sums is None else grad_sums,
            grad_normed,
            sums_ND,
            statistics_N2,
            weight_D,
            seed[0] if seed else sums_ND,
            grad_y if grad_x is None else grad_x,
            grad_y,
            parts,
            rows,
            size,
            ctx.threshold,
            ctx.scale,
            SUMS=grad_sums is not None,
            RESIDUAL=residual,
            BIAS=ctx.bias,
            DROP=ctx.drop,
            APART=apart,
            ROWS=lines,
            BLOCK=block,
            num_warps=4,
        )
        grad_weight_D, grad_bias_D, *grad_y_bias = parts.sum(dim=0).to(weight_type)
        grad_y_bias_D = grad_y_bias[0] if grad_y_bias else None
        return grad_x, grad_y, grad_y_bias_D, grad_weight_D, grad_bias_D, *[None] * 4


@triton.jit
def _kept(place, seeds, threshold):
    """Whether elements survive dropout: all but threshold / 2^32 of them."""
    x = place.to(tl.uint32) ^ tl.load(seeds).to(tl.uint32)
    x *= 0x7FEB352D
    x ^= x >> 15
    x += tl.load(seeds + 1).to(tl.uint32)
    x *= 0x846CA68B
    x ^= x >> 16
    x *= 0x9E3779B1
    return x >= threshold.to(tl.uint32)


@triton.jit
def _add_norm(
    xs,
    ys,
    y_biases,
    weights,
    biases,
    seeds,
    sums,
    normed,
    statistics,
    rows,
    size,
    epsilon,
    threshold,
    scale,
    RESIDUAL: tl.constexpr,
    BIAS: tl.constexpr,
    DROP: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """sums = x + dropout(y + bias), normed = norm(sums); statistics: mean, 1 / deviation."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    here = (row < rows)[:, None] & (column < size)[None, :]
    place = row[:, None] * size + column[None, :]
    total = tl.load(ys + place, mask=here, other=0.0).to(tl.float32)
    if BIAS:
        total += tl.load(y_biases + column, mask=column < size, other=0.0).to(tl.float32)[None, :]
    if DROP:
        total = tl.where(_kept(place, seeds, threshold), total * scale, 0.0)
    if RESIDUAL:
        total += tl.load(xs + place, mask=here, other=0.0).to(tl.float32)
    rounded = total.to(sums.dtype.element_ty)
    tl.store(sums + place, rounded, mask=here)
    total = rounded.to(tl.float32)
    mean = tl.sum(total, axis=1) / size
    centred = tl.where(here, total - mean[:, None], 0.0)
    inverse = tl.rsqrt(tl.sum(centred * centred, axis=1) / size + epsilon)
    weight = tl.load(weights + column, mask=column < size, other=0.0).to(tl.float32)
    bias = tl.load(biases + column, mask=column < size, other=0.0).to(tl.float32)
    out = centred * inverse[:, None] * weight[None, :] + bias[None, :]
    tl.store(normed + place, out.to(normed.dtype.element_ty), mask=here)
    tl.store(statistics + row * 2, mean, mask=row < rows)
    tl.store(statistics + row * 2 + 1, inverse, mask=row < rows)


@triton.jit
def _add_norm_backward(
    grad_sums,
    grad_normed,
    sums,
    statistics,
    weights,
    seeds,
    grad_xs,
    grad_ys,
    parts,
    rows,
    size,
    threshold,
    scale,
    SUMS: tl.constexpr,
    RESIDUAL: tl.constexpr,
    BIAS: tl.constexpr,
    DROP: tl.constexpr,
    APART: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Gradients of x and y; `parts` are shares of those of weight and bias, and of y's bias.

    Unless they are `APART`, both gradients are the same, and only that of x is written.
    """
    column = tl.arange(0, BLOCK)
    inside = column < size
    weight = tl.load(weights + column, mask=inside, other=0.0).to(tl.float32)
    grad_weight = tl.zeros((ROWS, BLOCK), tl.float32)
    grad_bias = tl.zeros((ROWS, BLOCK), tl.float32)
    grad_y_bias = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = start + tl.arange(0, ROWS)
        here = (row < rows)[:, None] & inside[None, :]
        place = row[:, None] * size + column[None, :]
        total = tl.load(sums + place, mask=here, other=0.0).to(tl.float32)
        grad = tl.load(grad_normed + place, mask=here, other=0.0).to(tl.float32)
        mean = tl.load(statistics + row * 2, mask=row < rows, other=0.0)
        inverse = tl.load(statistics + row * 2 + 1, mask=row < rows, other=0.0)
        unit = tl.where(here, (total - mean[:, None]) * inverse[:, None], 0.0)
        grad_weight += grad * unit
        grad_bias += grad
        grad = grad * weight[None, :]
        along = tl.sum(grad * unit, axis=1) / size
        level = tl.sum(grad, axis=1) / size
        found = (grad - level[:, None] - unit * along[:, None]) * inverse[:, None]
        if SUMS:
            found += tl.load(grad_sums + place, mask=here, other=0.0).to(tl.float32)
        if RESIDUAL:
            tl.store(grad_xs + place, found.to(grad_xs.dtype.element_ty), mask=here)
        if DROP:
            found = tl.where(_kept(place, seeds, threshold), found * scale, 0.0)
        if APART:
            tl.store(grad_ys + place, found.to(grad_ys.dtype.element_ty), mask=here)
        if BIAS:
            grad_y_bias += tl.where(here, found, 0.0)
    mine = parts + tl.program_id(0) * (3 if BIAS else 2) * size + column
    tl.store(mine, tl.sum(grad_weight, axis=0), mask=inside)
    tl.store(mine + size, tl.sum(grad_bias, axis=0), mask=inside)
    if BIAS:
        tl.store(mine + 2 * size, tl.sum(grad_y_bias, axis=0), mask=inside)
