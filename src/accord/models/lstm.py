"""One LSTM layer in one direction, able to read rows of unequal length side by side.

Nothing here looks at a length on the host: all shapes follow from the padded batch, so the device
is never waited for and a whole training step can be captured as a CUDA graph.
"""

import math
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from accord.ops.softmax import compute_dtype

CellState = tuple[Tensor, Tensor]

# A padding step adds this to the forget gate and takes it off the input gate: after the sigmoid
# they are exactly 1 and 0, and so is their slope 0. The cell stays as the last token left it.
_SATURATION = 1000.0
# Columns for the padding flag; one is used, eight keep the rows aligned for fast kernels.
_FLAGS = 8


def drop(tensor: Tensor, rate: float) -> Tensor:
    """Dropout with a mask of its own for every element, hence for every time step."""
    return functional.dropout(tensor, rate) if rate else tensor


@dataclass(frozen=True)
class Rows:
    """Where the rows of a padded, time-major batch [S, B] end, and how to read them from there."""

    lengths_B: Tensor
    padding_SB: Tensor

    @staticmethod
    def of(lengths_B: Tensor, width: int, device: torch.device) -> "Rows":
        """Rows of the given lengths, padded to `width`; lengths may be on any device."""
        if device.type == "cuda" and not lengths_B.is_cuda:
            lengths_B = lengths_B.pin_memory()  # otherwise the copy would wait for the device
        lengths_B = lengths_B.to(device, torch.int64, non_blocking=True)
        steps_S1 = torch.arange(width, device=device).unsqueeze(1)
        return Rows(lengths_B, steps_S1 >= lengths_B)

    def reverse(self, rows_SBD: Tensor) -> Tensor:
        """Every row from its own end to its beginning; padding stays. Its own inverse."""
        width, rows = self.padding_SB.shape
        steps_S1 = torch.arange(width, device=rows_SBD.device).unsqueeze(1)
        steps_SB = torch.where(self.padding_SB, steps_S1, self.lengths_B - 1 - steps_S1)
        places_SB = steps_SB * rows + torch.arange(rows, device=rows_SBD.device)
        return rows_SBD.flatten(0, 1).index_select(0, places_SB.flatten()).view_as(rows_SBD)

    def last(self, rows_SBD: Tensor) -> Tensor:
        """The vector at the end of every row, [B, D]."""
        rows = len(self.lengths_B)
        places_B = (self.lengths_B - 1) * rows + torch.arange(rows, device=rows_SBD.device)
        return rows_SBD.flatten(0, 1).index_select(0, places_B)


class LSTM(nn.LSTM):
    """A single layer with one trainable bias and a constant +1 on the forget gate.

    The constant sits in the frozen second bias, so it is neither counted nor scaled by an
    optimiser. The library's kernel is called directly, for two reasons: the module refuses a
    backward pass in evaluation mode, and bfloat16 autocast would run it in float16.
    """

    weight_ih_l0: nn.Parameter
    weight_hh_l0: nn.Parameter
    bias_ih_l0: nn.Parameter
    bias_hh_l0: nn.Parameter

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__(inputs, units)

    def reset_parameters(self) -> None:
        """Glorot bounds of the joint matrix [input ; recurrent] x 4 units."""
        bound = math.sqrt(6 / (self.input_size + self.hidden_size + 4 * self.hidden_size))
        nn.init.uniform_(self.weight_ih_l0, -bound, bound)
        nn.init.uniform_(self.weight_hh_l0, -bound, bound)
        nn.init.zeros_(self.bias_ih_l0)
        nn.init.zeros_(self.bias_hh_l0)
        nn.init.ones_(self.bias_hh_l0[self.hidden_size : 2 * self.hidden_size])
        self.bias_hh_l0.requires_grad_(False)

    def run(self, input_TBD: Tensor, state: CellState) -> Tensor:
        """Outputs [T, B, D] of a whole sequence from a given state."""
        output_TBD, _ = self._run(input_TBD, state, self._weights())
        return output_TBD

    def read(self, input_SBD: Tensor, rows: Rows) -> tuple[Tensor, CellState]:
        """Outputs [S, B, D] from the zero state, and the state at each row's true end."""
        flags_SBF = functional.pad(
            rows.padding_SB.to(input_SBD.dtype).unsqueeze(2), (0, _FLAGS - 1)
        )
        zeros_BD = input_SBD.new_zeros(input_SBD.shape[1], self.hidden_size)
        weight_ih, *others = self._weights()
        weights = [torch.cat([weight_ih, self._flag_weight()], dim=1), *others]
        output_SBD, c_BD = self._run(
            torch.cat([input_SBD, flags_SBF], dim=2), (zeros_BD, zeros_BD), weights
        )
        return output_SBD, (rows.last(output_SBD), c_BD)

    def step(self, input_BD: Tensor, state: CellState) -> CellState:
        """One time step; the new h is also the output."""
        return torch.lstm_cell(input_BD, state, *self._weights())

    def _run(
        self, input_TBD: Tensor, state: CellState, weights: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        dtype = compute_dtype(input_TBD)
        initial = [tensor.to(dtype).unsqueeze(0) for tensor in state]
        # Flattened already are parameters as they are: not what a generator puts in their place.
        own = weights[0] is self.weight_ih_l0 and isinstance(weights[0], nn.Parameter)
        if not own or weights[0].dtype != dtype:
            weights = _in_one_piece(weights, dtype)
        with torch.autocast(input_TBD.device.type, enabled=False):
            output_TBD, _, c_1BD = torch.lstm(
                input_TBD.to(dtype),
                initial,
                weights,
                has_biases=True,
                num_layers=1,
                dropout=0.0,
                train=torch.is_grad_enabled(),
                bidirectional=False,
                batch_first=False,
            )
        return output_TBD, c_1BD.squeeze(0)

    def _weights(self) -> list[Tensor]:
        return [self.weight_ih_l0, self.weight_hh_l0, self.bias_ih_l0, self.bias_hh_l0]

    def _flag_weight(self) -> Tensor:
        units = self.hidden_size
        weight_GF = self.weight_ih_l0.new_zeros(4 * units, _FLAGS)
        weight_GF[:units, 0] = -_SATURATION
        weight_GF[units : 2 * units, 0] = _SATURATION
        return weight_GF


def _in_one_piece(weights: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """The weights as parts of one buffer, which is how cuDNN wants them."""
    flat = torch.cat([weight.flatten() for weight in weights]).to(dtype)
    parts = torch.split_with_sizes(flat, [weight.numel() for weight in weights])
    return [part.view(weight.shape) for part, weight in zip(parts, weights, strict=True)]


# --- The two recurrent encoders: independent stacks, and one bidirectional layer below others.


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
