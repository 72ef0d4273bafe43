"""The ONNX exporter: an encoder graph and a decoder graph for ONNX Runtime."""

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
    from accord.models.base import Seq2Seq


class OnnxExporter(Exporter):
    """Two graphs, written node by node, with weights in 32 bits or in 8."""

    format = "onnx"
    precisions = ("fp32", "int8")
    packages = ("onnxruntime", "onnx")
    model_kinds = ("gnmt", "transformer")

    def write(self, source: ExportSource, directory: Path) -> ExportedFiles:
        """The two graphs, the vocabulary and the token counts."""
        files = graphs(source.trained.model, source.precision) | vocabulary_files(source)
        return ExportedFiles(model_facts(source), write_files(directory, files))


def graphs(model: "Seq2Seq", precision: "ExportPrecision") -> dict[str, bytes]:
    """The model as ONNX files, by their names."""
    from accord.export.onnx import gnmt_graphs, transformer_graphs
    from accord.export.onnx.layers import Float32, Int8
    from accord.models.gnmt import GNMT
    from accord.models.transformer import Transformer

    layers = Int8() if precision == "int8" else Float32()
    if isinstance(model, GNMT):
        encoder = gnmt_graphs.encoder_graph(model, layers)
        decoder = gnmt_graphs.decoder_graph(model, layers)
    elif isinstance(model, Transformer):
        encoder = transformer_graphs.encoder_graph(model, layers)
        decoder = transformer_graphs.decoder_graph(model, layers)
    else:
        raise TypeError(f"no graphs for {type(model).__name__}")
    return {"encoder.onnx": encoder.serialised(), "decoder.onnx": decoder.serialised()}
