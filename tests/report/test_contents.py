"""Which runs and evaluations a report takes, and what it refuses."""

import json
from dataclasses import replace

import pytest

from accord.errors import AccordError
from accord.files import sealed
from accord.report.contents import build, read_history
from accord.report.figures import scored
from accord.report.html import html
from accord.report.markdown import markdown
from made_runs import make_run, manifest


def test_a_run_that_was_not_evaluated_is_told_so(tmp_path):
    run = make_run(tmp_path / "run", evaluated=False)
    with pytest.raises(AccordError, match="not evaluated yet") as error:
        build([run])
    assert f"accord evaluate {run}" in error.value.fix
    assert error.value.where == str(run)


def test_what_is_no_run_is_told_so(tmp_path):
    with pytest.raises(AccordError, match="no run directory"):
        build([tmp_path])


def test_no_run_and_a_run_twice_are_refused(tmp_path):
    with pytest.raises(AccordError, match="needs a run"):
        build([])
    run = make_run(tmp_path / "run")
    with pytest.raises(AccordError, match="given twice"):
        build([run, tmp_path / "." / "run"])


def test_an_unknown_name_lists_the_known_ones(tmp_path):
    run = make_run(tmp_path / "run")
    with pytest.raises(AccordError, match="no evaluation 'dev-beam1'") as error:
        build([run], name="dev-beam1")
    assert "test-beam4" in error.value.fix


def test_whole_sets_come_before_parts_and_test_before_the_newest(tmp_path):
    run = make_run(tmp_path / "run", limit=10, name="test-beam4-first10")
    assert build([run]).name == "test-beam4-first10"
    make_run(run, name="test-beam4")
    make_run(run, limit=10, name="test-beam9-first10")
    assert build([run]).name == "test-beam4"
    assert build([run], name="test-beam9-first10").name == "test-beam9-first10"


def test_the_report_shows_how_often_sentences_were_scored(tmp_path):
    run = make_run(tmp_path / "run", lines=(11, 20))
    make_run(run, lines=(11, 20))
    found = build([run])
    shown = scored(found)
    assert shown.rows[0][:4] == ("run", "test, all", "11 to 20", "2")
    page = markdown(found)
    assert "How often sentences were scored" in page
    assert "| run | test, all | 11 to 20 | 2 | 1 |" in page
    assert "lines 11 to 20 of each set" in page
    assert "How often sentences were scored" in html(found)
    (run / "scored.jsonl").unlink()
    assert "How often sentences" not in markdown(build([run])) + html(build([run]))


def test_an_evaluation_that_is_being_written_does_not_count(tmp_path):
    run = make_run(tmp_path / "run")
    (run / "evaluation" / "test-beam4").rename(run / "evaluation" / ".test-beam4.123")
    with pytest.raises(AccordError, match="not evaluated yet"):
        build([run])


def test_runs_must_share_an_evaluation(tmp_path):
    one = make_run(tmp_path / "one", name="test-beam4")
    other = make_run(tmp_path / "other", name="test-beam1")
    with pytest.raises(AccordError, match=r"not evaluated alike.*test-beam4.*test-beam1"):
        build([one, other])


def test_runs_on_different_sentences_cannot_be_compared(tmp_path):
    one = make_run(tmp_path / "one")
    other = make_run(tmp_path / "other", seed=3)
    with pytest.raises(AccordError, match="different sentences") as error:
        build([one, other])
    assert error.value.where == "one, other"


def test_runs_without_a_common_direction_cannot_be_compared(tmp_path):
    one = make_run(tmp_path / "one", languages=("en", "de"))
    other = make_run(tmp_path / "other", languages=("es", "fr"))
    with pytest.raises(AccordError, match="no evaluated direction in common"):
        build([one, other])


def test_labels_are_as_long_as_it_takes(tmp_path):
    runs = [make_run(tmp_path / a / "run") for a in ("basic", "agree")]
    assert [run.label for run in build(runs).runs] == ["basic/run", "agree/run"]
    assert build(runs[:1]).main.label == "run"


def test_different_data_is_noted(tmp_path):
    runs = [make_run(tmp_path / name) for name in ("one", "other")]
    assert build(runs).notes == build(runs[:1]).notes
    altered = sealed(manifest(("en", "de", "fr")) | {"fingerprint": "fedcba9876543210"})
    (runs[1] / "manifest.json").write_text(json.dumps(altered), "utf-8")
    notes = build(runs).notes[-2:]
    assert "trained on different data: one 0123456789abcdef, other fedcba9876543210" in notes[0]
    assert notes[1].startswith("other was evaluated when it was trained on other data")


def test_a_damaged_environment_is_an_error_with_a_remedy(tmp_path):
    run = make_run(tmp_path / "run")
    (run / "environment.json").write_text("{", "utf-8")
    with pytest.raises(AccordError, match="environment cannot be read"):
        build([run])


def test_the_history_skips_a_line_that_was_cut_off(tmp_path):
    history = read_history(make_run(tmp_path / "run", evaluated=False) / "metrics.jsonl")
    assert [step for step, _ in history.training] == [100, 200, 300, 400]
    assert history.course("zero-shot", "bleu")[-1] == (400, 40.0)
    assert history.bounds()[0] == (100, 5.0, 7.0)


def test_values_that_were_not_finite_are_left_out(tmp_path):
    run = make_run(tmp_path / "run", evaluated=False, validate_all=False)
    path = run / "metrics.jsonl"
    text = path.read_text("utf-8").replace('"nll": 6.0', '"nll": null')
    path.write_text(text.replace('"bleu": 10.0', '"bleu": null'), "utf-8")
    history = read_history(path)
    assert [step for step, _ in history.training] == [200, 300, 400]
    assert [step for step, _ in history.course("supervised", "bleu")] == [200, 300, 400]
    assert history.bounds() == ()


def test_a_run_without_metrics_has_no_history(tmp_path):
    history = read_history(tmp_path / "metrics.jsonl")
    assert history == replace(history, training=(), validations=())
