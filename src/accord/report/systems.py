"""The columns of a comparison: every run, direct and in other ways, tested against the first."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from accord.errors import AccordError
from accord.evaluation.evaluated import Evaluated
from accord.evaluation.result import DirectionScores
from accord.evaluation.significance import Comparison, compare


@dataclass(frozen=True)
class System:
    """One column: a run's direct translations or, where it has no data, another `way` to go."""

    run: str
    way: str
    """`pivot` or `ensemble`; nothing for direct translations."""
    evaluated: Evaluated
    """Translations in another way stand here as if they were direct."""
    against_main: Comparison | None
    """This system (ours) against the first run's direct translations (theirs)."""

    @property
    def label(self) -> str:
        """For example `agree` or `agree, pivot`."""
        return f"{self.run}, {self.way}" if self.way else self.run

    @property
    def rows(self) -> dict[str, DirectionScores]:
        """The figures by direction."""
        return {row.direction: row for row in self.evaluated.evaluation.directions}


def in_way(evaluated: Evaluated, rows: Sequence[DirectionScores]) -> Evaluated:
    """Supervised directions direct, the others by these rows: with pivots, the paper's Pivot."""
    evaluation = evaluated.evaluation
    kept = [row for row in evaluation.directions if row.kind == "supervised"]
    wanted = {row.name for row in (*kept, *rows)}
    lines = [item for item in evaluated.lines if item.name in wanted]
    return Evaluated(
        replace(
            evaluation,
            directions=(*kept, *(replace(row, via=(), ensemble="") for row in rows)),
            via_pivot=(),
            by_ensemble=(),
        ),
        tuple(replace(item, via=(), ensemble="") for item in lines),
        {str(item.direction): evaluated.statistics[item.name] for item in lines},
    )


def direct(evaluated: Evaluated) -> Evaluated:
    """The direct translations alone."""
    rows = [row for row in evaluated.evaluation.directions if row.kind != "supervised"]
    return in_way(evaluated, rows)


def systems(runs: Sequence[tuple[str, Evaluated]]) -> tuple[System, ...]:
    """Every run direct and, where it was evaluated so, in other ways; all but the first tested."""
    found: list[System] = []
    for label, evaluated in runs:
        evaluation = evaluated.evaluation
        found.append(System(label, "", direct(evaluated), None))
        ways = {"pivot": evaluation.via_pivot, "ensemble": evaluation.by_ensemble}
        found += [
            System(label, w, in_way(evaluated, rows), None) for w, rows in ways.items() if rows
        ]
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
