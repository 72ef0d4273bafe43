"""One step of the recurrent decoder, as a graph.

A step first takes the rows of the state that it is to go on from, so that hypotheses are
re-ordered, copied and dropped in passing. It ends with a short list of the likeliest tokens: the
log-probabilities of a whole vocabulary never leave it. All hypotheses of a sentence read the same
memory.
"""

from typing import cast

from accord.corpus.vocabulary import EOS
from accord.exporting.graph import Graph
from accord.exporting.layers import Cell, Layers, Table, floats, vectors
from accord.model.gnmt import GNMT
from accord.model.lstm import LSTM

_State = tuple[str, str]


def decoder_graph(model: GNMT, layers: Layers) -> Graph:
    """One step of R hypotheses, equally many for each of B sentences.

    `token` [R] is what each read last and `parent` [R] the row of the state that it goes on from.
    `penalty` [1 or R, V] is added to log-probabilities. What comes out are the `count` likeliest
    tokens of each, `next` [R, count], with their `log_p`; `end` [R], log P of ending here, whatever
    the penalty; and `seen` [R], the source position with most attention.
    """
    graph, size = Graph("decoder"), len(model.output_weight)
    writer = _Decoder(model, layers, graph)
    graph.input("token", "int64", ["hypotheses"])
    graph.input("parent", "int64", ["hypotheses"])
    graph.input("count", "int64", [1])
    graph.input("penalty", "float", ["penalties", size])
    graph.input("memory.keys", "float", ["rows", model.units, "width"])
    graph.input("memory.values", "float", ["rows", "width", model.units])
    graph.input("memory.bias", "float", ["rows", 1, "width"])
    table = layers.table(graph, "target_embedding", model.target_embedding)
    hidden_RD = writer.step(vectors(graph, table, "token"))
    writer.give_tokens(hidden_RD, table)
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
        _, *state = self.layers.lstm(graph, f"layer.{number}", layer, input_1RE, Cell(h, c))
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

    def give_tokens(self, hidden_RD: str, table: Table) -> None:
        """The likeliest tokens, and how likely the end is."""
        graph = self.graph
        logits_RV = self.layers.logits(graph, hidden_RD, table)
        log_p_RV = graph.node("LogSoftmax", logits_RV, axis=1)
        end_R = graph.node("Gather", log_p_RV, graph.constant(EOS), axis=1)
        allowed_RV = graph.node("Add", log_p_RV, "penalty")
        log_p_RC, next_RC = graph.nodes("TopK", 2, allowed_RV, "count", axis=1)
        graph.output("end", end_R, "float", ["hypotheses"])
        graph.output("log_p", log_p_RC, "float", ["hypotheses", "count"])
        graph.output("next", next_RC, "int64", ["hypotheses", "count"])
