"""The paper's recurrent model: stacked LSTMs with residuals and one attention in the decoder."""

from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from accord.config.checks import bad_layers, refuse
from accord.config.schema import ModelSettings
from accord.models.base import Memory, ScaledEmbedding, Seq2Seq, State, compute_dtype
from accord.models.input_feeding import Feeding
from accord.models.lstm import LSTM, Encoder, Rows, StackedEncoder, TwinEncoder, drop

# --- Dot-product attention whose output is a linear blend of query and context.


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


Preset = Literal["paper", "gnmt3"]


class Decoder(nn.Module):
    """A bottom layer that attends to the source, and residual layers that read its attention.

    With input feeding, the bottom layer also reads the attention output of the step before.
    """

    def __init__(self, layers: int, units: int, memory_width: int, input_feeding: bool) -> None:
        super().__init__()
        self.units = units
        self.input_feeding = input_feeding
        self.bottom = LSTM(2 * units if input_feeding else units, units)
        self.uppers = nn.ModuleList(LSTM(2 * units, units) for _ in range(layers - 1))
        self.attention = Attention(memory_width, units)

    def forward(self, memory: Memory, inputs_BTD: Tensor, rate: float) -> Tensor:
        """Hidden vectors [B, T, D] of a whole sequence; time goes first inside."""
        inputs_TBD = drop(inputs_BTD.transpose(0, 1), rate)
        run = self._run_feeding if self.input_feeding else self._run_bottom
        hidden_TBD, attended_TBD = run(memory, inputs_TBD, rate)
        for layer, state in zip(self._upper_layers(), memory.layers[1:], strict=True):
            joined_TBE = drop(torch.cat([hidden_TBD, attended_TBD], dim=-1), rate)
            hidden_TBD = layer.run(joined_TBE, state) + hidden_TBD
        return hidden_TBD.transpose(0, 1)

    def step(
        self, memory: Memory, state: State, input_BD: Tensor, rate: float
    ) -> tuple[Tensor, State]:
        """One step of the same computation."""
        if self.input_feeding:
            input_BD = torch.cat([input_BD, state.feed_BD.to(input_BD.dtype)], dim=-1)
        bottom = self.bottom.step(drop(input_BD, rate), state.layers[0])
        attended_B1D, weights_B1S = self.attention(
            bottom[0].unsqueeze(1), memory.keys_BSD, memory.values_BSD, memory.mask_BS
        )
        hidden_BD, attended_BD, layers = bottom[0], attended_B1D.squeeze(1), [bottom]
        for layer, before in zip(self._upper_layers(), state.layers[1:], strict=True):
            joined_BE = drop(torch.cat([hidden_BD, attended_BD], dim=-1), rate)
            layers.append(layer.step(joined_BE, before))
            hidden_BD = layers[-1][0] + hidden_BD
        return hidden_BD, State(tuple(layers), attended_BD, weights_B1S.squeeze(1))

    def _upper_layers(self) -> list[LSTM]:
        return [cast(LSTM, layer) for layer in self.uppers]

    def _run_bottom(
        self, memory: Memory, inputs_TBD: Tensor, _rate: float
    ) -> tuple[Tensor, Tensor]:
        hidden_TBD = self.bottom.run(inputs_TBD, memory.layers[0])
        attended_BTD, _ = self.attention(
            hidden_TBD.transpose(0, 1), memory.keys_BSD, memory.values_BSD, memory.mask_BS
        )
        return hidden_TBD, attended_BTD.transpose(0, 1)

    def _run_feeding(
        self, memory: Memory, inputs_TBD: Tensor, rate: float
    ) -> tuple[Tensor, Tensor]:
        bottom, units = self.bottom, self.units
        dtype = compute_dtype(inputs_TBD)
        bias_G = bottom.bias_ih_l0 + bottom.bias_hh_l0
        gates_TBG = functional.linear(inputs_TBD, bottom.weight_ih_l0[:, :units], bias_G)
        weight_GX = torch.cat([bottom.weight_ih_l0[:, units:], bottom.weight_hh_l0], dim=1)
        ones_TBD = torch.ones(inputs_TBD.shape, dtype=dtype, device=inputs_TBD.device)
        bias_BS = torch.zeros(memory.mask_BS.shape, dtype=dtype, device=inputs_TBD.device)
        h_BD, c_BD = memory.layers[0]
        return Feeding(
            gates_TBG.to(dtype),
            drop(ones_TBD, rate) if rate else None,
            weight_GX.to(dtype),
            self.attention.query_weight.to(dtype),
            memory.keys_BSD.to(dtype),
            memory.values_BSD.to(dtype),
            bias_BS.masked_fill_(~memory.mask_BS, float("-inf")),
            h_BD.to(dtype),
            c_BD.to(dtype),
        ).run()


class GNMT(Seq2Seq):
    """Separate source and target tables, an encoder of either preset, a GNMT decoder.

    `paper`: `encoder_layers` forward and as many backward ones. `gnmt3`: one bidirectional layer
    and `encoder_layers - 1` forward ones. Every decoder layer starts from one encoder state.
    """

    def __init__(
        self,
        vocabulary_size: int,
        units: int = 512,
        preset: Preset = "paper",
        encoder_layers: int | None = None,
        decoder_layers: int | None = None,
        dropout: float = 0.2,
        input_feeding: bool = True,
    ) -> None:
        super().__init__()
        layers = ModelSettings(
            preset=preset, encoder_layers=encoder_layers, decoder_layers=decoder_layers
        )
        refuse(bad_layers(layers))
        self.units = units
        self.dropout = dropout
        self.source_embedding = ScaledEmbedding(vocabulary_size, units)
        self.target_embedding = ScaledEmbedding(vocabulary_size, units)
        kind = TwinEncoder if preset == "paper" else StackedEncoder
        self.encoder: Encoder = kind(layers.encoder_depth, units)
        self.decoder = Decoder(
            layers.decoder_depth, units, self.encoder.memory_width, input_feeding
        )

    def encode(self, source_BS: Tensor, lengths_B: Tensor) -> Memory:
        """Read the sources; `lengths_B` may be on any device."""
        rows = Rows.of(lengths_B, source_BS.shape[1], source_BS.device)
        tokens_SBD = self.source_embedding(source_BS.t())
        memory_SBE, states = self.encoder(tokens_SBD, rows, self._rate(True))
        keys_BSD, values_BSD = self.decoder.attention.prepare(memory_SBE.transpose(0, 1))
        return Memory(keys_BSD, values_BSD, ~rows.padding_SB.t(), tuple(states))

    def initial_state(self, memory: Memory) -> State:
        """The encoder's last states; nothing attended to yet."""
        return State(
            memory.layers,
            memory.keys_BSD.new_zeros(memory.rows, self.units),
            memory.keys_BSD.new_zeros(memory.mask_BS.shape),
        )

    def decode(self, memory: Memory, inputs_BTD: Tensor, *, dropout: bool = True) -> Tensor:
        """Hidden vectors [B, T, D] of a whole sequence whose (shifted) inputs are known."""
        hidden_BTD: Tensor = self.decoder(memory, inputs_BTD, self._rate(dropout))
        return hidden_BTD

    def step(
        self, memory: Memory, state: State, input_BD: Tensor, *, dropout: bool = True
    ) -> tuple[Tensor, State]:
        """One step: the hidden vectors [B, D] and the next state with its attention weights."""
        return self.decoder.step(memory, state, input_BD, self._rate(dropout))

    def _rate(self, dropout: bool) -> float:
        return self.dropout if self.training and dropout else 0.0
