"""Several runs as one system: what each translates, and that later commands take it for a run."""

import json
import shutil

import pytest
import typer
from typer.testing import CliRunner

from accord.cli import app
from accord.config.load import load
from accord.data.prepare import prepare
from accord.errors import AccordError
from accord.evaluation.evaluate import evaluate_run
from accord.graph import Direction
from accord.inference.backends.combined_backend import Combined, combine
from accord.inference.results import SearchSettings
from accord.inference.translator import Translator
from accord.report.contents import build
from accord.report.html import html
from accord.serving.opened_model import open_translator
from accord.training.trainer import train
from toy_training import experiment, prepared

GREEDY = SearchSettings(beam=1)
TEXTS = ["null eins", "zwei drei vier"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of one store, each on one direction: de-en, en-fr, and de-fr by Distill."""
    toy, folder = prepared(tmp_path_factory.getbasetemp()), tmp_path_factory.mktemp("runs")
    for name, steps in (("de-en", 8), ("en-fr", 60)):  # the second one must end its sentences
        train(experiment(toy, folder / name, training__directions=[name], training__steps=steps))
    complete = {"preset": "sentence-greedy", "gold": False, "directions": ["de-fr"], "pairs": 20}
    complete["teacher"] = {"run": str(folder / "en-fr")}
    keys = {"training__steps": 8, "objective__complete": complete}
    train(experiment(toy, folder / "distilled", **keys))
    return folder


@pytest.fixture(scope="module")
def pairs(runs):
    out = runs / "pairs"
    names = [f"{name}={runs / name}" for name in ("de-en", "en-fr")]
    found = CliRunner().invoke(app, ["combine", str(out), *names])
    assert found.exit_code == 0, found.output
    return out


def translated(model, texts, to, **options):
    with_model = Translator(model)
    found = with_model.translate(texts, to, settings=GREEDY, **options)
    return [item.text for item in found]


def test_each_direction_is_its_runs(runs, pairs):
    german = translated(pairs, TEXTS, "en", source="de")
    assert german == translated(runs / "de-en", TEXTS, "en")
    french = translated(pairs, german, "fr", source="en")
    assert french == translated(runs / "en-fr", german, "fr")
    assert translated(pairs, TEXTS, "fr", source="de", via="auto") == french
    likely = Translator(pairs).cross_entropy(["one"], ["un"], "fr", "en")
    assert likely == Translator(runs / "en-fr").cross_entropy(["one"], ["un"], "fr")


def test_what_no_run_translates_is_refused(pairs):
    with pytest.raises(AccordError, match="no direct model for de-fr") as caught:
        translated(pairs, TEXTS, "fr", source="de")
    assert "--via auto" in str(caught.value)
    with pytest.raises(AccordError, match="no direct model for fr-de"):
        translated(pairs, TEXTS, "de", source="fr")
    with pytest.raises(AccordError, match="must be told the language"):
        translated(pairs, TEXTS, "fr")
    with pytest.raises(AccordError, match="cannot translate by an ensemble"):
        translated(pairs, TEXTS, "en", source="de", ensemble="direct,via:fr")


def test_it_is_evaluated_reported_and_served_as_a_run_is(runs, pairs):
    options = {"split": "dev", "settings": GREEDY}
    found = evaluate_run(pairs, **options).evaluation
    assert {row.direction for row in found.directions} == {"de-en", "en-fr"}
    assert {row.kind for row in found.directions} == {"supervised"}
    assert [(row.direction, row.via) for row in found.via_pivot] == [("de-fr", ("en",))]
    assert found.origin.step > 8
    (note,) = [note for note in found.notes if "not evaluated" in note]
    assert "en-de" in note
    assert "fr-en" in note
    one = evaluate_run(runs / "de-en", **options).evaluation
    alike = next(row for row in one.directions if row.direction == "de-en")
    assert next(row for row in found.directions if row.direction == "de-en").bleu == alike.bleu
    report = build([pairs, runs / "de-en"])
    said = "Several runs, a model for each direction: de-en by de-en, en-fr by en-fr."
    assert report.methods[0] == ("pairs", said)
    assert said in html(report)
    assert report.advice == ""
    compared = CliRunner().invoke(app, ["compare", str(pairs), str(runs / "de-en")])
    assert compared.exit_code == 0, compared.output
    opened = open_translator(pairs)
    assert opened.about["steps"] == found.origin.step
    assert opened.translator.directions == {Direction("de", "en"), Direction("en", "fr")}


def test_a_student_of_synthetic_pairs_stands_where_it_was_taught(runs):
    out = runs / "with-student"
    combine(out, {Direction("en", "fr"): runs / "en-fr", Direction("de", "fr"): runs / "distilled"})
    found = evaluate_run(out, split="dev", settings=GREEDY, agreement=False).evaluation
    kinds = {row.direction: row.kind for row in found.directions}
    assert kinds == {"en-fr": "supervised", "de-fr": "zero-shot"}
    with pytest.raises(AccordError, match="was not trained on en-fr, but on de-fr"):
        combine(runs / "x", {Direction("en", "fr"): runs / "distilled"})


def test_all_can_be_moved_together(runs, pairs, tmp_path):
    for name in ("de-en", "en-fr", "pairs"):
        shutil.copytree(runs / name, tmp_path / name)
    assert translated(tmp_path / "pairs", TEXTS, "en", source="de")
    shutil.rmtree(tmp_path / "en-fr")
    with pytest.raises(AccordError, match="the run for en-fr is not there"):
        Translator(tmp_path / "pairs")
    file = tmp_path / "pairs" / "combined.json"
    assert json.loads(file.read_text())["models"] == {"de-en": "../de-en", "en-fr": "../en-fr"}
    file.write_text(file.read_text().replace("../de-en", "../../x"))
    with pytest.raises(AccordError, match="damaged: it is not what was written"):
        Combined.read(tmp_path / "pairs")


def test_what_cannot_be_combined(runs, pairs, tmp_path, monkeypatch):
    de_en, en_fr = Direction("de", "en"), Direction("en", "fr")
    with pytest.raises(AccordError, match="there is something already"):
        combine(pairs, {de_en: runs / "de-en"})
    with pytest.raises(AccordError, match="was not trained on en-fr, but on de-en"):
        combine(tmp_path / "x", {en_fr: runs / "de-en"})
    with pytest.raises(AccordError, match="does not know the language 'es'"):
        combine(tmp_path / "x", {Direction("es", "en"): runs / "de-en"})
    with pytest.raises(AccordError, match="several runs already"):
        combine(tmp_path / "x", {de_en: pairs})
    with pytest.raises(AccordError, match="this is no run directory"):
        combine(tmp_path / "x", {de_en: tmp_path})
    with pytest.raises(AccordError, match="several runs, which `accord combine` put together"):
        app(["export", str(pairs)], standalone_mode=False)
    with pytest.raises(AccordError, match="several runs, which `accord combine` put together"):
        app(["average", str(pairs)], standalone_mode=False)
    with pytest.raises(AccordError, match="de-en is given twice"):
        same = f"de-en={runs / 'de-en'}"
        app(["combine", str(tmp_path / "x"), same, same], standalone_mode=False)
    with pytest.raises(typer.BadParameter, match="not of the form en-de=RUN"):
        app(["combine", str(tmp_path / "x"), "de-en"], standalone_mode=False)
    assert not (tmp_path / "x").exists()


def test_runs_of_other_data_are_refused(runs, tmp_path, tmp_path_factory):
    toy = prepared(tmp_path_factory.getbasetemp())
    store = f"store={tmp_path / 'store'}"
    other = load(toy, [store, "seed=2", f"run={tmp_path / 'other'}", "training.steps=1"])
    prepare(other, workers=1)
    train(other)
    with pytest.raises(AccordError, match="trained on other data") as caught:
        chosen = {Direction("de", "en"): runs / "de-en", Direction("en", "fr"): tmp_path / "other"}
        combine(tmp_path / "x", chosen)
    assert "training.directions" in str(caught.value)
    assert not (tmp_path / "x").exists()
