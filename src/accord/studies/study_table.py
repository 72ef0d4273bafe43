"""The tables of a study: a row a branch, its seeds beside each other, from what there is so far."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

from accord.evaluation.folder import evaluation_directory, read_comparison
from accord.evaluation.significance import Difference
from accord.machine import commit
from accord.report.answer import only_by_pivots
from accord.report.contents import ReportedRun, read_runs
from accord.report.figures import Grid, grid
from accord.report.numbers import NONE, count, percent, signed
from accord.studies.compare import columns, interval
from accord.studies.estimates import parameters
from accord.studies.page import markdown
from accord.studies.plan import PlannedRun, PlannedStudy


def study_tables(study: PlannedStudy) -> list[Grid]:
    """A table for every evaluation that some run has by now; what the branches are, and cost."""
    names = (options.name for options in study.plan.evaluate)
    found = {name: runs for name in names if (runs := _read(study, name))}
    scores = [_scores(study, name, read) for name, read in found.items()]
    # Whichever evaluation there is: most of it is about training.
    return [*scores, *(_costs(study, *item) for item in list(found.items())[:1])]


def write_table(study: PlannedStudy, file: Path) -> None:
    """The tables as a page of Markdown."""
    parts = [f"# {study.file.stem}\n", f"{where(study)}\n"]
    parts += [line for made in study_tables(study) for line in markdown(made)]
    file.write_text("\n".join(parts), encoding="utf-8")


def where(study: PlannedStudy) -> str:
    """Plan, commit and date."""
    return f"Plan {study.file.name}, commit {commit()}, {datetime.now(UTC).date().isoformat()}."


Rows = Mapping[str, Sequence[tuple[PlannedRun, ReportedRun]]]
"""By the name of a row: its runs, as planned and as read."""


def _read(study: PlannedStudy, name: str) -> Rows:
    """What has been evaluated. Seeds of a branch stand in one row, variants in one each."""
    planned: dict[str, list[PlannedRun]] = {}
    for run in study.branches:
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


def _costs(study: PlannedStudy, name: str, rows: Rows) -> Grid:
    """Means over seeds, without the updates of the run that branches go on from.

    A branch costs as many times the seconds per gold token that the one it is tested against takes.
    """
    read = {label: [run for _, run in runs] for label, runs in rows.items()}
    usual = _speed(read.get(study.plan.against or "", ()))
    head = ["branch", "models", "zero-shot", "off target", "weights", "gold tokens", "cost"]
    cells = ([label, *_cost(runs, usual)] for label, runs in read.items())
    return grid(f"{name}: what it is, and what it took", head, cells)


def _cost(runs: Sequence[ReportedRun], usual: float | None) -> Iterator[str]:
    first, speed = runs[0], _speed(runs)
    weights = parameters(first.experiment)
    pivots = only_by_pivots(first.evaluation)
    group = "zero_shot_via_pivot" if pivots else "zero_shot"
    off = [run.evaluation.averages[group].off_target for run in runs if _has(run, group)]
    known = [rate for rate in off if rate is not None]
    yield "one" if weights else "per direction"
    yield "by pivot" if pivots else "direct"
    yield percent(fmean(known)) if known else NONE
    yield f"{weights / 1e6:.1f} M" if weights else NONE
    yield f"{fmean(run.history.gold_tokens for run in runs) / 1e6:.1f} M" if speed else NONE
    yield f"×{usual / speed:.2f}" if usual and speed else NONE


def _speed(runs: Sequence[ReportedRun]) -> float | None:
    """Target tokens of the corpora per second."""
    seconds = sum(run.history.own_seconds for run in runs)
    return sum(run.history.gold_tokens for run in runs) / seconds if seconds else None
