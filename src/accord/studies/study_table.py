"""The tables of a study: a row a branch, its seeds beside each other, from what there is so far."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

from accord.errors import AccordError
from accord.evaluation.folder import evaluation_directory, read_comparison
from accord.evaluation.significance import Difference
from accord.machine import commit
from accord.report.answer import only_by_pivots
from accord.report.contents import ReportedRun, read_runs
from accord.report.figures import Grid, grid
from accord.report.numbers import NONE, count, percent, signed
from accord.run_directory import RunDirectory
from accord.studies.compare import columns, interval
from accord.studies.costs import Costs, times
from accord.studies.estimates import parameters
from accord.studies.journal import Journal
from accord.studies.page import markdown
from accord.studies.plan import PlannedRun, PlannedStudy


@dataclass(frozen=True)
class StudyTables:
    """The tables, and what a reader should know about them."""

    grids: tuple[Grid, ...]
    notes: tuple[str, ...]


def study_tables(study: PlannedStudy) -> StudyTables:
    """A table for every evaluation that some run has by now; what the branches are, and cost.

    A run that was trained by other settings than the plan's is no result of it.
    """
    names = (options.name for options in study.plan.evaluate)
    others = [run for run in study.branches if _is_other(run)]
    left_out = [f"{run.name} was trained by other settings: left out" for run in others]
    ours = [run for run in study.branches if run not in others]
    found = {name: runs for name in names if (runs := _read(study, ours, name))}
    scores = [_scores(study, name, read) for name, read in found.items()]
    if not found:
        return StudyTables((), tuple(left_out))
    # Whichever evaluation there is: most of it is about training.
    name, rows = next(iter(found.items()))
    known = Costs(study.out, study.plan.against)
    costs = _costs(study, rows, known)
    notes = (*left_out, *_notes(costs, known))
    return StudyTables((*scores, _branches(name, rows, costs)), notes)


def write_table(study: PlannedStudy, file: Path) -> None:
    """The tables as a page of Markdown."""
    made = study_tables(study)
    parts = [f"# {study.file.stem}\n", f"{where(study)}\n"]
    parts += [line for each in made.grids for line in markdown(each)]
    parts += [f"Note: {note}.\n" for note in made.notes]
    file.write_text("\n".join(parts), encoding="utf-8")


def where(study: PlannedStudy) -> str:
    """Plan, commit and date."""
    return f"Plan {study.file.name}, commit {commit()}, {datetime.now(UTC).date().isoformat()}."


Rows = Mapping[str, Sequence[tuple[PlannedRun, ReportedRun]]]
"""By the name of a row: its runs, as planned and as read."""


def _is_other(run: PlannedRun) -> bool:
    """Whether there is a run in its place that another experiment made."""
    try:
        return RunDirectory(run.directory).experiment() != run.experiment
    except AccordError:
        return False  # there is none, or whoever reads it says what is wrong with it


def _read(study: PlannedStudy, branches: Sequence[PlannedRun], name: str) -> Rows:
    """What has been evaluated. Seeds of a branch stand in one row, variants in one each."""
    planned: dict[str, list[PlannedRun]] = {}
    for run in branches:
        if evaluation_directory(run.directory, name).is_dir():
            label = f"{run.branch}, {run.variant}" if study.plan.variants else run.branch
            planned.setdefault(label, []).append(run)
    return {
        label: list(zip(runs, read_runs([run.directory for run in runs], name)[1], strict=True))
        for label, runs in planned.items()
    }


def _scores(study: PlannedStudy, name: str, rows: Rows) -> Grid:
    shown = columns([run for runs in rows.values() for _, run in runs])
    against = study.plan.against
    head = ["branch", "updates", "seconds", *shown]
    head += [f"zero-shot − {against}"] if against else []
    cells = []
    for label, runs in rows.items():
        gains = [_gains(study, [run for run, _ in runs], name)] if against else []
        cells.append([label, *_cells([run for _, run in runs], shown), *gains])
    return grid(f"{name}, mean BLEU", head, cells)


def _cells(runs: Sequence[ReportedRun], shown: Mapping[str, str]) -> Iterator[str]:
    seconds = [run.history.seconds for run in runs]
    yield " / ".join(count(run.evaluation.origin.step) for run in runs)
    yield " / ".join("?" if some is None else count(some) for some in seconds)
    for group in shown.values():
        means = [run.evaluation.averages[group].bleu for run in runs if _has(run, group)]
        each = ", ".join(f"{value:.1f}" for value in means)
        yield f"{fmean(means):.1f} ({each})" if len(means) > 1 else each or NONE


def _has(run: ReportedRun, group: str) -> bool:
    return group in run.evaluation.averages


def _gains(study: PlannedStudy, runs: Sequence[PlannedRun], name: str) -> str:
    """The difference of the zero-shot means, with its 95 % interval, of every seed."""
    said = []
    for run in runs:
        other = study.run(study.plan.against or "", run.variant)
        folder = evaluation_directory(run.directory, name)
        file = folder / f"against-{other.name if other else ''}.json"
        if file.is_file():
            means = read_comparison(file)["averages"]
            if "zero_shot" in means:
                test = Difference(**means["zero_shot"]["bleu"])
                said.append(f"{signed(test.difference)} ({interval(test)})")
    return ", ".join(said)


# --- What the branches are, and what they took.


@dataclass(frozen=True)
class _Cost:
    """How many times the seconds per gold token of the branch that others are tested against."""

    value: float | None
    measured: bool = False
    """Whether it was measured by itself: see costs.py."""
    shared: bool = False
    """Whether there is none since training shared the machine."""


def _costs(study: PlannedStudy, rows: Rows, known: Costs) -> Mapping[str, _Cost]:
    """By the name of a row. Without the updates of the run that branches go on from."""
    journal, against = Journal(study.out), study.plan.against or ""
    alone = {
        label: [read for run, read in runs if _was_alone(study, journal, run)]
        for label, runs in rows.items()
    }
    sharing = {label for label, runs in rows.items() if len(alone[label]) < len(runs)}
    usual = _speed(alone.get(against, ()))
    found = {}
    for label, runs in rows.items():
        if measured := _measured(study, known, runs):
            found[label] = _Cost(measured, measured=True)
        elif usual and (speed := _speed(alone[label])):
            found[label] = _Cost(usual / speed)
        else:
            timed = _speed([read for _, read in runs])
            found[label] = _Cost(None, shared=bool(timed and sharing & {label, against}))
    return found


def _was_alone(study: PlannedStudy, journal: Journal, run: PlannedRun) -> bool:
    """Whether its time is its own. Of former versions' runs only the plan tells."""
    shared = journal.shared(run.name)
    return study.plan.parallel == 1 if shared is None else not shared


def _measured(
    study: PlannedStudy, known: Costs, runs: Sequence[tuple[PlannedRun, ReportedRun]]
) -> float | None:
    """One seed stands for all; variants may differ in what they cost."""
    run = runs[0][0]
    cost = known.known.get(run.branch)
    if cost is None or (study.plan.variants and cost.variant != run.variant):
        return None
    return known.relative(run.branch)


def _notes(costs: Mapping[str, _Cost], known: Costs) -> Iterator[str]:
    if any(cost.measured for cost in costs.values()):
        yield known.note
    if any(cost.shared for cost in costs.values()):
        yield (
            "no cost where runs shared the machine, since their time is not their own; "
            "`accord study PLAN --costs` measures each branch by itself"
        )


def _branches(name: str, rows: Rows, costs: Mapping[str, _Cost]) -> Grid:
    head = ["branch", "models", "zero-shot", "off target", "weights"]
    head += ["gold tokens", "other tokens", "cost"]
    cells = (
        [label, *_facts([run for _, run in runs]), times(costs[label].value)]
        for label, runs in rows.items()
    )
    return grid(f"{name}: what it is, and what it took", head, cells)


def _facts(runs: Sequence[ReportedRun]) -> Iterator[str]:
    """Means over seeds."""
    first = runs[0]
    weights = parameters(first.experiment)
    pivots = only_by_pivots(first.evaluation)
    group = "zero_shot_via_pivot" if pivots else "zero_shot"
    off = [run.evaluation.averages[group].off_target for run in runs if _has(run, group)]
    known = [rate for rate in off if rate is not None]
    yield "one" if weights else "per direction"
    yield "by pivot" if pivots else "direct"
    yield percent(fmean(known)) if known else NONE
    yield _millions([weights])
    yield _millions([run.gold_tokens for run in runs])
    yield _millions([run.history.other_tokens for run in runs])


def _millions(counts: Sequence[float | None]) -> str:
    """The mean, if there is any of it and all counts are known."""
    known = [each for each in counts if each is not None]
    mean = fmean(known) if len(known) == len(counts) else 0.0
    return f"{mean / 1e6:.1f} M" if mean else NONE


def _speed(runs: Sequence[ReportedRun]) -> float | None:
    """Target tokens of the corpora per second, learnt from or only read: then updates of one size
    are compared."""
    seconds = sum(run.history.own_seconds for run in runs)
    return sum(run.history.read_tokens for run in runs) / seconds if seconds else None
