"""The functions of `softmax` as Triton kernels: one program per row, sums in fp32.

A program walks along its row once for the normaliser and again for what is written. A row of 32,000
logits is 128 kB, so the second walk finds it in the cache.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from accord.data.vocabulary import PAD

_BLOCK = 4096
_WHOLE = 32_768  # as long a row fits into the registers of a program
_WARPS = 8


def choose(
    logits_BV: Tensor, temperature: float, dtype: torch.dtype | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """See `softmax.choose`."""
    rows, size = logits_BV.shape
    token_B = torch.empty(rows, dtype=torch.int64, device=logits_BV.device)
    entropy_B, normaliser_B = logits_BV.new_empty(2, rows)
    p_BV = None if dtype is None else torch.empty_like(logits_BV, dtype=dtype)
    if rows:
        _choose[(rows,)](
            logits_BV,
            token_B,
            entropy_B,
            normaliser_B,
            logits_BV if p_BV is None else p_BV,
            size,
            1 / temperature,
            PAD,
            p_BV is not None,
            _BLOCK,
            num_warps=_WARPS,
        )
    return token_B, entropy_B, normaliser_B, p_BV


def mixture_gradient(
    logits_BV: Tensor,
    normaliser_B: Tensor,
    grad_p_BV: Tensor,
    temperature: float,
    dtype: torch.dtype,
) -> Tensor:
    """See `softmax.mixture_gradient`."""
    rows, size = logits_BV.shape
    both = torch.empty(2 * rows, size, dtype=dtype, device=logits_BV.device)
    if rows:
        _mixture_gradient[(rows,)](
            logits_BV,
            normaliser_B,
            grad_p_BV,
            both,
            rows,
            size,
            1 / temperature,
            PAD,
            _BLOCK,
            num_warps=_WARPS,
        )
    return both


def against_tokens(
    logits_NV: Tensor, token_N: Tensor, share: float, scale_N: Tensor, dtype: torch.dtype | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """See `softmax.against_tokens`."""
    rows, size = logits_NV.shape
    log_p_N, normaliser_N = logits_NV.new_empty(2, rows)
    grad_NV = None if dtype is None else torch.empty_like(logits_NV, dtype=dtype)
    whole = size <= _WHOLE
    if rows:
        _against_tokens[(rows,)](
            logits_NV,
            token_N,
            scale_N,
            log_p_N,
            normaliser_N,
            logits_NV if grad_NV is None else grad_NV,
            size,
            share,
            grad_NV is not None,
            whole,
            triton.next_power_of_2(size) if whole else _BLOCK,
            num_warps=4 * _WARPS if whole else _WARPS,
        )
    return log_p_N, normaliser_N, grad_NV


def against_softmax(
    scorer_NV: Tensor,
    wanted_NV: Tensor,
    temperature: float,
    divergence: bool,
    scorer_scale_N: Tensor | None,
    wanted_scale_N: Tensor | None,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """See `softmax.against_softmax`."""
    rows, size = scorer_NV.shape
    value_N, found_N = scorer_NV.new_empty(2, rows)
    scales = (scorer_scale_N, wanted_scale_N)
    grads = [
        None if scale is None else torch.empty_like(scorer_NV, dtype=dtype) for scale in scales
    ]
    if rows:
        _against_softmax[(rows,)](
            scorer_NV,
            wanted_NV,
            *(value_N if scale is None else scale for scale in scales),
            value_N,
            found_N,
            *(scorer_NV if grad is None else grad for grad in grads),
            size,
            1 / temperature,
            divergence,
            scorer_scale_N is not None,
            wanted_scale_N is not None,
            _BLOCK,
            num_warps=_WARPS,
        )
    return value_N, found_N, grads[0], grads[1]


@triton.jit  # type: ignore[untyped-decorator]
def _normaliser(row, size, factor, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """log sum exp(factor * x) over a row, with one running maximum and sum for each lane."""
    lanes = tl.arange(0, BLOCK)
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        here = lanes + start < size
        x = tl.load(row + start + lanes, mask=here, other=float("-inf")) * factor
        higher = tl.maximum(top, x)
        # A lane that has seen nothing yet has a top of -inf, whose difference is not a number.
        kept = tl.where(top == float("-inf"), 0.0, total * tl.exp(top - higher))
        total = kept + tl.where(x == float("-inf"), 0.0, tl.exp(x - higher))
        top = higher
    highest = tl.max(top, axis=0)
    parts = tl.where(top == float("-inf"), 0.0, total * tl.exp(top - highest))
    return highest + tl.log(tl.sum(parts, axis=0))


@triton.jit  # type: ignore[untyped-decorator]
def _choose(  # type: ignore[no-untyped-def]
    logits,
    tokens,
    entropies,
    normalisers,
    probabilities,
    size,
    factor,
    pad,
    WRITE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    number = tl.program_id(0).to(tl.int64)
    row = logits + number * size
    normaliser = _normaliser(row, size, factor, BLOCK)
    lanes = tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    place = tl.zeros((BLOCK,), tl.int32)
    mean = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        here = lanes + start < size
        x = tl.load(row + start + lanes, mask=here, other=float("-inf"))
        better = x > best
        best = tl.where(better, x, best)
        place = tl.where(better, lanes + start, place)
        log_p = x * factor - normaliser
        p = tl.exp(log_p)
        mean += tl.where(p > 0.0, p * log_p, 0.0)
        if WRITE:
            p = tl.where(lanes + start == pad, 0.0, p)
            out = probabilities + number * size + start + lanes
            tl.store(out, p.to(probabilities.dtype.element_ty), mask=here)
    highest = tl.max(best, axis=0)
    first = tl.min(tl.where(best == highest, place, size), axis=0)
    # Without a finite logit there is no likeliest token; keep the index inside the table.
    tl.store(tokens + number, tl.where(first == size, 0, first).to(tl.int64))
    tl.store(entropies + number, -tl.sum(mean, axis=0))
    tl.store(normalisers + number, normaliser)


@triton.jit  # type: ignore[untyped-decorator]
def _mixture_gradient(  # type: ignore[no-untyped-def]
    logits,
    normalisers,
    grads,
    both,
    rows,
    size,
    factor,
    pad,
    BLOCK: tl.constexpr,
):
    number = tl.program_id(0).to(tl.int64)
    row = logits + number * size
    grad = grads + number * size
    normaliser = tl.load(normalisers + number)
    lanes = tl.arange(0, BLOCK)
    products = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        here = lanes + start < size
        x = tl.load(row + start + lanes, mask=here, other=float("-inf"))
        g = tl.load(grad + start + lanes, mask=here & (lanes + start != pad), other=0.0)
        products += tl.exp(x * factor - normaliser) * g
    dot = tl.sum(products, axis=0)
    for start in range(0, size, BLOCK):
        here = lanes + start < size
        x = tl.load(row + start + lanes, mask=here, other=float("-inf"))
        g = tl.load(grad + start + lanes, mask=here & (lanes + start != pad), other=0.0)
        p = tl.exp(x * factor - normaliser)
        above = both + number * size + start + lanes
        below = both + (number + rows) * size + start + lanes
        tl.store(above, (p * (g - dot) * factor).to(both.dtype.element_ty), mask=here)
        p = tl.where(lanes + start == pad, 0.0, p)
        tl.store(below, p.to(both.dtype.element_ty), mask=here)


@triton.jit  # type: ignore[untyped-decorator]
def _against_tokens(  # type: ignore[no-untyped-def]
    logits,
    tokens,
    scales,
    log_ps,
    normalisers,
    grads,
    size,
    share,
    WRITE: tl.constexpr,
    WHOLE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A row that can be held as a `WHOLE` is read once, and each exponential taken once."""
    number = tl.program_id(0).to(tl.int64)
    row = logits + number * size
    out = grads + number * size
    token = tl.load(tokens + number)
    scale = tl.load(scales + number)
    wanted = tl.load(row + token)
    lanes = tl.arange(0, BLOCK)
    if WHOLE:
        x = tl.load(row + lanes, mask=lanes < size, other=float("-inf"))
        top = tl.max(x, axis=0)
        x = tl.exp(x - top)
        total = tl.sum(x, axis=0)
        normaliser = top + tl.log(total)
        if WRITE:
            p = x * (1.0 / total)
            p = tl.where(lanes == token, p - share, p) * scale
            tl.store(out + lanes, p.to(grads.dtype.element_ty), mask=lanes < size)
    else:
        normaliser = _normaliser(row, size, 1.0, BLOCK)
        if WRITE:
            for start in range(0, size, BLOCK):
                here = lanes + start < size
                x = tl.load(row + start + lanes, mask=here, other=float("-inf"))
                p = tl.exp(x - normaliser)
                p = tl.where(lanes + start == token, p - share, p) * scale
                tl.store(out + start + lanes, p.to(grads.dtype.element_ty), mask=here)
    tl.store(log_ps + number, wanted - normaliser)
    tl.store(normalisers + number, normaliser)


@triton.jit  # type: ignore[untyped-decorator]
def _against_softmax(  # type: ignore[no-untyped-def]
    scorers,
    wanteds,
    scorer_scales,
    wanted_scales,
    values,
    founds,
    scorer_grads,
    wanted_grads,
    size,
    factor,
    DIVERGENCE: tl.constexpr,
    SCORER: tl.constexpr,
    WANTED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    number = tl.program_id(0).to(tl.int64)
    scorer = scorers + number * size
    wanted = wanteds + number * size
    normaliser_q = _normaliser(scorer, size, 1.0, BLOCK)
    normaliser_p = _normaliser(wanted, size, factor, BLOCK)
    lanes = tl.arange(0, BLOCK)
    crosses = tl.zeros((BLOCK,), tl.float32)
    entropies = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        here = lanes + start < size
        log_q = tl.load(scorer + start + lanes, mask=here, other=0.0) - normaliser_q
        log_p = tl.load(wanted + start + lanes, mask=here, other=0.0) * factor - normaliser_p
        p = tl.where(here, tl.exp(log_p), 0.0)
        crosses -= p * log_q
        entropies -= p * log_p
    found = tl.sum(crosses, axis=0)
    value = found
    if DIVERGENCE:
        value = found - tl.sum(entropies, axis=0)
    tl.store(values + number, value)
    tl.store(founds + number, found)
    if SCORER:
        scorer_scale = tl.load(scorer_scales + number)
    if WANTED:
        wanted_scale = tl.load(wanted_scales + number) * factor
    if SCORER or WANTED:
        for start in range(0, size, BLOCK):
            here = lanes + start < size
            log_q = tl.load(scorer + start + lanes, mask=here, other=0.0) - normaliser_q
            log_p = tl.load(wanted + start + lanes, mask=here, other=0.0) * factor - normaliser_p
            p = tl.exp(log_p)
            if SCORER:
                out = scorer_grads + number * size + start + lanes
                grad = (tl.exp(log_q) - p) * scorer_scale
                tl.store(out, grad.to(scorer_grads.dtype.element_ty), mask=here)
            if WANTED:
                surprise = -log_q
                if DIVERGENCE:
                    surprise = log_p - log_q
                out = wanted_grads + number * size + start + lanes
                grad = (surprise - value) * p * wanted_scale
                tl.store(out, grad.to(wanted_grads.dtype.element_ty), mask=here)
