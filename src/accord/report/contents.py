"""Everything that a report says, read from run directories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from accord.config.schema import Experiment
from accord.errors import AccordError
from accord.evaluation.folder import evaluation_directory, read
from accord.evaluation.records import Evaluated, Evaluation
from accord.evaluation.uses import Use, read_uses
from accord.graph import Direction
from accord.inference.backends.combined_backend import Combined, is_combined
from accord.report.answer import Answer, System, answer, systems
from accord.report.identification import Identification, identification
from accord.report.method import advice, method
from accord.report.paper_table import Published
from accord.run_directory import RunDirectory, log_errors, read_metrics

# --- The course of training, read from metrics.jsonl.


Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class DevScores:
    """One direction of a validation."""

    kind: str
    cross_entropy: float | None
    bleu: float | None


@dataclass(frozen=True)
class Validation:
    """All directions that were measured at a step."""

    step: int
    directions: dict[str, DevScores]
    seconds: float | None = None
    """What training had taken by then, as far as it was logged."""

    def mean(self, kind: str, what: str) -> float | None:
        """The mean of `cross_entropy` or `bleu` over the directions of a kind."""
        values = self._values(kind, what)
        return fmean(values) if values else None

    def worst(self, kind: str) -> float | None:
        """The largest cross-entropy of a kind: epsilon or kappa of the paper's Definition 1."""
        return max(self._values(kind, "cross_entropy"), default=None)

    def _values(self, kind: str, what: str) -> list[float]:
        found = [getattr(s, what) for s in self.directions.values() if s.kind == kind]
        return [value for value in found if value is not None]


@dataclass(frozen=True)
class History:
    """The training loss and all validations, in order of steps."""

    training: Points
    """Steps with negative log-likelihood, nats a target subword."""
    validations: tuple[Validation, ...]
    seconds: float | None = None
    """What training has taken, as last logged."""
    own_seconds: float = 0.0
    """What the updates of this run took, without those of a run that it branched off."""
    read_tokens: float = 0.0
    """Target tokens of the corpora in these updates: they set how large an update is, also where
    nothing is learnt from them. What is, `ReportedRun.gold_tokens` says."""
    other_tokens: float | None = 0.0
    """Those of synthetic pairs, of back-translations and of sentences with gaps; None where the log
    does not say how many there were."""
    rounds: tuple[Mapping[str, Any], ...] = ()
    """Rounds of synthetic pairs, as they were logged."""

    @property
    def gold_speed(self) -> float | None:
        """Target tokens of the corpora per second, learnt from or only read."""
        return self.read_tokens / self.own_seconds if self.own_seconds else None

    def course(self, kind: str, what: str) -> Points:
        """The mean over the directions of a kind, by step."""
        found = [(item.step, item.mean(kind, what)) for item in self.validations]
        return tuple((float(step), value) for step, value in found if value is not None)

    def bounds(self) -> tuple[tuple[int, float, float], ...]:
        """Step, epsilon and kappa, where both kinds of directions were validated."""
        found = [(v.step, v.worst("supervised"), v.worst("zero-shot")) for v in self.validations]
        return tuple((s, e, k) for s, e, k in found if e is not None and k is not None)


# Objectives that learn from more target tokens than those of the corpora. A line about such tokens
# has their `nll`; how many they were, former versions wrote of `complete` alone.
_OF_OTHERS = ("complete", "denoise", "back_translation")


def read_history(path: Path) -> History:
    """Read metrics.jsonl; a run without one has no history to show."""
    training: list[tuple[float, float]] = []
    validations: list[Validation] = []
    rounds: list[Mapping[str, Any]] = []
    seconds: float | None = None
    own_seconds = read_tokens = 0.0
    others: list[float | None] = []
    for entry in read_metrics(path):
        with log_errors(path):
            if entry["kind"] == "train":
                seconds = entry.get("training_seconds", seconds)
                own_seconds += entry.get("seconds") or 0.0
                read_tokens += entry.get("target_tokens") or 0.0
                others += [entry.get(f"{x}_tokens") for x in _OF_OTHERS if f"{x}_nll" in entry]
                if validations and validations[-1].step == entry["step"]:
                    validations[-1] = replace(validations[-1], seconds=seconds)
                if entry["nll"] is not None:
                    training.append((float(entry["step"]), entry["nll"]))
            elif entry["kind"] == "validation":
                found = {
                    direction: DevScores(scores["kind"], scores["cross_entropy"], scores["bleu"])
                    for direction, scores in entry["directions"].items()
                }
                validations.append(Validation(entry["step"], found, seconds))
            elif entry["kind"] == "pool":
                rounds.append(entry)
    counted = [tokens for tokens in others if tokens is not None]
    return History(
        training=tuple(training),
        validations=tuple(validations),
        seconds=seconds,
        own_seconds=own_seconds,
        read_tokens=read_tokens,
        other_tokens=sum(counted) if len(counted) == len(others) else None,
        rounds=tuple(rounds),
    )


@dataclass(frozen=True)
class ReportedRun:
    """One run with one of its evaluations."""

    label: str
    experiment: Experiment
    evaluated: Evaluated
    history: History
    manifest: Mapping[str, Any]
    environment: Mapping[str, Any]
    uses: tuple[Use, ...]
    """What it has scored, and when."""
    models: Mapping[Direction, Path] = field(default_factory=dict)
    """The run of every direction, where several are put together."""

    @property
    def method(self) -> str:
        """By which method it was trained."""
        if self.models:
            named = ", ".join(f"{d} by {run.name}" for d, run in self.models.items())
            return f"Several runs, a model for each direction: {named}."
        return method(self.experiment, self.evaluation.origin.step)

    @property
    def gold_tokens(self) -> float:
        """Target tokens of the corpora that its own updates learnt from."""
        return self.history.read_tokens if self.experiment.learns_from_gold else 0.0

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
    published: tuple[Published, ...] = ()
    """Columns of BLEU that others have printed, on the same test set."""

    @property
    def main(self) -> ReportedRun:
        """The run that the report is about."""
        return self.runs[0]

    @property
    def methods(self) -> tuple[tuple[str, str], ...]:
        """By which method each run was trained."""
        return tuple((run.label, run.method) for run in self.runs)

    @property
    def advice(self) -> str:
        """Which key to set next, where zero-shot fails."""
        if self.main.models:
            return ""
        return advice(self.answer.verdict, self.main.experiment, self.main.evaluation)

    @cached_property
    def identification(self) -> Identification | None:
        """How sure language identification is in the test set; some seconds for long ones."""
        return identification(self.main.evaluated)


def build(runs: Sequence[Path], *, name: str | None = None) -> Report:
    """Read runs that have been evaluated alike, and test all against the first."""
    chosen, found = read_runs(runs, name)
    compared = systems([(run.label, run.evaluated) for run in found])
    return Report(chosen, found, compared, answer(found[0].evaluation, compared), notes(found))


def read_runs(
    runs: Sequence[Path], name: str | None = None, split: str | None = None
) -> tuple[str, tuple[ReportedRun, ...]]:
    """Runs that have been evaluated alike, and the name of that evaluation.

    Without a `name`, the evaluation is chosen among those that all runs have, and that are of the
    `split` if one is given: whole sets before parts of them, test before dev, then the newest of
    the first run.
    """
    labels = _labels(runs)
    opened = [RunDirectory(run) for run in runs]
    experiments = [run.experiment() for run in opened]  # says so if this is no run directory
    chosen = _choose(runs, name, split)
    found = tuple(
        ReportedRun(
            label=labels[i],
            experiment=experiments[i],
            evaluated=read(evaluation_directory(run.path, chosen)),
            history=read_history(run.metrics),
            manifest=run.manifest(),
            environment=run.environment(),
            uses=tuple(read_uses(run.path)),
            models=Combined.read(run.path).runs if is_combined(run.path) else {},
        )
        for i, run in enumerate(opened)
    )
    return chosen, found


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


def _choose(runs: Sequence[Path], name: str | None, split: str | None) -> str:
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
    ranks = {
        found: _rank(Evaluation.load(evaluation_directory(runs[0], found))) for found in shared
    }
    wanted = [found for found in shared if split in (None, ranks[found].split)]
    if not wanted:
        raise _not_on(split or "", runs, shared)
    return max(wanted, key=lambda found: ranks[found])


def _names(run: Path) -> list[str]:
    # Names with a dot in front are of evaluations that are being written.
    files = (run / "evaluation").glob("[!.]*/evaluation.json")
    return sorted(file.parent.name for file in files)


class _Rank(NamedTuple):
    """How good an evaluation is to report by: in this order."""

    whole: bool
    split: str
    """`test` comes after `dev`, also by the alphabet."""
    date: str
    name: str


def _rank(found: Evaluation) -> _Rank:
    whole = found.limit is None and found.lines is None
    return _Rank(whole, found.split, found.date, found.name)


def _not_on(split: str, runs: Sequence[Path], shared: Sequence[str]) -> AccordError:
    dev = split == "dev"
    other = f"; on test sentences, for a last word: --final or --name {shared[0]}" if dev else ""
    return AccordError(
        f"the runs have no evaluation on {split} sentences in common"
        + (", and settings are chosen by these" if dev else ""),
        where=", ".join(map(str, runs)),
        fix=f"run `accord evaluate RUN --split {split}` on each{other}",
    )


def notes(runs: Sequence[ReportedRun]) -> tuple[str, ...]:
    """What a reader should know before comparing figures."""
    said = list(runs[0].evaluation.notes)
    said += [
        f"{run.label}: {note}"
        for run in runs[1:]
        for note in run.evaluation.notes
        if note not in runs[0].evaluation.notes
    ]
    prints = {run.label: run.manifest["fingerprint"] for run in runs}
    if len(set(prints.values())) > 1:
        listed = ", ".join(f"{label} {found}" for label, found in prints.items())
        said.append(f"the runs were trained on different data: {listed}")
    said += [
        f"{run.label} was evaluated when it was trained on other data "
        f"({run.evaluation.origin.fingerprint}, now {run.manifest['fingerprint']})"
        for run in runs
        if run.evaluation.origin.fingerprint != run.manifest["fingerprint"]
    ]
    return tuple(said)
