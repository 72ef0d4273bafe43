"""Token vectors on a common scale, with padding as the zero vector."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from accord.corpus.vocabulary import PAD


class ScaledEmbedding(nn.Module):
    """A table drawn from N(0, 1/units) whose rows are read times sqrt(units).

    The PAD row is a row like any other for a softmax that shares the table, but is read as zero.
    """

    def __init__(self, vocabulary_size: int, units: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary_size, units))
        self.scale = math.sqrt(units)
        nn.init.normal_(self.weight, std=units**-0.5)

    def forward(self, ids: Tensor) -> Tensor:
        """The vectors of token ids of any shape."""
        scale = (ids != PAD).to(self.weight.dtype).mul_(self.scale)
        return functional.embedding(ids, self.weight, padding_idx=PAD) * scale.unsqueeze(-1)

    def mix(self, probabilities: Tensor) -> Tensor:
        """The expected vector under distributions [..., V]: a one-hot one gives the token's."""
        # Taking PAD's share off keeps the table aligned for fast kernels; slicing would not.
        padding = probabilities[..., PAD, None] * self.weight[PAD]
        return (probabilities @ self.weight - padding) * self.scale
