from collections import Counter

import numpy as np
import pytest

from accord.data.batches import Batch, Position
from accord.errors import AccordError
from accord.graph import Direction, TranslationGraph
from accord.objectives.agreement.inputs import NONE, AuxiliaryLanguages

LANGUAGES = ("en", "de", "fr", "es")
TAGS = {language: 2 + i for i, language in enumerate(LANGUAGES)}


def graph(*pairs: str, languages: tuple[str, ...] = LANGUAGES) -> TranslationGraph:
    """Both directions of `en-de`, or one only of `en>de`."""
    directions = set()
    for pair in pairs:
        one, other = pair.replace(">", "-").split("-")
        directions.add(Direction(one, other))
        if "-" in pair:
            directions.add(Direction(other, one))
    return TranslationGraph(languages, frozenset(directions))


STAR = graph("en-de", "en-fr", "en-es")


def batch(directions: list[str], update_rows: int | None = None) -> Batch:
    pairs = [[LANGUAGES.index(x) for x in direction.split("-")] for direction in directions]
    sides = np.array(pairs, dtype=np.int16).reshape(-1, 2)
    rows = len(directions)
    return Batch(
        source_BS=np.ones((rows, 3), dtype=np.int32),
        source_lengths_B=np.full(rows, 3, dtype=np.int64),
        target_BT=np.ones((rows, 2), dtype=np.int32),
        target_lengths_B=np.full(rows, 2, dtype=np.int64),
        source_language_B=sides[:, 0],
        target_language_B=sides[:, 1],
        corpus_B=np.zeros(rows, dtype=np.int16),
        line_B=np.arange(rows),
        update_rows=update_rows or rows,
        update_target_tokens=2 * rows,
    )


def draws(languages: AuxiliaryLanguages, direction: str, count: int = 6000) -> Counter[str]:
    drawn = languages.draw(batch([direction] * count), seed=1, position=Position(0, 1))
    return Counter("none" if i == NONE else LANGUAGES[i] for i in drawn)


def is_uniform(counts: Counter[str], over: set[str]) -> bool:
    """A chi-square test at a level that a fair draw fails once in ten thousand cases."""
    expected = counts.total() / len(over)
    statistic = sum((counts[x] - expected) ** 2 / expected for x in over)
    limit = {1: 15.1, 2: 18.4, 3: 21.1}[len(over) - 1]
    return set(counts) == over and statistic < limit


@pytest.mark.parametrize(
    ("law", "direction", "over"),
    [
        ("zero-shot", "en-de", {"fr", "es"}),
        ("zero-shot", "es-en", {"de", "fr"}),
        ("all", "en-de", {"en", "de", "fr", "es"}),
        ("non-english", "en-de", {"de", "fr", "es"}),
        ("non-english", "fr-en", {"de", "fr", "es"}),
    ],
)
def test_each_law_is_uniform_over_its_languages(law: str, direction: str, over: set[str]) -> None:
    assert is_uniform(draws(AuxiliaryLanguages(STAR, TAGS, law=law), direction), over)


def test_a_language_both_sides_have_data_for_is_not_drawn() -> None:
    denser = graph("en-de", "en-fr", "de-fr", "en-es")
    languages = AuxiliaryLanguages(denser, TAGS)
    assert languages.candidates("de", "fr") == ("es",)
    assert set(draws(languages, "de-fr", 50)) == {"es"}
    # English is no exception by name: with data one way only, the other way is zero-shot.
    one_way = graph("de-fr", "en>de", "en-fr", "en-es")
    assert AuxiliaryLanguages(one_way, TAGS).candidates("de", "fr") == ("en", "es")


def test_a_pair_without_useful_language_gets_none() -> None:
    triangle = graph("en-de", "en-fr", "de-fr", "en-es", "de-es")
    languages = AuxiliaryLanguages(triangle, TAGS)
    assert languages.candidates("en", "de") == ()
    assert set(draws(languages, "en-de", 50)) == {"none"}


def test_nothing_to_agree_on_at_all_is_an_error() -> None:
    pair = TranslationGraph(("en", "de"), frozenset({Direction("en", "de")}))
    with pytest.raises(AccordError, match=r"nothing to agree on(.|\n)*weight to 0"):
        AuxiliaryLanguages(pair, {"en": 2, "de": 3})


def test_live_follows_the_graph_and_not_the_name_english() -> None:
    languages = AuxiliaryLanguages(graph("de-en", "de-fr", "de-es"), TAGS)
    assert not languages.is_live("de", "fr")
    assert languages.is_live("en", "fr")
    sides = np.array([1, 0, 0, 1], dtype=np.int16)  # de, en, en, de
    into = np.array([2, 2, 1, NONE], dtype=np.int16)  # fr, fr, de, none
    assert languages.live(sides, into).tolist() == [False, True, False, False]
    free = AuxiliaryLanguages(languages.graph, TAGS, protect="none")
    assert free.live(sides, into).tolist() == [True, True, True, False]


def test_one_sided_where_never_both_sides_are_zero_shot() -> None:
    assert AuxiliaryLanguages(STAR, TAGS).one_sided
    assert AuxiliaryLanguages(STAR, TAGS, law="all").one_sided
    assert not AuxiliaryLanguages(STAR, TAGS, protect="none").one_sided
    # de-fr knows nothing of Spanish: both of its sides are zero-shot there.
    assert not AuxiliaryLanguages(graph("en-de", "en-es", "de-fr"), TAGS).one_sided


def test_draws_do_not_depend_on_processes_and_differ_between_batches() -> None:
    languages = AuxiliaryLanguages(STAR, TAGS)
    rows = ["en-de", "de-en", "fr-en", "en-es", "es-en", "en-fr", "de-en"]
    whole = languages.draw(batch(rows), seed=3, position=Position(2, 5))
    for rank in range(3):
        part = batch(rows[rank::3], update_rows=len(rows))
        share = languages.draw(part, seed=3, position=Position(2, 5), rank=rank, world_size=3)
        assert share.tolist() == whole[rank::3].tolist()
    many = batch(["en-de"] * 64)
    keys = [(3, Position(2, 5)), (4, Position(2, 5)), (3, Position(3, 5)), (3, Position(2, 6))]
    found = {tuple(languages.draw(many, seed=s, position=p)) for s, p in keys}
    assert len(found) == len(keys)


def test_drawing_leaves_other_random_numbers_alone() -> None:
    np.random.seed(0)
    before = np.random.get_state()[1].tolist()
    AuxiliaryLanguages(STAR, TAGS).draw(batch(["en-de"]), seed=1, position=Position())
    assert np.random.get_state()[1].tolist() == before


def test_an_empty_share_draws_nothing() -> None:
    drawn = AuxiliaryLanguages(STAR, TAGS).draw(
        batch([], update_rows=1), seed=1, position=Position(), rank=1, world_size=2
    )
    assert len(drawn) == 0
