"""Runs compared: their figures side by side, and paired tests against one of them and its pivot."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from accord.errors import AccordError
from accord.evaluation.records import Average, Evaluated, Evaluation
from accord.evaluation.significance import Comparison, Difference, compare, compare_seeds
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


@dataclass(frozen=True)
class Gain:
    """How far one run is ahead of another, or of a pivot, by paired bootstrap."""

    run: str
    """Or a system, whose seeds are taken together."""
    what: str
    """For example `zero-shot − pivot of basic`."""
    test: Difference
    directions: Mapping[str, Difference]
    """The same of every direction in the mean."""


@dataclass(frozen=True)
class _Match:
    """Two sides to be tested against each other, and which means of them."""

    ours: Evaluated
    theirs: Evaluated
    other: str
    groups: Mapping[str, str]
    """By the name of our side: `zero-shot` or, if it is meant so, `ensemble`."""


@dataclass(frozen=True)
class ComparedRuns:
    """Runs that were evaluated alike, in the order given."""

    evaluation: str
    how: Mapping[str, Any]
    """What is the same in all evaluations: the sentences, and the settings of those searches that
    have any."""
    paths: tuple[Path, ...]
    runs: tuple[ReportedRun, ...]
    against: str | None
    gains: tuple[Gain, ...]
    notes: tuple[str, ...]
    systems: Mapping[str, tuple[ReportedRun, ...]]
    """Runs of one system that differ in their seeds, where these are to be taken together."""


def compare_runs(
    runs: Sequence[Path],
    against: Path | None = None,
    name: str | None = None,
    *,
    final: bool = False,
    over_seeds: bool = False,
) -> ComparedRuns:
    """Read runs and test them against one, which need not be among them, and against pivots.

    Without the `name` of an evaluation it is one on dev sentences, or on test if this is `final`.
    If it is `over_seeds`, each run is tested against the one of its own seed, and then all seeds of
    a system together; `against` names any run of the system to test against.
    """
    paths = list(runs)
    base = None
    if against is not None:
        same = [path for path in paths if path.resolve() == against.resolve()]
        paths = paths if same else [against, *paths]
        base = paths.index(same[0] if same else against)
    chosen, found = read_runs(paths, name, "test" if final else "dev")
    how = _check_alike(found)
    basic = None if base is None else found[base]
    others = {run.label: _of_same_seed(found, run, basic) if over_seeds else basic for run in found}
    gains = [gain for run in found for gain in _gains(run, others[run.label])]
    systems = _systems(found) if over_seeds else {}
    for name, seeds in systems.items():
        if len(seeds) > 1:
            gains += _gains_over_seeds(name, seeds, [others[run.label] for run in seeds])
    label = basic.label if basic else None
    said = (*notes(found), *_on_test(found[0].evaluation))
    return ComparedRuns(chosen, how, tuple(paths), found, label, tuple(gains), said, systems)


def _systems(runs: Sequence[ReportedRun]) -> dict[str, tuple[ReportedRun, ...]]:
    """Runs by what they are called before their seeds."""
    found: dict[str, tuple[ReportedRun, ...]] = {}
    for run in runs:
        name, _ = _system_and_seed(run)
        found[name] = (*found.get(name, ()), run)
    return found


def _system_and_seed(run: ReportedRun) -> tuple[str, str]:
    name, _, seed = Path(run.label).name.rpartition("-")
    if not name or not seed.isdigit():
        raise AccordError(
            f"{run.label} does not say which seed of which system it is",
            where="--over-seeds",
            fix="name runs SYSTEM-SEED, as `accord study` does: complete-1",
        )
    return name, seed


def _of_same_seed(
    runs: Sequence[ReportedRun], run: ReportedRun, basic: ReportedRun | None
) -> ReportedRun | None:
    """The run of the system of `basic` that has the seed of `run`."""
    if basic is None:
        return None
    wanted = (_system_and_seed(basic)[0], _system_and_seed(run)[1])
    for other in runs:
        if _system_and_seed(other) == wanted:
            return other
    raise AccordError(
        f"there is no run {'-'.join(wanted)} to test {run.label} against",
        where="--over-seeds",
        fix="list the runs of all seeds, those of the system to test against too",
    )


def _on_test(evaluation: Evaluation) -> Iterator[str]:
    if evaluation.split == "test":
        yield "these are test sentences: for a last word, not for choosing settings"


def _check_alike(runs: Sequence[ReportedRun]) -> dict[str, Any]:
    """How all runs were evaluated; other sentences or another search cannot be compared.

    A run with a search of its own tells nothing of settings, so that others come before it.
    """
    first, *others = sorted(runs, key=lambda run: not run.evaluation.search)
    for other in others:
        _check_pair(first, other)
    return _how(first.evaluation)


def _check_pair(first: ReportedRun, other: ReportedRun) -> None:
    ours, theirs = (_how(run.evaluation) for run in (first, other))
    differing = [key for key in ours if key in theirs and ours[key] != theirs[key]]
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
    """What must be the same in all evaluations that are compared."""
    search = {key: value for key, value in evaluation.search.items() if key != "batch_tokens"}
    part = {"limit": evaluation.limit, "lines": evaluation.lines}
    return {"split": evaluation.split, **part, **search}


def _gains(run: ReportedRun, basic: ReportedRun | None) -> Iterator[Gain]:
    for match in _matches(run, basic):
        yield from _tested(run.label, match, match.other, compare(match.ours, match.theirs))


def _gains_over_seeds(
    name: str, runs: Sequence[ReportedRun], others: Sequence[ReportedRun | None]
) -> Iterator[Gain]:
    """The same tests, of means over seeds."""
    matched = [list(_matches(*pair)) for pair in zip(runs, others, strict=True)]
    if len({len(matches) for matches in matched}) > 1:
        raise AccordError(
            f"the seeds of {name} were not all evaluated by their pivot, or as an ensemble",
            fix="run `accord evaluate` on all of them with the same options",
        )
    basic = others[0]
    for seeds in zip(*matched, strict=True):
        found = compare_seeds([(match.ours, match.theirs) for match in seeds])
        other = seeds[0].other
        if basic is not None:
            other = other.replace(basic.label, _system_and_seed(basic)[0])
        yield from _tested(name, seeds[0], other, found)


def _matches(run: ReportedRun, basic: ReportedRun | None) -> Iterator[_Match]:
    ours, ensemble = run.evaluated, run.evaluation.by_ensemble
    zero_shot = {"zero-shot": "zero_shot"}
    if basic is not None and basic is not run:
        theirs = basic.evaluated
        both = {"supervised": "supervised", **zero_shot}
        yield _Match(direct(ours), direct(theirs), basic.label, both)
        if theirs.evaluation.via_pivot:
            pivot, name = through_pivot(theirs), f"pivot of {basic.label}"
            yield _Match(direct(ours), pivot, name, zero_shot)
            if ensemble:
                yield _Match(in_way(ours, ensemble), pivot, name, {"ensemble": "zero_shot"})
        if only_by_pivots(run.evaluation):
            # It has nothing else to show where there is no data.
            by_pivot = {"via pivot": "zero_shot"}
            yield _Match(through_pivot(ours), direct(theirs), basic.label, by_pivot)
            if theirs.evaluation.via_pivot:
                other = f"pivot of {basic.label}"
                yield _Match(through_pivot(ours), through_pivot(theirs), other, by_pivot)
    if run.evaluation.via_pivot:
        yield _Match(direct(ours), through_pivot(ours), "own pivot", zero_shot)


def through_pivot(evaluated: Evaluated) -> Evaluated:
    """Zero-shot directions by way of their pivot, in the place of direct translations."""
    return in_way(evaluated, evaluated.evaluation.via_pivot)


def _tested(run: str, match: _Match, other: str, found: Comparison) -> Iterator[Gain]:
    for what, group in match.groups.items():
        if group in found.averages:
            mean = found.averages[group]
            each = {row.name: row.bleu for row in found.directions if row.name in mean.directions}
            yield Gain(run, f"{what} − {other}", mean.bleu, each)


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
    rows += [
        [name, "", "", *(_over_seeds(runs, group) for group in shown.values())]
        for name, runs in found.systems.items()
        if len(runs) > 1
    ]
    caption = f"{found.evaluation}: mean BLEU ± half the 95 % interval"
    return grid(caption, ["run", "updates", "seconds", *shown], rows)


def _mean(average: Average | None) -> str:
    return NONE if average is None else f"{average.bleu:.2f} ±{average.bleu_confidence:.2f}"


def _over_seeds(runs: Sequence[ReportedRun], group: str) -> str:
    """The mean over seeds of what all of them have."""
    means = [
        run.evaluation.averages[group].bleu for run in runs if group in run.evaluation.averages
    ]
    return f"{fmean(means):.2f}" if len(means) == len(runs) else NONE


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
