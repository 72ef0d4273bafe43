"""Exporting a run directory: load, write, compare, publish."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import accord
from accord.corpus.store import read_manifest
from accord.errors import AccordError
from accord.exported.manifest import Check, ExportPrecision, FileFacts, Manifest, ModelFacts, Origin
from accord.exported.model import ExportedModel
from accord.exported.sessions import runtime
from accord.exporting.check import check
from accord.exporting.directory import check_place, clear_leftovers, published
from accord.files import atomic_write, reading_errors
from accord.model.gnmt import GNMT
from accord.progress import Progress, Silent
from accord.trained import TrainedModel
from accord.training.checkpoint import Checkpoint
from accord.training.run import RunDirectory, find_checkpoint
from accord.translator import Translator


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
    checkpoint: str = "best",
    precision: ExportPrecision = "fp32",
    compare: int = 200,
    force: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Exported:
    """Write a run's model as a directory for ONNX Runtime, by default inside the run.

    Before it gets its name, about `compare` test sentences are translated with both models; 0
    leaves that out. An export that is there already is only replaced with `force`.
    """
    progress = progress or Silent()
    _check_packages()
    opened = RunDirectory(run)
    opened.experiment()  # says so if this is no run directory
    output = output or run / ("onnx" if precision == "fp32" else f"onnx-{precision}")
    clear_leftovers(output)
    check_place(output, force)
    chosen = find_checkpoint(opened, checkpoint)
    progress.start(f"exporting {chosen.path.name}")
    trained = TrainedModel.load(
        run, checkpoint=chosen.path.name, device="cpu", threads=threads, precision="fp32"
    )
    with published(output, force) as directory:
        manifest = _write(directory, opened, chosen, trained, precision)
        found = None
        if compare:
            exported = Translator.of(ExportedModel(directory, threads=threads))
            original = Translator.of(trained)
            found = check(original, exported, opened.held_out, compare, progress)
            manifest.model_copy(update={"check": found}).write(directory)
        size = sum(file.stat().st_size for file in directory.iterdir())
    return Exported(output, size, found)


def _write(
    directory: Path,
    run: RunDirectory,
    checkpoint: Checkpoint,
    trained: TrainedModel,
    precision: ExportPrecision,
) -> Manifest:
    model = trained.model
    if not isinstance(model, GNMT):
        raise AccordError(f"a model of type {type(model).__name__} cannot be exported")
    with reading_errors(run.path):
        counts = (run.path / "token_counts.npz").read_bytes()
    files = {
        **graphs(model, precision),
        "vocabulary.model": trained.decoder.vocabulary.model,
        "token_counts.npz": counts,
    }
    for name, data in files.items():
        with atomic_write(directory / name, "wb") as file:
            file.write(data)
    experiment = run.experiment()
    manifest = Manifest(
        accord=accord.__version__,
        precision=precision,
        languages=trained.graph.languages,
        supervised=tuple(map(str, trained.graph.supervised_directions)),
        model=_facts(model, experiment.model.preset),
        origin=Origin(
            experiment=experiment.name,
            run=run.path.resolve().name,
            checkpoint=checkpoint.path.name,
            step=checkpoint.step,
            fingerprint=read_manifest(run.path)["fingerprint"],
        ),
        files={
            name: FileFacts(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
            for name, data in files.items()
        },
    )
    manifest.write(directory)
    return manifest


def graphs(model: GNMT, precision: ExportPrecision) -> dict[str, bytes]:
    """The model as ONNX files, by their names."""
    from accord.exporting.gnmt_decoder import decoder_graph
    from accord.exporting.gnmt_encoder import encoder_graph
    from accord.exporting.layers import Float32, Int8

    layers = Int8() if precision == "int8" else Float32()
    return {
        "encoder.onnx": encoder_graph(model, layers).serialised(),
        "decoder.onnx": decoder_graph(model, layers).serialised(),
    }


def _facts(model: GNMT, preset: str) -> ModelFacts:
    layers = len(model.decoder.uppers) + 1
    return ModelFacts(
        preset=preset,
        units=model.units,
        encoder_layers=layers // 2 if preset == "paper" else layers,
        decoder_layers=layers,
        input_feeding=model.decoder.input_feeding,
        vocabulary=len(model.output_weight),
        parameters=sum(p.numel() for p in model.parameters() if p.requires_grad),
    )


def _check_packages() -> None:
    """Say what is missing before the work, not after it."""
    runtime()
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise AccordError(
            "an export needs the package onnx", fix="pip install 'accord[export]'"
        ) from None
