"""The table of the paper: directions down, systems across, averages below; best and significant.

Format-neutral: HTML, Markdown and LaTeX are written from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from accord.evaluation.records import DirectionScores
from accord.evaluation.scores import groups
from accord.evaluation.significance import Difference
from accord.graph import KINDS
from accord.report.answer import System, common

Metric = Literal["bleu", "chrf"]
# Against the first column, by the 95 % interval, not corrected for the number of tests.
MARK = "†"
MEANING = (
    "beyond chance: the 95 % interval of the difference (paired bootstrap, 1,000 samples, not "
    "corrected for the number of tests) leaves out 0"
)
NAMES: dict[Metric, str] = {"bleu": "BLEU", "chrf": "chrF2"}
_EXTRA = {"iwslt_4": "IWSLT 2017, 4 directions", "iwslt_12": "IWSLT 2017, 12 directions"}


@dataclass(frozen=True)
class Cell:
    """One score; `repeated` is that of another way where there is data: the direct one again."""

    value: float | None
    best: bool
    mark: str
    repeated: bool


@dataclass(frozen=True)
class Row:
    """A direction, or an average."""

    label: str
    kind: str
    average: bool
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """All rows of one metric, supervised directions first."""

    metric: Metric
    systems: tuple[System, ...]
    rows: tuple[Row, ...]

    @property
    def marked(self) -> bool:
        """Whether any mark needs to be explained."""
        return any(cell.mark for row in self.rows for cell in row.cells)


def table(found: Sequence[System], metric: Metric) -> Table:
    """The scores of all systems in all directions of the first run, in whatever way."""
    main, shared = _directions(found), common(found)
    rows: list[Row] = []
    for kind in KINDS:
        some = [name for name, row in main.items() if row.kind == kind]
        rows += [_direction(found, name, kind, metric) for name in some]
        if averaged := [name for name in some if name in shared]:
            partial = f" of {len(averaged)} of {len(some)}" if len(averaged) < len(some) else ""
            label = f"{kind} average{partial}"
            rows.append(_average(found, averaged, label, kind, metric))
    return Table(metric, tuple(found), (*rows, *_extra(found, shared, metric)))


def _directions(found: Sequence[System]) -> dict[str, DirectionScores]:
    """Those of the first run: its direct ones, then those that only another way leads along."""
    rows: dict[str, DirectionScores] = {}
    for system in found:
        if system.run == found[0].run:
            rows |= {name: row for name, row in system.rows.items() if name not in rows}
    return rows


def _extra(found: Sequence[System], shared: Sequence[str], metric: Metric) -> list[Row]:
    """The averages that other people's tables of IWSLT 2017 have."""
    rows = [row for name, row in found[0].rows.items() if name in shared]
    named = groups(rows, found[0].evaluated.evaluation.languages)
    return [
        _average(found, named[group], label, "zero-shot", metric)
        for group, label in _EXTRA.items()
        if group in named and set(named[group]) != set(named.get("zero_shot", ()))
    ]


def _direction(found: Sequence[System], name: str, kind: str, metric: Metric) -> Row:
    values = [_score(system.rows.get(name), metric) for system in found]
    marks = []
    for system in found:
        tested = system.against_main.directions if system.against_main else ()
        marks.append(next((_mark(getattr(t, metric)) for t in tested if t.name == name), ""))
    return _row(found, name, kind, values, marks, average=False)


def _average(
    found: Sequence[System], names: Sequence[str], label: str, kind: str, metric: Metric
) -> Row:
    values = [fmean(_known(system.rows[name], metric) for name in names) for system in found]
    marks = []
    for system in found:
        tested = system.against_main.averages.values() if system.against_main else ()
        same = (getattr(t, metric) for t in tested if set(t.directions) == set(names))
        marks.append(next((_mark(difference) for difference in same), ""))
    return _row(found, label, kind, values, marks, average=True)


def _row(
    found: Sequence[System],
    label: str,
    kind: str,
    values: Sequence[float | None],
    marks: Sequence[str],
    *,
    average: bool,
) -> Row:
    # By what is printed: a difference that nobody can see should not decide who is best.
    shown = [None if value is None else round(value, 1) for value in values]
    known = [value for value in shown if value is not None]
    contested = len(set(known)) > 1
    cells = [
        Cell(
            value,
            best=contested and shown[i] == max(known),
            mark=marks[i],
            repeated=found[i].repeats and kind == "supervised",
        )
        for i, value in enumerate(values)
    ]
    return Row(label, kind, average, tuple(cells))


def _score(row: DirectionScores | None, metric: Metric) -> float | None:
    return None if row is None else _known(row, metric)


def _known(row: DirectionScores, metric: Metric) -> float:
    return row.bleu.score if metric == "bleu" else row.chrf.score


def _mark(difference: Difference) -> str:
    return MARK if difference.beyond_chance else ""
