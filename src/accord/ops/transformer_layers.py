"""What a Transformer computes in every layer: plainly, or by kernels of our own on a GPU.

The plain way is what the kernels are tested against, and the only one on a CPU. On a GPU, a
Transformer in bf16 is bound by memory: what counts is to read a row once, do all that is to be done
with it and write it once. benchmarks/transformer_speed_h200_202611.md says what each part brings.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from accord.ops import attention
from accord.ops.attention import Sequences
from accord.ops.softmax import compute_dtype

try:
    from accord.ops import feed_forward_triton, norm_triton
except ImportError:  # a build of torch for CPUs comes without Triton
    feed_forward_triton = norm_triton = None  # type: ignore[assignment]


class LayerOps:
    """The operations of one pass through layers whose matrices are given.

    `fused` chooses kernels: then matrices are cast once, all together, their gradients come from
    the product itself in fp32, and residuals are summed in the type of products. With fp32 sums
    gradients are no closer to exact ones (0.0059 instead of 0.0061 off, where autocast is 0.0060).
    """

    def __init__(
        self, matrices: Sequence[Tensor], heads: int, dropout: float, *, fused: bool
    ) -> None:
        self.fused = fused
        self.heads = heads
        self.dropout = dropout
        self.dtype = compute_dtype(matrices[0])
        self._low = _cast_all(matrices, self.dtype) if fused else {}
        self._seeds = norm_triton.Seeds(matrices[0].device) if fused and dropout else None

    def residual(self, inputs_ND: Tensor) -> Tensor:
        """Inputs in the type in which residuals are summed."""
        return inputs_ND.to(self.dtype) if self.fused else inputs_ND

    def linear(self, x_NE: Tensor, layer: nn.Linear) -> Tensor:
        """A product with a matrix; no bias in any layer that this is for."""
        low = self._low.get(id(layer.weight))
        if low is None:
            return functional.linear(x_NE, layer.weight)
        return feed_forward_triton.linear(x_NE.to(self.dtype), layer.weight, low)

    def feed_forward(self, x_ND: Tensor, inner: nn.Linear, outer: nn.Linear) -> Tensor:
        """Two products with a rectifier between them; the outer bias is left to `add_norm`."""
        low = self._low.get(id(inner.weight))
        if low is None:
            hidden_NF = functional.relu(functional.linear(x_ND, inner.weight, inner.bias))
            return functional.linear(hidden_NF, outer.weight)
        first = (inner.weight, inner.bias, low)
        second = (outer.weight, self._low[id(outer.weight)])
        return feed_forward_triton.feed_forward(x_ND.to(self.dtype), *first, *second)

    def dropped(self, x_ND: Tensor) -> Tensor:
        """Dropout."""
        return functional.dropout(x_ND, self.dropout) if self.dropout else x_ND

    def add_norm(
        self, x_ND: Tensor | None, y_ND: Tensor, norm: nn.LayerNorm, bias_D: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The residual `x + dropout(y + bias)` and its norm; without `x`, there is just `y`.

        A bias that is added here needs no reading of all rows for its gradient.
        """
        if self.fused:
            seed = self._seeds.next() if self._seeds is not None else None
            weights = (norm.weight, norm.bias, norm.eps)
            return norm_triton.add_norm(
                x_ND, y_ND, bias_D, *weights, self.dropout, seed, self.dtype
            )
        sum_ND = self.dropped(y_ND if bias_D is None else y_ND + bias_D)
        if x_ND is not None:
            sum_ND = x_ND + sum_ND
        return sum_ND, norm(sum_ND)

    def self_attention(self, qkv_NE: Tensor, sequences: Sequences, *, causal: bool) -> Tensor:
        """Attention within each sequence; a row holds its query, key and value."""
        return attention.self_attention(
            qkv_NE, sequences, self.heads, causal=causal, fused=self.fused
        )

    def cross_attention(
        self, query_ND: Tensor, pairs_ME: Tensor, targets: Sequences, sources: Sequences
    ) -> Tensor:
        """Attention of each target to its source; a row of a source holds its key and value."""
        return attention.cross_attention(
            query_ND, pairs_ME, targets, sources, self.heads, fused=self.fused
        )


def _cast_all(weights: Sequence[Tensor], dtype: torch.dtype) -> dict[int, Tensor]:
    """Copies of matrices in the type of products, by the identities of the originals."""
    if weights[0].dtype == dtype:
        return {id(weight): weight.detach() for weight in weights}
    copies = [torch.empty_like(weight, dtype=dtype) for weight in weights]
    with torch.no_grad():
        torch._foreach_copy_(copies, list(weights))
    return {id(weight): copy for weight, copy in zip(weights, copies, strict=True)}
