"""Everything that a report says, read from run directories."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accord.config import Experiment
from accord.corpus.store import read_manifest
from accord.errors import AccordError
from accord.evaluation.evaluated import Evaluated
from accord.evaluation.folder import evaluation_directory, read
from accord.evaluation.result import Evaluation
from accord.report.answer import Answer, answer
from accord.report.history import History, read_history
from accord.report.systems import System, systems
from accord.training.run import RunDirectory


@dataclass(frozen=True)
class ReportedRun:
    """One run with one of its evaluations."""

    label: str
    experiment: Experiment
    evaluated: Evaluated
    history: History
    manifest: Mapping[str, Any]
    environment: Mapping[str, Any]

    @property
    def evaluation(self) -> Evaluation:
        """The figures."""
        return self.evaluated.evaluation


@dataclass(frozen=True)
class Report:
    """The first run is what the report is about; the others are there for comparison."""

    name: str
    """Of the evaluation that all runs have."""
    runs: tuple[ReportedRun, ...]
    systems: tuple[System, ...]
    answer: Answer
    notes: tuple[str, ...]

    @property
    def main(self) -> ReportedRun:
        """The run that the report is about."""
        return self.runs[0]


def build(runs: Sequence[Path], *, name: str | None = None) -> Report:
    """Read runs that have been evaluated alike.

    Without a `name`, the evaluation is chosen among those that all runs have: whole sets before
    parts of them, test before dev, then the newest of the first run.
    """
    labels = _labels(runs)
    opened = [RunDirectory(run) for run in runs]
    experiments = [run.experiment() for run in opened]  # says so if this is no run directory
    chosen = _choose(runs, name)
    found = tuple(
        ReportedRun(
            label=labels[i],
            experiment=experiments[i],
            evaluated=read(evaluation_directory(run.path, chosen)),
            history=read_history(run.metrics),
            manifest=read_manifest(run.path),
            environment=_environment(run.path / "environment.json"),
        )
        for i, run in enumerate(opened)
    )
    compared = systems([(run.label, run.evaluated) for run in found])
    said = answer(found[0].evaluation, compared)
    return Report(chosen, found, compared, said, _notes(found))


def _labels(runs: Sequence[Path]) -> list[str]:
    """The names of the directories, with as many parents as it takes to tell them apart."""
    paths = [run.resolve() for run in runs]
    if not paths:
        raise AccordError("a report needs a run", fix="name one run directory or more")
    twice = next(
        (run for run, path in zip(runs, paths, strict=True) if paths.count(path) > 1), None
    )
    if twice:
        raise AccordError("a run is given twice", where=str(twice), fix="name each run once")
    for parts in range(1, max(len(path.parts) for path in paths) + 1):
        labels = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(labels)) == len(labels):
            break
    return labels


def _choose(runs: Sequence[Path], name: str | None) -> str:
    there = [_names(run) for run in runs]
    for run, names in zip(runs, there, strict=True):
        if not names:
            raise AccordError(
                "the run was not evaluated yet",
                where=str(run),
                fix=f"run `accord evaluate {run}` first",
            )
        if name and name not in names:
            raise AccordError(
                f"the run has no evaluation '{name}'",
                where=str(run),
                fix=f"name one of {', '.join(names)}, or evaluate it so",
            )
    if name:
        return name
    shared = [found for found in there[0] if all(found in names for names in there)]
    if not shared:
        lists = "; ".join(
            f"{run}: {', '.join(names)}" for run, names in zip(runs, there, strict=True)
        )
        raise AccordError(
            f"the runs were not evaluated alike: {lists}",
            fix="run `accord evaluate` on each with the same options",
        )
    return max(shared, key=lambda found: _rank(evaluation_directory(runs[0], found)))


def _names(run: Path) -> list[str]:
    # Names with a dot in front are of evaluations that are being written.
    files = (run / "evaluation").glob("[!.]*/evaluation.json")
    return sorted(file.parent.name for file in files)


def _rank(directory: Path) -> tuple[bool, bool, str, str]:
    found = Evaluation.load(directory)
    return found.limit is None, found.split == "test", found.date, found.name


def _environment(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AccordError(
            f"the run's environment cannot be read: {error}",
            where=str(path),
            fix="run `accord train` again; it writes the file anew",
        ) from None
    return found


def _notes(runs: Sequence[ReportedRun]) -> tuple[str, ...]:
    """What a reader should know before comparing figures."""
    notes = list(runs[0].evaluation.notes)
    prints = {run.label: run.manifest["fingerprint"] for run in runs}
    if len(set(prints.values())) > 1:
        listed = ", ".join(f"{label} {found}" for label, found in prints.items())
        notes.append(f"the runs were trained on different data: {listed}")
    notes += [
        f"{run.label} was evaluated when it was trained on other data "
        f"({run.evaluation.origin.fingerprint}, now {run.manifest['fingerprint']})"
        for run in runs
        if run.evaluation.origin.fingerprint != run.manifest["fingerprint"]
    ]
    return tuple(notes)
