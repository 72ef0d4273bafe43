"""What the graphs of all models have in common: the inputs and answers that a search knows.

A step ends with a short list of the likeliest tokens: the log-probabilities of a whole vocabulary
never leave it.
"""

from accord.data.vocabulary import EOS
from accord.export.onnx.layers import Layers, Table
from accord.export.onnx.nodes import INT64, Graph


def sentence_inputs(graph: Graph) -> str:
    """`source` [B, S] and `lengths` [B] of an encoder; the name of the former."""
    graph.input("lengths", "int32", ["rows"])
    return graph.input("source", "int64", ["rows", "width"])


def padding(graph: Graph) -> str:
    """What is added to attention scores [B, S]: -inf after the end of a row."""
    width = graph.node("Gather", graph.node("Shape", "source"), graph.constant(1))
    places_S = graph.node("Range", graph.constant(0), width, graph.constant(1))
    lengths_B1 = graph.node("Unsqueeze", "lengths", graph.constant([1]))
    real_BS = graph.node("Less", places_S, graph.node("Cast", lengths_B1, to=INT64))
    nothing, never = graph.constant(0.0), graph.constant(-float("inf"))
    return graph.node("Where", real_BS, nothing, never)


def step_inputs(graph: Graph, vocabulary: int) -> None:
    """What a decoder step is given beside memory and state.

    `token` [R] is what each of R hypotheses, equally many for each of B sentences, read last and
    `parent` [R] the row of the state that it goes on from. `penalty` [1 or R, V] is added to
    log-probabilities; `count` tokens of each are asked for.
    """
    graph.input("token", "int64", ["hypotheses"])
    graph.input("parent", "int64", ["hypotheses"])
    graph.input("count", "int64", [1])
    graph.input("penalty", "float", ["penalties", vocabulary])


def give_tokens(graph: Graph, layers: Layers, hidden_RD: str, table: Table) -> None:
    """The `count` likeliest tokens, `next` [R, count], with their `log_p`, and `end` [R], log P of
    ending here, whatever the penalty."""
    logits_RV = layers.logits(graph, hidden_RD, table)
    log_p_RV = graph.node("LogSoftmax", logits_RV, axis=1)
    end_R = graph.node("Gather", log_p_RV, graph.constant(EOS), axis=1)
    allowed_RV = graph.node("Add", log_p_RV, "penalty")
    log_p_RC, next_RC = graph.nodes("TopK", 2, allowed_RV, "count", axis=1)
    graph.output("end", end_R, "float", ["hypotheses"])
    graph.output("log_p", log_p_RC, "float", ["hypotheses", "count"])
    graph.output("next", next_RC, "int64", ["hypotheses", "count"])
