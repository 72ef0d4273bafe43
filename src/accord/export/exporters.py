"""The formats that a run can be exported to. `accord export --help` reads them: no PyTorch here."""

from accord.errors import AccordError
from accord.export.base import Exporter
from accord.export.ctranslate2.exporter import CTranslate2Exporter
from accord.export.onnx.exporter import OnnxExporter

# Each has a backend of the same name in `inference.backends.loading`.
EXPORTERS: dict[str, Exporter] = {"onnx": OnnxExporter(), "ctranslate2": CTranslate2Exporter()}


def exporter_for(name: str) -> Exporter:
    """The exporter of a format."""
    if name not in EXPORTERS:
        raise AccordError(
            f"there is no export to {name!r}", where="--format", fix=f"use {', '.join(EXPORTERS)}"
        )
    return EXPORTERS[name]
