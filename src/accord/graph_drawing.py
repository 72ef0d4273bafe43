"""Pictures of a translation graph: a table for the terminal and a figure as SVG."""

import cmath
import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from accord.graph import KINDS, TranslationGraph

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table
    from rich.text import Text


MOST_LINES = 30


def terminal(graph: TranslationGraph) -> "RenderableType":
    """The matrix of directions, what it means for training, and the pivots, for rich to print."""
    return _Terminal(graph)


def svg(graph: TranslationGraph) -> str:
    """A self-contained figure: solid lines for directions with data, dotted ones for zero-shot."""
    return _Figure(graph).text()


@dataclass(frozen=True)
class _Glyphs:
    supervised: str
    zero_shot: str
    no_pivot: str
    arrow: str
    more: str


_UNICODE = _Glyphs("●", "○", "·", "→", "…")
_ASCII = _Glyphs("#", "o", ".", "->", "...")


@dataclass(frozen=True)
class _Terminal:
    """Width and encoding are known only when rich prints, hence not a ready-made table."""

    graph: TranslationGraph

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.text import Text

        glyphs = _ASCII if options.ascii_only else _UNICODE
        yield self._widest_matrix(console, options, glyphs)
        yield Text()
        for paragraph in (_counts(self.graph), _meaning(self.graph)):
            yield Text(paragraph)
        for line in _pivot_lines(self.graph, glyphs, options.max_width):
            yield Text(line)

    def _widest_matrix(
        self, console: "Console", options: "ConsoleOptions", glyphs: _Glyphs
    ) -> "RenderableType":
        from rich.console import Group
        from rich.text import Text

        endless = options.update(width=10_000)
        for pivots, names in ((True, True), (False, True), (False, False)):
            table = self._matrix(glyphs, pivots=pivots, names=names)
            if console.measure(table, options=endless).maximum <= options.max_width:
                return Group(table, _key(glyphs, pivots=pivots))
        count, width = len(self.graph.languages), options.max_width
        return Text(f"(a matrix of {count} languages does not fit in {width} columns)")

    def _matrix(self, glyphs: _Glyphs, *, pivots: bool, names: bool) -> "Table":
        """Rows are sources, columns targets; `names=False` puts numbers over the columns."""
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2 if names else 1, 0, 0))
        languages = self.graph.languages
        table.add_column("from \\ to", style="bold", no_wrap=True)
        for number, language in enumerate(languages, start=1):
            table.add_column(language if names else str(number), no_wrap=True)
        for number, source in enumerate(languages, start=1):
            cells = [self._cell(source, target, glyphs, pivots) for target in languages]
            table.add_row(source if names else f"{number:>2} {source}", *cells)
        return table

    def _cell(self, source: str, target: str, glyphs: _Glyphs, pivots: bool) -> "Text":
        from rich.text import Text

        if source == target:
            return Text()
        if self.graph.is_supervised(source, target):
            return Text(glyphs.supervised, style="bold blue")
        path = self.graph.pivot_path(source, target)
        if path is None:
            return Text(glyphs.no_pivot, style="red")
        via = f" {','.join(path[1:-1])}" if pivots else ""
        return Text.assemble((glyphs.zero_shot, "yellow"), (via, "dim"))


def _key(glyphs: _Glyphs, *, pivots: bool) -> "Text":
    from rich.text import Text

    return Text.assemble(
        (glyphs.supervised, "bold blue"),
        " supervised   ",
        (glyphs.zero_shot, "yellow"),
        f" zero-shot{', with its pivot' if pivots else ''}   ",
        (glyphs.no_pivot, "red"),
        " zero-shot, no pivot",
    )


def _counts(graph: TranslationGraph) -> str:
    supervised, zero_shot = len(graph.supervised), len(graph.zero_shot)
    return (
        f"{len(graph.languages)} languages, {supervised + zero_shot} directions: "
        f"{supervised} supervised, {zero_shot} zero-shot."
    )


def _meaning(graph: TranslationGraph) -> str:
    if not graph.zero_shot:
        return "Every direction is supervised: nothing is left to zero-shot translation."
    if graph.spans() and graph.unreachable():
        return (
            "The supervised directions span the graph, but some run one way only: agreement "
            "training cannot be counted on for the directions without a pivot."
        )
    if graph.spans():
        return (
            "The supervised directions span the graph: agreement training can tie every zero-shot "
            "direction to data."
        )
    groups = " | ".join(", ".join(group) for group in graph.components())
    return (
        f"The supervised directions do not span the graph ({groups}): nothing ties languages of "
        "different groups together, so add a corpus that joins them."
    )


def _pivot_lines(graph: TranslationGraph, glyphs: _Glyphs, width: int) -> Iterator[str]:
    """One line for each source and pivot, with all targets behind, so that the list stays short."""
    arrow = f" {glyphs.arrow} "
    pivoted: dict[str, list[str]] = {}
    stranded: dict[str, list[str]] = {}
    for source, target in graph.zero_shot:
        path = graph.pivot_path(source, target)
        if path is None:
            stranded.setdefault(source, []).append(target)
        else:
            pivoted.setdefault(arrow.join(path[:-1]), []).append(target)
    for heading, groups in (
        ("Zero-shot directions and their pivots:", pivoted),
        ("Zero-shot directions without a pivot:", stranded),
    ):
        if groups:
            yield f"\n{heading}"
            yield from _capped(groups, arrow, glyphs.more, width)


def _capped(groups: dict[str, list[str]], arrow: str, more: str, width: int) -> Iterator[str]:
    """At most `MOST_LINES` lines of the terminal; the last one counts what found no room."""
    room = MOST_LINES
    left = sum(len(targets) for targets in groups.values())
    for start, targets in groups.items():
        line = f"  {start}{arrow}{', '.join(targets)}"
        rows = textwrap.wrap(line, width, subsequent_indent=" " * 6)
        needed = len(rows) if len(targets) == left else len(rows) + 1
        if needed > room:
            yield f"  {more} and {left} more"
            return
        room -= len(rows)
        left -= len(targets)
        yield from rows


# The figure. Colours are of the Okabe-Ito set, lighter where the page is dark; the card behind the
# graph keeps text legible where page and system disagree about light and dark. Every rule starts
# with the figure's own class, because a style element inside an HTML page reaches the whole page.
_STYLE = """
.accord-graph { max-width: 100%; height: auto; font-family: system-ui, sans-serif; }
.accord-graph .card { fill: #ffffff; }
.accord-graph .language circle { fill: #f2f4f7; stroke: #5a6472; stroke-width: 1.5; }
.accord-graph text { fill: #1b1f24; }
.accord-graph .language text { font-weight: 600; text-anchor: middle; }
.accord-graph .legend text { font-size: 14px; }
.accord-graph .supervised, .accord-graph .legend-supervised
  { fill: none; stroke: #0072b2; stroke-width: 2.5; }
.accord-graph .zero-shot, .accord-graph .legend-zero-shot
  { fill: none; stroke: #d55e00; stroke-width: 2; stroke-linecap: round; stroke-dasharray: 0.1 5; }
.accord-graph .supervised-arrow { fill: #0072b2; }
.accord-graph .zero-shot-arrow { fill: #d55e00; }
@media (prefers-color-scheme: dark) {
  .accord-graph .card { fill: #14181d; }
  .accord-graph .language circle { fill: #262c34; stroke: #98a2b0; }
  .accord-graph text { fill: #eceff3; }
  .accord-graph .supervised, .accord-graph .legend-supervised { stroke: #56b4e9; }
  .accord-graph .zero-shot, .accord-graph .legend-zero-shot { stroke: #e69f00; }
  .accord-graph .supervised-arrow { fill: #56b4e9; }
  .accord-graph .zero-shot-arrow { fill: #e69f00; }
}
"""
_NODE = 24.0  # radius of a language
_MARGIN = 16.0
_ARROW = 9.0  # length of an arrowhead, also the part of a line that it replaces
_GAP = 1.5  # between a line or its arrowhead and the circle it leads to
_LEGEND = 56.0  # height of the strip under the graph
_ROOM = 11.0  # kept free between the hub and a line that passes it
_APART = 8.0  # how far the two lines of a pair with data one way only bend from the straight


@dataclass(frozen=True)
class _Edge:
    """A line with an arrowhead at `end`, and one at `start` when it stands for both directions."""

    start: str
    end: str
    kind: str
    both: bool

    @property
    def label(self) -> str:
        return f"{self.start} {'↔' if self.both else '→'} {self.end}"


def _edges(graph: TranslationGraph) -> Iterator[_Edge]:
    """One line for a pair whose directions are alike, two for a pair with data one way only."""
    for one, other in combinations(graph.languages, 2):
        there, back = graph.kind((one, other)), graph.kind((other, one))
        if there == back:
            yield _Edge(one, other, there, both=True)
        else:
            yield _Edge(one, other, there, both=False)
            yield _Edge(other, one, back, both=False)


class _Figure:
    """Places are complex numbers: the centre of the circle is 0, the imaginary axis points down."""

    def __init__(self, graph: TranslationGraph) -> None:
        self.graph = graph
        self.hub = _hub(graph)
        self.places = _places(graph, self.hub)
        border = _NODE + _MARGIN
        self.left = border - min(place.real for place in self.places.values())
        self.top = border - min(place.imag for place in self.places.values())
        self.width = self.left + border + max(place.real for place in self.places.values())
        self.legend = self.top + border + max(place.imag for place in self.places.values())

    def text(self) -> str:
        """The whole SVG document; supervised lines come last, to lie on top."""
        edges = sorted(_edges(self.graph), key=lambda edge: edge.kind == "supervised")
        solid = ", ".join(edge.label for edge in edges if edge.kind == "supervised") or "none"
        size = f'width="{self.width:.0f}" height="{self.legend + _LEGEND:.0f}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="accord-graph" role="img" {size} '
            f'viewBox="0 0 {self.width:.0f} {self.legend + _LEGEND:.0f}">',
            f"<title>Translation graph of {', '.join(self.graph.languages)}</title>",
            f"<desc>{_counts(self.graph)} Supervised: {solid}.</desc>",
            f"<style>{_STYLE}</style>",
            *_markers(),
            f'<rect class="card" {size} rx="10"/>',
            f'<g transform="translate({self.left:.2f} {self.top:.2f})">',
            *(self._line(edge) for edge in edges),
            *(_node(language, self.places[language]) for language in self.graph.languages),
            "</g>",
            self._key("supervised", len(self.graph.supervised), row=0),
            self._key("zero-shot", len(self.graph.zero_shot), row=1),
            "</svg>",
        ]
        return "\n".join(lines) + "\n"

    def _line(self, edge: _Edge) -> str:
        start, end = self.places[edge.start], self.places[edge.end]
        straight = (start + end) / 2
        # Both control points of the curve are the same, so its middle goes 3/4 of the way to them.
        bend = straight + (self._middle(edge) - straight) * 4 / 3
        here = _towards(start, bend, _NODE + _GAP + (_ARROW if edge.both else 0))
        there = _towards(end, bend, _NODE + _GAP + _ARROW)
        heads = f'marker-end="url(#accord-{edge.kind}-end)"'
        if edge.both:
            heads += f' marker-start="url(#accord-{edge.kind}-start)"'
        curve = f"M{_at(here)} C{_at(bend)} {_at(bend)} {_at(there)}"
        return (
            f'<path class="{edge.kind}" d="{curve}" {heads}>'
            f"<title>{edge.label}: {edge.kind}</title></path>"
        )

    def _middle(self, edge: _Edge) -> complex:
        """Where the middle of the line lies: off the straight to pass by the hub or by its twin."""
        start, end = self.places[edge.start], self.places[edge.end]
        right = (end - start) / abs(end - start) * 1j
        middle = (start + end) / 2 + (0 if edge.both else right * _APART)
        room = _NODE + _ROOM
        if self.hub is None or self.hub in (edge.start, edge.end) or abs(middle) >= room:
            return middle
        if abs(middle) > 1:
            return _towards(0j, middle, room)
        # Straight through the hub: every other such line passes on the other side, for balance.
        return right * (room if list(self.places).index(edge.start) % 2 else -room)

    def _key(self, kind: str, count: int, *, row: int) -> str:
        y = self.legend + 8 + 24 * row
        words = f"{kind}: {count} {'direction' if count == 1 else 'directions'}"
        return (
            f'<g class="legend"><path class="legend-{kind}" d="M{_MARGIN:g} {y:.2f} h36" '
            f'marker-end="url(#accord-{kind}-end)"/>'
            f'<text x="{_MARGIN + 54:g}" y="{y + 5:.2f}">{words}</text></g>'
        )


def _places(graph: TranslationGraph, hub: str | None) -> dict[str, complex]:
    """The hub, if any, at the centre and the others around it, clockwise from the top."""
    ring = [language for language in graph.languages if language != hub]
    radius = 90.0 + 16.0 * len(ring)
    first = math.pi if len(ring) == 2 else -math.pi / 2  # two languages stand side by side
    places = {hub: 0j} if hub else {}
    for number, language in enumerate(ring):
        places[language] = cmath.rect(radius, first + 2 * math.pi * number / len(ring))
    return places


def _hub(graph: TranslationGraph) -> str | None:
    """The one language with data to all others, if the rest is enough to stand around it.

    Two languages around a hub would have it lie on the line between them; a triangle is clearer.
    """
    hubs = [
        one
        for one in graph.languages
        if all(one == other or graph.linked(one, other) for other in graph.languages)
    ]
    return hubs[0] if len(hubs) == 1 and len(graph.languages) > 3 else None


def _markers() -> Iterator[str]:
    """Arrowheads; each end has its own, since not every viewer can turn one around."""
    half = 3.2
    tips = {"end": (0.0, _ARROW), "start": (_ARROW, 0.0)}
    yield "<defs>"
    for kind in KINDS:
        for end, (base, tip) in tips.items():
            yield (
                f'<marker id="accord-{kind}-{end}" markerUnits="userSpaceOnUse" orient="auto" '
                f'markerWidth="{_ARROW:g}" markerHeight="{2 * half:g}" refX="{base:g}" '
                f'refY="{half:g}"><path class="{kind}-arrow" '
                f'd="M{base:g} 0 L{tip:g} {half:g} L{base:g} {2 * half:g} Z"/></marker>'
            )
    yield "</defs>"


def _node(language: str, place: complex) -> str:
    """A circle with the code inside; a script (eng_Latn) goes on a second line."""
    parts = language.split("_")
    longest = max(len(part) for part in parts)
    font = min(16.0 if len(parts) == 1 else 13.0, 1.75 * (_NODE - 4) / (0.62 * longest))
    first = place.imag + font * (0.35 - 0.55 * (len(parts) - 1))
    rows = "".join(
        f'<tspan x="{place.real:.2f}" y="{first + 1.1 * font * row:.2f}">{part}</tspan>'
        for row, part in enumerate(parts)
    )
    return (
        f'<g class="language"><title>{language}</title>'
        f'<circle cx="{place.real:.2f}" cy="{place.imag:.2f}" r="{_NODE:g}"/>'
        f'<text font-size="{font:.4g}">{rows}</text></g>'
    )


def _towards(place: complex, goal: complex, distance: float) -> complex:
    return place + (goal - place) / abs(goal - place) * distance


def _at(point: complex) -> str:
    return f"{point.real:.2f},{point.imag:.2f}"
