"""The columns of a comparison: every run, direct and through pivots, tested against the first."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from accord.errors import AccordError
from accord.evaluation.evaluated import Evaluated
from accord.evaluation.result import DirectionScores
from accord.evaluation.significance import Comparison, compare


@dataclass(frozen=True)
class System:
    """One column: a run's translations, or (`pivot`) those with pivots where it has no data."""

    run: str
    pivot: bool
    evaluated: Evaluated
    """Translations through pivots stand here as if they were direct."""
    against_main: Comparison | None
    """This system (ours) against the first run's direct translations (theirs)."""

    @property
    def label(self) -> str:
        """For example `agree` or `agree, pivot`."""
        return f"{self.run}, pivot" if self.pivot else self.run

    @property
    def rows(self) -> dict[str, DirectionScores]:
        """The figures by direction."""
        return {row.direction: row for row in self.evaluated.evaluation.directions}


def pivoted(evaluated: Evaluated) -> Evaluated:
    """The system that the paper calls Pivot: supervised directions direct, the others chained."""
    evaluation = evaluated.evaluation
    kept = [row for row in evaluation.directions if row.kind == "supervised"]
    rows = (*kept, *(replace(row, via=()) for row in evaluation.via_pivot))
    lines = [item for item in evaluated.lines if item.kind == "supervised" or item.via]
    return Evaluated(
        replace(evaluation, directions=rows, via_pivot=()),
        tuple(replace(item, via=()) for item in lines),
        {str(item.direction): evaluated.statistics[item.name] for item in lines},
    )


def direct(evaluated: Evaluated) -> Evaluated:
    """The direct translations alone."""
    lines = tuple(item for item in evaluated.lines if not item.via)
    return Evaluated(
        replace(evaluated.evaluation, via_pivot=()),
        lines,
        {item.name: evaluated.statistics[item.name] for item in lines},
    )


def systems(runs: Sequence[tuple[str, Evaluated]]) -> tuple[System, ...]:
    """Every run direct and, where it was evaluated so, with pivots; all but the first tested."""
    found: list[System] = []
    for label, evaluated in runs:
        found.append(System(label, False, direct(evaluated), None))
        if evaluated.evaluation.via_pivot:
            found.append(System(label, True, pivoted(evaluated), None))
    shared = common(found)
    if not shared:
        raise AccordError(
            f"{' and '.join(label for label, _ in runs)} have no evaluated direction in common",
            fix="report on runs of the same languages",
        )
    first, *others = found
    return first, *(_tested(system, first, shared) for system in others)


def common(found: Sequence[System]) -> tuple[str, ...]:
    """The directions that all systems have, in the order of the first."""
    first, *others = (system.rows for system in found)
    return tuple(name for name in first if all(name in rows for rows in others))


def _tested(system: System, main: System, shared: Sequence[str]) -> System:
    """Averages are compared over the directions that all columns have, so that rows are fair."""
    ours = system.evaluated
    rows = tuple(row for row in ours.evaluation.directions if row.direction in shared)
    restricted = replace(ours, evaluation=replace(ours.evaluation, directions=rows))
    try:
        return replace(system, against_main=compare(restricted, main.evaluated))
    except AccordError as error:
        where = f"{main.run}, {system.run}"
        raise AccordError(error.what, where=where, fix=error.fix) from error
