"""Rows of ids as tensors."""

from collections.abc import Sequence

import torch
from torch import Tensor

from accord.search.rows import padded_array


def padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows of ids as one tensor [B, S], and their lengths."""
    source_BS, lengths_B = padded_array(rows)
    return torch.from_numpy(source_BS).to(device), torch.from_numpy(lengths_B).to(device)
