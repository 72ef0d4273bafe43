"""Line charts as inline SVG: drawn in the page's own colours, so that they follow dark mode.

Colours are classes (`series-0` and so on) that the page's style sheet fills in; dots tell lines of
one colour apart, so that a chart can also be read without seeing colours.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup, escape

from accord.graph import KINDS
from accord.report.contents import History, Points, Report, ReportedRun
from accord.report.numbers import count

_WIDTH, _HEIGHT = 480.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 14.0, 14.0, 46.0
_TITLE, _DIGIT = 30.0, 8.6
"""Room for the title of the vertical axis, and for a character of its marks on a small screen."""
_MOST_POINTS = 200
_MOST_DOTS = 60
_TICKS = 5
_EXTREME = 1e100
"""Beyond this and below its inverse, ratios and steps of an axis would over- or underflow."""
COLOURS = 6
"""So many colours the style sheet has."""


@dataclass(frozen=True)
class Series:
    """One line, or with a single point one mark."""

    label: str
    points: tuple[tuple[float, float], ...]
    colour: int
    dotted: bool = False
    names: tuple[str, ...] = ()
    """What each point is called; the first and the last name are written beside the line."""

    @property
    def style(self) -> str:
        """The classes of the line."""
        return f"series-{self.colour % COLOURS}{' dotted' if self.dotted else ''}"


@dataclass(frozen=True)
class Chart:
    """What is drawn; `square` gives both axes the same range and draws the diagonal."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    square: bool = False
    x_ticks: tuple[float, ...] = ()
    """Where the horizontal axis is marked; round numbers by default."""
    top: float = 0.0
    """The vertical axis reaches at least so high, so that several charts can share it."""


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    log: bool
    left: float = _LEFT
    """Where the chart begins, for the horizontal axis."""

    def share(self, value: float) -> float:
        """How far along the axis a value lies."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Round numbers within the axis."""
        found = self._powers() if self.log else []
        if len(found) >= 2:
            return found
        step = _round_step((self.high - self.low) / _TICKS)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]

    def _powers(self) -> list[float]:
        """Powers of ten, with as many steps between as there is room for."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for steps in ((1, 2, 5), (1, 3), (1,)):
            found = [s * 10.0**power for power in powers for s in steps]
            found = [value for value in found if self.low <= value <= self.high]
            if len(found) <= _TICKS + 2:
                break
        return found


def svg(chart: Chart) -> Markup:
    """The chart as an SVG element."""
    series = [_drawable(each, chart) for each in chart.series]
    points = [point for each in series for point in each.points]
    across = _begun_late(_axis([x for x, _ in points], chart.log_x), min(x for x, _ in points))
    heights = [*(y for _, y in points), *([chart.top] if chart.top else [])]
    up = _rounded_up(_axis(heights, chart.log_y))
    if chart.square:
        across = up = _Axis(min(across.low, up.low), max(across.high, up.high), chart.log_y)
    marks = max((len(_number(value)) for value in up.ticks()), default=0)
    across = replace(across, left=max(_LEFT, _TITLE + _DIGIT * marks))
    parts = [
        *_frame(chart, across, up),
        # The first run comes last, to lie on top.
        *(part for each in reversed(series) for part in _line(each, across, up)),
    ]
    return Markup(
        f'<svg class="chart" role="img" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" '
        f'aria-label="{escape(_summary(chart))}">{"".join(parts)}</svg>'
    )


_STYLE = """
text { fill: #1b1f24; font: 12.5px sans-serif } .tick { fill: #55606e } .title { font-size: 14px }
.grid { stroke: #d5dae1; fill: none; opacity: .7 } .axis { stroke: #55606e; fill: none }
.line { fill: none; stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round }
.line.dotted { stroke-dasharray: .1 5; stroke-width: 2.8 } .dot { stroke: #ffffff }
.dot.dotted { fill: #ffffff; stroke-width: 2 }
"""
# The colours of the report's style sheet.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b0508a", "#9a6a00", "#5b5f66")


def document(charts: Sequence[Chart]) -> str:
    """Charts side by side with one legend, as an SVG file that stands alone."""
    width, top = _WIDTH * len(charts), 54.0
    style = _STYLE + "".join(
        f".line.series-{i}, .dot.dotted.series-{i} {{ stroke: {colour} }}\n"
        f".dot.series-{i}:not(.dotted) {{ fill: {colour} }}\n"
        for i, colour in enumerate(_COLOURS)
    )
    parts = [f'<rect width="{width:g}" height="{_HEIGHT + top:g}" fill="#ffffff"/>']
    for i, series in enumerate(charts[0].series):
        x = _LEFT + 130 * i
        parts.append(f'<path class="line {series.style}" d="M{x:g} 14h30"/>')
        parts.append(f'<text x="{x + 38:g}" y="18">{escape(series.label)}</text>')
    for i, chart in enumerate(charts):
        x = _WIDTH * i
        parts.append(f'<text class="title" x="{x + _WIDTH / 2:g}" y="48" text-anchor="middle">')
        parts.append(f"{escape(chart.title)}</text>")
        parts.append(f'<svg x="{x:g}" y="{top:g}" width="{_WIDTH:g}" height="{_HEIGHT:g}">')
        parts.append(f"{svg(chart)}</svg>")
    said = escape("; ".join(map(_summary, charts)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{said}" '
        f'viewBox="0 0 {width:g} {_HEIGHT + top:g}" width="{width:g}" height="{_HEIGHT + top:g}">\n'
        f"<style>{style}</style>\n{''.join(parts)}\n</svg>\n"
    )


def swatch(series: Series) -> Markup:
    """What a line, or a single mark, looks like, for the legend."""
    mark = (
        f'<path class="line {series.style}" d="M2 5H28"/>'
        if len(series.points) > 1
        else f'<circle class="dot {series.style}" cx="15" cy="5" r="4"/>'
    )
    return Markup(f'<svg class="chart swatch" viewBox="0 0 30 10" aria-hidden="true">{mark}</svg>')


def log_worthwhile(series: Sequence[Series]) -> bool:
    """Whether the values span so much that a linear axis would hide where the lines end."""
    values = [y for each in series for _, y in each.points if y > 0]
    return bool(values) and max(values) > 8 * min(values)


def _summary(chart: Chart) -> str:
    """What a listener hears instead of seeing the lines."""
    ends = [f"{s.label} ends at {s.points[-1][1]:.3g}" for s in chart.series if s.points]
    return f"{chart.title}: {chart.y} against {chart.x}. {'; '.join(ends)}."


def _drawable(series: Series, chart: Chart) -> Series:
    """Without what a logarithm cannot show, and thinned to what a screen can."""
    whole = [(_within(x), _within(y)) for x, y in series.points]
    kept = [
        i
        for i, (x, y) in enumerate(whole)
        if (x > 0 or not chart.log_x) and (y > 0 or not chart.log_y)
    ]
    stride = -(-len(kept) // _MOST_POINTS) or 1
    kept = kept[::-1][::stride][::-1]  # the last point always stays
    names = tuple(series.names[i] for i in kept) if series.names else ()
    points = tuple(whole[i] for i in kept)
    return Series(series.label, points, series.colour, series.dotted, names)


def _within(value: float) -> float:
    """A number that an axis can be made for: the tiniest ones are zero, the largest are cut."""
    return 0.0 if abs(value) < 1 / _EXTREME else max(-_EXTREME, min(value, _EXTREME))


def _axis(values: Sequence[float], log: bool) -> _Axis:
    """A range around the values; a linear one holds zero, so that heights can be compared."""
    low, high = min(values), max(values)
    if log:
        room = max(high / low, 1.2) ** 0.06
        return _Axis(low / room, high * room, log=True)
    low, high = min(low, 0.0), max(high, 0.0)
    return _Axis(low, high if high > low else 1.0, log=False)


def _rounded_up(axis: _Axis) -> _Axis:
    """Up to the next round number, so that a line does not run along the edge."""
    if axis.log:
        return axis
    step = _round_step((axis.high - axis.low) / _TICKS)
    return _Axis(axis.low, math.ceil(axis.high / step) * step, log=False)


def _begun_late(axis: _Axis, first: float) -> _Axis:
    """From a round number below the first value, where zero is far away: a branch of a long run."""
    if axis.log or not axis.high / 2 < first < axis.high:
        return axis
    step = _round_step((axis.high - first) / _TICKS)
    return _Axis(math.floor(first / step) * step, axis.high, log=False)


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, … that is no smaller."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(s * power for s in (1.0, 2.0, 5.0, 10.0) if s * power >= least * 0.999)


def _x(axis: _Axis, value: float) -> float:
    return axis.left + axis.share(value) * (_WIDTH - axis.left - _RIGHT)


def _y(axis: _Axis, value: float) -> float:
    return _HEIGHT - _BOTTOM - axis.share(value) * (_HEIGHT - _TOP - _BOTTOM)


def _frame(chart: Chart, across: _Axis, up: _Axis) -> Iterator[str]:
    left, bottom, right = across.left, _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for value in up.ticks():
        y = _y(up, value)
        yield f'<path class="grid" d="M{left:g} {y:.1f}H{right:g}"/>'
        yield f'<text class="tick" x="{left - 6:g}" y="{y + 4:.1f}" text-anchor="end">'
        yield f"{_number(value)}</text>"
    for value in chart.x_ticks or across.ticks():
        x = _x(across, value)
        yield f'<path class="grid" d="M{x:.1f} {_TOP:g}V{bottom:g}"/>'
        yield f'<text class="tick" x="{x:.1f}" y="{bottom + 20:g}" text-anchor="middle">'
        yield f"{_number(value)}</text>"
    yield f'<path class="axis" d="M{left:g} {_TOP:g}V{bottom:g}H{right:g}"/>'
    if chart.square:
        yield f'<path class="diagonal" d="M{left:g} {bottom:g}L{right:g} {_TOP:g}"/>'
    middle = (left + right) / 2
    yield f'<text class="name" x="{middle:g}" y="{_HEIGHT - 5:g}" text-anchor="middle">'
    yield f"{escape(chart.x)}</text>"
    yield f'<text class="name" transform="translate(13 {(_TOP + bottom) / 2:g}) rotate(-90)" '
    yield f'text-anchor="middle">{escape(chart.y)}</text>'


def _line(series: Series, across: _Axis, up: _Axis) -> Iterator[str]:
    places = [(_x(across, x), _y(up, y)) for x, y in series.points]
    if len(places) > 1:
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        yield f'<path class="line {series.style}" d="M{path}"/>'
    if len(places) <= _MOST_DOTS:
        for i, ((x, y), (value_x, value_y)) in enumerate(zip(places, series.points, strict=True)):
            name = series.names[i] if series.names else f"{value_x:,g}"
            size = 5 if len(places) == 1 else 2.8
            yield f'<circle class="dot {series.style}" cx="{x:.1f}" cy="{y:.1f}" r="{size:g}">'
            yield f"<title>{escape(series.label)}, {escape(name)}: {value_y:.4g}</title></circle>"
    if series.names and places:
        yield from _end_names(series.names, places)


def _end_names(names: Sequence[str], places: Sequence[tuple[float, float]]) -> Iterator[str]:
    """The first name above the line and the last below: losses fall, so there is room.

    Where that would lie on the axis, it stands beside the mark.
    """
    ends = {0: (names[0], -10), len(places) - 1: (names[-1], 18)}
    for i, (name, shift) in ends.items():
        x, y = places[i]
        anchor = "end" if x > _WIDTH / 2 else "start"
        if y + shift > _HEIGHT - _BOTTOM - 4:
            shift = -3
            x += -10 if anchor == "end" else 10
        yield f'<text class="tick" x="{x:.1f}" y="{y + shift:.1f}" text-anchor="{anchor}">'
        yield f"{escape(name)}</text>"


def _number(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:,g}k"
    return f"{value:.6g}"


# --- The charts of a report: learning curves, and consistency over time.


_WORST = {"supervised": "ε: largest loss with data, nats", "zero-shot": "κ: largest loss without"}


def learning_curves(report: Report) -> tuple[Chart, ...]:
    """Training loss, and loss and BLEU on the dev set by kind of direction; empty ones left out."""
    loss = _by_run(report, lambda history: history.training)
    entropy = _by_kind(report, "cross_entropy")
    bleu = _by_kind(report, "bleu")
    steps = "step"
    charts = (
        Chart("Training loss", steps, "nats a subword", loss, log_y=log_worthwhile(loss)),
        Chart("Loss on the dev set", steps, "nats a subword", entropy,
              log_y=log_worthwhile(entropy)),
        Chart("BLEU on the dev set (greedy)", steps, "BLEU", bleu),
    )  # fmt: skip
    return tuple(chart for chart in charts if chart.series)


def consistency_chart(report: Report) -> Chart | None:
    """Epsilon against kappa: the course on the dev set, and where the evaluated model stands."""
    series = []
    for i, run in enumerate(report.runs):
        series += [each for each in (_course(run, i), _evaluated(run, i)) if each]
    if not series:
        return None
    return Chart(
        "Consistency over time",
        _WORST["supervised"],
        _WORST["zero-shot"],
        tuple(series),
        log_x=True,
        log_y=True,
        square=True,
    )


def _course(run: ReportedRun, number: int) -> Series | None:
    found = run.history.bounds()
    if not found:
        return None
    points = tuple((epsilon, kappa) for _, epsilon, kappa in found)
    names = tuple(f"step {count(step)}" for step, _, _ in found)
    return Series(f"{run.label}, dev set during training", points, number, names=names)


def _evaluated(run: ReportedRun, number: int) -> Series | None:
    found = run.evaluation.consistency
    if found is None:
        return None
    name = f"{run.label}, {run.evaluation.split} set"
    return Series(name, ((found.per_token.epsilon, found.per_token.kappa),), number, dotted=True)


def _by_run(report: Report, points: Callable[[History], Points]) -> tuple[Series, ...]:
    return tuple(
        Series(run.label, found, i)
        for i, run in enumerate(report.runs)
        if (found := points(run.history))
    )


def _by_kind(report: Report, what: str) -> tuple[Series, ...]:
    """With one run the colour tells the kind, with several the run; dots always the kind."""
    several = len(report.runs) > 1
    return tuple(
        Series(
            f"{run.label}, {kind}" if several else kind,
            found,
            i if several else KINDS.index(kind),
            dotted=kind == "zero-shot",
        )
        for i, run in enumerate(report.runs)
        for kind in KINDS
        if (found := run.history.course(kind, what))
    )
