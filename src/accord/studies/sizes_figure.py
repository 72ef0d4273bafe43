"""The figure of the small-data study: BLEU against the size of the corpora."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from accord.files import atomic_write
from accord.report.charts import Chart, Series, document
from accord.studies.outcome import Outcome
from accord.studies.paper import NAMES

# Colours of the charts; dots tell the systems apart without them, too.
_LOOKS = {"basic": (1, True), "pivot": (5, False), "agree": (0, False), "complete": (2, True)}
_WIDE = 10
"""From this ratio of the largest to the smallest size on, the axis is logarithmic."""


def draw_sizes(outcomes: Sequence[tuple[int, Outcome]], file: Path) -> None:
    """One panel a zero-shot pair (mean of both directions) and one for all, as SVG."""
    panels = zero_shot_pairs(outcomes[0][1])
    everything = [direction for pair in panels.values() for direction in pair]
    panels["all zero-shot directions"] = everything
    lines = {title: _series(directions, outcomes) for title, directions in panels.items()}
    top = max(y for some in lines.values() for series in some for _, y in series.points)
    sizes = tuple(size / 1000 for size, _ in outcomes)
    charts = [
        Chart(
            title,
            "thousand pairs of a corpus",
            "BLEU",
            series,
            log_x=max(sizes) >= _WIDE * min(sizes),
            x_ticks=sizes,
            top=top,
        )
        for title, series in lines.items()
    ]
    with atomic_write(file) as out:
        out.write(document(charts))


def _series(
    directions: Sequence[str], outcomes: Sequence[tuple[int, Outcome]]
) -> tuple[Series, ...]:
    found = []
    for system, (colour, dotted) in _LOOKS.items():
        points = tuple(
            (size / 1000, mean_bleu(outcome, system, directions))
            for size, outcome in outcomes
            if system in outcome.systems
        )
        if points:
            found.append(Series(NAMES[system], points, colour, dotted))
    return tuple(found)


def mean_bleu(outcome: Outcome, system: str, directions: Sequence[str]) -> float:
    """BLEU of a system over some directions."""
    return fmean(outcome.row(system, name).bleu.score for name in directions)


def zero_shot_pairs(outcome: Outcome) -> dict[str, list[str]]:
    """The zero-shot directions by pair."""
    found: dict[str, list[str]] = {}
    for row in outcome.directions:
        if row.kind == "zero-shot":
            pair = " – ".join(sorted((row.source, row.target)))
            found.setdefault(pair, []).append(row.direction)
    return found
