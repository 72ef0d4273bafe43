"""Evaluation of a model that is told the source language."""

import pytest
import torch

from accord.data.vocabulary import Vocabulary, train
from accord.evaluation.matrix import evaluate
from accord.inference.backends.torch_backend import TorchBackend
from accord.inference.ensemble import Ensemble
from accord.inference.results import SearchSettings
from accord.inference.translator import Translator
from fake_translator import Tools, star
from language_reader import reader, seen_directions, word

LANGUAGES = ("en", "de", "fr")


@pytest.fixture(scope="module")
def vocabulary():
    words = [f"{a}{b}" for a in "abcdefghij" for b in "klmnopqrst"]
    return Vocabulary(train(words * 3, LANGUAGES, 320), LANGUAGES)


@pytest.fixture
def held_out(tmp_path):
    """A line that reads alike in all languages, and others."""
    found = Tools(tmp_path).held_out([("multi", LANGUAGES, [1, 2])])
    for file in tmp_path.rglob("*.txt"):
        file.write_text("Bonn, 1990\n" + file.read_text("utf-8"), "utf-8")
    return found


@pytest.mark.parametrize("pivots", [1, 2])
def test_lines_that_read_alike_in_two_languages_have_translations_of_their_own(
    vocabulary, held_out, pivots
):
    model = reader(vocabulary)
    graph = star(*LANGUAGES)
    backend = TorchBackend(model, vocabulary, graph, device=torch.device("cpu"))
    settings = SearchSettings(beam=2, pivot_nbest=pivots)
    ensemble = Ensemble.parse("direct:0.6,via:en:0.4") if pivots == 1 else None
    found = evaluate(
        Translator.of(backend), held_out, Tools.origin, settings=settings, ensemble=ensemble
    )
    assert found.evaluation.directions[0].sentences == 3
    for lines in found.lines:
        read = lines.via[-1] if lines.via else lines.direction.source
        assert set(lines.hypotheses) == {word(vocabulary, read)}, lines.name
    assert seen_directions(model, vocabulary) == set(graph.directions)
