import subprocess
import sys
from dataclasses import asdict

import pytest

from accord.errors import AccordError
from accord.evaluation.matrix import evaluate, evaluation_name, evaluation_options
from accord.evaluation.records import parse_lines
from accord.graph import Direction, TranslationGraph
from accord.inference.ensemble import Ensemble
from accord.inference.results import SearchSettings
from fake_translator import Tools

LANGUAGES = ("en", "de", "es", "fr")


@pytest.fixture
def make(tmp_path):
    return Tools(tmp_path)


@pytest.fixture
def graph(make):
    return make.star(*LANGUAGES)


@pytest.fixture
def held_out(make):
    return make.held_out([("all", LANGUAGES, range(30))])


def test_all_directions_in_one_go(make, graph, held_out):
    translator = make.translator(graph, make.loses_words(graph))
    evaluated = evaluate(translator, held_out, make.origin)
    found, lines = evaluated.evaluation, evaluated.lines
    assert [row.direction for row in found.directions] == [str(d) for d in graph.directions]
    assert {row.direction for row in found.via_pivot} == {str(d) for d in graph.zero_shot}
    assert all(row.via == ("en",) for row in found.via_pivot)
    assert found.missing == ()
    assert found.averages["supervised"].bleu == pytest.approx(100)
    assert found.averages["zero_shot_via_pivot"].bleu == pytest.approx(100)
    assert found.averages["zero_shot_via_pivot"].exact_match == 1
    assert 50 < found.averages["zero_shot"].bleu < 99
    assert found.averages["zero_shot"].length_ratio < 1
    assert len(lines) == 12 + 6
    assert all(len(item.hypotheses) == 30 for item in lines)


def test_nothing_is_searched_twice(make, graph, held_out):
    translator = make.translator(graph, make.loses_words(graph))
    evaluate(translator, held_out, make.origin)
    searched = [(to, text) for to, _, texts, _ in translator.calls for text in texts]
    assert len(searched) == len(set(searched))
    # A search a target, and none at all for the second leg: the pivot's text is known as a source.
    assert len(translator.calls) == len(LANGUAGES)
    assert len(translator.asked) == 2 * len(LANGUAGES)  # references, and agreement


def test_a_pivot_carries_on_what_was_translated(make, graph, held_out):
    wrong = lambda text, source, to: (source, to) == ("de", "en")  # noqa: E731
    evaluated = evaluate(make.translator(graph, wrong), held_out, make.origin)
    found, lines = evaluated.evaluation, evaluated.lines
    rows = {row.name: row for row in found.via_pivot}
    assert rows["de-fr.via-en"].exact_match == 0
    assert rows["es-fr.via-en"].exact_match == 1
    by_name = {item.name: item for item in lines}
    assert by_name["de-fr.via-en"].hypotheses[0] == " ".join(make.numbered("fr", 0).split()[:-1])


def test_several_translations_into_the_pivot_are_left_to_the_translator(make, graph, held_out):
    translator = make.translator(graph)
    settings = SearchSettings(beam=4, pivot_nbest=2)
    found = evaluate(translator, held_out, make.origin, settings=settings).evaluation
    assert {via for _, via, _, _ in translator.calls} == {(), ("en",)}
    assert found.averages["zero_shot_via_pivot"].bleu == pytest.approx(100)
    assert found.name == "test-beam4-pivots2"


def test_settings_are_kept_where_they_apply(make, graph, held_out):
    settings = SearchSettings(beam=6, length_penalty=1.0)
    translator = make.translator(graph)
    found = evaluate(translator, held_out, make.origin, settings=settings).evaluation
    assert found.search == asdict(settings)
    translator.reads_search_settings = False
    other = evaluate(translator, held_out, make.origin, settings=settings).evaluation
    assert (other.search, other.name) == ({}, found.name)
    (note,) = set(other.notes) - set(found.notes)
    assert "--beam and other search options do not apply" in note


def test_long_chains_are_followed(make):
    chain = ("en", "de"), ("de", "fr"), ("fr", "es")
    both = {Direction(*d) for d in chain} | {Direction(b, a) for a, b in chain}
    graph = TranslationGraph(LANGUAGES, frozenset(both))
    held_out = make.held_out([("all", LANGUAGES, range(5))])
    wrong = lambda text, source, to: not graph.is_supervised(source, to)  # noqa: E731
    found = evaluate(make.translator(graph, wrong), held_out, make.origin).evaluation
    rows = {row.name: row for row in found.via_pivot}
    assert set(rows) == {
        *("en-fr.via-de", "fr-en.via-de", "de-es.via-fr", "es-de.via-fr"),
        *("en-es.via-de-fr", "es-en.via-fr-de"),
    }
    assert all(row.exact_match == 1 for row in rows.values())


def test_a_direction_without_a_chain_has_no_pivot_and_that_is_said(make):
    graph = TranslationGraph(("en", "de", "fr"), frozenset({Direction("en", "de")}))
    held_out = make.held_out([("all", ("en", "de", "fr"), range(5))])
    found = evaluate(make.translator(graph), held_out, make.origin).evaluation
    assert found.via_pivot == ()
    assert any("no pivot: en-fr, de-en" in note for note in found.notes)


def test_without_pivot_and_agreement(make, graph, held_out):
    evaluated = evaluate(
        make.translator(graph), held_out, make.origin, pivot=False, agreement=False
    )
    found, lines = evaluated.evaluation, evaluated.lines
    assert found.via_pivot == ()
    assert found.agreement is None
    assert "zero_shot_via_pivot" not in found.averages
    assert len(lines) == 12


def test_a_direction_without_a_set_is_missing_and_named(make, graph):
    held_out = make.held_out([("en-de", ("en", "de"), range(5)), ("de-fr", ("de", "fr"), range(9))])
    evaluated = evaluate(make.translator(graph), held_out, make.origin)
    found, lines = evaluated.evaluation, evaluated.lines
    assert [row.direction for row in found.directions] == ["en-de", "de-en", "de-fr", "fr-de"]
    assert "en-fr" in found.missing
    assert len(found.missing) == 8
    assert any("no test set" in note and "en-fr" in note for note in found.notes)
    assert found.averages["supervised"].directions == ("en-de", "de-en")
    assert {row.direction: row.test_set for row in found.directions}["fr-de"] == "de-fr"
    assert {item.name: len(item.sources) for item in lines}["fr-de.via-en"] == 9


def test_a_run_without_the_split_is_refused(make, graph, held_out):
    with pytest.raises(AccordError, match=r"no 'dev' set\n.*evaluate on test"):
        evaluate(make.translator(graph), held_out, make.origin, split="dev")


def test_limit_takes_the_first_sentences(make, graph, held_out):
    evaluated = evaluate(make.translator(graph), held_out, make.origin, limit=4)
    found, lines = evaluated.evaluation, evaluated.lines
    assert {row.sentences for row in found.directions} == {4}
    assert lines[0].sources == tuple(make.numbered("en", i) for i in range(4))
    assert found.name == "test-beam4-first4"
    with pytest.raises(AccordError, match="leaves none"):
        evaluate(make.translator(graph), held_out, make.origin, limit=0)


def test_consistency_and_agreement_of_the_matrix(make, graph, held_out):
    found = evaluate(make.translator(graph), held_out, make.origin).evaluation
    assert found.consistency.per_token.epsilon == pytest.approx(1)
    assert found.consistency.per_token.kappa == pytest.approx(3)
    assert found.consistency.per_sentence.kappa == pytest.approx(21)  # six words and the end
    assert found.consistency.per_token.ratio == pytest.approx(3)
    # Without errors all sources give the same translation.
    assert found.agreement.bleu == pytest.approx({"supervised": 100, "zero_shot": 100, "all": 100})
    assert len(found.agreement.rows) == 12  # six pairs, two third languages each
    into_english = [row for row in found.agreement.rows if row.target == "en"]
    assert {row.kind for row in into_english} == {"supervised"}
    assert {row.cross_entropy for row in into_english} == {1.0}


def test_disagreement_is_seen(make, graph, held_out):
    translator = make.translator(graph, make.loses_words(graph))
    found = evaluate(translator, held_out, make.origin).evaluation
    assert found.agreement.bleu["supervised"] == pytest.approx(100)
    assert found.agreement.bleu["zero_shot"] < 98


def test_unknown_languages_leave_out_the_off_target_rate_only(make):
    graph = make.star("en", "qq", "zz")
    held_out = make.held_out([("all", ("en", "qq", "zz"), range(5))])
    found = evaluate(make.translator(graph), held_out, make.origin).evaluation
    assert {row.off_target for row in found.directions} == {None}
    assert any("no off-target rates" in note for note in found.notes)


def test_line_breaks_in_a_translation_become_spaces(make, graph, held_out):
    class Breaking(make.translator):
        def _one(self, text, to):
            return super()._one(text, to).replace(" ", "\n", 1)

    evaluated = evaluate(Breaking(graph), held_out, make.origin, pivot=False)
    found, lines = evaluated.evaluation, evaluated.lines
    assert not any("\n" in text for item in lines for text in item.hypotheses)
    assert found.averages["supervised"].exact_match == 1


def test_only_one_translation_a_sentence_is_searched_for(make, graph, held_out):
    translator = make.translator(graph)
    evaluate(translator, held_out, make.origin, settings=SearchSettings(beam=5, nbest=5))
    assert {settings.nbest for *_, settings in translator.calls} == {1}
    assert {settings.beam for *_, settings in translator.calls} == {5}


def test_lines_are_counted_from_one_and_the_last_is_among_them(make, graph, held_out):
    translator = make.translator(graph)
    whole = evaluate(translator, held_out, make.origin)
    size = whole.lines[0].references
    part = evaluate(translator, held_out, make.origin, lines=(2, 3))
    assert part.evaluation.lines == (2, 3)
    assert part.evaluation.name == "test-beam4-lines2-3"
    assert {item.name: item.references for item in part.lines} == {
        item.name: item.references[1:3] for item in whole.lines
    }
    everything = evaluate(translator, held_out, make.origin, lines=(1, len(size)))
    assert everything.evaluation.directions == whole.evaluation.directions
    with pytest.raises(AccordError, match=f"has {len(size)} lines of") as error:
        evaluate(translator, held_out, make.origin, lines=(2, len(size) + 1))
    assert error.value.where == f"--lines 2-{len(size) + 1}"
    assert error.value.fix == f"give lines from 1 to {len(size)}"
    with pytest.raises(AccordError, match="both a limit"):
        evaluate(translator, held_out, make.origin, lines=(1, 2), limit=2)


@pytest.mark.parametrize("text", ["", "7", "0-4", "5-4", "a-b", "1-", "-3", "1-2-3", "1–5", "١-٢"])
def test_what_is_no_range_of_lines_is_refused(text):
    with pytest.raises(AccordError, match="are no lines") as error:
        parse_lines(text)
    assert "1001-2000" in error.value.fix


def test_names_tell_evaluations_apart():
    assert evaluation_name("test", SearchSettings()) == "test-beam4"
    assert evaluation_name("dev", SearchSettings(beam=1)) == "dev-beam1"
    others = [
        evaluation_name("test", SearchSettings(length_penalty=1.0)),
        evaluation_name("test", SearchSettings(vocabulary="target")),
        evaluation_name("test", SearchSettings(no_repeat_ngram=3)),
        evaluation_name("test", SearchSettings(window=100)),
        evaluation_name("test", SearchSettings(), "last"),
        evaluation_name("test", SearchSettings(), limit=100),
        evaluation_name("test", SearchSettings(), lines=(1, 100)),
        evaluation_name("test", SearchSettings(), lines=(101, 200)),
        "test-beam4",
    ]
    assert len(set(others)) == len(others)
    assert evaluation_name("test", SearchSettings(batch_tokens=100, nbest=2)) == "test-beam4"


def test_options_ask_for_what_the_name_says():
    settings = SearchSettings(beam=3, length_penalty=1.0, pivot_nbest=3, window=100)
    found = evaluation_name("dev", settings, "last", lines=(1, 100))
    assert found == "dev-beam3-penalty1-pivots3-window100-last-lines1-100"
    asked = "--split dev --beam 3 --length-penalty 1.0 --pivot-nbest 3 --checkpoint last"
    options = evaluation_options("dev", settings, "last", lines=(1, 100))
    assert options == [*asked.split(), "--lines", "1-100"]
    assert evaluation_options("test", SearchSettings(), limit=7) == ["--limit", "7"]
    assert evaluation_options("test", SearchSettings()) == []


def test_processes_change_no_figure(make, graph, held_out, monkeypatch):
    translator = make.translator(graph, make.loses_words(graph))
    alone = evaluate(translator, held_out, make.origin).evaluation
    monkeypatch.setattr("accord.evaluation.matrix._WORTH_PROCESSES", 0)
    monkeypatch.setattr("accord.evaluation.matrix.cores", lambda: 2)
    together = evaluate(translator, held_out, make.origin).evaluation
    assert together.directions == alone.directions
    assert together.averages == alone.averages
    assert together.agreement == alone.agreement


def test_scoring_processes_start_without_torch():
    program = "import sys, accord.evaluation.matrix; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


BOTH = Ensemble.parse("direct:0.4,via:en:0.6")


def test_an_ensemble_is_a_third_way_for_zero_shot_directions(make, graph, held_out):
    translator = make.translator(graph, make.loses_words(graph))
    evaluated = evaluate(translator, held_out, make.origin, ensemble=BOTH)
    found = evaluated.evaluation
    assert {row.direction for row in found.by_ensemble} == {str(d) for d in graph.zero_shot}
    assert {row.name for row in found.by_ensemble} >= {"de-fr.ensemble-direct-0.4-via-en-0.6"}
    assert {row.ensemble for row in found.by_ensemble} == {"direct:0.4,via:en:0.6"}
    assert {row.cross_entropy for row in found.by_ensemble} == {None}
    assert found.averages["zero_shot_by_ensemble"].bleu == pytest.approx(100)  # the pivot's words
    assert found.averages["zero_shot"].bleu < 99
    plain = evaluate(translator, held_out, make.origin).evaluation
    assert plain.by_ensemble == ()
    assert (plain.directions, plain.via_pivot) == (found.directions, found.via_pivot)
    assert (plain.name, plain.averages["zero_shot"]) == (found.name, found.averages["zero_shot"])
    assert len(found.rows) == 12 + 6 + 6


def test_an_ensemble_reads_sentences_with_their_own_pivots(make, graph, held_out):
    translator = make.translator(graph)
    evaluate(translator, held_out, make.origin, ensemble=BOTH, settings=SearchSettings(beam=3))
    calls = {(to, texts[0][0][:2]): texts for to, texts, _, _ in translator.together}
    assert set(calls) == {(d.target, d.source) for d in graph.zero_shot}
    for texts in calls.values():
        for one, other in zip(*texts, strict=True):
            assert other == " ".join("en" + word[2:] for word in one.split())
    assert {weights for _, _, weights, _ in translator.together} == {(0.4, 0.6)}
    assert {settings.beam for *_, settings in translator.together} == {3}
    # The translations into the pivot are there already.
    assert len(translator.calls) == len(LANGUAGES)


def test_an_ensemble_needs_no_pivot_rows(make, graph, held_out):
    found = evaluate(
        make.translator(graph), held_out, make.origin, pivot=False, ensemble=BOTH
    ).evaluation
    assert found.via_pivot == ()
    assert len(found.by_ensemble) == 6


def test_directions_whose_end_is_the_pivot_are_left_out_and_named(make):
    both = {Direction("en", "de"), Direction("de", "en"), Direction("de", "fr")}
    graph = TranslationGraph(("en", "de", "fr"), frozenset(both))
    held_out = make.held_out([("all", ("en", "de", "fr"), range(5))])
    found = evaluate(make.translator(graph), held_out, make.origin, ensemble=BOTH).evaluation
    assert [row.direction for row in found.by_ensemble] == ["fr-de"]
    assert any("so left out: en-fr, fr-en" in note for note in found.notes)
    with pytest.raises(AccordError, match="'xx'"):
        evaluate(
            make.translator(graph),
            held_out,
            make.origin,
            ensemble=Ensemble.parse("direct,via:xx"),
        )
