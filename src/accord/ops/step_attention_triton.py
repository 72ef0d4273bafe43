"""Attention of one decoder step for the hypotheses of a beam, as Triton kernels.

Caches have room for more steps than were made; the kernels stop at the position, which they read
on the device. No gradients: training reads whole sequences, or caches that grow.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from accord.ops.attention_triton import attention_weights, block, precision

# mypy: disable-error-code="untyped-decorator,no-untyped-def"

_LONGEST = 256


def fits_step(keys: int) -> bool:
    """Whether a source is short enough for one program."""
    return keys <= _LONGEST


def step_attention(
    qkv_RE: Tensor,
    keys_RTD: Tensor,
    values_RTD: Tensor,
    ancestors_RT: Tensor,
    position: Tensor,
    heads: int,
    beam: int,
) -> Tensor:
    """One step's self-attention; caches and index are written at `position`."""
    rows, length, size = keys_RTD.shape
    out = torch.empty(rows, size, dtype=qkv_RE.dtype, device=qkv_RE.device)
    _step_attention[(rows // beam, heads)](
        qkv_RE.contiguous(),
        keys_RTD,
        values_RTD,
        ancestors_RT,
        position,
        out,
        length,
        size,
        (size // heads) ** -0.5,
        BEAM=beam,
        QUERIES=block(beam),
        ROWS=16,
        WIDTH=size // heads,
        PRECISION=precision(qkv_RE),
        num_warps=2 if beam == 1 else 4,
        num_stages=2,
    )
    return out


def step_cross_attention(
    query_RD: Tensor, pairs_BSE: Tensor, lengths_B: Tensor, heads: int, beam: int, wanted: bool
) -> tuple[Tensor, Tensor | None]:
    """One step's attention to the source, and its weights [R, S], if wanted."""
    rows, size = query_RD.shape
    width = pairs_BSE.shape[1]
    out = torch.empty_like(query_RD)
    weights = torch.empty(
        (rows, heads, width) if wanted else 1, dtype=torch.float32, device=out.device
    )
    _step_cross_attention[(rows // beam, heads)](
        query_RD.contiguous(),
        pairs_BSE,
        lengths_B,
        out,
        weights,
        width,
        pairs_BSE.stride(0),
        pairs_BSE.stride(1),
        size,
        (size // heads) ** -0.5,
        BEAM=beam,
        QUERIES=block(beam),
        ROWS=block(width),
        WIDTH=size // heads,
        WEIGHTS=wanted,
        PRECISION=precision(query_RD),
        num_warps=8 if width > 128 else 4 if width > 32 else 2,
    )
    return out, weights.mean(dim=1) if wanted else None


@triton.jit
def _step_attention(
    qkvs,
    keys,
    values,
    ancestors,
    position,
    outs,
    length,
    size,
    scale,
    BEAM: tl.constexpr,
    QUERIES: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One sentence and head per program: its hypotheses' newest tokens, and all before them.

    Writes the new keys and values, and that they lie in each hypothesis's own row. Walks no further
    than to the position. Every cache row is read once, for all hypotheses that descend from it.
    """
    sentence, head = tl.program_id(0), tl.program_id(1)
    last = tl.load(position).to(tl.int32)
    slot = tl.arange(0, QUERIES)
    real = slot < BEAM
    column = head * WIDTH + tl.arange(0, WIDTH)
    row = (sentence * BEAM + slot).to(tl.int64)
    newest = qkvs + row[:, None] * (3 * size) + column[None, :]
    query = tl.load(newest, mask=real[:, None], other=0.0)
    key = tl.load(newest + size, mask=real[:, None], other=0.0)
    value = tl.load(newest + 2 * size, mask=real[:, None], other=0.0)
    own = (row * length + last)[:, None] * size + column[None, :]
    tl.store(keys + own, key.to(keys.dtype.element_ty), mask=real[:, None])
    tl.store(values + own, value.to(values.dtype.element_ty), mask=real[:, None])
    if head == 0:
        tl.store(ancestors + row * length + last, slot, mask=real)
    top = tl.sum(query.to(tl.float32) * key.to(tl.float32), axis=1) * scale
    total = tl.full((QUERIES,), 1.0, tl.float32)
    found = value.to(tl.float32)
    for start in range(0, last, ROWS):
        step = start + tl.arange(0, ROWS)
        before = step < last
        index = ancestors + row[:, None] * length + step[None, :]
        ancestor = tl.load(index, mask=real[:, None] & before[None, :], other=-1)
        for each in tl.static_range(BEAM):
            cache = ((sentence * BEAM + each).to(tl.int64) * length + step)[:, None] * size
            old_key = tl.load(keys + cache + column[None, :], mask=before[:, None], other=0.0)
            old_value = tl.load(values + cache + column[None, :], mask=before[:, None], other=0.0)
            scores = tl.dot(query, tl.trans(old_key.to(query.dtype)), input_precision=PRECISION)
            scores = tl.where(ancestor == each, scores * scale, float("-inf"))
            higher = tl.maximum(top, tl.max(scores, axis=1))
            weights = tl.exp(scores - higher[:, None])
            kept = tl.exp(top - higher)
            total = total * kept + tl.sum(weights, axis=1)
            found = found * kept[:, None] + tl.dot(
                weights.to(query.dtype), old_value.to(query.dtype), input_precision=PRECISION
            )
            top = higher
    out = outs + row[:, None] * size + column[None, :]
    tl.store(out, (found / total[:, None]).to(outs.dtype.element_ty), mask=real[:, None])


@triton.jit
def _step_cross_attention(
    queries,
    pairs,
    lengths,
    outs,
    weights_out,
    width,
    row_stride,
    step_stride,
    size,
    scale,
    BEAM: tl.constexpr,
    QUERIES: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    WEIGHTS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One sentence and head per program: all its hypotheses read the same keys and values."""
    sentence, head = tl.program_id(0), tl.program_id(1)
    length = tl.load(lengths + sentence)
    slot = tl.arange(0, QUERIES)
    real = slot < BEAM
    column = head * WIDTH + tl.arange(0, WIDTH)
    row = (sentence * BEAM + slot).to(tl.int64)
    query = tl.load(queries + row[:, None] * size + column[None, :], mask=real[:, None], other=0.0)
    step = tl.arange(0, ROWS)
    base = pairs + sentence.to(tl.int64) * row_stride
    place = base + step[:, None] * step_stride + column[None, :]
    key = tl.load(place, mask=(step < length)[:, None], other=0.0)
    value = tl.load(place + size, mask=(step < length)[:, None], other=0.0)
    weights = attention_weights(query, key, QUERIES, length, scale, False, PRECISION)
    found = tl.dot(weights.to(value.dtype), value, input_precision=PRECISION)
    out = outs + row[:, None] * size + column[None, :]
    tl.store(out, found.to(outs.dtype.element_ty), mask=real[:, None])
    if WEIGHTS:
        at = (row * tl.num_programs(1) + head)[:, None] * width + step[None, :]
        tl.store(weights_out + at, weights, mask=real[:, None] & (step < width)[None, :])
