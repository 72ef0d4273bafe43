"""The half of the recurrent model that reads sentences, as a graph."""

from typing import cast

from torch import nn

from accord.exporting.graph import FLOAT, INT64, Graph, Shape
from accord.exporting.layers import Cell, Layers, floats, vectors
from accord.model.encoder import StackedEncoder, TwinEncoder
from accord.model.gnmt import GNMT
from accord.model.lstm import LSTM

_State = tuple[str, str]


def encoder_graph(model: GNMT, layers: Layers) -> Graph:
    """From `source` [B, S] and `lengths` [B] to `memory.*` and the decoder's first `state.*`."""
    graph = Graph("encoder")
    writer = _Encoder(model, layers, graph)
    source_BS = graph.input("source", "int64", ["rows", "width"])
    graph.input("lengths", "int32", ["rows"])
    table = layers.table(graph, "source_embedding", model.source_embedding)
    ids_SB = graph.node("Transpose", source_BS, perm=[1, 0])
    memory_SBE, states = writer.read(vectors(graph, table, ids_SB))
    writer.give_attention(graph.node("Transpose", memory_SBE, perm=[1, 0, 2]))
    writer.give_padding()
    writer.give_states(states)
    return graph


class _Encoder:
    """Time goes first inside."""

    def __init__(self, model: GNMT, layers: Layers, graph: Graph) -> None:
        self.model = model
        self.layers = layers
        self.graph = graph

    def read(self, tokens_SBD: str) -> tuple[str, list[_State]]:
        """The memory [S, B, E], and the states that the decoder's layers start from."""
        encoder = self.model.encoder
        if isinstance(encoder, TwinEncoder):
            left, left_states = self._stack("forward", encoder.forwards, tokens_SBD)
            right, right_states = self._stack("backward", encoder.backwards, tokens_SBD, True)
            pairs = zip(left_states, right_states, strict=True)
            states = [state for pair in pairs for state in pair]
            return self.graph.node("Concat", left, right, axis=2), states
        stacked = cast(StackedEncoder, encoder)
        left, _ = self._layer("forward", stacked.forwards, tokens_SBD)
        right, state = self._layer("backward", stacked.backwards, tokens_SBD, True)
        joined_SBE = self.graph.node("Concat", left, right, axis=2)
        top_SBD, states = self._stack("upper", stacked.uppers, joined_SBE)
        return top_SBD, [state, *states]

    def _stack(
        self, name: str, stack: nn.ModuleList, inputs: str, reverse: bool = False
    ) -> tuple[str, list[_State]]:
        states = []
        for number, layer in enumerate(stack):
            output, state = self._layer(f"{name}.{number}", cast(LSTM, layer), inputs, reverse)
            inputs = self.graph.node("Add", output, inputs) if number else output
            states.append(state)
        return inputs, states

    def _layer(
        self, name: str, layer: LSTM, inputs: str, reverse: bool = False
    ) -> tuple[str, _State]:
        # The operator itself stops, or backwards begins, at the end of each row.
        y_S1BD, h_1BD, c_1BD = self.layers.lstm(
            self.graph, name, layer, inputs, Cell(lengths="lengths"), reverse=reverse
        )
        return self.graph.node("Squeeze", y_S1BD, self.graph.constant([1])), (h_1BD, c_1BD)

    def give_attention(self, memory_BSE: str) -> None:
        """Keys and values; the positions of keys come last, as products want them."""
        graph, units, attention = self.graph, self.model.units, self.model.decoder.attention
        value_weight_DE = floats(attention.output_weight[:, units:])
        keys_BSD = self.layers.product(graph, "keys", memory_BSE, floats(attention.key_weight))
        values_BSD = self.layers.product(graph, "values", memory_BSE, value_weight_DE)
        keys_BDS = graph.node("Transpose", keys_BSD, perm=[0, 2, 1])
        graph.output("memory.keys", keys_BDS, "float", ["rows", units, "width"])
        graph.output("memory.values", values_BSD, "float", ["rows", "width", units])

    def give_padding(self) -> None:
        """What is added to attention scores: -inf after the end of a row."""
        graph = self.graph
        width = graph.node("Gather", graph.node("Shape", "source"), graph.constant(1))
        places_S = graph.node("Range", graph.constant(0), width, graph.constant(1))
        lengths_B1 = graph.node("Unsqueeze", "lengths", graph.constant([1]))
        real_BS = graph.node("Less", places_S, graph.node("Cast", lengths_B1, to=INT64))
        nothing, never = graph.constant(0.0), graph.constant(-float("inf"))
        bias_BS = graph.node("Where", real_BS, nothing, never)
        bias_B1S = graph.node("Unsqueeze", bias_BS, graph.constant([1]))
        graph.output("memory.bias", bias_B1S, "float", ["rows", 1, "width"])

    def give_states(self, states: list[_State]) -> None:
        """Where the decoder starts; nothing was attended to yet."""
        graph = self.graph
        shape: Shape = ["rows", self.model.units]
        for number, state in enumerate(states):
            for letter, value_1BD in zip("hc", state, strict=True):
                value_BD = graph.node("Squeeze", value_1BD, graph.constant([0]))
                graph.output(f"state.{letter}{number}", value_BD, "float", shape)
        if self.model.decoder.input_feeding:
            like_BD = graph.node("Squeeze", states[0][0], graph.constant([0]))
            zero_BD = graph.node("ConstantOfShape", graph.node("Shape", like_BD))
            graph.output("state.feed", graph.node("Cast", zero_BD, to=FLOAT), "float", shape)
