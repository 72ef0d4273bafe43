"""GNMT as ONNX graphs: the encoder, and one step of the decoder."""

from typing import cast

from torch import nn

from accord.export.onnx.layers import Layers, Recurrence, floats, vectors
from accord.export.onnx.nodes import FLOAT, Graph, Shape
from accord.export.onnx.search_graph import give_tokens, padding, sentence_inputs, step_inputs
from accord.models.gnmt import GNMT
from accord.models.lstm import LSTM, StackedEncoder, TwinEncoder

_State = tuple[str, str]


def encoder_graph(model: GNMT, layers: Layers) -> Graph:
    """From `source` [B, S] and `lengths` [B] to `memory.*` and the decoder's first `state.*`."""
    graph = Graph("encoder")
    writer = _Encoder(model, layers, graph)
    source_BS = sentence_inputs(graph)
    embedding = model.source_embedding or model.target_embedding
    table = layers.table(graph, "source_embedding", embedding)
    ids_SB = graph.node("Transpose", source_BS, perm=[1, 0])
    memory_SBE, states = writer.read(vectors(graph, table, ids_SB))
    writer.give_attention(graph.node("Transpose", memory_SBE, perm=[1, 0, 2]))
    bias_B1S = graph.node("Unsqueeze", padding(graph), graph.constant([1]))
    graph.output("memory.bias", bias_B1S, "float", ["rows", 1, "width"])
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
        lstm = Recurrence(name, layer, inputs, lengths="lengths", reverse=reverse)
        y_S1BD, h_1BD, c_1BD = self.layers.lstm(self.graph, lstm)
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


# --- One step of the recurrent decoder, as a graph.
#
# A step first takes the rows of the state that it is to go on from, so that hypotheses are re-
# ordered, copied and dropped in passing. All hypotheses of a sentence read the same memory.


def decoder_graph(model: GNMT, layers: Layers) -> Graph:
    """One step, as `search_graph` has it; it also gives `seen` [R], the source position with most
    attention."""
    graph = Graph("decoder")
    writer = _Decoder(model, layers, graph)
    step_inputs(graph, len(model.output_weight))
    graph.input("memory.keys", "float", ["rows", model.units, "width"])
    graph.input("memory.values", "float", ["rows", "width", model.units])
    graph.input("memory.bias", "float", ["rows", 1, "width"])
    table = layers.table(graph, "target_embedding", model.target_embedding)
    hidden_RD = writer.step(vectors(graph, table, "token"))
    give_tokens(graph, layers, hidden_RD, table)
    return graph


class _Decoder:
    def __init__(self, model: GNMT, layers: Layers, graph: Graph) -> None:
        self.model = model
        self.layers = layers
        self.graph = graph

    def step(self, token_RD: str) -> str:
        """The hidden vectors; gives the state and `seen` on the way."""
        graph, decoder = self.graph, self.model.decoder
        if decoder.input_feeding:
            token_RD = graph.node("Concat", token_RD, self._former("feed"), axis=1)
        hidden_RD = self._layer(0, decoder.bottom, token_RD)
        attended_RD = self._attend(hidden_RD)
        if decoder.input_feeding:
            self._give_state("feed", attended_RD)
        for number, layer in enumerate(decoder.uppers, start=1):
            joined_RE = graph.node("Concat", hidden_RD, attended_RD, axis=1)
            output_RD = self._layer(number, cast(LSTM, layer), joined_RE)
            hidden_RD = graph.node("Add", output_RD, hidden_RD)
        return hidden_RD

    def _layer(self, number: int, layer: LSTM, input_RE: str) -> str:
        graph, first = self.graph, self.graph.constant([0])
        h, c = (graph.node("Unsqueeze", self._former(f"{x}{number}"), first) for x in "hc")
        input_1RE = graph.node("Unsqueeze", input_RE, first)
        lstm = Recurrence(f"layer.{number}", layer, input_1RE, h, c)
        _, *state = self.layers.lstm(graph, lstm)
        h, c = (graph.node("Squeeze", value, first) for value in state)
        self._give_state(f"h{number}", h)
        self._give_state(f"c{number}", c)
        return h

    def _attend(self, query_RD: str) -> str:
        """The attention output; the hypotheses of a sentence are multiplied as one matrix."""
        graph, units = self.graph, self.model.units
        query_weight_DD = floats(self.model.decoder.attention.query_weight)
        rows = graph.node("Shape", "memory.keys", start=0, end=1)
        shape = graph.node("Concat", rows, graph.constant([-1, units]), axis=0)
        query_BKD = graph.node("Reshape", query_RD, shape)
        scores_BKS = graph.node("MatMul", query_BKD, "memory.keys")
        weights_BKS = graph.node("Softmax", graph.node("Add", scores_BKS, "memory.bias"), axis=2)
        context_BKD = graph.node("MatMul", weights_BKS, "memory.values")
        context_RD = graph.node("Reshape", context_BKD, graph.constant([-1, units]))
        seen_BK = graph.node("ArgMax", weights_BKS, axis=2, keepdims=0)
        seen_R = graph.node("Reshape", seen_BK, graph.constant([-1]))
        graph.output("seen", seen_R, "int64", ["hypotheses"])
        blend_RD = self.layers.product(graph, "query", query_RD, query_weight_DD)
        return graph.node("Add", blend_RD, context_RD)

    def _former(self, name: str) -> str:
        """The rows of the state before, as the hypotheses want them."""
        graph = self.graph
        state_ND = graph.input(f"state.{name}", "float", ["former", self.model.units])
        return graph.node("Gather", state_ND, "parent")

    def _give_state(self, name: str, value_RD: str) -> None:
        self.graph.output(f"after.{name}", value_RD, "float", ["hypotheses", self.model.units])
