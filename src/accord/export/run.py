"""Exporting a run directory: load, write, compare, publish."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import accord
from accord.data.store import HeldOutSets, read_manifest
from accord.errors import AccordError
from accord.export.directory import check_place, published
from accord.files import atomic_write, clear_leftovers, reading_errors
from accord.graph import Direction, TranslationGraph
from accord.inference.backends.manifest import (
    Bleu,
    Check,
    ExportPrecision,
    FileFacts,
    Manifest,
    ModelFacts,
    Origin,
)
from accord.inference.backends.onnx_backend import ExportedModel
from accord.inference.backends.onnx_sessions import runtime
from accord.inference.backends.torch_backend import TrainedModel
from accord.inference.translator import Translator
from accord.metrics.bleu import bleu
from accord.models.gnmt import GNMT
from accord.progress import Progress, Silent
from accord.training.checkpoint import Checkpoint
from accord.training.run import RunDirectory, find_checkpoint

# --- An exported model against the one it was made from: on the sentences that the run has at
# hand.


@dataclass(frozen=True)
class _Sentences:
    direction: Direction
    sources: list[str]
    references: list[str]


def check(
    original: Translator,
    exported: Translator,
    held_out: HeldOutSets,
    count: int,
    progress: Progress,
) -> Check | None:
    """Translate about `count` test sentences with both, in all directions that have some.

    The dev sentences are taken where there is no test set; None where there is neither.
    """
    split = next((name for name in ("test", "dev") if held_out.sets(name)), None)
    chosen = _chosen(held_out, split, original.graph, count) if split else []
    if split is None or not chosen:
        return None
    progress.start("comparing translations", sum(len(item.sources) for item in chosen))
    same = done = 0
    scores: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for item in chosen:
        before, after = (_translated(model, item) for model in (original, exported))
        same += sum(a == b for a, b in zip(before, after, strict=True))
        target = item.direction.target
        scores[original.graph.kind(item.direction)].append(
            (bleu(before, item.references, target), bleu(after, item.references, target))
        )
        done += len(item.sources)
        progress.reach(done, str(item.direction))
    return Check(
        split=split,
        sentences=done,
        same=same,
        bleu={
            kind: Bleu(
                directions=len(pairs),
                pytorch=fmean(before for before, _ in pairs),
                exported=fmean(after for _, after in pairs),
            )
            for kind, pairs in scores.items()
        },
    )


def _translated(translator: Translator, item: _Sentences) -> list[str]:
    return [found.text for found in translator.translate(item.sources, item.direction.target)]


def _chosen(
    held_out: HeldOutSets, split: str, graph: TranslationGraph, count: int
) -> list[_Sentences]:
    """Equally many sentences of every direction, from all over its set."""
    pairs = [(direction, held_out.pair(split, *direction)) for direction in graph.directions]
    found = [(direction, pair) for direction, pair in pairs if pair[0]]
    share = -(-count // max(len(found), 1))
    return [
        _Sentences(direction, _spread(sources, share), _spread(references, share))
        for direction, (sources, references) in found
    ]


def _spread(lines: Sequence[str], count: int) -> list[str]:
    count = min(count, len(lines))
    return [lines[i * len(lines) // count] for i in range(count)]


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
    from accord.export.onnx.gnmt import decoder_graph, encoder_graph
    from accord.export.onnx.layers import Float32, Int8

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
