"""Multi-head attention over whole sequences: plainly by PyTorch, or by kernels of our own on a GPU.

Legend of the shape suffixes: B sequences, T positions, N = B T rows of queries, M of keys, D units,
E several vectors of D units side by side, H heads, C units of a head.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

try:
    from accord.ops import attention_triton as kernels
except ImportError:  # a build of torch for CPUs comes without Triton
    kernels = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Sequences:
    """B sequences padded to one width: token t of sequence b is row b * width + t.

    `length_B` are int32, as kernels want them.
    """

    length_B: Tensor
    width: int

    @staticmethod
    def whole(rows: int, width: int, device: torch.device) -> "Sequences":
        """Sequences in which every position counts."""
        return Sequences(torch.full((rows,), width, dtype=torch.int32, device=device), width)

    @property
    def rows(self) -> int:
        """The number of sequences."""
        return len(self.length_B)

    def mask(self) -> Tensor:
        """Which positions [B, width] are real. The first always is, so that none sees nothing."""
        steps_T = torch.arange(self.width, device=self.length_B.device)
        return steps_T < self.length_B.clamp(min=1).unsqueeze(1)


def can_be_fused(device: torch.device, dtype: torch.dtype, head_width: int) -> bool:
    """Whether there are kernels for heads of this width, in this type, on this device."""
    if kernels is None or device.type != "cuda":
        return False
    return dtype in (torch.float32, torch.bfloat16, torch.float16) and (
        head_width in kernels.HEAD_WIDTHS
    )


def self_attention(
    qkv_NE: Tensor, sequences: Sequences, heads: int, *, causal: bool, fused: bool
) -> Tensor:
    """Attention within each sequence; a row holds its query, key and value."""
    width = qkv_NE.shape[1] // (3 * heads)
    if fused and kernels.fits(qkv_NE, width, sequences.width, sequences.width):
        return kernels.self_attention(qkv_NE, sequences, heads, causal)
    query_ND, key_ND, value_ND = qkv_NE.chunk(3, dim=-1)
    return _attention(query_ND, key_ND, value_ND, sequences, sequences, heads, causal)


def cross_attention(
    query_ND: Tensor,
    pairs_ME: Tensor,
    targets: Sequences,
    sources: Sequences,
    heads: int,
    *,
    fused: bool,
) -> Tensor:
    """Attention of each target to its source; a row of a source holds its key and value."""
    width = query_ND.shape[1] // heads
    if fused and kernels.fits(query_ND, width, targets.width, sources.width):
        return kernels.cross_attention(query_ND, pairs_ME, targets, sources, heads)
    key_MD, value_MD = pairs_ME.chunk(2, dim=-1)
    return _attention(query_ND, key_MD, value_MD, targets, sources, heads, False)


def _attention(
    query_ND: Tensor,
    key_MD: Tensor,
    value_MD: Tensor,
    targets: Sequences,
    sources: Sequences,
    heads: int,
    causal: bool,
) -> Tensor:
    query, key, value = (
        split_heads(rows.reshape(each.rows, each.width, -1), heads)
        for each, rows in ((targets, query_ND), (sources, key_MD), (sources, value_MD))
    )
    # No query looks ahead, so that none that counts sees padding.
    mask = None if causal else sources.mask()[:, None, None, :]
    found_BHTC = functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=causal
    )
    return found_BHTC.transpose(1, 2).reshape(query_ND.shape)


def split_heads(x_BTD: Tensor, heads: int) -> Tensor:
    """[B, T, D] as [B, H, T, C]."""
    return x_BTD.view(*x_BTD.shape[:-1], heads, -1).transpose(1, 2)
