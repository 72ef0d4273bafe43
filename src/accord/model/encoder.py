"""The two recurrent encoders: independent stacks, and one bidirectional layer below others."""

from typing import Protocol, cast

import torch
from torch import Tensor, nn

from accord.model.lstm import LSTM, CellState, Rows, drop


class Encoder(Protocol):
    """Reads embedded tokens, time first, and gives a memory and the layers' last states."""

    memory_width: int

    def __call__(
        self, tokens_SBD: Tensor, rows: Rows, rate: float
    ) -> tuple[Tensor, list[CellState]]:
        """Encode; `rate` is the dropout on the input of every cell."""
        ...


class TwinEncoder(nn.Module):
    """A forward and a backward stack that do not see each other; joined at the top only.

    All layers but the first have a residual. The states are given as fw1, bw1, fw2, bw2, ...
    """

    def __init__(self, layers: int, units: int) -> None:
        super().__init__()
        self.forwards = nn.ModuleList(LSTM(units, units) for _ in range(layers))
        self.backwards = nn.ModuleList(LSTM(units, units) for _ in range(layers))
        self.memory_width = 2 * units

    def forward(
        self, tokens_SBD: Tensor, rows: Rows, rate: float
    ) -> tuple[Tensor, list[CellState]]:
        """Memory [S, B, 2 D] and the states, forward and backward in turn."""
        left_SBD, left_states = _read_stack(self.forwards, tokens_SBD, rows, rate)
        right_SBD, right_states = _read_stack(self.backwards, rows.reverse(tokens_SBD), rows, rate)
        pairs = zip(left_states, right_states, strict=True)
        memory_SBE = torch.cat([left_SBD, rows.reverse(right_SBD)], dim=-1)
        return memory_SBE, [state for pair in pairs for state in pair]


class StackedEncoder(nn.Module):
    """One bidirectional layer, then forward layers, the second of which has the first residual.

    The states are those of the bidirectional layer's backward half and of every layer above.
    """

    def __init__(self, layers: int, units: int) -> None:
        super().__init__()
        self.forwards = LSTM(units, units)
        self.backwards = LSTM(units, units)
        widths = [2 * units] + [units] * (layers - 2)
        self.uppers = nn.ModuleList(LSTM(width, units) for width in widths)
        self.memory_width = units

    def forward(
        self, tokens_SBD: Tensor, rows: Rows, rate: float
    ) -> tuple[Tensor, list[CellState]]:
        """Memory [S, B, D] and the states from the bottom to the top."""
        left_SBD, _ = self.forwards.read(drop(tokens_SBD, rate), rows)
        right_SBD, state = self.backwards.read(drop(rows.reverse(tokens_SBD), rate), rows)
        joined_SBE = torch.cat([left_SBD, rows.reverse(right_SBD)], dim=-1)
        top_SBD, states = _read_stack(self.uppers, joined_SBE, rows, rate)
        return top_SBD, [state, *states]


def _read_stack(
    stack: nn.ModuleList, input_SBD: Tensor, rows: Rows, rate: float
) -> tuple[Tensor, list[CellState]]:
    """Layers on top of each other; all but the first add their undropped input to their output."""
    states = []
    for number, layer in enumerate(stack):
        output_SBD, state = cast(LSTM, layer).read(drop(input_SBD, rate), rows)
        input_SBD = output_SBD + input_SBD if number else output_SBD
        states.append(state)
    return input_SBD, states
