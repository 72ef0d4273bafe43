"""Matrices of all directions: sources down, targets across, bright is good."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from accord.evaluation.records import DirectionScores
from accord.report.contents import Report, ReportedRun
from accord.report.numbers import percent, score

# --- A sequential colour map that the colour-blind can read, and text that is legible on it.


# Steps of cividis, from dark to bright: evenly brighter to every kind of eye.
_CIVIDIS = (
    "#00224e",
    "#123570",
    "#3b496c",
    "#575d6d",
    "#707173",
    "#8a8678",
    "#a59c74",
    "#c3b369",
    "#e1cc55",
    "#fee838",
)


def colour(share: float) -> str:
    """The colour at `share` of the way from dark (0) to bright (1)."""
    place = min(max(share, 0.0), 1.0) * (len(_CIVIDIS) - 1)
    low = min(int(place), len(_CIVIDIS) - 2)
    ends = zip(_parts(_CIVIDIS[low]), _parts(_CIVIDIS[low + 1]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (place - low)):02x}" for a, b in ends)


def text_on(background: str) -> str:
    """Black or white, whichever is easier to read: the contrast is always above 4.5."""
    light = luminance(background) + 0.05
    return "#000000" if light / 0.05 > 1.05 / light else "#ffffff"


def luminance(shade: str) -> float:
    """Relative luminance as the Web Content Accessibility Guidelines define it."""
    linear = []
    for part in _parts(shade):
        value = part / 255
        linear.append(value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4)
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def gradient(*, bright_first: bool = False) -> str:
    """The whole map from left to right, as a CSS background."""
    steps = _CIVIDIS[::-1] if bright_first else _CIVIDIS
    return f"linear-gradient(to right, {', '.join(steps)})"


def _parts(shade: str) -> tuple[int, int, int]:
    return int(shade[1:3], 16), int(shade[3:5], 16), int(shade[5:7], 16)


# A map of off-target rates reaches at least this far: one in a thousand should not look alarming.
_LEAST_RATE = 0.10


@dataclass(frozen=True)
class HeatCell:
    """One direction; without a value it is empty, and on the diagonal there is no direction."""

    direction: str
    kind: str
    text: str
    pivot: str
    """The same figure through a pivot, if there is one."""
    background: str | None
    foreground: str | None


@dataclass(frozen=True)
class HeatMap:
    """One figure of one run in all directions."""

    title: str
    languages: tuple[str, ...]
    rows: tuple[tuple[str, tuple[HeatCell | None, ...]], ...]
    low: str
    high: str
    scale: str
    """The colours from `low` to `high`, as a CSS background."""


Value = Callable[[DirectionScores], float | None]


def bleu_maps(report: Report) -> tuple[HeatMap, ...]:
    """BLEU of every run, all on one scale."""
    values = _values(report, lambda row: row.bleu.score)
    low, high = min(values), max(values)
    width = high - low

    def shade(value: float) -> float:
        return (value - low) / width if width else 1.0

    return tuple(
        _map(run, "BLEU", lambda row: row.bleu.score, score, shade, (score(low), score(high)))
        for run in report.runs
    )


def off_target_maps(report: Report) -> tuple[HeatMap, ...]:
    """Off-target rates of every run, all on one scale; none where no language can be told."""
    values = _values(report, lambda row: row.off_target)
    if not values:
        return ()
    most = max(_LEAST_RATE, *values)

    def shade(value: float) -> float:
        return 1.0 - value / most

    ends = (percent(0.0, 0), percent(most, 0))
    return tuple(
        _map(run, "Off target", lambda row: row.off_target, percent, shade, ends, good_first=True)
        for run in report.runs
    )


def _values(report: Report, value: Value) -> list[float]:
    found = [value(row) for run in report.runs for row in run.evaluation.directions]
    return [each for each in found if each is not None]


def _map(
    run: ReportedRun,
    title: str,
    value: Value,
    text: Callable[[float | None], str],
    shade: Callable[[float], float],
    ends: tuple[str, str],
    *,
    good_first: bool = False,
) -> HeatMap:
    evaluation, graph = run.evaluation, run.experiment.graph
    direct = {row.direction: row for row in evaluation.directions}
    pivots = {row.direction: row for row in evaluation.via_pivot}

    def cell(source: str, target: str) -> HeatCell | None:
        if source == target:
            return None
        name = f"{source}-{target}"
        kind = graph.kind((source, target))
        known = _of(direct, name, value)
        pivot = f"{text(_of(pivots, name, value))}" if name in pivots else ""
        back = None if known is None else colour(shade(known))
        return HeatCell(name, kind, text(known), pivot, back, back and text_on(back))

    rows = tuple(
        (source, tuple(cell(source, target) for target in evaluation.languages))
        for source in evaluation.languages
    )
    scale = gradient(bright_first=good_first)
    return HeatMap(f"{title}, {run.label}", evaluation.languages, rows, *ends, scale)


def _of(rows: Mapping[str, DirectionScores], name: str, value: Value) -> float | None:
    return value(rows[name]) if name in rows else None
