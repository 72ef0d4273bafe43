"""Dot-product attention whose output is a linear blend of query and context."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Unscaled dot product with projected keys; output `[query ; context] W_a`, linear.

    The context's half of W_a is applied to the values once per source instead of to the context
    at every step: the sum over positions and the product commute.
    """

    def __init__(self, memory_width: int, units: int) -> None:
        super().__init__()
        self.units = units
        self.key_weight = nn.Parameter(torch.empty(units, memory_width))
        self.output_weight = nn.Parameter(torch.empty(units, units + memory_width))
        nn.init.xavier_uniform_(self.key_weight)
        nn.init.xavier_uniform_(self.output_weight)

    @property
    def query_weight(self) -> Tensor:
        """The half of W_a that acts on the query."""
        return self.output_weight[:, : self.units]

    def prepare(self, memory_BSE: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and (already projected) values of encoder outputs, both [B, S, D]."""
        values_BSD = functional.linear(memory_BSE, self.output_weight[:, self.units :])
        return functional.linear(memory_BSE, self.key_weight), values_BSD

    def forward(
        self, query_BTD: Tensor, keys_BSD: Tensor, values_BSD: Tensor, mask_BS: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The outputs [B, T, D] and the weights [B, T, S]; weights are computed in fp32."""
        scores_BTS = torch.bmm(query_BTD, keys_BSD.transpose(1, 2))
        scores_BTS = scores_BTS.masked_fill(~mask_BS.unsqueeze(1), float("-inf"))
        weights_BTS = torch.softmax(scores_BTS, dim=-1)
        context_BTD = torch.bmm(weights_BTS.to(values_BSD.dtype), values_BSD)
        return functional.linear(query_BTD, self.query_weight) + context_BTD, weights_BTS
