"""The paper's recurrent model: stacked LSTMs with residuals and one attention in the decoder."""

from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from accord.config.checks import refuse
from accord.config.model_checks import bad_layers
from accord.config.model_settings import ModelSettings, Tables, TagPlace
from accord.models.base import Memory, ScaledEmbedding, Seq2Seq, State
from accord.models.input_feeding import Feeding
from accord.models.lstm import LSTM, CellState, Encoder, Rows, StackedEncoder, TwinEncoder, drop
from accord.ops.softmax import compute_dtype

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


@dataclass(frozen=True)
class RecurrentMemory(Memory):
    """`layers` is where the decoder starts from: h and c of each of its layers."""

    keys_BSD: Tensor
    values_BSD: Tensor
    layers: tuple[CellState, ...]

    @property
    def encoding(self) -> Tensor:
        """What attention looks for."""
        return self.keys_BSD


@dataclass(frozen=True)
class RecurrentState(State):
    """h and c of each layer; `feed_BD` is the attention output of the last step."""

    layers: tuple[CellState, ...]
    feed_BD: Tensor


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

    def forward(self, memory: RecurrentMemory, inputs_BTD: Tensor, rate: float) -> Tensor:
        """Hidden vectors [B, T, D] of a whole sequence; time goes first inside."""
        inputs_TBD = drop(inputs_BTD.transpose(0, 1), rate)
        run = self._run_feeding if self.input_feeding else self._run_bottom
        hidden_TBD, attended_TBD = run(memory, inputs_TBD, rate)
        for layer, state in zip(self._upper_layers(), memory.layers[1:], strict=True):
            joined_TBE = drop(torch.cat([hidden_TBD, attended_TBD], dim=-1), rate)
            hidden_TBD = layer.run(joined_TBE, state) + hidden_TBD
        return hidden_TBD.transpose(0, 1)

    def step(
        self, memory: RecurrentMemory, state: RecurrentState, input_RD: Tensor, rate: float
    ) -> tuple[Tensor, RecurrentState]:
        """One step of the same computation; the hypotheses of a sentence attend side by side."""
        if self.input_feeding:
            input_RD = torch.cat([input_RD, state.feed_BD.to(input_RD.dtype)], dim=-1)
        bottom = self.bottom.step(drop(input_RD, rate), state.layers[0])
        attended_BKD, weights_BKS = self.attention(
            bottom[0].view(memory.rows, -1, self.units),
            memory.keys_BSD,
            memory.values_BSD,
            memory.mask_BS,
        )
        hidden_RD, attended_RD, layers = bottom[0], attended_BKD.flatten(0, 1), [bottom]
        for layer, before in zip(self._upper_layers(), state.layers[1:], strict=True):
            joined_RE = drop(torch.cat([hidden_RD, attended_RD], dim=-1), rate)
            layers.append(layer.step(joined_RE, before))
            hidden_RD = layers[-1][0] + hidden_RD
        after = RecurrentState(
            position=state.position + 1,
            attention_BS=weights_BKS.flatten(0, 1),
            layers=tuple(layers),
            feed_BD=attended_RD,
        )
        return hidden_RD, after

    def _upper_layers(self) -> list[LSTM]:
        return [cast(LSTM, layer) for layer in self.uppers]

    def _run_bottom(
        self, memory: RecurrentMemory, inputs_TBD: Tensor, _rate: float
    ) -> tuple[Tensor, Tensor]:
        hidden_TBD = self.bottom.run(inputs_TBD, memory.layers[0])
        attended_BTD, _ = self.attention(
            hidden_TBD.transpose(0, 1), memory.keys_BSD, memory.values_BSD, memory.mask_BS
        )
        return hidden_TBD, attended_BTD.transpose(0, 1)

    def _run_feeding(
        self, memory: RecurrentMemory, inputs_TBD: Tensor, rate: float
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


class GNMT(Seq2Seq[RecurrentMemory, RecurrentState]):
    """Source and target tables, an encoder of either preset, a GNMT decoder.

    `paper`: `encoder_layers` forward and as many backward ones. `gnmt3`: one bidirectional layer
    and `encoder_layers - 1` forward ones. Every decoder layer starts from one encoder state.
    Tables of source and target are `separate`, as in the paper, or `shared`.
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
        tag: TagPlace = "source",
        tables: Tables = "separate",
    ) -> None:
        super().__init__()
        layers = ModelSettings(
            preset=preset, encoder_layers=encoder_layers, decoder_layers=decoder_layers
        )
        refuse(bad_layers(layers))
        self.units = units
        self.dropout = dropout
        self.tag = tag
        self.source_embedding: ScaledEmbedding | None = None
        if tables == "separate":
            self.source_embedding = ScaledEmbedding(vocabulary_size, units)
        self.target_embedding = ScaledEmbedding(vocabulary_size, units)
        kind = TwinEncoder if preset == "paper" else StackedEncoder
        self.encoder: Encoder = kind(layers.encoder_depth, units)
        self.decoder = Decoder(
            layers.decoder_depth, units, self.encoder.memory_width, input_feeding
        )

    def encode(
        self, source_BS: Tensor, lengths_B: Tensor, language_B: Tensor | None = None
    ) -> RecurrentMemory:
        """Read the sources, whatever language they are in; `lengths_B` may be on any device."""
        source_BS, lengths_B, first_BD = self.read_tag(source_BS, lengths_B)
        rows = Rows.of(lengths_B, source_BS.shape[1], source_BS.device)
        table = self.source_embedding or self.target_embedding
        tokens_SBD = table(source_BS.t())
        memory_SBE, states = self.encoder(tokens_SBD, rows, self._rate(True))
        keys_BSD, values_BSD = self.decoder.attention.prepare(memory_SBE.transpose(0, 1))
        return RecurrentMemory(
            ~rows.padding_SB.t(), keys_BSD, values_BSD, tuple(states), first_BD=first_BD
        )

    def decode(
        self, memory: RecurrentMemory, inputs_BTD: Tensor, *, dropout: bool = True
    ) -> Tensor:
        """Hidden vectors [B, T, D] of a whole sequence whose (shifted) inputs are known."""
        hidden_BTD: Tensor = self.decoder(memory, memory.begin(inputs_BTD), self._rate(dropout))
        return hidden_BTD

    def initial_state(
        self, memory: RecurrentMemory, *, beam: int = 1, steps: int = 0
    ) -> RecurrentState:
        """The encoder's last states; nothing attended to yet. `steps` is no limit here."""
        layers = memory.layers
        if beam > 1:
            layers = tuple(
                (h_BD.repeat_interleave(beam, dim=0), c_BD.repeat_interleave(beam, dim=0))
                for h_BD, c_BD in layers
            )
        rows, width = memory.rows * beam, memory.mask_BS.shape[1]
        return RecurrentState(
            position=torch.zeros((), dtype=torch.int64, device=memory.mask_BS.device),
            attention_BS=memory.keys_BSD.new_zeros(rows, width),
            layers=layers,
            feed_BD=memory.keys_BSD.new_zeros(rows, self.units),
        )

    def step(
        self,
        memory: RecurrentMemory,
        state: RecurrentState,
        input_RD: Tensor,
        *,
        dropout: bool = True,
    ) -> tuple[Tensor, RecurrentState]:
        """One step: the hidden vectors [R, D] and the next state with its attention weights."""
        input_RD = memory.begin_step(state, input_RD)
        hidden_RD, after = self.decoder.step(memory, state, input_RD, self._rate(dropout))
        return hidden_RD, replace(after, attention_BS=self.over_rows(after.attention_BS))

    def _rate(self, dropout: bool) -> float:
        return self.dropout if self.training and dropout else 0.0
