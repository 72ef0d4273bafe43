"""Attention within and between sequences of at most 128 tokens, as Triton kernels.

One program holds a whole sequence of one head: scores never leave it, and the backward pass, which
computes them again, is one kernel as well. Flash attention is for far longer sequences.
"""

import functools
from typing import TYPE_CHECKING, Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor

if TYPE_CHECKING:
    from accord.ops.attention import Sequences

# mypy: disable-error-code="untyped-decorator,no-untyped-def"

HEAD_WIDTHS = (16, 32, 64, 128)
_LONGEST = 128  # tokens that one program can hold


def fits(vectors: Tensor, width: int, queries: int, keys: int) -> bool:
    """Whether one program can hold a sequence, with heads of this width and in the vectors' type.

    Shared memory is what the backward kernel takes by Triton's own account: its four inputs and
    one matrix of scores. Sequences of 128 tokens with heads of 64 units take 98,304 bytes in bf16.
    """
    rows_q, rows_k = block(queries), block(keys)
    room = vectors.element_size() * (2 * (rows_q + rows_k) * width + rows_q * rows_k)
    return max(queries, keys) <= _LONGEST and room <= _shared_memory(vectors.device)


@functools.cache
def _shared_memory(device: torch.device) -> int:
    """Bytes of a program on this device; 99 kB are those of the smaller GPUs."""
    if device.type != "cuda":  # interpreted
        return 1 << 20
    found = torch.cuda.get_device_properties(device)
    return int(getattr(found, "shared_memory_per_block_optin", 99 << 10))


def self_attention(qkv_NE: Tensor, sequences: "Sequences", heads: int, causal: bool) -> Tensor:
    """Attention within sequences of at most 128 tokens."""
    found = _SelfAttention.apply(qkv_NE, sequences, heads, causal)  # type: ignore[no-untyped-call]
    return cast(Tensor, found)


class _SelfAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, qkv_NE: Tensor, sequences: "Sequences", heads: int, causal: bool
    ) -> Tensor:
        qkv_NE = qkv_NE.contiguous()
        ctx.save_for_backward(qkv_NE)
        ctx.sequences, ctx.heads, ctx.causal = sequences, heads, causal
        query, key, value = qkv_NE.chunk(3, dim=1)
        return _attend(query, key, value, sequences, sequences, heads, causal)

    @staticmethod
    def backward(ctx: Any, grad_ND: Tensor) -> tuple[Tensor | None, ...]:
        (qkv_NE,) = ctx.saved_tensors
        grad_NE = torch.empty_like(qkv_NE)
        _attend_backward(
            qkv_NE.chunk(3, dim=1),
            grad_ND.contiguous(),
            grad_NE.chunk(3, dim=1),
            ctx.sequences,
            ctx.sequences,
            ctx.heads,
            ctx.causal,
        )
        return grad_NE, None, None, None


def cross_attention(
    query_ND: Tensor, pairs_ME: Tensor, targets: "Sequences", sources: "Sequences", heads: int
) -> Tensor:
    """Attention of sequences to others of at most 128 tokens."""
    found = _CrossAttention.apply(  # type: ignore[no-untyped-call]
        query_ND, pairs_ME, targets, sources, heads
    )
    return cast(Tensor, found)


class _CrossAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query_ND: Tensor,
        pairs_ME: Tensor,
        targets: "Sequences",
        sources: "Sequences",
        heads: int,
    ) -> Tensor:
        query_ND = query_ND.contiguous()
        ctx.save_for_backward(query_ND, pairs_ME)
        ctx.targets, ctx.sources, ctx.heads = targets, sources, heads
        key, value = pairs_ME.chunk(2, dim=1)
        return _attend(query_ND, key, value, targets, sources, heads, False)

    @staticmethod
    def backward(ctx: Any, grad_ND: Tensor) -> tuple[Tensor | None, ...]:
        query_ND, pairs_ME = ctx.saved_tensors
        grad_query = torch.empty_like(query_ND)
        grad_pairs = torch.empty(pairs_ME.shape, dtype=pairs_ME.dtype, device=pairs_ME.device)
        _attend_backward(
            (query_ND, *pairs_ME.chunk(2, dim=1)),
            grad_ND.contiguous(),
            (grad_query, *grad_pairs.chunk(2, dim=1)),
            ctx.targets,
            ctx.sources,
            ctx.heads,
            False,
        )
        return grad_query, grad_pairs, None, None, None


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    targets: "Sequences",
    sources: "Sequences",
    heads: int,
    causal: bool,
) -> Tensor:
    out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    _attention[(targets.rows, heads)](
        query,
        key,
        value,
        out,
        targets.length_B,
        sources.length_B,
        query.stride(0),
        key.stride(0),
        out.stride(0),
        targets.width,
        sources.width,
        (query.shape[1] // heads) ** -0.5,
        CAUSAL=causal,
        **_sizes(targets, sources, query, heads),
    )
    return out


def _attend_backward(
    inputs: tuple[Tensor, ...],
    grad: Tensor,
    grads: tuple[Tensor, ...],
    targets: "Sequences",
    sources: "Sequences",
    heads: int,
    causal: bool,
) -> None:
    query, key, _ = inputs
    _attention_backward[(targets.rows, heads)](
        *inputs,
        grad,
        *grads,
        targets.length_B,
        sources.length_B,
        query.stride(0),
        key.stride(0),
        grad.stride(0),
        grads[0].stride(0),
        grads[1].stride(0),
        targets.width,
        sources.width,
        (query.shape[1] // heads) ** -0.5,
        CAUSAL=causal,
        **_sizes(targets, sources, query, heads),
    )


def _sizes(targets: "Sequences", sources: "Sequences", query: Tensor, heads: int) -> dict[str, Any]:
    rows_q, rows_k = (block(each.width) for each in (targets, sources))
    return {
        "ROWS_Q": rows_q,
        "ROWS_K": rows_k,
        "WIDTH": query.shape[1] // heads,
        "PRECISION": precision(query),
        "num_warps": 8 if max(rows_q, rows_k) > 64 else 4 if max(rows_q, rows_k) > 32 else 2,
    }


def block(width: int) -> int:
    """Rows of a tile that holds so many: a power of two, as tensor cores want at least 16."""
    return max(16, 1 << (width - 1).bit_length())


def precision(tensor: Tensor) -> str:
    """How products of a type are computed: those of fp32 exactly."""
    return "ieee" if tensor.dtype == torch.float32 else "tf32"


@triton.jit
def attention_weights(
    query, key, q_length, k_length, scale, CAUSAL: tl.constexpr, PRECISION: tl.constexpr
):
    """Attention weights [Q, K] of a whole sequence; a query with nothing to see has none."""
    scores = tl.dot(query, tl.trans(key), input_precision=PRECISION) * scale
    row = tl.arange(0, query.shape[0])[:, None]
    column = tl.arange(0, key.shape[0])[None, :]
    seen = (column < k_length) & (row < q_length)
    if CAUSAL:
        seen = seen & (column <= row)
    scores = tl.where(seen, scores, float("-inf"))
    top = tl.max(scores, axis=1)
    top = tl.where(top == float("-inf"), 0.0, top)
    weights = tl.exp(scores - top[:, None])
    total = tl.sum(weights, axis=1)
    return weights / tl.where(total == 0.0, 1.0, total)[:, None]


@triton.jit
def _tile(base, start, stride, head, length, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Where the rows of one head of one sequence lie, and which of them are real."""
    row = tl.arange(0, ROWS)
    column = head * WIDTH + tl.arange(0, WIDTH)
    place = (start + row)[:, None].to(tl.int64) * stride + column[None, :]
    return base + place, (row < length)[:, None]


@triton.jit
def _attention(
    queries,
    keys,
    values,
    outs,
    q_lengths,
    k_lengths,
    q_stride,
    k_stride,
    out_stride,
    q_width,
    k_width,
    scale,
    CAUSAL: tl.constexpr,
    ROWS_Q: tl.constexpr,
    ROWS_K: tl.constexpr,
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One sequence and head per program. Rows of padding become zero."""
    number, head = tl.program_id(0), tl.program_id(1)
    q_length = tl.load(q_lengths + number)
    k_length = tl.load(k_lengths + number)
    q_start, k_start = number * q_width, number * k_width
    q_place, q_real = _tile(queries, q_start, q_stride, head, q_length, ROWS_Q, WIDTH)
    k_place, k_real = _tile(keys, k_start, k_stride, head, k_length, ROWS_K, WIDTH)
    v_place, _ = _tile(values, k_start, k_stride, head, k_length, ROWS_K, WIDTH)
    query = tl.load(q_place, mask=q_real, other=0.0)
    key = tl.load(k_place, mask=k_real, other=0.0)
    value = tl.load(v_place, mask=k_real, other=0.0)
    weights = attention_weights(query, key, q_length, k_length, scale, CAUSAL, PRECISION)
    out = tl.dot(weights.to(value.dtype), value, input_precision=PRECISION)
    out_place, out_real = _tile(outs, q_start, out_stride, head, q_width, ROWS_Q, WIDTH)
    tl.store(out_place, out.to(outs.dtype.element_ty), mask=out_real)


@triton.jit
def _attention_backward(
    queries,
    keys,
    values,
    grads,
    grad_queries,
    grad_keys,
    grad_values,
    q_lengths,
    k_lengths,
    q_stride,
    k_stride,
    grad_stride,
    grad_q_stride,
    grad_k_stride,
    q_width,
    k_width,
    scale,
    CAUSAL: tl.constexpr,
    ROWS_Q: tl.constexpr,
    ROWS_K: tl.constexpr,
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """All gradients of a sequence and head in one go; the weights are computed again."""
    number, head = tl.program_id(0), tl.program_id(1)
    q_length = tl.load(q_lengths + number)
    k_length = tl.load(k_lengths + number)
    q_start, k_start = number * q_width, number * k_width
    q_place, q_real = _tile(queries, q_start, q_stride, head, q_length, ROWS_Q, WIDTH)
    k_place, k_real = _tile(keys, k_start, k_stride, head, k_length, ROWS_K, WIDTH)
    v_place, _ = _tile(values, k_start, k_stride, head, k_length, ROWS_K, WIDTH)
    g_place, _ = _tile(grads, q_start, grad_stride, head, q_length, ROWS_Q, WIDTH)
    query = tl.load(q_place, mask=q_real, other=0.0)
    key = tl.load(k_place, mask=k_real, other=0.0)
    value = tl.load(v_place, mask=k_real, other=0.0)
    grad = tl.load(g_place, mask=q_real, other=0.0)
    weights = attention_weights(query, key, q_length, k_length, scale, CAUSAL, PRECISION)
    grad_value = tl.dot(tl.trans(weights.to(grad.dtype)), grad, input_precision=PRECISION)
    grad_weights = tl.dot(grad, tl.trans(value), input_precision=PRECISION)
    mean = tl.sum(weights * grad_weights, axis=1)
    grad_scores = (weights * (grad_weights - mean[:, None]) * scale).to(query.dtype)
    grad_query = tl.dot(grad_scores, key, input_precision=PRECISION)
    grad_key = tl.dot(tl.trans(grad_scores), query, input_precision=PRECISION)
    place, real = _tile(grad_queries, q_start, grad_q_stride, head, q_width, ROWS_Q, WIDTH)
    tl.store(place, grad_query.to(grad_queries.dtype.element_ty), mask=real)
    place, real = _tile(grad_keys, k_start, grad_k_stride, head, k_width, ROWS_K, WIDTH)
    tl.store(place, grad_key.to(grad_keys.dtype.element_ty), mask=real)
    place, _ = _tile(grad_values, k_start, grad_k_stride, head, k_width, ROWS_K, WIDTH)
    tl.store(place, grad_value.to(grad_values.dtype.element_ty), mask=real)
