"""What objectives do with rows of logits: each in one go over the row.

A softmax over a vocabulary is read and written from memory far longer than it is computed. On a GPU
each function here is one kernel that reads a row of fp32 logits from memory once (again from the
cache) and writes what is needed in the type of products. Elsewhere the same is written out plainly;
that is also what the kernels are tested against.
"""

import torch
from torch import Tensor

from accord.data.vocabulary import PAD

try:
    from accord.ops import softmax_triton as kernels
except ImportError:  # a build of torch for CPUs comes without Triton
    kernels = None  # type: ignore[assignment]


def _fused(logits: Tensor) -> bool:
    return kernels is not None and logits.is_cuda and logits.dtype == torch.float32


def choose(
    logits_BV: Tensor, temperature: float, dtype: torch.dtype | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The likeliest tokens of `softmax(logits / temperature)`, its entropies and log-normalisers.

    With `dtype` also the probabilities, without that of PAD, which no mixture contains.
    """
    if _fused(logits_BV):
        return kernels.choose(logits_BV, temperature, dtype)
    scaled_BV = logits_BV / temperature
    normaliser_B = scaled_BV.logsumexp(dim=1)
    p_BV = (scaled_BV - normaliser_B.unsqueeze(1)).exp()
    entropy_B = normaliser_B - torch.linalg.vecdot(p_BV, scaled_BV)
    token_B = logits_BV.argmax(dim=1)
    if dtype is None:
        return token_B, entropy_B, normaliser_B, None
    p_BV[:, PAD] = 0
    return token_B, entropy_B, normaliser_B, p_BV.to(dtype)


def mixture_gradient(
    logits_BV: Tensor,
    normaliser_B: Tensor,
    grad_p_BV: Tensor,
    temperature: float,
    dtype: torch.dtype,
) -> Tensor:
    """[2 B, V]: the gradient of the logits, given that of the probabilities that `choose` gave,
    and below it those probabilities."""
    if _fused(logits_BV):
        return kernels.mixture_gradient(logits_BV, normaliser_B, grad_p_BV, temperature, dtype)
    p_BV = (logits_BV / temperature - normaliser_B.unsqueeze(1)).exp()
    grad_p_BV = grad_p_BV.clone()
    grad_p_BV[:, PAD] = 0
    dot_B1 = torch.linalg.vecdot(p_BV, grad_p_BV).unsqueeze(1)
    grad_BV = p_BV * (grad_p_BV - dot_B1) / temperature
    p_BV[:, PAD] = 0
    return torch.cat([grad_BV, p_BV]).to(dtype)


def against_tokens(
    logits_NV: Tensor, token_N: Tensor, share: float, scale_N: Tensor, dtype: torch.dtype | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The log-probabilities of tokens, the log-normalisers and, with `dtype`, the gradient
    `(softmax - share at the token) * scale`."""
    if _fused(logits_NV):
        return kernels.against_tokens(logits_NV, token_N, share, scale_N, dtype)
    normaliser_N = logits_NV.logsumexp(dim=1)
    token_N1 = token_N.unsqueeze(1)
    log_p_N = logits_NV.gather(1, token_N1).squeeze(1) - normaliser_N
    if dtype is None:
        return log_p_N, normaliser_N, None
    grad_NV = (logits_NV - normaliser_N.unsqueeze(1)).exp_()
    # The token's entry is a small difference: take it before any rounding.
    grad_NV.scatter_(1, token_N1, (log_p_N.exp() - share).unsqueeze(1))
    return log_p_N, normaliser_N, grad_NV.mul_(scale_N.unsqueeze(1)).to(dtype)


def against_softmax(
    scorer_NV: Tensor,
    wanted_NV: Tensor,
    *,
    temperature: float,
    divergence: bool,
    scorer_scale_N: Tensor | None,
    wanted_scale_N: Tensor | None,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Cross-entropies of P = softmax(wanted / temperature) under Q = softmax(scorer).

    The measure (with `divergence` the entropy of P is taken off), the plain cross-entropy, and the
    gradients of both sides' logits times a scale; a side without a scale gets none.
    """
    if _fused(scorer_NV):
        return kernels.against_softmax(
            scorer_NV, wanted_NV, temperature, divergence, scorer_scale_N, wanted_scale_N, dtype
        )
    log_q_NV = torch.log_softmax(scorer_NV, dim=1)
    log_p_NV = torch.log_softmax(wanted_NV / temperature, dim=1)
    p_NV = log_p_NV.exp()
    found_N = value_N = -torch.linalg.vecdot(p_NV, log_q_NV)
    if divergence:
        value_N = found_N + torch.linalg.vecdot(p_NV, log_p_NV)
    wanted_grad = scorer_grad = None
    if wanted_scale_N is not None:
        surprise_NV = log_p_NV - log_q_NV if divergence else -log_q_NV
        wanted_NV = surprise_NV.sub_(value_N.unsqueeze(1)).mul_(p_NV)
        wanted_grad = wanted_NV.mul_((wanted_scale_N / temperature).unsqueeze(1)).to(dtype)
    if scorer_scale_N is not None:
        scorer_NV = log_q_NV.exp_().sub_(p_NV)
        scorer_grad = scorer_NV.mul_(scorer_scale_N.unsqueeze(1)).to(dtype)
    return value_N, found_N, scorer_grad, wanted_grad


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """The type in which autocast, if it is on, would multiply this tensor."""
    device = tensor.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return tensor.dtype
