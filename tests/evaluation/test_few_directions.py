"""Evaluation, report and comparison of a system that has a model for some directions only, and
gives no likelihood."""

import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from accord.cli import app
from accord.errors import AccordError
from accord.evaluation.evaluate import evaluate_run
from accord.evaluation.matrix import evaluate
from accord.evaluation.records import Evaluation
from accord.evaluation.tables import tables
from accord.evaluation.uses import read_uses, uses_of
from accord.graph import Direction, TranslationGraph
from accord.inference.backends.base import Backend
from accord.inference.backends.loading import RUN_BACKENDS
from accord.inference.results import Hypothesis, SearchSettings, Translation
from accord.progress import Silent
from accord.report.contents import build
from accord.report.html import html
from accord.report.latex import latex
from accord.report.markdown import markdown
from fake_translator import FakeTranslator, Tools, star
from made_runs import experiment, make_run

GRAPH = star("en", "de", "fr")
FEW = GRAPH.supervised


class Few(FakeTranslator):
    """Refuses what there is no model for, and asks for the source."""

    needs_source = True
    has_likelihood = False
    directions = FEW

    def translate(self, texts, to, *, source=None, via=None, settings=None):
        for leg in zip((source, *(via or ())), (*(via or ()), to), strict=True):
            assert leg in self.directions
        return super().translate(texts, to, source=source, via=via, settings=settings)

    def cross_entropy(self, *_):
        raise AssertionError("it gives none")


def evaluated(tmp_path, translator, languages=("en", "de", "fr"), **options):
    tools = Tools(tmp_path)
    held_out = tools.held_out([("all", languages, range(10))])
    return evaluate(translator, held_out, tools.origin, **options)


def shown(evaluation):
    console = Console(width=200, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(tables(evaluation))
    return capture.get()


def test_rows_where_there_is_a_model(tmp_path):
    found = evaluated(tmp_path, Few(GRAPH)).evaluation
    assert {row.direction for row in found.directions} == {str(d) for d in FEW}
    assert [(row.direction, row.via) for row in found.via_pivot] == [
        ("de-fr", ("en",)),
        ("fr-de", ("en",)),
    ]
    assert found.missing == ()
    assert "no direct model for de-fr, fr-de: only by way of en" in found.notes
    assert found.averages.keys() == {"supervised", "zero_shot_via_pivot"}
    assert found.averages["zero_shot_via_pivot"].bleu == pytest.approx(100)
    assert [row.direction for row in found.by_direction][-2:] == ["de-fr", "fr-de"]


def test_without_likelihood_what_needs_it_is_left_out(tmp_path):
    found = evaluated(tmp_path, Few(GRAPH)).evaluation
    assert found.consistency is None
    assert {row.cross_entropy for row in found.rows} == {None}
    assert {row.cross_entropy_per_sentence for row in found.rows} == {None}
    assert any(
        "no likelihood" in note and "agreement by BLEU alone" in note for note in found.notes
    )
    [agreed] = found.agreement.rows  # de and fr into en; de-fr and fr-de have no model
    assert (agreed.languages, agreed.target) == (("de", "fr"), "en")
    assert (agreed.bleu, agreed.cross_entropy) == (pytest.approx(100), None)
    assert found.agreement.cross_entropy == {}
    assert any(note.startswith("agreement only where") for note in found.notes)
    text = json.dumps(found.as_dict())
    assert "NaN" not in text
    (tmp_path / "evaluation.json").write_text(json.dumps({**json.loads(text), "format": 1}))
    assert Evaluation.load(tmp_path).agreement == found.agreement


class Stages(Silent):
    """Remembers what work was begun."""

    def __init__(self):
        self.begun = []

    def start(self, what, total=None, keep=True):
        self.begun.append(what)


def test_no_stage_begins_for_a_cross_entropy_that_is_not_had(tmp_path):
    stages = Stages()
    evaluated(tmp_path, Few(GRAPH), progress=stages)
    assert stages.begun == ["translating", "translating, leg 2", "scoring", "agreement, BLEU"]
    stages = Stages()
    evaluated(tmp_path / "all", FakeTranslator(GRAPH), progress=stages)
    assert "cross-entropy" in stages.begun


def test_the_terminal_shows_that_there_is_no_direct_figure(tmp_path):
    said = shown(evaluated(tmp_path, Few(GRAPH)).evaluation)
    assert "○ – (100.0)" in said
    assert "Consistency" not in said


def test_a_leg_without_a_model_leaves_a_direction_out(tmp_path):
    some = Few(GRAPH)
    some.directions = frozenset({Direction("de", "en"), Direction("en", "fr")})
    found = evaluated(tmp_path, some).evaluation
    assert [row.direction for row in found.directions] == ["en-fr", "de-en"]
    assert [row.direction for row in found.via_pivot] == ["de-fr"]
    assert "no direct model for en-de, fr-en, fr-de: not evaluated" in found.notes
    with pytest.raises(AccordError, match=r"(?s)no direction that has a set.*one of de-en, en-fr"):
        evaluated(tmp_path / "other", some, languages=("fr", "de"), pivot=False)


def test_only_pivots_have_a_set(tmp_path):
    found = evaluated(tmp_path, Few(GRAPH), languages=("de", "fr")).evaluation
    assert found.directions == ()
    assert len(found.via_pivot) == 2
    assert "○ – (100.0)" in shown(found)


def test_a_direction_with_data_but_without_a_model_is_no_zero_shot_average(tmp_path):
    every = TranslationGraph(GRAPH.languages, frozenset(GRAPH.directions))
    some = Few(every)
    some.directions = every.supervised - {Direction("en", "de")}
    found = evaluated(tmp_path, some)
    [row] = found.evaluation.via_pivot
    assert (row.direction, row.via, row.kind) == ("en-de", ("fr",), "supervised")
    assert found.evaluation.averages.keys() == {"supervised"}
    assert len(found.evaluation.averages["supervised"].directions) == 5
    [use] = uses_of(found)
    assert (
        use.references == uses_of(evaluated(tmp_path / "all", FakeTranslator(every)))[0].references
    )


def test_what_goes_directly_is_told_apart_from_what_was_trained(tmp_path):
    """A zero-shot direction may have a model of its own; it has a pivot as well."""
    some = Few(GRAPH)
    some.directions = FEW | {Direction("de", "fr")}
    found = evaluated(tmp_path, some).evaluation
    assert found.averages["zero_shot"].directions == ("de-fr",)
    assert found.averages["zero_shot_via_pivot"].directions == ("de-fr", "fr-de")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    directory = tmp_path_factory.mktemp("runs")
    make_run(directory / "few", directions=FEW, likelihood=False, lost=0.2)
    make_run(directory / "basic", lost=0.6)
    return directory


@pytest.mark.parametrize("order", [("few",), ("few", "basic"), ("basic", "few")])
def test_reports(runs, order):
    report = build([runs / name for name in order])
    columns = [system.label for system in report.systems]
    assert "few, pivot" in columns
    assert "few" not in columns  # it would have no zero-shot row
    text, page, paper = markdown(report), html(report), latex(report)
    assert "no likelihood" in text
    assert "○ – (" in text
    assert "not translated directly" in page
    assert "zero-shot average" in text
    assert "zero-shot average" in paper
    if order[0] == "few":
        assert report.answer.headline.startswith("Open: it translates no zero-shot direction")
        assert "### de-fr, zero-shot" in text  # examples
    else:
        assert any(line.startswith("Zero-shot BLEU against few") for line in report.answer.details)


def test_a_run_with_some_of_the_zero_shot_directions(runs, tmp_path):
    make_run(tmp_path / "part", directions=FEW | {Direction("de", "fr")}, lost=0.2)
    report = build([tmp_path / "part", runs / "basic"])
    assert [system.label for system in report.systems][:2] == ["part", "part, pivot"]
    text = markdown(report)
    rows = [line for line in text.splitlines() if line.startswith("| fr-de | –")]
    assert len(rows) == 2  # BLEU and chrF
    assert all(row.count("–") == 1 for row in rows)  # its pivot and the other run have one
    assert "zero-shot average of 1 of 2" in text


@pytest.mark.parametrize("order", [("few", "basic"), ("basic", "few")])
def test_compared(runs, tmp_path, order):
    against, other = (runs / name for name in order)
    file = tmp_path / "figures.json"
    said = ["compare", str(other), "--against", str(against), "--final", "--json", str(file)]
    result = CliRunner().invoke(app, said, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    differences = json.loads(file.read_text())["differences"]
    found = {item["what"] for item in differences if item["run"] == other.name}
    if other.name == "few":
        assert found == {
            "supervised − basic",
            "via pivot − basic",
            "via pivot − pivot of basic",
        }
    else:
        assert found == {"supervised − few", "zero-shot − pivot of few", "zero-shot − own pivot"}


class Phrasebook(Backend):
    """A backend of a run that has neither checkpoint nor network."""

    directions = FEW
    has_likelihood = False
    reads_search_settings = False
    device_name = "an abacus"

    def __init__(self, path, settings):
        self.graph = GRAPH

    def translate(self, texts, to, settings, source=None):
        assert (source, to) in self.directions
        return [
            Translation(text, (Hypothesis(text.replace(source, to), (), (), 0.0, 0.0, ()),))
            for text in texts
        ]


def test_the_kind_of_model_of_a_run_chooses_the_backend(runs, tmp_path, monkeypatch):
    monkeypatch.setitem(RUN_BACKENDS, experiment().model.kind, Phrasebook)
    made = make_run(tmp_path / "run", evaluated=False)
    held_out = runs / "few" / "held_out"
    split = f"other={held_out}/test/all.{{lang}}.txt"
    found = evaluate_run(made, split=split, settings=SearchSettings(beam=8)).evaluation
    assert (found.origin.step, found.origin.device) == (0, "an abacus")
    assert found.averages["zero_shot_via_pivot"].bleu == pytest.approx(100)
    assert found.name == "other-beam8"  # beside those of networks that were asked the same
    assert found.search == {}
    assert [note for note in found.notes if "--beam" in note] == [
        "the model has a search of its own: --beam and other search options do not apply"
    ]
    assert "beam" not in read_uses(made)[-1].options
