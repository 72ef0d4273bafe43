"""The layers of a model as nodes of a graph, with weights in 32 bits or in 8.

In 8 bits every column of a weight matrix has a scale of its own, and a column of a matrix is a row
of a table of token vectors. What is multiplied with it is brought to 8 bits while computing, with
one scale for all of it.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from accord.data.vocabulary import PAD
from accord.export.onnx.nodes import FLOAT, Array, Graph
from accord.models.base import ScaledEmbedding
from accord.models.lstm import LSTM

Floats = npt.NDArray[np.float32]

# Without VNNI instructions, x86 processors add up pairs of products in 16 bits, which may overflow
# if weights use all of 8 bits; with 7 they cannot.
_LARGEST = 63


@dataclass(frozen=True)
class Table:
    """Token vectors [V, D]: times `scale` [V] when they are read, times `unit_V` in products."""

    values: str
    scale: str
    unit_V: Floats


@dataclass(frozen=True)
class Recurrence:
    """An LSTM over `inputs` [S, B, I], its weights under `name`.

    It starts from `h` and `c` and reads `lengths` of every row; empty names are zeros and all.
    """

    name: str
    layer: LSTM
    inputs: str
    h: str = ""
    c: str = ""
    lengths: str = ""
    reverse: bool = False

    @property
    def optional(self) -> tuple[str, str, str]:
        """The inputs that may be left out, in ONNX's order."""
        return self.lengths, self.h, self.c

    @property
    def attributes(self) -> dict[str, int | str]:
        """The attributes of ONNX's operators."""
        return {
            "hidden_size": self.layer.hidden_size,
            "direction": "reverse" if self.reverse else "forward",
        }


class Layers(Protocol):
    """How weights are written and multiplied."""

    def lstm(self, graph: Graph, lstm: Recurrence) -> tuple[str, str, str]:
        """Outputs [S, 1, B, D], last h and last c [1, B, D]."""
        ...

    def product(self, graph: Graph, name: str, inputs: str, weight_OI: Floats) -> str:
        """The inputs times the transpose of a weight."""
        ...

    def table(self, graph: Graph, name: str, embedding: ScaledEmbedding) -> Table:
        """The vectors of an embedding."""
        ...

    def logits(self, graph: Graph, hidden_RD: str, table: Table) -> str:
        """Products of hidden vectors with all vectors of a table."""
        ...


class Float32:
    """Weights as they were trained."""

    def lstm(self, graph: Graph, lstm: Recurrence) -> tuple[str, str, str]:
        """ONNX's own LSTM."""
        weights = _Gates.of(lstm.layer)
        y, h, c = graph.nodes(
            "LSTM",
            3,
            lstm.inputs,
            graph.weight(f"{lstm.name}.input", weights.input_GI[None]),
            graph.weight(f"{lstm.name}.recurrent", weights.recurrent_GD[None]),
            graph.weight(f"{lstm.name}.bias", weights.bias_G[None]),
            *lstm.optional,
            **lstm.attributes,
        )
        return y, h, c

    def product(self, graph: Graph, name: str, inputs: str, weight_OI: Floats) -> str:
        """A plain matrix product."""
        return graph.node("MatMul", inputs, graph.weight(name, weight_OI.T))

    def table(self, graph: Graph, name: str, embedding: ScaledEmbedding) -> Table:
        """The vectors as they are."""
        weight_VD = floats(embedding.weight)
        return _table(graph, name, embedding, weight_VD, np.ones(len(weight_VD), dtype=np.float32))

    def logits(self, graph: Graph, hidden_RD: str, table: Table) -> str:
        """The table is read as it lies, once for vectors and once for products."""
        return graph.node("Gemm", hidden_RD, table.values, transB=1)


class Int8:
    """Weights in 8 bits: a quarter of the size, and several times the speed on a CPU."""

    def lstm(self, graph: Graph, lstm: Recurrence) -> tuple[str, str, str]:
        """ONNX Runtime's LSTM of 8-bit products; cells and gates stay in 32 bits."""
        weights = _Gates.of(lstm.layer)
        names, scales = [], []
        for part, weight_GI in (("input", weights.input_GI), ("recurrent", weights.recurrent_GD)):
            values_GI, scale_G = _rounded(weight_GI)
            names.append(graph.weight(f"{lstm.name}.{part}", values_GI.T[None]))
            scales.append(graph.weight(f"{lstm.name}.{part}.scale", scale_G[None]))
            zeros_G = np.zeros((1, len(scale_G)), dtype=np.int8)
            scales.append(graph.weight(f"{lstm.name}.{part}.zero", zeros_G))
        y, h, c = graph.contributed(
            "DynamicQuantizeLSTM",
            3,
            lstm.inputs,
            *names,
            graph.weight(f"{lstm.name}.bias", weights.bias_G[None]),
            *(*lstm.optional, ""),
            *scales,
            **lstm.attributes,
        )
        return y, h, c

    def product(self, graph: Graph, name: str, inputs: str, weight_OI: Floats) -> str:
        """A product of 8-bit numbers."""
        values_OI, scale_O = _rounded(weight_OI)
        values = graph.weight(name, values_OI.T)
        scale = graph.weight(f"{name}.scale", scale_O)
        [found] = graph.contributed("DynamicQuantizeMatMul", 1, inputs, values, scale)
        return found

    def table(self, graph: Graph, name: str, embedding: ScaledEmbedding) -> Table:
        """A scale for every token."""
        return _table(graph, name, embedding, *_rounded(floats(embedding.weight)))

    def logits(self, graph: Graph, hidden_RD: str, table: Table) -> str:
        """The table lies in the file once; its transpose is made when the model is loaded."""
        values_DV = graph.node("Transpose", table.values, perm=[1, 0])
        unit = graph.weight(f"{table.values}.unit", table.unit_V)
        [found] = graph.contributed("DynamicQuantizeMatMul", 1, hidden_RD, values_DV, unit)
        return found


def vectors(graph: Graph, table: Table, ids: str) -> str:
    """The vectors of token ids, as the model reads them."""
    rows = graph.node("Cast", graph.node("Gather", table.values, ids), to=FLOAT)
    scale = graph.node("Gather", table.scale, ids)
    return graph.node("Mul", rows, graph.node("Unsqueeze", scale, graph.constant([-1])))


def floats(tensor: Tensor) -> Floats:
    """A tensor as an array of 32-bit numbers."""
    array: Floats = tensor.detach().cpu().float().numpy()
    return array


@dataclass(frozen=True)
class _Gates:
    """The weights of an LSTM with the gates in ONNX's order: input, output, forget, candidate."""

    input_GI: Floats
    recurrent_GD: Floats
    bias_G: Floats

    @staticmethod
    def of(layer: LSTM) -> "_Gates":
        def ordered(tensor: Tensor) -> Floats:
            i, f, g, o = np.split(floats(tensor), 4)
            return np.concatenate([i, o, f, g])

        # Both biases in one, added as the model adds them.
        bias_G = ordered(layer.bias_ih_l0 + layer.bias_hh_l0)
        return _Gates(
            ordered(layer.weight_ih_l0),
            ordered(layer.weight_hh_l0),
            np.concatenate([bias_G, np.zeros_like(bias_G)]),
        )


def _table(
    graph: Graph, name: str, embedding: ScaledEmbedding, values_VD: Array, unit_V: Floats
) -> Table:
    scale_V = unit_V * np.float32(embedding.scale)
    scale_V[PAD] = 0.0  # padding is read as the zero vector
    values, scale = graph.weight(name, values_VD), graph.weight(f"{name}.scale", scale_V)
    return Table(values, scale, unit_V)


def _rounded(weight_OI: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    """Whole numbers and, for each row, what they are to be multiplied with."""
    scale_O = np.abs(weight_OI).max(axis=1) / np.float32(_LARGEST)
    scale_O[scale_O == 0] = 1.0
    return np.rint(weight_OI / scale_O[:, None]).astype(np.int8), scale_O
