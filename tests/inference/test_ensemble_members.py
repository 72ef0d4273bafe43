import pytest

from accord.errors import AccordError
from accord.inference.ensemble import Ensemble, translate_by
from accord.inference.ensemble_search import EnsembleDecoder
from accord.inference.results import NOTHING, SearchSettings, Translation
from search_models import LINES, decoder

DECODER = decoder()
ENSEMBLES = EnsembleDecoder(DECODER, DECODER.engine)
QUICK = SearchSettings(beam=2)


def by(members, texts, to="de", settings=QUICK):
    ensemble = Ensemble.parse(members)
    return translate_by(ensemble, DECODER.translate, ENSEMBLES.translate, texts, to, settings)


def test_members_and_weights_are_read():
    assert str(Ensemble.parse("direct,via:en")) == "direct,via:en"
    assert Ensemble.parse("direct, via:en").weights == (0.5, 0.5)
    three = Ensemble.parse("direct:1,via:en:2,via:zho_Hant:1")
    assert three.weights == (0.25, 0.5, 0.25)
    assert three.pivots == ("en", "zho_Hant")
    assert str(three) == "direct:0.25,via:en:0.5,via:zho_Hant:0.25"
    assert Ensemble.parse(str(three)) == three
    assert Ensemble.parse("via:en,via:fr").members[0].name == "via:en"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no ensemble member ''"),
        ("direct", "one member"),
        ("direct,,via:en", "no ensemble member ''"),
        ("direct,via", "no ensemble member 'via'"),
        ("direct,via:", "no ensemble member 'via:'"),
        ("direct,en", "no ensemble member 'en'"),
        ("direct,via:en,direct", "direct twice"),
        ("direct,via:en:0.5,via:en:0.2", "some have none|twice"),
        ("direct:0.5,via:en", "some have none"),
        ("direct:0,via:en:1", "'0' is no weight for direct"),
        ("direct:1,via:en:-1", "'-1' is no weight for via:en"),
        ("direct:nan,via:en:1", "positive"),
        ("direct:inf,via:en:1", "positive"),
        ("direct:half,via:en:1", "positive"),
        ("direct:1:2,via:en:1", "'1:2' is no weight"),
    ],
)
def test_what_is_no_ensemble_is_told_with_a_remedy(text, said):
    with pytest.raises(AccordError, match=said) as error:
        Ensemble.parse(text)
    assert "direct:0.5,via:en:0.5" in str(error.value)


def test_weights_too_large_to_add_up_are_refused():
    with pytest.raises(AccordError, match=r"1e\+308, 1e\+308"):
        Ensemble.parse("direct:1e308,via:en:1e308")


def test_a_pivot_without_a_translation_is_told_of():
    def translate(texts, *_):
        return [Translation(text, (NOTHING,)) for text in texts]

    ensemble = Ensemble.parse("via:en,direct")
    [found, empty] = translate_by(
        ensemble, translate, ENSEMBLES.translate, [LINES[0], " "], "de", QUICK
    )
    assert found.text == ""  # the first member alone
    assert found.warnings == ("the translation into en is empty",)
    assert empty.warnings == ()


def test_pivots_must_be_third_languages_that_the_model_knows():
    ensemble = Ensemble.parse("direct,via:en")
    ensemble.check(("en", "de", "fr"), "de", "fr")
    ensemble.check(("en", "de", "fr"))
    with pytest.raises(AccordError, match="does not know the language 'en'"):
        ensemble.check(("de", "fr"), "de", "fr")
    with pytest.raises(AccordError, match="en is the source"):
        ensemble.check(("en", "de"), "en", "de")
    with pytest.raises(AccordError, match="en is the target"):
        ensemble.check(("en", "de"), None, "en")


def test_an_ensemble_reads_the_text_and_its_translation_into_the_pivot():
    pivots = DECODER.translate(LINES, "en", QUICK)
    read = [LINES, [item.text for item in pivots]]
    expected = ENSEMBLES.translate(read, "de", (0.3, 0.7), QUICK)
    found = by("direct:0.3,via:en:0.7", LINES)
    assert [item.text for item in found] == [item.text for item in expected]
    mixed = [item for item in found if item.ensemble]
    assert len(mixed) > len(LINES) // 2
    for line, item in enumerate(found):
        assert item.source == LINES[line]
        if item.ensemble:
            assert [r.text for r in item.ensemble] == [texts[line] for texts in read]
            assert [(r.weight, r.via) for r in item.ensemble] == [(0.3, ()), (0.7, ("en",))]
    direct = [item.text for item in DECODER.translate(LINES, "de", QUICK)]
    assert [item.text for item in found] != direct


def test_the_same_text_twice_is_the_text_alone():
    found = ENSEMBLES.translate([LINES, LINES], "de", (1, 1), QUICK)
    for mine, theirs in zip(found, DECODER.translate(LINES, "de", QUICK), strict=True):
        assert mine.text == theirs.text
        assert mine.hypotheses[0].ids == theirs.hypotheses[0].ids
        assert mine.hypotheses[0].score == pytest.approx(theirs.hypotheses[0].score, abs=1e-9)


def test_a_line_without_all_its_texts_is_translated_by_the_first_alone():
    settings = SearchSettings(beam=2, window=12)
    long = " ".join(LINES)
    first = [LINES[0], LINES[1], long, "", " "]
    other = [LINES[2], "", LINES[3], LINES[4], LINES[5]]
    found = ENSEMBLES.translate([first, other], "de", (1, 1), settings)
    alone = DECODER.translate(first, "de", settings)
    assert found[0].ensemble
    assert not found[0].warnings
    for mine, theirs in zip(found[1:], alone[1:], strict=True):
        # Another batch may round another way.
        assert [item.ids for item in mine.hypotheses] == [item.ids for item in theirs.hypotheses]
        assert mine.hypotheses[0].score == pytest.approx(theirs.hypotheses[0].score)
        assert mine.ensemble == ()
    assert "more than 12 subwords: translated by the first member alone" in found[1].warnings[0]
    assert "cut into" in found[2].warnings[1]
    assert found[3].warnings == found[4].warnings == ()  # nothing to translate, nothing to say


def test_where_the_first_member_alone_is_a_pivot_it_is_named():
    settings = SearchSettings(beam=2, window=3)
    found = by("via:en,direct", [" ".join(LINES[:6])], settings=settings)
    assert found[0].ensemble == ()
    assert found[0].via == ("en",)
    assert found[0].pivot.text
    assert found[0].source == " ".join(LINES[:6])


def test_results_do_not_depend_on_batches():
    whole = by("direct,via:en", LINES)
    for tokens in (1, 30):
        again = by("direct,via:en", LINES, settings=SearchSettings(beam=2, batch_tokens=tokens))
        assert [item.text for item in again] == [item.text for item in whole]


def test_several_translations_are_distinct():
    for item in by("direct,via:en", LINES, settings=SearchSettings(beam=4, nbest=3)):
        texts = [hypothesis.text for hypothesis in item.hypotheses]
        assert 1 <= len(texts) == len(set(texts)) <= 3
