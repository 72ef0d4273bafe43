from dataclasses import replace

import pytest

from accord.errors import AccordError
from accord.inference.pivot import translate_along
from accord.inference.results import Hypothesis, SearchSettings, Translation
from search_models import LINES, decoder

DECODER = decoder()


def test_a_pivot_is_two_translations_in_a_row():
    settings = SearchSettings(beam=3)
    found = translate_along(DECODER.translate, LINES, ["en", "de"], settings)
    first = DECODER.translate(LINES, "en", settings)
    second = DECODER.translate([item.text for item in first], "de", settings)
    assert [item.text for item in found] == [item.text for item in second]
    assert [item.pivot for item in found] == first
    for whole, one, two in zip(found, first, second, strict=True):
        assert whole.source == one.source
        assert whole.via == ("en",)
        assert whole.hypotheses[0].ids == two.hypotheses[0].ids
        expected = one.hypotheses[0].log_probability + two.hypotheses[0].log_probability
        assert whole.hypotheses[0].log_probability == pytest.approx(expected)


TABLE = {
    ("x", "en"): {"p": -1.0, "q": -1.5},
    ("p", "de"): {"u": -3.0, "v": -4.0},
    ("q", "de"): {"v": -1.0, "w": -2.8},
}


def by_table(texts, target, settings, source):
    return [
        Translation(
            text,
            tuple(
                Hypothesis(found, (), (), score, 2 * score, ())
                for found, score in list(TABLE[text, target].items())[: settings.nbest]
            ),
            warnings=(f"{text} seen",),
        )
        for text in texts
    ]


def test_scores_through_the_pivot_are_added_up():
    settings = SearchSettings(beam=4, nbest=3, pivot_nbest=2)
    [found] = translate_along(by_table, ["x"], ["en", "de"], settings)
    assert [(h.text, h.score) for h in found.hypotheses] == [
        ("v", -2.5),  # through q; through p it would be -5
        ("u", -4.0),
        ("w", -4.3),
    ]
    assert found.hypotheses[0].log_probability == -5.0
    assert found.pivot.text == "q"  # the way that the best translation came
    assert {h.text for h in found.pivot.hypotheses} == {"p", "q"}
    assert found.warnings == ("x seen", "p seen", "q seen")
    [single] = translate_along(by_table, ["x"], ["en", "de"], SearchSettings())
    assert (single.text, single.pivot.text) == ("u", "p")


@pytest.mark.parametrize("without", ["en", "de"])
def test_a_leg_without_probabilities_leaves_none_for_the_whole(without):
    def some(texts, target, settings, source):
        """A model that only ranks, on one of the two legs."""
        found = by_table(texts, target, settings, source)
        if target != without:
            return found
        return [
            replace(
                item,
                hypotheses=tuple(replace(h, log_probability=None) for h in item.hypotheses),
            )
            for item in found
        ]

    [found] = translate_along(some, ["x"], ["en", "de"], SearchSettings(beam=4, nbest=3))
    assert [(h.text, h.score) for h in found.hypotheses] == [("u", -4.0), ("v", -5.0)]
    assert {h.log_probability for h in found.hypotheses} == {None}
    kept = {h.text: h.log_probability for h in found.pivot.hypotheses}
    assert kept == {"p": None if without == "en" else -2.0}
    with pytest.raises(AccordError, match="pivot_nbest cannot be above 1 by way of en") as error:
        translate_along(some, ["x"], ["en", "de"], SearchSettings(beam=4, pivot_nbest=2))
    assert "leave it at 1" in error.value.fix


def test_a_system_of_its_own_scale_with_one_translation_may_come_first():
    """It ranks nothing, so that what follows is compared on one scale."""

    def some(texts, target, settings, source):
        found = by_table(texts, target, settings, source)
        if target != "en":
            return found
        ranks = [replace(item.hypotheses[0], score=100.0, log_probability=None) for item in found]
        return [replace(item, hypotheses=(one,)) for item, one in zip(found, ranks, strict=True)]

    settings = SearchSettings(beam=4, nbest=3, pivot_nbest=2)
    [found] = translate_along(some, ["x"], ["en", "de"], settings)
    assert [h.text for h in found.hypotheses] == ["u", "v"]


def test_several_pivots():
    settings = SearchSettings(beam=2)
    found = translate_along(DECODER.translate, LINES[:5], ["en", "de", "en"], settings)
    texts = LINES[:5]
    for target in ("en", "de", "en"):
        texts = [item.text for item in DECODER.translate(texts, target, settings)]
    assert [item.text for item in found] == texts
    assert found[0].via == ("en", "de")
    assert found[0].pivot.via == ("en",)


def test_an_empty_line_stays_empty_through_a_pivot():
    settings = SearchSettings(beam=3, nbest=2, pivot_nbest=2)
    found = translate_along(DECODER.translate, ["", LINES[3]], ["en", "de"], settings)
    assert found[0].text == ""


def test_the_same_text_through_two_pivots_counts_once():
    settings = SearchSettings(beam=4, nbest=4, pivot_nbest=4)
    for item in translate_along(DECODER.translate, LINES[:6], ["en", "de"], settings):
        texts = [hypothesis.text for hypothesis in item.hypotheses]
        assert len(set(texts)) == len(texts)
        scores = [hypothesis.score for hypothesis in item.hypotheses]
        assert scores == sorted(scores, reverse=True)
