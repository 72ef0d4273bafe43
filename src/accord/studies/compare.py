"""Runs compared: their figures side by side, and paired tests against one of them and its pivot."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import accord
from accord.errors import AccordError
from accord.evaluation.records import Average, DirectionScores, Evaluated, Evaluation
from accord.evaluation.significance import Comparison, Difference, compare
from accord.evaluation.uses import counted, uses_of
from accord.machine import commit
from accord.report.answer import direct, in_way, only_by_pivots
from accord.report.contents import ReportedRun, notes, read_runs
from accord.report.figures import Grid, grid
from accord.report.numbers import NONE, count, signed

AVERAGES = {
    "supervised": "supervised",
    "zero-shot": "zero_shot",
    "via pivot": "zero_shot_via_pivot",
    "ensemble": "zero_shot_by_ensemble",
}
"""The columns, and what evaluations call them."""
DIGITS = 4
"""Of figures in JSON."""


@dataclass(frozen=True)
class Gain:
    """How far one run is ahead of another, or of a pivot, by paired bootstrap."""

    run: str
    what: str
    """For example `zero-shot − pivot of basic`."""
    test: Difference
    directions: Mapping[str, Difference]
    """The same of every direction in the mean."""


@dataclass(frozen=True)
class ComparedRuns:
    """Runs that were evaluated alike, in the order given."""

    evaluation: str
    paths: tuple[Path, ...]
    runs: tuple[ReportedRun, ...]
    against: str | None
    gains: tuple[Gain, ...]
    notes: tuple[str, ...]


def compare_runs(
    runs: Sequence[Path],
    against: Path | None = None,
    name: str | None = None,
    *,
    final: bool = False,
) -> ComparedRuns:
    """Read runs and test them against one, which need not be among them, and against pivots.

    Without the `name` of an evaluation it is one on dev sentences, or on test if this is `final`.
    """
    paths = list(runs)
    base = None
    if against is not None:
        same = [path for path in paths if path.resolve() == against.resolve()]
        paths = paths if same else [against, *paths]
        base = paths.index(same[0] if same else against)
    chosen, found = read_runs(paths, name, "test" if final else "dev")
    for other in found[1:]:
        _check_alike(found[0], other)
    basic = None if base is None else found[base]
    gains = [gain for run in found for gain in _gains(run, basic)]
    label = basic.label if basic else None
    said = (*notes(found), *_on_test(found[0].evaluation))
    return ComparedRuns(chosen, tuple(paths), found, label, tuple(gains), said)


def _on_test(evaluation: Evaluation) -> Iterator[str]:
    if evaluation.split == "test":
        yield "these are test sentences: for a last word, not for choosing settings"


def _check_alike(first: ReportedRun, other: ReportedRun) -> None:
    """Refuse evaluations of other sentences or by another search: they cannot be compared."""
    ours, theirs = (_how(run.evaluation) for run in (first, other))
    differing = [key for key in ours if ours[key] != theirs[key]]
    if differing:
        said = ", ".join(f"{key} {ours[key]} and {theirs[key]}" for key in differing)
        raise AccordError(
            f"{first.label} and {other.label} were not evaluated alike: {said}",
            fix="run `accord evaluate` on both with the same options, or choose with --name",
        )
    texts = {item.name: (item.sources, item.references) for item in first.evaluated.lines}
    for item in other.evaluated.lines:
        if texts.get(item.name, (item.sources, item.references)) != (item.sources, item.references):
            raise AccordError(
                f"{first.label} and {other.label} were evaluated on different sentences of "
                f"{item.direction}",
                fix="evaluate runs of the same test set (and the same --limit or --lines)",
            )


def _how(evaluation: Evaluation) -> dict[str, Any]:
    search = {key: value for key, value in evaluation.search.items() if key != "batch_tokens"}
    part = {"limit": evaluation.limit, "lines": evaluation.lines}
    return {"split": evaluation.split, **part, **search}


def _gains(run: ReportedRun, basic: ReportedRun | None) -> Iterator[Gain]:
    ours, ensemble = run.evaluated, run.evaluation.by_ensemble
    if basic is not None and basic is not run:
        theirs = basic.evaluated
        plain = compare(direct(ours), direct(theirs))
        yield from _gain(run, "supervised", basic.label, plain, "supervised")
        yield from _gain(run, "zero-shot", basic.label, plain, "zero_shot")
        if theirs.evaluation.via_pivot:
            pivot, name = through_pivot(theirs), f"pivot of {basic.label}"
            past = compare(direct(ours), pivot)
            yield from _gain(run, "zero-shot", name, past, "zero_shot")
            if ensemble:
                both = compare(in_way(ours, ensemble), pivot)
                yield from _gain(run, "ensemble", name, both, "zero_shot")
        if only_by_pivots(run.evaluation):
            yield from _pivot_gains(run, basic)
    if run.evaluation.via_pivot:
        own = compare(direct(ours), through_pivot(ours))
        yield from _gain(run, "zero-shot", "own pivot", own, "zero_shot")


def _pivot_gains(run: ReportedRun, basic: ReportedRun) -> Iterator[Gain]:
    """Those of a run that has nothing else to show where there is no data."""
    ours, theirs = through_pivot(run.evaluated), basic.evaluated
    plain = compare(ours, direct(theirs))
    yield from _gain(run, "via pivot", basic.label, plain, "zero_shot")
    if theirs.evaluation.via_pivot:
        past = compare(ours, through_pivot(theirs))
        yield from _gain(run, "via pivot", f"pivot of {basic.label}", past, "zero_shot")


def through_pivot(evaluated: Evaluated) -> Evaluated:
    """Zero-shot directions by way of their pivot, in the place of direct translations."""
    return in_way(evaluated, evaluated.evaluation.via_pivot)


def _gain(run: ReportedRun, what: str, other: str, found: Comparison, group: str) -> Iterator[Gain]:
    if group in found.averages:
        mean = found.averages[group]
        each = {row.name: row.bleu for row in found.directions if row.name in mean.directions}
        yield Gain(run.label, f"{what} − {other}", mean.bleu, each)


# --- As tables.


def tables(found: ComparedRuns) -> list[Grid]:
    """The figures of all runs; then all tests, a row each."""
    return [_overview(found), *([_tests(found)] if found.gains else [])]


def columns(runs: Sequence[ReportedRun]) -> dict[str, str]:
    """Those averages that some run has, by the names of their columns."""
    return {
        column: group
        for column, group in AVERAGES.items()
        if any(group in run.evaluation.averages for run in runs)
    }


def _overview(found: ComparedRuns) -> Grid:
    shown = columns(found.runs)
    rows = [
        [
            run.label,
            count(run.evaluation.origin.step),
            NONE if run.history.seconds is None else count(run.history.seconds),
            *(_mean(run.evaluation.averages.get(group)) for group in shown.values()),
        ]
        for run in found.runs
    ]
    caption = f"{found.evaluation}: mean BLEU ± half the 95 % interval"
    return grid(caption, ["run", "updates", "seconds", *shown], rows)


def _mean(average: Average | None) -> str:
    return NONE if average is None else f"{average.bleu:.2f} ±{average.bleu_confidence:.2f}"


def _tests(found: ComparedRuns) -> Grid:
    rows = [
        [gain.run, gain.what, signed(gain.test.difference), interval(gain.test), p_of(gain.test)]
        for gain in found.gains
    ]
    caption = "Differences in BLEU, paired bootstrap, two-sided"
    return grid(caption, ["run", "what", "difference", "95 %", "p"], rows)


def interval(test: Difference) -> str:
    """`−0.58 to +0.07`."""
    return f"{signed(test.low)} to {signed(test.high)}"


def p_of(test: Difference) -> str:
    """Three digits, as many as 1,000 samples give."""
    return f"{test.p:.3f}"


# --- As JSON: small, and enough to tell where every figure is from.


def figures(found: ComparedRuns, command: Sequence[str]) -> dict[str, Any]:
    """All figures as plain data; `command` is the one that compared them."""
    evaluation = found.runs[0].evaluation
    return {
        "evaluation": found.evaluation,
        "how": _how(evaluation),
        "command": shlex.join(command),
        "accord": accord.__version__,
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "runs": [_run_figures(run) for run in found.runs],
        "against": found.against,
        "differences": [
            {
                "run": gain.run,
                "what": gain.what,
                **_rounded(asdict(gain.test)),
                "directions": {
                    name: _rounded(asdict(test)) for name, test in gain.directions.items()
                },
            }
            for gain in found.gains
        ],
        "notes": list(found.notes),
    }


def _run_figures(run: ReportedRun) -> dict[str, Any]:
    origin, known = run.evaluation.origin, run.environment
    means = {
        column: mean
        for column, group in AVERAGES.items()
        if (mean := run.evaluation.averages.get(group))
    }
    return {
        "run": run.label,
        "checkpoint": origin.checkpoint,
        "updates": origin.step,
        "seconds": run.history.seconds,
        "data": run.manifest["fingerprint"],
        "times scored": _times(run),
        "command": shlex.join(["accord", *map(str, (known.get("command") or [])[1:])]),
        "commit": known.get("commit"),
        "trained on": known.get("device"),
        "evaluated on": f"{origin.device}, {origin.precision}",
        "date": run.evaluation.date[:10],
        "bleu": {
            column: _rounded({"mean": mean.bleu, "half_width": mean.bleu_confidence})
            for column, mean in means.items()
        },
        "off_target": _rounded({column: mean.off_target for column, mean in means.items()}),
        "exact_match": _rounded({column: mean.exact_match for column, mean in means.items()}),
        "directions": {row.name: _direction_figures(row) for row in run.evaluation.rows},
    }


def _direction_figures(row: DirectionScores) -> dict[str, Any]:
    return _rounded(
        {
            "bleu": row.bleu.score,
            "half_width": row.bleu.confidence_var,
            "off_target": row.off_target,
            "exact_match": row.exact_match,
        }
    )


def _times(run: ReportedRun) -> dict[str, int]:
    """How often the run has scored the sentences of each set that the figures are of."""
    known = counted(run.uses)
    own = counted(uses_of(run.evaluated))
    return {same.set: len(known.get(same, ())) for same in own}


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {key: None if value is None else round(value, DIGITS) for key, value in values.items()}
