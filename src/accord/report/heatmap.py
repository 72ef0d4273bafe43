"""Matrices of all directions: sources down, targets across, on scales that never change.

A colour means the same in every report: BLEU 20 looks like BLEU 20, whatever stands beside it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from accord.evaluation.records import DirectionScores
from accord.report.contents import Report, ReportedRun
from accord.report.numbers import percent, score

# --- Sequential colour maps that the colour-blind can read, and text that is legible on them.


Shades = tuple[str, ...]
# Steps of cividis, from dark to bright: evenly brighter to every kind of eye.
CIVIDIS: Shades = (
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


# From nothing to speak of to alarm, darker all the way.
ALARM: Shades = ("#e9edf2", "#f7d9bd", "#f2ac72", "#dd7433", "#a83c00", "#5e1e00")


def colour(share: float, shades: Shades = CIVIDIS) -> str:
    """The colour at `share` of the way from the first shade (0) to the last (1)."""
    place = min(max(share, 0.0), 1.0) * (len(shades) - 1)
    low = min(int(place), len(shades) - 2)
    ends = zip(_parts(shades[low]), _parts(shades[low + 1]), strict=True)
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


def gradient(shades: Shades) -> str:
    """The whole map from left to right, as a CSS background."""
    return f"linear-gradient(to right, {', '.join(shades)})"


def _parts(shade: str) -> tuple[int, int, int]:
    return int(shade[1:3], 16), int(shade[3:5], 16), int(shade[5:7], 16)


# Where the scales end; what lies beyond has the colour of the end.
HIGHEST_BLEU = 60.0
HIGHEST_RATE = 0.50


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
    ticks: tuple[str, ...]
    """What the scale is marked with, at even distances."""
    scale: str
    """The colours of the scale, as a CSS background."""
    meaning: str
    """What its ends mean."""
    footer: tuple[str, ...] = ()
    """The same figure of the references, by target."""


Value = Callable[[DirectionScores], float | None]


def bleu_maps(report: Report) -> tuple[HeatMap, ...]:
    """BLEU of every run, from 0 to 60."""
    scale = _Scale(CIVIDIS, HIGHEST_BLEU, ("0", "20", "40", "60 +"), "bright is good")
    return tuple(_map(run, "BLEU", lambda row: row.bleu.score, score, scale) for run in report.runs)


def off_target_maps(report: Report) -> tuple[HeatMap, ...]:
    """Off-target rates of every run, from 0 to 50 %; none where no language can be told."""
    rates = [row.off_target for run in report.runs for row in run.evaluation.by_direction]
    if all(rate is None for rate in rates):
        return ()
    scale = _Scale(ALARM, HIGHEST_RATE, ("0 %", "25 %", "50 % +"), "pale is good")
    sure = report.identification.shares if report.identification else {}
    footer = tuple(percent(sure.get(target)) for target in report.main.evaluation.languages)
    return tuple(
        replace(
            _map(run, "Off target", lambda row: row.off_target, percent, scale),
            footer=footer if sure else (),
        )
        for run in report.runs
    )


@dataclass(frozen=True)
class _Scale:
    """Colours from 0 to the highest value that has one of its own."""

    shades: Shades
    highest: float
    ticks: tuple[str, ...]
    meaning: str


def _map(
    run: ReportedRun,
    title: str,
    value: Value,
    text: Callable[[float | None], str],
    scale: _Scale,
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
        back = None if known is None else colour(known / scale.highest, scale.shades)
        return HeatCell(name, kind, text(known), pivot, back, back and text_on(back))

    rows = tuple(
        (source, tuple(cell(source, target) for target in evaluation.languages))
        for source in evaluation.languages
    )
    title = f"{title}, {run.label}"
    shown = gradient(scale.shades)
    return HeatMap(title, evaluation.languages, rows, scale.ticks, shown, scale.meaning)


def _of(rows: Mapping[str, DirectionScores], name: str, value: Value) -> float | None:
    return value(rows[name]) if name in rows else None
