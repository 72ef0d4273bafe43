"""Third languages follow from the graph, whatever its shape."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.config.third_languages import Triads, detours
from accord.graph import Direction, TranslationGraph

PARTS = ("distillation", "back-translation")
ALL = (*PARTS, "latent")


def graph(languages, pairs, one_way=()):
    both = {Direction(*d) for a, b in pairs for d in ((a, b), (b, a))}
    return TranslationGraph(
        tuple(languages), frozenset(both | {Direction(*pair) for pair in one_way})
    )


STAR = graph(["en", "de", "es", "fr"], [("en", x) for x in ("de", "es", "fr")])
# As in IWSLT17: English, Italian, Dutch, Romanian, German; two pairs without data.
CLIQUE = graph(
    ["de", "en", "it", "nl", "ro"],
    [tuple(pair.split("-")) for pair in "de-en de-it de-ro en-it en-nl en-ro it-nl nl-ro".split()],
)


def test_in_a_star_the_centre_teaches():
    triads = Triads(STAR, PARTS)
    assert triads.thirds("en", "de") == ("es", "fr")
    assert triads.thirds("de", "en") == ()
    assert triads.trained("de", "fr") == (Direction("de", "fr"), Direction("fr", "de"))
    assert Triads(STAR, PARTS[:1]).trained("de", "fr") == (Direction("de", "fr"),)
    assert Triads(STAR, PARTS[1:]).trained("de", "fr") == (Direction("fr", "de"),)


def test_a_round_trip_trains_a_direction_with_data_and_makes_no_translation_of_its_own():
    triads = Triads(STAR, [*PARTS, "round-trip"])
    assert triads.returned("en", "fr") == (Direction("fr", "en"),)
    assert triads.thirds("en", "de") == ("es", "fr")
    assert triads.thirds("de", "en") == ()
    assert set(triads.directions([("en", "de"), ("en", "es")])) == {
        *(Direction(*d.split("-")) for d in "de-es de-fr es-de es-fr fr-de fr-es".split()),
        *(Direction(x, "en") for x in ("de", "es", "fr")),
    }
    assert Triads(STAR, PARTS).returned("en", "fr") == ()
    alone = Triads(STAR, ["round-trip"])
    assert not alone.any_of([("en", "de"), ("en", "es"), ("en", "fr")])


def test_detours_of_a_target():
    assert detours(STAR, "all", "de") == ["en", "es", "fr"]
    assert detours(STAR, "zero-shot", "de") == ["es", "fr"]
    assert detours(STAR, "zero-shot", "en") == []
    assert detours(CLIQUE, "zero-shot", "nl") == ["de"]


def test_both_sides_may_teach():
    triads = Triads(CLIQUE, PARTS)
    assert triads.thirds("en", "de") == ("nl",)  # de-nl is without data, en-nl is not
    assert triads.thirds("de", "en") == ()
    assert triads.thirds("de", "it") == ("ro",)  # it-ro is without data
    assert triads.thirds("it", "de") == ("nl",)


def test_a_direction_with_data_is_never_trained():
    """es-fr has data one way: distillation would train what is known, back-translation not."""
    triads = Triads(graph(["en", "es", "fr"], [("en", "es"), ("en", "fr")], [("es", "fr")]), PARTS)
    assert triads.trained("es", "fr") == (Direction("fr", "es"),)
    assert triads.thirds("en", "es") == ("fr",)
    assert triads.thirds("es", "en") == ()  # en-fr and fr-en both have data


def test_latent_pairs_need_a_fourth_language():
    triads = Triads(STAR, ALL)
    assert triads.fourths("en", "de", "es") == ("fr",)
    assert triads.latent("es", "fr") == (Direction("es", "fr"), Direction("fr", "es"))
    assert Triads(STAR, PARTS).fourths("en", "de", "es") == ()
    assert Triads(STAR, ("latent",)).thirds("en", "de") == ("es", "fr")
    three = Triads(graph(["en", "de", "fr"], [("en", "de"), ("en", "fr")]), ("latent",))
    assert three.thirds("en", "de") == ()


@pytest.mark.parametrize(
    "useless",
    [
        graph(["en", "de"], [("en", "de")]),
        graph(["en", "de", "fr"], [("en", "de"), ("en", "fr"), ("de", "fr")]),
        graph(["en", "de", "fr"], [], [("de", "en"), ("fr", "en")]),  # nobody speaks de or fr
    ],
)
def test_a_graph_with_nothing_to_complete(useless):
    assert not Triads(useless, PARTS).any_of(useless.supervised_directions)
    assert Triads(STAR, PARTS).any_of([("en", "de")])


NAMES = ("aa", "bb", "cc", "dd")
DIRECTIONS = [Direction(*pair) for pair in permutations(NAMES, 2)]


@given(st.frozensets(st.sampled_from(DIRECTIONS)), st.sets(st.sampled_from(ALL)))
def test_in_any_graph_teachers_have_data_and_pupils_have_none(supervised, parts):
    made = TranslationGraph(NAMES, supervised)
    triads = Triads(made, parts)
    for teacher, pupil in permutations(NAMES, 2):
        for third in triads.thirds(teacher, pupil):
            assert len({teacher, pupil, third}) == 3
            assert made.is_supervised(teacher, third)
            used = [*triads.trained(pupil, third)]
            for fourth in triads.fourths(teacher, pupil, third):
                assert len({teacher, pupil, third, fourth}) == 4
                assert made.is_supervised(teacher, fourth)
                used += triads.latent(third, fourth)
            assert used
            assert not any(made.is_supervised(*d) for d in used)


def test_only_the_directions_that_are_asked_for_are_trained():
    only = Triads(STAR, PARTS, [Direction("de", "fr")])
    assert only.trained("de", "fr") == (Direction("de", "fr"),)
    assert only.trained("de", "es") == ()
    assert only.thirds("en", "de") == ("fr",)
    assert only.thirds("en", "fr") == ("de",)  # back-translation
    assert Triads(STAR, PARTS[:1], only.only).thirds("en", "fr") == ()
    corpora = [("en", other) for other in ("de", "es", "fr")]
    assert only.directions(corpora) == (Direction("de", "fr"),)
    every = Triads(STAR, PARTS).directions(corpora)
    assert set(every) == set(STAR.zero_shot)
    assert Triads(STAR, PARTS).directions([("en", "de")]) == tuple(
        d for d in STAR.zero_shot if "de" in d
    )
