"""Evaluating a run directory: load, translate, score, compare, write."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from accord.data.held_out import read_given_set
from accord.errors import AccordError
from accord.evaluation.folder import evaluation_directory, read, write, write_comparison
from accord.evaluation.matrix import evaluate, evaluation_name, evaluation_options
from accord.evaluation.records import Evaluated, Evaluation, Origin, parse_split
from accord.evaluation.significance import Comparison, compare
from accord.evaluation.uses import note, uses_of
from accord.files import clear_leftovers_in
from accord.inference.backends.base import LoadSettings, Precision
from accord.inference.backends.loading import load_run
from accord.inference.ensemble import Ensemble
from accord.inference.results import SearchSettings
from accord.inference.translator import Translator
from accord.metrics.comet import Comet
from accord.progress import Progress, Silent
from accord.run_directory import RunDirectory


@dataclass(frozen=True)
class EvaluatedRun:
    """The figures, where they and the translations were written, and the paired tests."""

    evaluation: Evaluation
    directory: Path
    comparison: Comparison | None


def evaluate_run(
    run: Path,
    *,
    checkpoint: str = "best",
    split: str = "test",
    settings: SearchSettings = SearchSettings(),  # noqa: B008 (frozen)
    pivot: bool = True,
    ensemble: Ensemble | None = None,
    agreement: bool = True,
    limit: int | None = None,
    lines: tuple[int, int] | None = None,
    against: Path | None = None,
    comet: Path | None = None,
    device: str | None = None,
    threads: int | None = None,
    precision: Precision = "auto",
    progress: Progress | None = None,
) -> EvaluatedRun:
    """Evaluate all directions of a run and write RUN/evaluation/NAME, replacing an earlier one.

    RUN/scored.jsonl is told which sentences were scored.
    `split` is one of the run's sets, or `NAME=PATH`: another multi-parallel set, with {lang}.
    `against` is another run that was evaluated in the same way before: both are compared by paired
    tests, written to against-RUN.json beside the figures. `comet` is a checkpoint on this machine.
    """
    progress = progress or Silent()
    opened = RunDirectory(run)
    experiment = opened.translator()  # says so if this is no run that can translate
    clear_leftovers_in(run / "evaluation")
    set_name, path = parse_split(split)
    name = evaluation_name(set_name, settings, checkpoint, limit, lines)
    options = evaluation_options(split, settings, checkpoint, limit, lines)
    other = _other(against, run, name, options) if against else None
    held_out = (
        opened.held_out
        if path is None
        else read_given_set(set_name, path, experiment.languages, experiment.cleaning)
    )
    judge = Comet.load(comet, gpu=torch.cuda.is_available() and device != "cpu") if comet else None
    model = load_run(run, LoadSettings(checkpoint, device, threads, precision))
    origin = Origin(
        run=run.resolve().name,
        checkpoint=checkpoint,
        step=model.step,
        fingerprint=opened.manifest()["fingerprint"],
        device=model.device_name,
        precision=model.precision_name,
    )
    evaluated = evaluate(
        Translator.of(model),
        held_out,
        origin,
        split=set_name,
        settings=settings,
        pivot=pivot,
        ensemble=ensemble,
        agreement=agreement,
        limit=limit,
        lines=lines,
        comet=judge,
        progress=progress,
    )
    note(run, uses_of(evaluated))
    directory = evaluation_directory(run, name)
    write(evaluated, directory)
    comparison = compare(evaluated, other) if other else None
    if comparison:
        write_comparison(directory / f"against-{comparison.theirs.run}.json", comparison)
    return EvaluatedRun(evaluated.evaluation, directory, comparison)


def _other(against: Path, run: Path, name: str, options: Sequence[str]) -> Evaluated:
    """The other system, looked for before any work is done."""
    if against.resolve() == run.resolve():
        raise AccordError(
            "a run cannot be compared with itself",
            where=str(against),
            fix="name another run: --against RUN",
        )
    RunDirectory(against).experiment()  # says so if this is no run directory
    directory = evaluation_directory(against, name)
    if not directory.is_dir():
        raise AccordError(
            f"the other run has no evaluation '{name}'",
            where=str(against),
            fix=f"evaluate it first: {shlex.join(['accord', 'evaluate', str(against), *options])}",
        )
    return read(directory)
