import io
import itertools
import math
import re
import xml.etree.ElementTree as ET
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from accord.graph import Direction, TranslationGraph
from accord.graph_drawing import MOST_LINES, svg, terminal

SVG = "{http://www.w3.org/2000/svg}"
TWELVE = ("en", "de", "es", "fr", "it", "nl", "pl", "pt", "ro", "ru", "sv", "zh")
MANY = tuple(a + b for a in "abcdefgh" for b in "stuvwxyz")


def graph_of(languages: str, directions: str) -> TranslationGraph:
    edges = frozenset(Direction.parse(direction) for direction in directions.split())
    return TranslationGraph(tuple(languages.split()), edges)


def star(languages: tuple[str, ...]) -> TranslationGraph:
    hub, *others = languages
    edges = [Direction(*edge) for x in others for edge in ((hub, x), (x, hub))]
    return TranslationGraph(languages, frozenset(edges))


def printed(graph: TranslationGraph, width: int = 80, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    Console(file=stream, width=width, no_color=True).print(terminal(graph))
    stream.flush()
    return raw.getvalue().decode(encoding)


def row(text: str, language: str) -> str:
    return next(line for line in text.splitlines() if re.match(rf"\W*{language}\b", line))


def shapes(graph: TranslationGraph, kind: str) -> list[ET.Element]:
    return [e for e in ET.fromstring(svg(graph)).iter() if e.get("class") == kind]


def test_the_matrix_marks_every_direction() -> None:
    text = printed(star(TWELVE[:4]))
    assert row(text, "en").split() == ["en", "●", "●", "●"]
    assert row(text, "de").split() == ["de", "●", "○", "en", "○", "en"]
    heading = row(text, "from")
    assert heading.split() == ["from", "\\", "to", "en", "de", "es", "fr"]
    # The diagonal is blank: under "de" in the row of de, and only there, nothing stands.
    at = [heading.rindex(f" {language}") + 1 for language in TWELVE[:4]]
    assert [row(text, "de")[i] for i in at] == ["●", " ", "○", "○"]


def test_a_star_is_summed_up() -> None:
    text = printed(star(TWELVE[:4]))
    assert "4 languages, 12 directions: 6 supervised, 6 zero-shot." in text
    assert "span the graph: agreement training can tie" in text
    assert "  de → en → es, fr\n" in text


def test_longer_pivots_are_spelt_out() -> None:
    text = printed(graph_of("de en fr ru", "de-en en-de en-fr fr-en fr-ru ru-fr"))
    assert "  de → en → fr → ru\n" in text
    assert "○ en,fr" in row(text, "de")


def test_islands_are_named_and_the_remedy_too() -> None:
    text = printed(graph_of("de en fr es", "de-en en-de fr-es es-fr"))
    assert "do not span the graph (de, en | fr, es)" in text
    assert "add a corpus" in text
    assert row(text, "de").split() == ["de", "●", "·", "·"]
    assert "without a pivot:\n  de → fr, es\n" in text


def test_data_one_way_is_not_promised_too_much() -> None:
    text = " ".join(printed(graph_of("de en", "de-en")).split())
    assert "span the graph, but some run one way only" in text
    assert "without a pivot: en → de" in text


def test_nothing_zero_shot_is_said_so() -> None:
    text = printed(graph_of("de en", "de-en en-de"))
    assert "Every direction is supervised" in text
    assert "pivots:" not in text


def test_without_unicode_plain_letters_do() -> None:
    text = printed(star(TWELVE[:10]), encoding="ascii")  # encoding would fail on any other glyph
    assert "o en" in text
    assert "de -> en -> es, fr" in text


@pytest.mark.parametrize(
    "graph",
    [
        star(TWELVE[:2]),
        star(TWELVE[:10]),
        star(TWELVE),
        star(tuple(f"{code}_Latn" for code in TWELVE)),
        star(MANY),
        TranslationGraph(MANY, frozenset()),
    ],
    ids=["two", "ten", "twelve", "scripts", "many", "no data"],
)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_line_is_wider_than_the_terminal(graph: TranslationGraph, encoding: str) -> None:
    assert max(len(line) for line in printed(graph, encoding=encoding).splitlines()) <= 80


def test_ten_languages_show_their_pivots_in_80_columns() -> None:
    assert row(printed(star(TWELVE[:10])), "de").count("○ en") == 8


def test_wide_codes_give_up_pivots_and_then_names() -> None:
    graph = star(tuple(f"{code}_Latn" for code in TWELVE[:5]))
    assert row(printed(graph), "de_Latn").count("○ en_Latn") == 3
    assert row(printed(graph, width=65), "de_Latn").split() == ["de_Latn", "●", "○", "○", "○"]
    assert row(printed(graph, width=45), "2").split() == ["2", "de_Latn", "●", "○", "○", "○"]


def test_a_matrix_that_cannot_fit_is_left_out() -> None:
    assert "64 languages does not fit in 80 columns" in printed(star(MANY))


@pytest.mark.parametrize("width", [80, 300])
def test_a_long_list_is_cut_and_counted(width: int) -> None:
    graph = star(MANY)
    text = printed(graph, width=width)
    listed = text.split("pivots:\n")[1].splitlines()
    assert len(listed) <= MOST_LINES
    shown = sum(line.count(",") + ("→" in line) for line in joined(listed[:-1]))
    assert listed[-1] == f"  … and {len(graph.zero_shot) - shown} more"


def joined(lines: list[str]) -> list[str]:
    """Undo the wrapping: a line that is indented further belongs to the one before."""
    return re.sub(r"\n {6}", " ", "\n".join(lines)).split("\n")


def test_a_list_that_just_fits_is_not_cut() -> None:
    chain = TranslationGraph(
        TWELVE[:6],
        frozenset(Direction(*d) for x in itertools.pairwise(TWELVE[:6]) for d in (x, x[::-1])),
    )
    text = printed(chain)
    assert "more" not in text
    assert len(text.split("pivots:\n")[1].splitlines()) == 20


def test_the_figure_of_the_paper() -> None:
    graph = star(("en", "es", "fr", "ru"))
    assert len(shapes(graph, "supervised")) == 3
    assert len(shapes(graph, "zero-shot")) == 3
    for edge in shapes(graph, "supervised") + shapes(graph, "zero-shot"):
        assert edge.get("marker-start")
        assert edge.get("marker-end")
    places = circles(graph)
    assert places["en"] == 0
    assert len({round(abs(places[x])) for x in ("es", "fr", "ru")}) == 1


def test_data_one_way_gives_two_lines_with_one_head_each() -> None:
    graph = graph_of("de en", "de-en")
    (solid,), (dotted,) = shapes(graph, "supervised"), shapes(graph, "zero-shot")
    assert solid.findtext(f"{SVG}title") == "de → en: supervised"
    assert dotted.findtext(f"{SVG}title") == "en → de: zero-shot"
    assert [edge.get("marker-start") for edge in (solid, dotted)] == [None, None]
    assert solid.get("d") != dotted.get("d")


@pytest.mark.parametrize(
    "graph",
    [graph_of("de en fr", "de-en en-fr"), graph_of("de en fr es", "de-en fr-es"), star(TWELVE[:2])],
    ids=["three", "islands", "two"],
)
def test_without_a_hub_all_stand_on_the_circle(graph: TranslationGraph) -> None:
    assert len({round(abs(place)) for place in circles(graph).values()}) == 1


def test_the_figure_is_accessible_and_stands_alone() -> None:
    text = svg(star(TWELVE))
    root = ET.fromstring(text)
    assert root.get("viewBox")
    assert root[0].tag == f"{SVG}title"
    assert "en, de" in str(root[0].text)
    assert "22 supervised, 110 zero-shot" in str(root.findtext(f"{SVG}desc"))
    assert "prefers-color-scheme: dark" in text
    assert not list(root.iter(f"{SVG}script"))
    assert re.findall(r"(?:https?:|href|@import)[^\"]*", text) == ["http://www.w3.org/2000/svg"]
    ids = {element.get("id") for element in root.iter()}
    assert set(re.findall(r"url\(#([^)]+)\)", text)) <= ids


def test_every_rule_stays_inside_the_figure() -> None:
    style = str(ET.fromstring(svg(star(TWELVE[:2]))).findtext(f"{SVG}style"))
    selectors = re.sub(r"@media[^{]*\{|\{[^}]*\}|\}", "|", style).replace(",", "|").split("|")
    assert all(s.strip().startswith(".accord-graph") for s in selectors if s.strip())


def circles(graph: TranslationGraph) -> dict[str, complex]:
    return {
        str(node.findtext(f"{SVG}title")): complex(
            float(node.find(f"{SVG}circle").get("cx")),  # type: ignore[union-attr, arg-type]
            float(node.find(f"{SVG}circle").get("cy")),  # type: ignore[union-attr, arg-type]
        )
        for node in shapes(graph, "language")
    }


@st.composite
def graphs(draw: st.DrawFn) -> TranslationGraph:
    languages = TWELVE[: draw(st.integers(2, 12))]
    hub = st.just([(languages[0], x) for x in languages[1:]])
    some = st.lists(st.sampled_from(list(itertools.permutations(languages, 2))))
    edges = draw(some) + draw(st.one_of(hub, st.just([])))
    return TranslationGraph(languages, frozenset(Direction(*edge) for edge in edges))


@given(graphs())
@example(graph_of("en de es fr it nl pl", "en-de en-es en-fr en-it en-nl en-pl de-it"))
@settings(max_examples=60, derandomize=True, deadline=None)
def test_every_direction_is_drawn_once_and_passes_no_language(graph: TranslationGraph) -> None:
    places = circles(graph)
    drawn: Counter[tuple[str, Direction]] = Counter()
    middles: dict[frozenset[str], complex] = {}
    for kind in ("supervised", "zero-shot"):
        for edge in shapes(graph, kind):
            start, arrow, end = str(edge.findtext(f"{SVG}title")).split(":")[0].split()
            drawn[kind, Direction(start, end)] += 1
            if arrow == "↔":
                drawn[kind, Direction(end, start)] += 1
            assert (arrow == "↔") == ("marker-start" in edge.attrib)
            points = along(str(edge.get("d")))
            pair = frozenset((start, end))
            assert pair not in middles or abs(middles[pair] - points[30]) > 10
            middles[pair] = points[30]
            # The ends are at the border of their own circles, the rest is clear of all circles.
            for language, place in places.items():
                nearest = min(abs(point - place) for point in points)
                if language in (start, end):
                    assert 24 < nearest < 24 + 12
                else:
                    assert nearest > 24 + 5
    expected = [("supervised", d) for d in graph.supervised_directions]
    expected += [("zero-shot", d) for d in graph.zero_shot]
    assert drawn == Counter(expected)


def along(path: str) -> list[complex]:
    """Points on a cubic curve."""
    numbers = [float(number) for number in re.findall(r"-?\d+\.?\d*", path)]
    a, b, c, d = itertools.starmap(complex, zip(numbers[::2], numbers[1::2], strict=True))
    steps = [step / 60 for step in range(61)]
    return [
        sum(
            math.comb(3, k) * t**k * (1 - t) ** (3 - k) * point
            for k, point in enumerate((a, b, c, d))
        )
        for t in steps
    ]
