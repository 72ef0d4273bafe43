"""The K best of a log-softmax as a Triton kernel: logits are read once, little is written.

A ranking of 32,000 logits by PyTorch reads them many times, after a softmax that has read them
twice and written them once.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

# mypy: disable-error-code="untyped-decorator,no-untyped-def"

_MOST = 4  # candidates that every lane keeps
_BLOCK = 1024


def fits(logits_RV: Tensor, count: int) -> bool:
    """Whether there is a kernel for these rows and so many of their best."""
    return logits_RV.is_cuda and logits_RV.dtype == torch.float32 and count <= _MOST


def log_softmax_top_k(
    logits_RV: Tensor, forbidden_F: Tensor, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """log P and ids [R, K] of the likeliest tokens but the forbidden ones, and log-normalisers [R].

    Forbidden tokens still have their share of the probability. Of equal ones the first is found.
    """
    rows, size = logits_RV.shape
    forbidden_V = torch.zeros(size, dtype=torch.uint8, device=logits_RV.device)
    forbidden_V.index_fill_(0, forbidden_F, 1)
    log_p_RK, normaliser_R = logits_RV.new_empty(rows, count), logits_RV.new_empty(rows)
    token_RK = torch.empty(rows, count, dtype=torch.int64, device=logits_RV.device)
    _log_softmax_top_k[(rows,)](
        logits_RV.contiguous(),
        forbidden_V,
        log_p_RK,
        token_RK,
        normaliser_R,
        size,
        COUNT=count,
        BLOCK=_BLOCK,
        num_warps=4,
    )
    return log_p_RK, token_RK, normaliser_R


@triton.jit
def _sifted(value, place, x, at):
    """The better of two candidates stays, the other one goes on."""
    better = x > value
    stays, stays_at = tl.where(better, x, value), tl.where(better, at, place)
    return stays, stays_at, tl.where(better, value, x), tl.where(better, place, at)


@triton.jit
def _log_softmax_top_k(
    logits,
    forbidden,
    log_ps,
    tokens,
    normalisers,
    size,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    number = tl.program_id(0).to(tl.int64)
    row = logits + number * size
    lanes = tl.arange(0, BLOCK)
    never = tl.full((BLOCK,), float("-inf"), tl.float32)
    nowhere = tl.zeros((BLOCK,), tl.int32)
    v0, v1, v2, v3, top = never, never, never, never, never
    p0, p1, p2, p3 = nowhere, nowhere, nowhere, nowhere
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        at = lanes + start
        here = at < size
        x = tl.load(row + at, mask=here, other=float("-inf"))
        higher = tl.maximum(top, x)
        kept = tl.where(top == float("-inf"), 0.0, total * tl.exp(top - higher))
        total = kept + tl.where(x == float("-inf"), 0.0, tl.exp(x - higher))
        top = higher
        x = tl.where(tl.load(forbidden + at, mask=here, other=1) == 0, x, float("-inf"))
        v0, p0, x, at = _sifted(v0, p0, x, at)
        if COUNT > 1:
            v1, p1, x, at = _sifted(v1, p1, x, at)
        if COUNT > 2:
            v2, p2, x, at = _sifted(v2, p2, x, at)
        if COUNT > 3:
            v3, p3, x, at = _sifted(v3, p3, x, at)
    highest = tl.max(top, axis=0)
    parts = tl.where(top == float("-inf"), 0.0, total * tl.exp(top - highest))
    normaliser = highest + tl.log(tl.sum(parts, axis=0))
    tl.store(normalisers + number, normaliser)
    for each in tl.static_range(COUNT):
        found = tl.max(v0, axis=0)
        place = tl.min(tl.where(v0 == found, p0, size), axis=0)
        tl.store(log_ps + number * COUNT + each, found - normaliser)
        tl.store(tokens + number * COUNT + each, place.to(tl.int64))
        taken = (v0 == found) & (p0 == place)
        v0, p0 = tl.where(taken, v1, v0), tl.where(taken, p1, p0)
        v1, p1 = tl.where(taken, v2, v1), tl.where(taken, p2, p1)
        v2, p2 = tl.where(taken, v3, v2), tl.where(taken, p3, p2)
        v3 = tl.where(taken, float("-inf"), v3)
