"""The Transformer: self-attention in encoder and decoder, attention to the source between them.

Dropout is where the first paper had it: on the inputs and on what each sub-layer adds; weights of
attention and hidden units of the feed-forward layers are kept. Projections of attention have no
bias. All positions of a batch are rows [N, D] of one matrix.

Legend, besides that of the base: N rows of targets, M of sources, L decoder layers, E several
vectors of D units side by side.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from torch import Tensor, nn

from accord.config.model_settings import TagPlace
from accord.models.base import Memory, ScaledEmbedding, Seq2Seq
from accord.models.transformer_decoding import CachedState, DecoderStep
from accord.ops.attention import Sequences, can_be_fused
from accord.ops.softmax import compute_dtype
from accord.ops.transformer_layers import LayerOps

NormPlace = Literal["pre", "post"]
Tables = Literal["shared", "separate"]


@dataclass(frozen=True)
class TransformerMemory(Memory):
    """`pairs_BSLE` are keys and values for every decoder layer, `encoded_BSD` what they are of."""

    pairs_BSLE: Tensor
    encoded_BSD: Tensor
    lengths_B: Tensor

    @property
    def encoding(self) -> Tensor:
        """What the encoder made of the sources [B, S, D]: this is what encodings agree about."""
        return self.encoded_BSD

    @property
    def sequences(self) -> Sequences:
        """Where the sources lie."""
        return Sequences(self.lengths_B, self.mask_BS.shape[1])


class SelfAttention(nn.Module):
    """The matrices of attention within a sequence; query, key and value are one product."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(units, 3 * units, bias=False)
        self.output = nn.Linear(units, units, bias=False)


class CrossAttention(nn.Module):
    """The matrices of attention to the source; keys and values are made for all layers at once."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.query = nn.Linear(units, units, bias=False)
        self.output = nn.Linear(units, units, bias=False)


class FeedForward(nn.Module):
    """The matrices of the layer between attentions."""

    def __init__(self, units: int, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(units, width)
        self.outer = nn.Linear(width, units)


class EncoderLayer(nn.Module):
    """Attention, then feed-forward; each norm stands before its sub-layer, or after."""

    def __init__(self, units: int, width: int) -> None:
        super().__init__()
        self.attention = SelfAttention(units)
        self.attention_norm = nn.LayerNorm(units)
        self.feed_forward = FeedForward(units, width)
        self.feed_forward_norm = nn.LayerNorm(units)


class DecoderLayer(EncoderLayer):
    """The same with attention to the source between the two."""

    def __init__(self, units: int, width: int) -> None:
        super().__init__(units, width)
        self.cross_attention = CrossAttention(units)
        self.cross_attention_norm = nn.LayerNorm(units)


class Stack(nn.Module):
    """The layers of one side; where norms stand before, one more stands at the end."""

    def __init__(self, layers: Sequence[EncoderLayer], units: int, norm: NormPlace) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(units) if norm == "pre" else None


@dataclass(frozen=True)
class _Sublayer:
    run: Callable[[Tensor], Tensor]
    norm: nn.LayerNorm
    residual: bool = True
    bias_D: Tensor | None = None


class Transformer(Seq2Seq[TransformerMemory, CachedState]):
    """`encoder_layers` and `decoder_layers` of `heads` heads; sinusoids for positions.

    `norm` says where norms stand: before each sub-layer, or after its residual is added. Tables of
    source and target are `shared` or `separate`; the target's is the softmax's as well. The layer
    number `encoder_residual` (1 is the lowest) adds nothing to what its attention finds: places of
    the output then hang less on places of the input (Liu et al. 2021).
    """

    def __init__(
        self,
        vocabulary_size: int,
        units: int = 512,
        encoder_layers: int = 6,
        decoder_layers: int = 3,
        heads: int = 8,
        feed_forward: int = 2048,
        dropout: float = 0.1,
        norm: NormPlace = "pre",
        tables: Tables = "shared",
        encoder_residual: int | None = None,
        tag: TagPlace = "source",
    ) -> None:
        super().__init__()
        self.units, self.heads, self.dropout = units, heads, dropout
        self.encoder_residual = encoder_residual
        self.tag = tag
        self.target_embedding = ScaledEmbedding(vocabulary_size, units)
        self.source_embedding: ScaledEmbedding | None = None
        if tables == "separate":
            self.source_embedding = ScaledEmbedding(vocabulary_size, units)
        encoder = [EncoderLayer(units, feed_forward) for _ in range(encoder_layers)]
        decoder = [DecoderLayer(units, feed_forward) for _ in range(decoder_layers)]
        self.encoder = Stack(encoder, units, norm)
        self.decoder = Stack(decoder, units, norm)
        self.keys_and_values = nn.Linear(units, 2 * decoder_layers * units, bias=False)
        self.fused: bool | None = None
        """Only for tests and benchmarks: by default kernels, wherever there are some."""
        self._draw()

    def _draw(self) -> None:
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
        # As if every layer's keys and values were drawn by themselves, like those of `qkv`.
        bound = math.sqrt(6 / (4 * self.units))
        nn.init.uniform_(self.keys_and_values.weight, -bound, bound)

    # ----- whole sequences

    def encode(
        self, source_BS: Tensor, lengths_B: Tensor, language_B: Tensor | None = None
    ) -> TransformerMemory:
        """Read the sources, whatever language they are in; `lengths_B` may be on any device."""
        source_BS, lengths_B, first_BD = self.read_tag(source_BS, lengths_B)
        width = source_BS.shape[1]
        lengths_B = lengths_B.to(source_BS.device, torch.int32, non_blocking=True)
        sources = Sequences(lengths_B, width)
        work = self._ops(True, self.encoder, self.keys_and_values)
        table = self.source_embedding or self.target_embedding
        encoded_MD = self._encoded(table(source_BS.flatten()), sources, work)
        pairs_ME = work.linear(encoded_MD, self.keys_and_values)
        shape = (*source_BS.shape, len(self.decoder.layers), 2 * self.units)
        encoded_BSD = encoded_MD.view(*source_BS.shape, self.units)
        return TransformerMemory(
            sources.mask(), pairs_ME.view(shape), encoded_BSD, lengths_B, first_BD=first_BD
        )

    def decode(
        self, memory: TransformerMemory, inputs_BTD: Tensor, *, dropout: bool = True
    ) -> Tensor:
        """Hidden vectors [B, T, D] of a whole sequence whose (shifted) inputs are known."""
        rows, width = inputs_BTD.shape[:2]
        hidden_ND = self._decoded(
            memory.begin(inputs_BTD).flatten(0, 1),
            memory.pairs_BSLE.flatten(0, 1).unbind(1),
            Sequences.whole(rows, width, inputs_BTD.device),
            memory.sequences,
            self._ops(dropout, self.decoder),
        )
        return hidden_ND.view(inputs_BTD.shape)

    def _encoded(self, inputs_MD: Tensor, sources: Sequences, work: LayerOps) -> Tensor:
        sublayers = []
        for number, layer in enumerate(self._encoder_layers(), start=1):
            attention = self._attention(layer, sources, work, causal=False)
            residual = number != self.encoder_residual
            sublayers.append(_Sublayer(attention, layer.attention_norm, residual))
            sublayers.append(self._feed_forward(layer, work))
        return self._run(self._placed(inputs_MD, sources), self.encoder, sublayers, work)

    def _decoded(
        self,
        inputs_ND: Tensor,
        pairs: Sequence[Tensor],
        targets: Sequences,
        sources: Sequences,
        work: LayerOps,
    ) -> Tensor:
        sublayers = []
        for layer, pairs_ME in zip(self._decoder_layers(), pairs, strict=True):

            def read(
                x_ND: Tensor,
                attention: CrossAttention = layer.cross_attention,
                pairs_ME: Tensor = pairs_ME,
            ) -> Tensor:
                query_ND = work.linear(x_ND, attention.query)
                found_ND = work.cross_attention(query_ND, pairs_ME, targets, sources)
                return work.linear(found_ND, attention.output)

            attention = self._attention(layer, targets, work, causal=True)
            sublayers.append(_Sublayer(attention, layer.attention_norm))
            sublayers.append(_Sublayer(read, layer.cross_attention_norm))
            sublayers.append(self._feed_forward(layer, work))
        return self._run(self._placed(inputs_ND, targets), self.decoder, sublayers, work)

    # ----- single steps

    def initial_state(self, memory: TransformerMemory, *, beam: int = 1, steps: int) -> CachedState:
        """Empty caches for `beam` hypotheses of each sentence, of `steps` tokens at most.

        Where gradients are wanted, caches grow instead, since nothing may be overwritten.
        """
        layers, units = len(self.decoder.layers), self.units
        return CachedState.empty(memory.pairs_BSLE, memory.mask_BS, layers, units, beam, steps)

    def step(
        self,
        memory: TransformerMemory,
        state: CachedState,
        input_RD: Tensor,
        *,
        dropout: bool = True,
    ) -> tuple[Tensor, CachedState]:
        """One step: the hidden vectors [R, D] and the next state with its attention weights.

        Fixed caches are written in place: of two steps from one state, only one can go on.
        """
        work = self._ops(dropout, self.decoder)
        stepping = DecoderStep(work, memory.pairs_BSLE, memory.mask_BS, memory.lengths_B, state)
        sublayers = []
        for number, layer in enumerate(self._decoder_layers()):

            def attend(x_RD: Tensor, number: int = number, layer: DecoderLayer = layer) -> Tensor:
                qkv_RE = work.linear(x_RD, layer.attention.qkv)
                return work.linear(stepping.attend(number, qkv_RE), layer.attention.output)

            def read(x_RD: Tensor, number: int = number, layer: DecoderLayer = layer) -> Tensor:
                query_RD = work.linear(x_RD, layer.cross_attention.query)
                return work.linear(stepping.read(number, query_RD), layer.cross_attention.output)

            sublayers.append(_Sublayer(attend, layer.attention_norm))
            sublayers.append(_Sublayer(read, layer.cross_attention_norm))
            sublayers.append(self._feed_forward(layer, work))
        input_RD = memory.begin_step(state, input_RD)
        inputs_RD = input_RD + sinusoids(state.position.view(1), self.units, input_RD.dtype)
        hidden_RD = self._run(inputs_RD, self.decoder, sublayers, work)
        after = stepping.next_state()
        return hidden_RD, replace(after, attention_BS=self.over_rows(after.attention_BS))

    def kept_numbers(self, steps: int) -> int:
        """Keys and values of every layer."""
        return 2 * len(self.decoder.layers) * self.units * steps

    # ----- parts

    def _ops(self, dropout: bool, *parts: nn.Module) -> LayerOps:
        table, width = self.output_weight, self.units // self.heads
        fused = self.fused
        if fused is None:
            fused = can_be_fused(table.device, compute_dtype(table), width)
        rate = self.dropout if self.training and dropout else 0.0
        layers = [layer for part in parts for layer in part.modules()]
        matrices = [layer.weight for layer in layers if isinstance(layer, nn.Linear)]
        return LayerOps(matrices, self.heads, rate, fused=fused)

    def _encoder_layers(self) -> list[EncoderLayer]:
        return [cast(EncoderLayer, layer) for layer in self.encoder.layers]

    def _decoder_layers(self) -> list[DecoderLayer]:
        return [cast(DecoderLayer, layer) for layer in self.decoder.layers]

    def _attention(
        self, layer: EncoderLayer, sequences: Sequences, work: LayerOps, *, causal: bool
    ) -> Callable[[Tensor], Tensor]:
        def attend(x_ND: Tensor) -> Tensor:
            qkv_NE = work.linear(x_ND, layer.attention.qkv)
            found_ND = work.self_attention(qkv_NE, sequences, causal=causal)
            return work.linear(found_ND, layer.attention.output)

        return attend

    def _feed_forward(self, layer: EncoderLayer, work: LayerOps) -> _Sublayer:
        both = layer.feed_forward
        return _Sublayer(
            lambda x_ND: work.feed_forward(x_ND, both.inner, both.outer),
            layer.feed_forward_norm,
            bias_D=both.outer.bias,
        )

    def _placed(self, inputs_ND: Tensor, sequences: Sequences) -> Tensor:
        steps_T = torch.arange(sequences.width, device=inputs_ND.device)
        waves_TD = sinusoids(steps_T, self.units, inputs_ND.dtype)
        return (inputs_ND.view(-1, *waves_TD.shape) + waves_TD).flatten(0, 1)

    def _run(
        self, inputs_ND: Tensor, stack: Stack, sublayers: Sequence[_Sublayer], work: LayerOps
    ) -> Tensor:
        """Through all sub-layers. What one adds is dropped out, summed and normed in one go."""
        inputs_ND = work.residual(inputs_ND)
        if stack.norm is None:
            x_ND = work.dropped(inputs_ND)
            for each in sublayers:
                before_ND = x_ND if each.residual else None
                x_ND = work.add_norm(before_ND, each.run(x_ND), each.norm, each.bias_D)[1]
            return x_ND
        sum_ND, x_ND = work.add_norm(None, inputs_ND, sublayers[0].norm)
        nexts = [each.norm for each in sublayers[1:]] + [stack.norm]
        for each, norm in zip(sublayers, nexts, strict=True):
            before_ND = sum_ND if each.residual else None
            sum_ND, x_ND = work.add_norm(before_ND, each.run(x_ND), norm, each.bias_D)
        return x_ND


def sinusoids(position_N: Tensor, units: int, dtype: torch.dtype) -> Tensor:
    """[N, D]: sines of each position at D / 2 frequencies, then cosines; for any position."""
    half = units // 2
    exact = torch.promote_types(dtype, torch.float32)
    steps_C = torch.arange(half, dtype=exact, device=position_N.device)
    frequency_C = torch.exp(steps_C * (-math.log(10_000.0) / max(half - 1, 1)))
    angle_NC = position_N.to(exact).unsqueeze(1) * frequency_C
    return torch.cat([angle_NC.sin(), angle_NC.cos()], dim=1).to(dtype)
