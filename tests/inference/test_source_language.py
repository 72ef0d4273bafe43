"""The source language reaches a model that reads it, on every way through the translator."""

import pytest
import torch

from accord.data.vocabulary import Vocabulary, train
from accord.errors import AccordError
from accord.graph import Direction, TranslationGraph
from accord.inference.backends.base import Backend
from accord.inference.backends.torch_backend import TorchBackend
from accord.inference.beam_search import BeamSearch, padded
from accord.inference.cuda_steps import FixedShapes
from accord.inference.results import Hypothesis, SearchSettings, Translation
from accord.inference.translator import Translator
from language_reader import reader, seen_directions, word

LANGUAGES = ("en", "de", "fr")
GRAPH = TranslationGraph(
    LANGUAGES, frozenset(Direction(*d) for d in [("en", "de"), ("de", "en"), ("en", "fr")])
)
GREEDY = SearchSettings(beam=1)


@pytest.fixture(scope="module")
def vocabulary():
    words = [f"{a}{b}" for a in "abcdefghij" for b in "klmnopqrst"]
    return Vocabulary(train(words * 3, LANGUAGES, 320), LANGUAGES)


@pytest.fixture
def model(vocabulary):
    return reader(vocabulary)


@pytest.fixture
def translator(model, vocabulary):
    return Translator.of(TorchBackend(model, vocabulary, GRAPH, device=torch.device("cpu")))


def test_a_text_is_read_in_its_language(translator, vocabulary):
    for source, to in (("de", "fr"), ("en", "fr")):
        found = translator.translate(["ak bl", "", "cm"], to, source=source)
        assert [item.text for item in found] == [said := word(vocabulary, source), "", said]
    assert [item.text for item in translator.stream(["ak"], "fr", source="de")] == [
        word(vocabulary, "de")
    ]


def test_each_leg_is_told_the_language_of_the_one_before(translator, model, vocabulary):
    settings = SearchSettings(beam=2, pivot_nbest=2)
    for via in ("en", "auto"):
        [found] = translator.translate(["ak"], "fr", source="de", via=via, settings=settings)
        assert (found.pivot.text, found.text) == (word(vocabulary, "de"), word(vocabulary, "en"))
    assert seen_directions(model, vocabulary) == {Direction("de", "en"), Direction("en", "fr")}


def test_members_of_an_ensemble_are_read_in_their_languages(translator, model, vocabulary):
    for ensemble, wins in (("direct:0.6,via:en:0.4", "de"), ("direct:0.4,via:en:0.6", "en")):
        [found] = translator.translate(
            ["ak"], "fr", source="de", ensemble=ensemble, settings=GREEDY
        )
        assert found.text == word(vocabulary, wins)
    legs = {("de", "en"), ("en", "fr"), ("de", "fr")}
    assert seen_directions(model, vocabulary) == {Direction(*leg) for leg in legs}


def test_texts_given_together_have_a_language_each(translator, vocabulary):
    for weights, wins in (([0.6, 0.4], "de"), ([0.0, 1.0], "en")):
        [found, empty] = translator.translate_together(
            [["ak", "ak"], ["bl", ""]], "fr", languages=["de", "en"], weights=weights
        )
        assert found.text == word(vocabulary, wins)
        assert empty.text == word(vocabulary, "de")  # the first member alone
    with pytest.raises(AccordError, match="--from"):
        translator.translate_together([["ak"], ["bl"]], "fr")
    with pytest.raises(AccordError, match="1 languages are given for 2"):
        translator.translate_together([["ak"], ["bl"]], "fr", languages=["de"])


def test_likelihood_depends_on_the_language(translator, vocabulary):
    said = word(vocabulary, "de")
    [own] = translator.cross_entropy(["ak"], [said], "fr", "de")
    [other] = translator.cross_entropy(["ak"], [said], "fr", "en")
    assert other[0] == pytest.approx(own[0] + 6.0, rel=1e-5)


@pytest.mark.parametrize("options", [{}, {"via": "en"}, {"ensemble": "direct,via:en"}])
def test_without_the_language_nothing_is_translated(translator, options):
    with pytest.raises(AccordError, match="--from"):
        translator.translate(["ak"], "fr", **options)
    with pytest.raises(AccordError, match="--from"):
        translator.stream(["ak"], "fr", **options)  # at once, not with the first line


def test_likelihood_without_the_language_is_refused(translator):
    with pytest.raises(AccordError, match="--from"):
        translator.cross_entropy(["ak"], ["bl"], "fr")


def test_fixed_shapes_keep_each_row_s_language(model, vocabulary):
    """As on a GPU: rows that fill up the shape of a graph say nothing."""
    search = BeamSearch(model, GREEDY, torch.tensor(sorted(vocabulary.tags.values())))
    search._shapes = FixedShapes(search._advance, record=lambda step: step)
    rows = [[vocabulary.tags["fr"], 300 + i, 1] for i in range(5)]
    languages = torch.tensor([1, 0, 2, 1, 0])
    found = search(*padded(rows, torch.device("cpu")), language_B=languages)
    assert [each[0].ids for each in found] == [(model.words[i],) for i in languages]


@pytest.mark.gpu
def test_recorded_steps_read_every_language(model, vocabulary):
    backend = TorchBackend(model, vocabulary, GRAPH, device=torch.device("cuda"))
    for source in ("de", "en", "de"):
        [found] = Translator.of(backend).translate(["ak"], "fr", source=source)
        assert found.text == word(vocabulary, source)


class Phrasebook(Backend):
    """One model for each direction with data; it names the direction."""

    has_likelihood = False

    def __init__(self, vocabulary, directions=GRAPH.supervised):
        self.graph, self.vocabulary = GRAPH, vocabulary
        self.directions = frozenset(directions)

    def translate(self, texts, to, settings, source=None):
        assert (source, to) in self.directions
        return [
            Translation(text, (Hypothesis(f"{text} {source}-{to}", (), (), 0.0, 0.0, ()),))
            for text in texts
        ]


def test_a_direction_without_a_model_goes_by_a_pivot(vocabulary):
    translator = Translator.of(Phrasebook(vocabulary))
    assert translator.needs_source
    [found] = translator.translate(["x"], "fr", source="de", via="auto")
    assert found.text == "x de-en en-fr"
    with pytest.raises(
        AccordError, match=r"(?s)no direct model for de-fr.*through en \(--via auto\)"
    ):
        translator.translate(["x"], "fr", source="de")
    with pytest.raises(AccordError, match=r"(?s)no direct model for fr-de.*de-en"):
        translator.translate(["x"], "en", source="fr", via="de")
    with pytest.raises(AccordError, match="--from"):
        translator.translate(["x"], "fr")


def test_the_pivot_has_a_model_for_both_legs(vocabulary):
    translator = Translator.of(Phrasebook(vocabulary, {Direction("de", "en")}))
    with pytest.raises(AccordError, match="no chain"):
        translator.translate(["x"], "fr", source="de", via="auto")
