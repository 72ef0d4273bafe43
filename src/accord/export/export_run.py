"""Exporting a run directory: load, write aside, compare, publish."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import accord
from accord.errors import AccordError
from accord.export.base import ExportedFiles, ExportSource
from accord.export.exporters import exporter_for
from accord.files import (
    atomic_directory,
    check_writable,
    clear_leftovers,
    clear_leftovers_in,
    sha256_of,
    writing_errors,
)
from accord.inference.backends.base import LoadSettings
from accord.inference.backends.loading import load_backend
from accord.inference.backends.manifest import (
    NAME,
    Check,
    ExportPrecision,
    FileFacts,
    Manifest,
    Origin,
    is_exported,
)
from accord.inference.backends.torch_backend import TorchBackend
from accord.inference.translator import Translator
from accord.models.checkpoint import Checkpoint, find_checkpoint
from accord.progress import Progress, Silent
from accord.run_directory import RunDirectory


@dataclass(frozen=True)
class Exported:
    """Where the export is, its size, and how it compares; None where nothing was compared."""

    directory: Path
    bytes: int
    check: Check | None


def export_run(
    run: Path,
    output: Path | None = None,
    *,
    to: str = "onnx",
    checkpoint: str = "best",
    precision: ExportPrecision = "fp32",
    compare: int = 200,
    force: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Exported:
    """Write a run's model as a directory in the format `to`, by default inside the run.

    Before it gets its name, about `compare` test sentences are translated with both models; 0
    leaves that out. An export that is there already is only replaced with `force`.
    """
    progress = progress or Silent()
    exporter = exporter_for(to)
    exporter.check_request(precision)
    opened = RunDirectory(run)
    exporter.check_run(run, opened.experiment())
    output = output or run / (to if precision == "fp32" else f"{to}-{precision}")
    clear_leftovers(output)
    clear_leftovers_in(run)
    check_place(output, force)
    chosen = find_checkpoint(opened.path, checkpoint)
    progress.start(f"exporting {chosen.path.name}")
    settings = LoadSettings(chosen.path.name, device="cpu", threads=threads, precision="fp32")
    trained = TorchBackend.load(run, settings)
    exporter.check_model(run, trained)
    with published(output, force) as directory:
        source = ExportSource(opened, trained, precision)
        manifest = _manifest(to, source, chosen, exporter.write(source, directory), directory)
        manifest.write(directory)
        found = None
        if compare:
            exported = Translator.of(load_backend(directory, LoadSettings(threads=threads)))
            original = Translator.of(trained)
            found = exporter.compare(original, exported, opened.held_out, compare, progress)
            exported.close()
            manifest.model_copy(update={"check": found}).write(directory)
        size = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    return Exported(output, size, found)


def _manifest(
    to: str,
    source: ExportSource,
    checkpoint: Checkpoint,
    written: ExportedFiles,
    directory: Path,
) -> Manifest:
    experiment, graph = source.run.experiment(), source.trained.graph
    return Manifest(
        format=to,
        accord=accord.__version__,
        precision=source.precision,
        languages=graph.languages,
        supervised=tuple(map(str, graph.supervised_directions)),
        model=written.model,
        origin=Origin(
            experiment=experiment.name,
            run=source.run.path.resolve().name,
            checkpoint=checkpoint.path.name,
            step=checkpoint.step,
            fingerprint=source.run.manifest()["fingerprint"],
        ),
        files={name: _facts(directory / name) for name in written.names},
    )


def _facts(file: Path) -> FileFacts:
    return FileFacts(bytes=file.stat().st_size, sha256=sha256_of(file))


def check_place(directory: Path, force: bool) -> None:
    """Refuse a place that is taken or cannot be written to.

    What is there is only ever replaced if it is an export itself.
    """
    with writing_errors(directory):
        free = not directory.exists()
    if free:
        check_writable(directory)
    elif not is_exported(directory):
        raise AccordError(
            f"something else has this name: there is no {NAME} in it",
            where=str(directory),
            fix="choose another name with --output",
        )
    elif not force:
        raise AccordError(
            "there is an exported model here already",
            where=str(directory),
            fix="replace it with --force, or choose another name with --output",
        )


def published(directory: Path, force: bool) -> AbstractContextManager[Path]:
    """A directory beside `directory` that takes its name at the end, if the place is still free."""
    return atomic_directory(directory, lambda: check_place(directory, force))
