import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from accord.errors import AccordError
from accord.evaluation.folder import (
    evaluation_directory,
    read,
    read_comparison,
    write,
    write_comparison,
)
from accord.evaluation.matrix import evaluate
from accord.evaluation.records import Evaluation
from accord.evaluation.significance import compare
from accord.inference.ensemble import Ensemble
from fake_translator import Tools

LANGUAGES = ("en", "de", "fr")


@pytest.fixture
def make(tmp_path):
    return Tools(tmp_path)


@pytest.fixture
def evaluated(make):
    graph = make.star(*LANGUAGES)
    translator = make.translator(graph, make.loses_words(graph))
    held_out = make.held_out([("all", LANGUAGES, range(20))])
    return evaluate(translator, held_out, make.origin)


def test_files_of_an_evaluation(evaluated, tmp_path):
    directory = evaluation_directory(tmp_path / "run", evaluated.evaluation.name)
    write(evaluated, directory)
    assert directory == tmp_path / "run" / "evaluation" / "test-beam4"
    pairs = ("en-de", "en-fr", "de-en", "de-fr", "fr-en", "fr-de")
    assert {path.name for path in directory.iterdir()} == {
        "evaluation.json",
        "statistics.npz",
        *(f"{kind}.{pair}.txt" for kind in ("src", "ref", "hyp") for pair in pairs),
        "hyp.de-fr.via-en.txt",
        "hyp.fr-de.via-en.txt",
    }
    assert list(directory.parent.iterdir()) == [directory]


def test_sacrebleu_on_the_files_gives_the_figures(evaluated, tmp_path):
    write(evaluated, tmp_path / "here")
    data = json.loads((tmp_path / "here" / "evaluation.json").read_text("utf-8"))
    rows = {row["source"] + "-" + row["target"]: row for row in data["directions"]}
    command = "-m sacrebleu ref.de-fr.txt -i hyp.de-fr.txt -m bleu chrf -b -w 4".split()
    found = subprocess.check_output(
        [sys.executable, *command], cwd=tmp_path / "here", stderr=subprocess.DEVNULL
    )
    bleu, chrf = json.loads(found)
    assert bleu < 100
    assert bleu == round(rows["de-fr"]["bleu"]["score"], 4)
    assert chrf == round(rows["de-fr"]["chrf"]["score"], 4)


def test_what_was_written_can_be_read(evaluated, tmp_path):
    write(evaluated, tmp_path / "here")
    found = read(tmp_path / "here")
    assert found.evaluation == evaluated.evaluation
    assert Evaluation.load(tmp_path / "here") == evaluated.evaluation
    assert [(t.name, t.hypotheses, t.references, t.sources) for t in found.lines] == [
        (t.name, t.hypotheses, t.references, t.sources) for t in evaluated.lines
    ]
    assert found.statistics.keys() == evaluated.statistics.keys()
    for name, item in found.statistics.items():
        assert np.array_equal(item.bleu, evaluated.statistics[name].bleu)
        assert np.array_equal(item.chrf, evaluated.statistics[name].chrf)


def test_settings_that_did_not_apply_are_not_read(evaluated, tmp_path):
    """Former versions wrote a beam for what is no network, and has a search of its own."""

    def search_of(step, **changes):
        origin = replace(evaluated.evaluation.origin, step=step)
        some = replace(evaluated.evaluation, origin=origin, **changes)
        write(replace(evaluated, evaluation=some), tmp_path / "here")
        return read(tmp_path / "here").evaluation.search

    kept = evaluated.evaluation.search
    assert kept["beam"] == 4
    assert search_of(0, format=2) == {}
    assert search_of(400, format=2) == kept
    assert search_of(0) == kept  # it says so itself


def test_a_second_evaluation_replaces_all_of_the_first(evaluated, tmp_path, make):
    directory = tmp_path / "here"
    write(evaluated, directory)
    graph = make.star(*LANGUAGES)
    held_out = make.held_out([("all", LANGUAGES, range(7))])
    again = evaluate(make.translator(graph), held_out, make.origin, pivot=False)
    write(again, directory)
    assert not list(directory.glob("*via*"))
    assert len((directory / "hyp.de-fr.txt").read_text("utf-8").splitlines()) == 7
    assert read(directory).evaluation == again.evaluation
    assert not list(tmp_path.glob(".here*"))


def test_a_failure_leaves_the_first_evaluation_as_it_was(evaluated, tmp_path, monkeypatch):
    directory = tmp_path / "here"
    write(evaluated, directory)

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("accord.evaluation.folder.write_json", fail)
    with pytest.raises(KeyboardInterrupt):
        write(replace(evaluated, lines=evaluated.lines[:2]), directory)
    assert read(directory).evaluation == evaluated.evaluation
    assert not list(tmp_path.glob(".here*"))


def test_damaged_or_absent_evaluations_are_refused(evaluated, tmp_path):
    with pytest.raises(AccordError, match="accord evaluate"):
        Evaluation.load(tmp_path / "nowhere" / "evaluation.json")
    write(evaluated, tmp_path)
    without_seals(tmp_path)
    statistics = (tmp_path / "statistics.npz").read_bytes()
    for damaged in (b"", statistics[:-50]):
        (tmp_path / "statistics.npz").write_bytes(damaged)
        with pytest.raises(AccordError, match="statistics cannot be read"):
            read(tmp_path)
    (tmp_path / "statistics.npz").write_bytes(statistics)
    (tmp_path / "hyp.de-fr.txt").write_text("one line\n", "utf-8")
    with pytest.raises(AccordError, match="1 lines where the evaluation had 20"):
        read(tmp_path)
    (tmp_path / "hyp.de-fr.txt").unlink()
    with pytest.raises(AccordError, match=r"hyp\.de-fr\.txt"):
        read(tmp_path)
    (tmp_path / "evaluation.json").write_text("{}", "utf-8")
    with pytest.raises(AccordError, match="cannot be read"):
        read(tmp_path)


def without_seals(directory):
    """As a former version wrote it."""
    path = directory / "evaluation.json"
    data = json.loads(path.read_text("utf-8")) | {"format": 1}
    del data["seal"], data["files"]
    path.write_text(json.dumps(data), "utf-8")


def test_a_changed_figure_or_text_is_never_believed(evaluated, tmp_path):
    here = tmp_path / "here"
    write(evaluated, here)
    path = here / "evaluation.json"
    whole = path.read_text("utf-8")
    data = json.loads(whole)
    data["directions"][0]["bleu"]["score"] += 1
    bare = {key: value for key, value in data.items() if key not in ("seal", "files")}
    for altered in (data, bare, bare | {"format": 3}):
        path.write_text(json.dumps(altered), "utf-8")
        with pytest.raises(AccordError, match="altered since it was written") as error:
            Evaluation.load(here)
        assert error.value.where == str(path)
    path.write_text(whole, "utf-8")
    for file in sorted(here.iterdir()):
        data = file.read_bytes()
        for place in (0, len(data) // 2, len(data) - 1):
            file.write_bytes(data[:place] + bytes([data[place] ^ 2]) + data[place + 1 :])
            with pytest.raises(AccordError, match=r"altered|cannot be read") as error:
                read(here)
            assert error.value.where == str(file)
        file.write_bytes(data)
    assert read(here).evaluation == evaluated.evaluation


def test_a_changed_comparison_is_never_believed(evaluated, tmp_path):
    here, file = tmp_path / "here", tmp_path / "here" / "against-other.json"
    write(evaluated, here)
    write_comparison(file, compare(evaluated, evaluated))
    whole = read_comparison(file)
    assert whole["averages"]["zero_shot"]["bleu"]["difference"] == 0
    for altered in (whole | {"samples": 7}, {k: v for k, v in whole.items() if k != "seal"}):
        file.write_text(json.dumps(altered), "utf-8")
        with pytest.raises(AccordError, match="altered since"):
            read_comparison(file)
    without_seals(here)
    assert read_comparison(file)["samples"] == whole["samples"]  # of before there were seals


def test_an_ensemble_is_written_and_read_beside_the_rest(make, tmp_path):
    graph = make.star(*LANGUAGES)
    translator = make.translator(graph, make.loses_words(graph))
    held_out = make.held_out([("all", LANGUAGES, range(20))])
    ensemble = Ensemble.parse("direct,via:en")
    evaluated = evaluate(translator, held_out, make.origin, ensemble=ensemble)
    write(evaluated, tmp_path / "here")
    names = {path.name for path in (tmp_path / "here").glob("*ensemble*")}
    assert names == {f"hyp.{d}.ensemble-direct-via-en.txt" for d in ("de-fr", "fr-de")}
    again = read(tmp_path / "here")
    assert again.evaluation == evaluated.evaluation
    texts = {item.name: item.hypotheses for item in evaluated.lines}
    assert {item.name: item.hypotheses for item in again.lines} == texts
    assert again.statistics.keys() == evaluated.statistics.keys()


def test_evaluations_from_before_there_were_ensembles_are_read(evaluated, tmp_path):
    write(evaluated, tmp_path / "here")
    without_seals(tmp_path / "here")
    path = tmp_path / "here" / "evaluation.json"
    data = json.loads(path.read_text("utf-8"))
    del data["by_ensemble"]
    for row in (*data["directions"], *data["via_pivot"]):
        del row["ensemble"]
    path.write_text(json.dumps(data), "utf-8")
    assert read(tmp_path / "here").evaluation == replace(evaluated.evaluation, format=1)
