"""The CTranslate2 exporter: a Transformer in the files that CTranslate2 loads."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from accord.errors import AccordError
from accord.export.base import (
    ExportedFiles,
    Exporter,
    ExportSource,
    model_facts,
    vocabulary_files,
    write_files,
)

if TYPE_CHECKING:
    from accord.config.schema import Experiment


class CTranslate2Exporter(Exporter):
    """Weights in 32 bits or in 8, subwords by name, and a short list of subwords per language."""

    format = "ctranslate2"
    precisions = ("fp32", "int8")
    packages = ("ctranslate2",)
    extra = "ct2"
    model_kinds = ("transformer",)

    def check_run(self, run: Path, experiment: "Experiment") -> None:
        """Refuse GNMT, and a layer that CTranslate2 does not have."""
        super().check_run(run, experiment)
        if (layer := experiment.model.encoder_residual) is not None:
            raise AccordError(
                f"encoder layer {layer} has no residual around its attention, and CTranslate2 "
                "knows no such layer",
                where=f"{run}, key model.encoder_residual",
                fix="take --format onnx, or translate with the run itself",
            )

    def write(self, source: ExportSource, directory: Path) -> ExportedFiles:
        """What CTranslate2 writes, its short lists, the vocabulary and the token counts."""
        from accord.export.ctranslate2.specification import short_lists, specification
        from accord.models.transformer import Transformer

        model, pieces = source.trained.model, source.trained.vocabulary.pieces()
        if not isinstance(model, Transformer):
            raise TypeError(f"not a Transformer, but {type(model).__name__}")
        specified = specification(model, pieces, source.precision)
        with tempfile.TemporaryDirectory(dir=directory) as folder:
            specified.save(folder)
            files = {file.name: file.read_bytes() for file in sorted(Path(folder).iterdir())}
        files["vmap.txt"] = short_lists(source)
        return ExportedFiles(
            model_facts(source), write_files(directory, files | vocabulary_files(source))
        )
