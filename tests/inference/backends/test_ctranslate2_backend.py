"""What CTranslate2's search finds, told in our terms: scores, limits, alignments, n-best lists."""

import pytest

from accord import AccordError, SearchSettings, Translator
from accord.data.vocabulary import EOS
from accord.export.export_run import export_run
from accord.inference.backends.loading import load_backend
from accord.inference.results import length_penalty
from accord.inference.scoring import cross_entropies
from accord.inference.text import source_rows
from exportable import made_run

pytest.importorskip("ctranslate2")

SMALL = {"kind": "transformer", "preset": "transformer-small", "heads": 4, "feed_forward": 48}
LINES = [
    "the big house.",
    "a cat sees the old dog and likes green",
    "house " * 19 + "house",
    "the cat",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made_run(tmp_path_factory.mktemp("searched"), **SMALL)


@pytest.fixture(scope="module")
def backend(run):
    return load_backend(export_run(run, to="ctranslate2", compare=0).directory)


@pytest.fixture(scope="module")
def trained(run):
    return load_backend(run)


def log_p(trained, rows, targets):
    ended = [[*ids, EOS] for ids in targets]
    return [-nats for nats in cross_entropies(trained.model, rows, ended, device=trained.device)]


@pytest.mark.parametrize("choice", [{}, {"vocabulary": "target"}, {"no_repeat_ngram": 2}])
@pytest.mark.parametrize("beam", [1, 4])
def test_scores_are_ours(backend, trained, choice, beam):
    settings = SearchSettings(beam=beam, nbest=beam, length_penalty=0.9, **choice)
    rows = source_rows(backend.vocabulary, LINES, "de")
    for row, found in zip(rows, backend.translate(LINES, "de", settings), strict=True):
        assert 1 <= len(found.hypotheses) <= beam
        expected = log_p(trained, [row] * beam, [item.ids for item in found.hypotheses])
        for item, value in zip(found.hypotheses, expected, strict=False):
            # What may never be said has some probability in random weights.
            assert item.log_probability == pytest.approx(value, rel=1e-5 if choice else 1e-3)
            penalty = length_penalty(len(item.ids) + 1.0, 0.9)
            assert item.score == pytest.approx(item.log_probability / penalty)
        scores = [item.score for item in found.hypotheses]
        assert scores == sorted(scores, reverse=True)


def test_only_what_the_target_language_has_is_said(backend, trained):
    forbidden = set(backend.decoder.forbidden("de"))
    assert len(forbidden) > len(backend.decoder.forbidden(None))
    settings = SearchSettings(beam=4, nbest=4, vocabulary="target")
    found = backend.translate(LINES, "de", settings)
    said = {i for item in found for each in item.hypotheses for i in each.ids}
    assert said
    assert not said & forbidden
    # Another language's list, and then all subwords again.
    assert not {
        i
        for item in backend.translate(LINES, "fr", settings)
        for each in item.hypotheses
        for i in each.ids
    } & set(backend.decoder.forbidden("fr"))
    greedy = SearchSettings(beam=1)
    again, expected = (each.translate(LINES, "de", greedy) for each in (backend, trained))
    assert [item.text for item in again] == [item.text for item in expected]


@pytest.mark.parametrize("beam", [1, 3])
def test_no_translation_passes_its_limit_and_cut_ones_are_scored_with_their_end(
    backend, trained, beam
):
    rows = source_rows(backend.vocabulary, LINES, "de")
    limits = [2, 5, 1, 3]
    settings = SearchSettings(beam=beam, nbest=beam)
    forbidden = backend.decoder.forbidden(None)
    search = backend.decoder.engine.search(settings, forbidden)
    cut = 0
    for row, limit, found in zip(rows, limits, search(rows, limits), strict=True):
        assert all(len(item.ids) <= limit for item in found)
        assert all(len(item.alignment) == len(item.ids) for item in found)
        cut += sum(len(item.ids) == limit for item in found)
        expected = log_p(trained, [row] * len(found), [item.ids for item in found])
        assert [item.log_probability for item in found] == pytest.approx(expected, rel=1e-3)
    assert cut


def test_alignments_in_a_batch_are_those_of_sentences_alone(backend):
    settings = SearchSettings(beam=4)
    together = backend.translate(LINES, "de", settings)
    alone = [backend.translate([line], "de", settings)[0] for line in LINES]
    assert [item.hypotheses[0].alignment for item in together] == [
        item.hypotheses[0].alignment for item in alone
    ]


def test_a_beam_finds_no_less_than_greedy_search(backend):
    rows = source_rows(backend.vocabulary, LINES, "de")
    found = {
        beam: backend.decoder.engine.search(
            SearchSettings(beam=beam, length_penalty=0.0), backend.decoder.forbidden(None)
        )(rows)
        for beam in (1, 8)
    }
    best = {beam: sum(item[0].log_probability for item in of) for beam, of in found.items()}
    assert best[8] > best[1]
    assert all(len(item) == 1 for item in found[8])


def test_cross_entropies_are_those_of_the_run(backend, trained):
    references = ["das grosse Haus.", "", "eine Katze", "Haus " * 30]
    found = backend.cross_entropy(LINES, references, "de")
    for (nats, tokens), expected in zip(
        found, trained.cross_entropy(LINES, references, "de"), strict=True
    ):
        assert (pytest.approx(nats, rel=1e-5), tokens) == expected

    assert backend.cross_entropy([], [], "de") == []
    with pytest.raises(AccordError, match="2,048 positions, too few"):
        backend.cross_entropy(["the cat"], ["Haus " * 1500], "de")


def test_a_window_without_positions_is_refused(run, backend):
    long = ["house cat " * 1500]
    settings = SearchSettings(beam=1, window=1200)
    with pytest.raises(AccordError, match="2,048") as error:
        backend.translate(long, "de", settings)
    assert "at most 998" in error.value.fix
    widest = SearchSettings(beam=1, window=998)
    found, expected = (
        each.translate(long, "de", settings=widest)[0]
        for each in (Translator.of(backend), Translator(run, device="cpu"))
    )
    assert found.text == expected.text
