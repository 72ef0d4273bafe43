"""An ONNX graph written down node by node."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

import accord

Array = npt.NDArray[Any]
Shape = Sequence[str | int]

# Old enough for every ONNX Runtime of the last years; nothing newer is needed.
_OPSET, _IR = 17, 8
_CONTRIBUTED = "com.microsoft"  # ONNX Runtime's own operators: the quantised ones
FLOAT, INT64 = int(TensorProto.FLOAT), int(TensorProto.INT64)
_TYPES = {"float": FLOAT, "int32": int(TensorProto.INT32), "int64": INT64}


class Graph:
    """Inputs, nodes, weights and outputs; values are known by their names."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._nodes: list[onnx.NodeProto] = []
        self._weights: dict[str, onnx.TensorProto] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, kind: str, shape: Shape) -> str:
        """A value that the caller gives; axes with a name may have any size."""
        self._inputs.append(helper.make_tensor_value_info(name, _TYPES[kind], shape))
        return name

    def output(self, name: str, value: str, kind: str, shape: Shape) -> None:
        """A value that the caller gets."""
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, _TYPES[kind], shape))

    def weight(self, name: str, array: Array) -> str:
        """A constant under a name of its own."""
        if name in self._weights:
            raise ValueError(f"there is a weight {name} already")
        self._weights[name] = numpy_helper.from_array(np.array(array, order="C"), name)
        return name

    def constant(self, value: int | float | Sequence[int]) -> str:
        """A small constant; integers are int64, others float."""
        array = np.array(value)
        array = array.astype(np.float32 if array.dtype.kind == "f" else np.int64)
        name = f"constant.{array.dtype}.{value}".replace(" ", "")
        return name if name in self._weights else self.weight(name, array)

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """An operator with one output; an input that is left out is an empty name."""
        [name] = self.nodes(kind, 1, *inputs, **attributes)
        return name

    def nodes(self, kind: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """An operator with several outputs."""
        names = [f"{kind}.{len(self._nodes)}.{i}" for i in range(outputs)]
        self._nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names

    def contributed(self, kind: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """An operator that only ONNX Runtime has."""
        return self.nodes(kind, outputs, *inputs, domain=_CONTRIBUTED, **attributes)

    def serialised(self) -> bytes:
        """The model as the bytes of a file, the same for the same nodes and weights."""
        graph = helper.make_graph(
            self._nodes, self.name, self._inputs, self._outputs, list(self._weights.values())
        )
        domains = sorted({"", *(node.domain for node in self._nodes)})
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(d, 1 if d else _OPSET) for d in domains],
            ir_version=_IR,
            producer_name="accord",
            producer_version=accord.__version__,
        )
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString(deterministic=True))
