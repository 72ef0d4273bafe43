"""The Transformer as ONNX graphs: the encoder, and one step of the decoder.

The state are the keys and values of all tokens so far, longer by one after every step: how long
they are says at which position a step is. Legend, besides that of the models: H heads, C units of
a head, X rows of any shape.
"""

import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from torch import nn

from accord.export.onnx.layers import Layers, floats, vectors
from accord.export.onnx.nodes import FLOAT, Graph, Shape
from accord.export.onnx.search_graph import give_tokens, padding, sentence_inputs, step_inputs
from accord.models.transformer import DecoderLayer, EncoderLayer, Stack, Transformer
from accord.models.transformer_decoding import aligning_layer

# What a sub-layer makes of its input, its name, its norm, and whether it adds to what came before.
_Sublayer = tuple[Callable[[str], str], str, nn.LayerNorm, bool]


def encoder_graph(model: Transformer, layers: Layers) -> Graph:
    """From `source` [B, S] and `lengths` [B] to `memory.*` and the decoder's first `state.*`."""
    graph = Graph("encoder")
    writer = _Writer(model, layers, graph)
    source_BS = sentence_inputs(graph)
    embedding = model.source_embedding or model.target_embedding
    inputs_BSD = vectors(graph, layers.table(graph, "embedding", embedding), source_BS)
    width = graph.node("Shape", source_BS, start=1, end=2)
    steps_S = graph.node("Range", graph.constant(0), writer.scalar(width), graph.constant(1))
    bias_BS = padding(graph)
    bias_B11S = graph.node("Unsqueeze", bias_BS, graph.constant([1, 2]))
    graph.output("memory.bias", bias_B11S, "float", ["rows", 1, 1, "width"])
    sublayers: list[_Sublayer] = []
    for number, module in enumerate(model.encoder.layers, start=1):
        layer, name = cast(EncoderLayer, module), f"layer.{number}"

        def attend(x_BSD: str, layer: EncoderLayer = layer, name: str = name) -> str:
            qkv_BSE = writer.product(f"{name}.qkv", x_BSD, layer.attention.qkv)
            queries, keys, values = (writer.heads(x) for x in writer.split(qkv_BSE, 3))
            weights = writer.weights(queries, keys, bias_B11S)
            found_BSD = writer.joined(graph.node("MatMul", weights, values), x_BSD)
            return writer.product(f"{name}.output", found_BSD, layer.attention.output)

        residual = number != model.encoder_residual
        sublayers.append((attend, f"{name}.attention", layer.attention_norm, residual))
        sublayers.append(writer.feed_forward(name, layer))
    placed_BSD = graph.node("Add", inputs_BSD, writer.sinusoids(steps_S))
    encoded_BSD = writer.run(placed_BSD, model.encoder, sublayers)
    writer.give_memory(encoded_BSD)
    return graph


def decoder_graph(model: Transformer, layers: Layers) -> Graph:
    """One step, as `search_graph` has it; it also gives `seen` [R], the source position with most
    attention."""
    graph = Graph("decoder")
    writer = _Writer(model, layers, graph)
    step_inputs(graph, len(model.output_weight))
    graph.input("memory.bias", "float", ["rows", 1, 1, "width"])
    table = layers.table(graph, "embedding", model.target_embedding)
    sublayers: list[_Sublayer] = []
    for number, module in enumerate(model.decoder.layers):
        layer, name = cast(DecoderLayer, module), f"layer.{number}"

        def attend(
            x_RD: str, number: int = number, layer: DecoderLayer = layer, name: str = name
        ) -> str:
            qkv_RE = writer.product(f"{name}.qkv", x_RD, layer.attention.qkv)
            query, key, value = (writer.one_token(x) for x in writer.split(qkv_RE, 3))
            keys = writer.grown(f"keys{number}", key)
            values = writer.grown(f"values{number}", value)
            weights = writer.weights(query, keys)
            found_RD = writer.flat(graph.node("MatMul", weights, values))
            return writer.product(f"{name}.output", found_RD, layer.attention.output)

        def read(
            x_RD: str, number: int = number, layer: DecoderLayer = layer, name: str = name
        ) -> str:
            query_RD = writer.product(f"{name}.query", x_RD, layer.cross_attention.query)
            found_RD = writer.read_memory(number, query_RD)
            return writer.product(f"{name}.read", found_RD, layer.cross_attention.output)

        sublayers.append((attend, f"{name}.attention", layer.attention_norm, True))
        sublayers.append((read, f"{name}.cross", layer.cross_attention_norm, True))
        sublayers.append(writer.feed_forward(name, layer))
    position_1 = graph.node("Shape", "state.keys0", start=2, end=3)
    inputs_RD = graph.node("Add", vectors(graph, table, "token"), writer.sinusoids(position_1))
    hidden_RD = writer.run(inputs_RD, model.decoder, sublayers)
    give_tokens(graph, layers, hidden_RD, table)
    return graph


class _Writer:
    """The nodes that both graphs are made of."""

    def __init__(self, model: Transformer, layers: Layers, graph: Graph) -> None:
        self.model = model
        self.layers = layers
        self.graph = graph
        self.head_units = model.units // model.heads

    def run(self, x: str, stack: Stack, sublayers: Sequence[_Sublayer]) -> str:
        """Through all sub-layers, with norms before or after them."""
        graph = self.graph
        for work, name, norm, residual in sublayers:
            given = self.norm(name, x, norm) if stack.norm is not None else x
            found = work(given)
            x = graph.node("Add", x, found) if residual else found
            if stack.norm is None:
                x = self.norm(name, x, norm)
        return x if stack.norm is None else self.norm("last", x, stack.norm)

    def norm(self, name: str, x: str, norm: nn.LayerNorm) -> str:
        """A layer norm over units."""
        weights = (
            self.graph.weight(f"{name}.norm.{part}", floats(value))
            for part, value in (("weight", norm.weight), ("bias", norm.bias))
        )
        return self.graph.node("LayerNormalization", x, *weights, axis=-1, epsilon=norm.eps)

    def product(self, name: str, x: str, linear: nn.Linear) -> str:
        """A product with a matrix, and its bias if it has one."""
        found = self.layers.product(self.graph, name, x, floats(linear.weight))
        if linear.bias is None:
            return found
        return self.graph.node("Add", found, self.graph.weight(f"{name}.bias", floats(linear.bias)))

    def feed_forward(self, name: str, layer: EncoderLayer) -> _Sublayer:
        """Two products and a rectifier between them."""
        both = layer.feed_forward

        def work(x: str) -> str:
            inner = self.graph.node("Relu", self.product(f"{name}.inner", x, both.inner))
            return self.product(f"{name}.outer", inner, both.outer)

        return work, f"{name}.feed_forward", layer.feed_forward_norm, True

    def sinusoids(self, position_N: str) -> str:
        """[N, D], as `models.transformer.sinusoids` computes them."""
        graph, half = self.graph, self.model.units // 2
        steps_C = np.arange(half, dtype=np.float32)
        frequency_C = np.exp(steps_C * np.float32(-math.log(10_000.0) / max(half - 1, 1)))
        place_N1 = graph.node("Unsqueeze", position_N, graph.constant([1]))
        angle_NC = graph.node(
            "Mul",
            graph.node("Cast", place_N1, to=FLOAT),
            graph.weight("frequency", frequency_C.astype(np.float32)),
        )
        return graph.node(
            "Concat", graph.node("Sin", angle_NC), graph.node("Cos", angle_NC), axis=1
        )

    # ----- attention

    def weights(self, queries_XHQC: str, keys_XHKC: str, bias: str = "") -> str:
        """Attention [X, H, Q, K] of every query to every key."""
        [scores] = self.graph.contributed(
            "FusedMatMul", 1, queries_XHQC, keys_XHKC, transB=1, alpha=self.head_units**-0.5
        )
        return self._softmax(scores, bias)

    def _softmax(self, scores: str, bias: str) -> str:
        return self.graph.node(
            "Softmax", self.graph.node("Add", scores, bias) if bias else scores, axis=-1
        )

    def split(self, x_XE: str, parts: int) -> list[str]:
        """Vectors that lie side by side."""
        sizes = self.graph.constant([self.model.units] * parts)
        return self.graph.nodes("Split", parts, x_XE, sizes, axis=-1)

    def heads(self, x_XQD: str, perm: Sequence[int] = (0, 2, 1, 3)) -> str:
        """[X, Q, D] as [X, H, Q, C], or in another order of [X, Q, H, C]."""
        shape = self.graph.constant([0, 0, self.model.heads, self.head_units])
        return self.graph.node("Transpose", self.graph.node("Reshape", x_XQD, shape), perm=perm)

    def joined(self, x_XHQC: str, like: str) -> str:
        """[X, H, Q, C] as [X, Q, D], or in whichever shape `like` has."""
        x_XQHC = self.graph.node("Transpose", x_XHQC, perm=[0, 2, 1, 3])
        return self.graph.node("Reshape", x_XQHC, self.graph.node("Shape", like))

    def one_token(self, x_RD: str) -> str:
        """[R, D] as [R, H, 1, C]."""
        shape = self.graph.constant([-1, self.model.heads, 1, self.head_units])
        return self.graph.node("Reshape", x_RD, shape)

    def flat(self, x_RH1C: str) -> str:
        """[R, H, 1, C] as [R, D]."""
        return self.graph.node("Reshape", x_RH1C, self.graph.constant([-1, self.model.units]))

    def grown(self, name: str, new_RH1C: str) -> str:
        """The rows of a cache that the hypotheses go on from, and their new token's."""
        graph = self.graph
        shape: Shape = ["former", self.model.heads, "length", self.head_units]
        before = graph.node("Gather", graph.input(f"state.{name}", "float", shape), "parent")
        after = graph.node("Concat", before, new_RH1C, axis=2)
        shape = ["hypotheses", self.model.heads, "longer", self.head_units]
        graph.output(f"after.{name}", after, "float", shape)
        return after

    def read_memory(self, layer: int, query_RD: str) -> str:
        """Attention to the source; the hypotheses of a sentence are multiplied as one matrix."""
        graph, heads, width = self.graph, self.model.heads, self.head_units
        keys = graph.input(f"memory.keys{layer}", "float", ["rows", heads, width, "width"])
        values = graph.input(f"memory.values{layer}", "float", ["rows", heads, "width", width])
        rows = graph.node("Shape", "memory.bias", start=0, end=1)
        shape = graph.node("Concat", rows, graph.constant([-1, self.model.units]), axis=0)
        query_BHKC = self.heads(graph.node("Reshape", query_RD, shape))
        [scores] = graph.contributed("FusedMatMul", 1, query_BHKC, keys, alpha=width**-0.5)
        weights_BHKS = self._softmax(scores, "memory.bias")
        if layer == aligning_layer(len(self.model.decoder.layers)):
            mean_BKS = graph.node("ReduceMean", weights_BHKS, axes=[1], keepdims=0)
            seen_BK = graph.node("ArgMax", mean_BKS, axis=2, keepdims=0)
            seen_R = graph.node("Reshape", seen_BK, graph.constant([-1]))
            graph.output("seen", seen_R, "int64", ["hypotheses"])
        return self.joined(graph.node("MatMul", weights_BHKS, values), query_RD)

    def give_memory(self, encoded_BSD: str) -> None:
        """Keys and values for every decoder layer, and caches of no token yet."""
        graph, heads, width = self.graph, self.model.heads, self.head_units
        pairs_BSE = self.product("pairs", encoded_BSD, self.model.keys_and_values)
        count = len(self.model.decoder.layers)
        parts = self.split(pairs_BSE, 2 * count)
        rows = graph.node("Shape", encoded_BSD, start=0, end=1)
        shape = graph.node("Concat", rows, graph.constant([heads, 0, width]), axis=0)
        nothing = graph.node("ConstantOfShape", shape)
        for number, (keys, values) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
            # The positions of keys come last, as products want them.
            keys_BHCS, values_BHSC = self.heads(keys, (0, 2, 3, 1)), self.heads(values)
            graph.output(
                f"memory.keys{number}", keys_BHCS, "float", ["rows", heads, width, "width"]
            )
            graph.output(
                f"memory.values{number}", values_BHSC, "float", ["rows", heads, "width", width]
            )
            for name in ("keys", "values"):
                empty: Shape = ["rows", heads, 0, width]
                graph.output(f"state.{name}{number}", nothing, "float", empty)

    def scalar(self, value_1: str) -> str:
        """A list of one number as that number."""
        return self.graph.node("Squeeze", value_1, self.graph.constant([0]))
