import itertools
import pickle
import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.errors import AccordError
from accord.graph import KINDS, Direction, TranslationGraph, direction_name, language_name

CODES = ("en", "de", "es", "fra", "eng_Latn", "ru", "zh")
steady = settings(derandomize=True, deadline=None)


def graph_of(languages: str, directions: str) -> TranslationGraph:
    edges = frozenset(Direction.parse(direction) for direction in directions.split())
    return TranslationGraph(tuple(languages.split()), edges)


@st.composite
def graphs(draw: st.DrawFn) -> TranslationGraph:
    size = draw(st.integers(2, len(CODES)))
    languages = tuple(draw(st.permutations(CODES))[:size])
    edges = draw(st.sets(st.sampled_from(list(itertools.permutations(languages, 2)))))
    return TranslationGraph(languages, frozenset(Direction(*edge) for edge in edges))


def distances(graph: TranslationGraph) -> dict[tuple[str, str], float]:
    """Floyd-Warshall."""
    far = {(x, y): float("inf") for x in graph.languages for y in graph.languages}
    far |= {(x, x): 0 for x in graph.languages} | dict.fromkeys(graph.supervised, 1)
    for via, x, y in itertools.product(graph.languages, repeat=3):
        far[x, y] = min(far[x, y], far[x, via] + far[via, y])
    return far


@pytest.mark.parametrize("text", ["de-fr", "eng_Latn-fra_Latn", "zho_Hans-de"])
def test_a_direction_is_read_and_written_alike(text: str) -> None:
    direction = Direction.parse(text)
    assert str(direction) == f"{direction}" == text
    assert direction == tuple(text.split("-"))


@pytest.mark.parametrize(
    "text",
    ["", "de", "de-", "-de", "de-fr-en", "de_fr", "DE-fr", "de fr", "d-fr", "de-fr\n", "é-de"],
)
def test_nonsense_is_no_direction(text: str) -> None:
    with pytest.raises(AccordError, match="is not a direction") as caught:
        Direction.parse(text)
    assert "de-fr" in str(caught.value.fix)


def test_a_language_is_not_translated_into_itself() -> None:
    with pytest.raises(AccordError, match="into itself"):
        Direction.parse("de-de")


@pytest.mark.parametrize(
    ("languages", "edges", "message"),
    [
        (("de", "en"), [("de", "fr")], "unknown language 'fr'"),
        (("de", "en"), [("de", "de")], "to itself"),
        (("de", "en", "de"), [], "de more than once"),
        (("de",), [], "not 1"),
        ((), [], "not 0"),
        (("de", "English"), [], "'English' is not a language code"),
    ],
)
def test_a_wrong_graph_is_refused(
    languages: tuple[str, ...], edges: list[tuple[str, str]], message: str
) -> None:
    with pytest.raises(AccordError, match=message) as caught:
        TranslationGraph(languages, frozenset(Direction(*edge) for edge in edges))
    assert caught.value.fix


def test_the_star_around_english() -> None:
    graph = graph_of("en de fr", "en-de de-en en-fr fr-en")
    written = [str(direction) for direction in graph.directions]
    assert written == ["en-de", "en-fr", "de-en", "de-fr", "fr-en", "fr-de"]
    assert graph.zero_shot == (("de", "fr"), ("fr", "de"))
    assert graph.zero_shot_pairs() == (("de", "fr"),)
    assert graph.spans()
    assert graph.pivot_path("de", "fr") == ("de", "en", "fr")
    assert graph.pivot_path("de", "en") == ("de", "en")
    assert graph.neighbours("en") == ("de", "fr")


def test_plain_tuples_will_do_as_edges() -> None:
    graph = TranslationGraph(("de", "en"), frozenset({("de", "en")}))  # type: ignore[arg-type]
    assert [str(direction) for direction in graph.supervised_directions] == ["de-en"]


def test_data_one_way_gives_pivots_one_way() -> None:
    graph = graph_of("de en fr", "de-en en-fr")
    assert graph.spans()
    assert graph.pivot_path("de", "fr") == ("de", "en", "fr")
    assert graph.pivot_path("fr", "de") is None
    assert [str(direction) for direction in graph.unreachable()] == ["en-de", "fr-de", "fr-en"]
    assert graph.zero_shot_pairs() == (("de", "fr"),)


def test_ties_go_to_the_language_named_first() -> None:
    edges = "de-en en-fr de-es es-fr"
    assert graph_of("de en es fr", edges).pivot_path("de", "fr") == ("de", "en", "fr")
    assert graph_of("fr es en de", edges).pivot_path("de", "fr") == ("de", "es", "fr")


def test_the_hub_has_most_directions() -> None:
    assert graph_of("de fr en", "de-en en-de fr-en").hub == "en"
    assert graph_of("de fr en", "de-fr fr-de fr-en").hub == "fr"
    assert graph_of("de fr en es", "de-fr en-es").hub == "de"


def test_islands_are_named_in_the_order_of_the_languages() -> None:
    graph = graph_of("ru de en fr es", "en-de es-fr")
    assert not graph.spans()
    assert graph.components() == (("ru",), ("de", "en"), ("fr", "es"))


@pytest.mark.parametrize(("source", "target"), [("de", "xx"), ("xx", "de"), ("de", "de")])
def test_a_path_needs_two_known_languages(source: str, target: str) -> None:
    with pytest.raises(AccordError):
        graph_of("de en", "de-en").pivot_path(source, target)


def test_a_graph_is_a_value() -> None:
    graph = graph_of("de en fr", "de-en en-fr")
    graph.unreachable()  # fills what is remembered between calls
    fresh = graph_of("de en fr", "en-fr de-en")
    assert graph == fresh == pickle.loads(pickle.dumps(graph))
    assert hash(graph) == hash(fresh)


@steady
@given(graphs())
def test_supervised_and_zero_shot_part_the_directions(graph: TranslationGraph) -> None:
    supervised, zero_shot = graph.supervised_directions, graph.zero_shot
    assert not set(supervised) & set(zero_shot)
    assert sorted(supervised + zero_shot) == sorted(graph.directions)
    assert set(supervised) == graph.supervised
    assert len(set(graph.directions)) == len(graph.languages) * (len(graph.languages) - 1)
    assert all(graph.is_supervised(*direction) for direction in supervised)
    assert list(graph.directions) == sorted(
        graph.directions, key=lambda d: [graph.languages.index(language) for language in d]
    )


@steady
@given(graphs())
def test_a_pivot_path_is_the_first_of_the_shortest(graph: TranslationGraph) -> None:
    far = distances(graph)
    for direction in graph.directions:
        path = graph.pivot_path(*direction)
        if path is None:
            assert far[direction] == float("inf")
            continue
        assert (path[0], path[-1]) == direction
        assert all(step in graph.supervised for step in itertools.pairwise(path))
        assert len(path) - 1 == far[direction]
        between = itertools.permutations(graph.languages, len(path) - 2)
        rivals = ((direction.source, *middle, direction.target) for middle in between)
        # permutations() runs in the order of the languages, so the first valid rival must be it.
        assert path == next(
            rival
            for rival in rivals
            if all(step in graph.supervised for step in itertools.pairwise(rival))
        )
    assert graph.unreachable() == tuple(d for d in graph.zero_shot if far[d] == float("inf"))


@steady
@given(graphs(), st.randoms(use_true_random=False))
def test_the_order_of_the_edges_changes_nothing(
    graph: TranslationGraph, dice: random.Random
) -> None:
    edges = sorted(graph.supervised)
    dice.shuffle(edges)
    again = TranslationGraph(graph.languages, frozenset(edges))
    assert again.supervised_directions == graph.supervised_directions
    assert again.components() == graph.components()
    assert [again.pivot_path(*d) for d in again.directions] == [
        graph.pivot_path(*d) for d in graph.directions
    ]


@steady
@given(graphs())
def test_the_islands_are_those_of_union_find(graph: TranslationGraph) -> None:
    parent = {language: language for language in graph.languages}

    def root(language: str) -> str:
        while parent[language] != language:
            language = parent[language]
        return language

    for source, target in graph.supervised:
        parent[root(source)] = root(target)
    assert graph.spans() == (len({root(language) for language in graph.languages}) == 1)
    groups = graph.components()
    assert sorted(sum(groups, ())) == sorted(graph.languages)
    assert len({root(group[0]) for group in groups}) == len(groups)
    assert all(len({root(language) for language in group}) == 1 for group in groups)


@steady
@given(graphs())
def test_a_zero_shot_pair_has_no_data_either_way(graph: TranslationGraph) -> None:
    either_way = {frozenset(direction) for direction in graph.supervised}
    expected = {frozenset(d) for d in graph.directions} - either_way
    pairs = graph.zero_shot_pairs()
    assert {frozenset(pair) for pair in pairs} == expected
    assert len(pairs) == len(expected)
    assert all(graph.languages.index(x) < graph.languages.index(y) for x, y in pairs)


def test_import_is_cheap() -> None:
    code = (
        "import sys, accord.graph, accord.graph_drawing\n"
        "print([m for m in ('torch', 'numpy', 'rich', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_kind_of_a_direction_is_said_in_one_place():
    graph = TranslationGraph(("en", "de", "fr"), frozenset([Direction("en", "de")]))
    assert graph.kind(("en", "de")) == "supervised"
    assert graph.kind(Direction("de", "en")) == "zero-shot"
    assert {graph.kind(direction) for direction in graph.directions} == set(KINDS)


def test_names_of_languages() -> None:
    known = {"de": "German", "fra": "French", "qqq": "qqq", "odd-code": "odd-code"}
    assert {code: language_name(code) for code in known} == known
    assert language_name("zh_Hant").startswith("Chinese (Traditional")
    assert language_name("pt_br") == "Portuguese (Brazil)"
    assert direction_name("de-zh_Hant") == f"German → {language_name('zh_Hant')}"
