"""The ONNX exporter: GNMT as an encoder graph and a decoder graph for ONNX Runtime."""

from pathlib import Path
from typing import TYPE_CHECKING

from accord.export.base import (
    ExportedFiles,
    Exporter,
    ExportSource,
    model_facts,
    vocabulary_files,
    write_files,
)

if TYPE_CHECKING:
    from accord.inference.backends.manifest import ExportPrecision
    from accord.models.gnmt import GNMT


class OnnxExporter(Exporter):
    """Two graphs, written node by node, with weights in 32 bits or in 8."""

    format = "onnx"
    precisions = ("fp32", "int8")
    packages = ("onnxruntime", "onnx")
    model_kinds = ("gnmt",)

    def write(self, source: ExportSource, directory: Path) -> ExportedFiles:
        """The two graphs, the vocabulary and the token counts."""
        from accord.models.gnmt import GNMT

        model = source.trained.model
        if not isinstance(model, GNMT):
            raise TypeError(f"not a GNMT, but {type(model).__name__}")
        files = graphs(model, source.precision) | vocabulary_files(source)
        return ExportedFiles(model_facts(source), write_files(directory, files))


def graphs(model: "GNMT", precision: "ExportPrecision") -> dict[str, bytes]:
    """The model as ONNX files, by their names."""
    from accord.export.onnx.gnmt_graphs import decoder_graph, encoder_graph
    from accord.export.onnx.layers import Float32, Int8

    layers = Int8() if precision == "int8" else Float32()
    return {
        "encoder.onnx": encoder_graph(model, layers).serialised(),
        "decoder.onnx": decoder_graph(model, layers).serialised(),
    }
