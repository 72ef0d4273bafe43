"""The run directory: what is written there, and which changes a run refuses."""

import json

import numpy as np
import pytest
import yaml

from accord.config.load import load, store_directory
from accord.data.prepare import prepare
from accord.data.store import Store
from accord.errors import AccordError
from accord.run_directory import RunDirectory
from accord.training import run_log
from accord.training.begin import check_store
from accord.training.trainer import train
from toy_training import (
    checkpoints,
    experiment,
    metrics,
    number,
    prepared,
    without_seals,
    write_text,
)


@pytest.fixture
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


@pytest.fixture
def own(toy, tmp_path):
    """An experiment whose text and store the test may change."""
    settings = yaml.safe_load(toy.read_text())
    for file in toy.parent.glob("*.??"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    text = yaml.safe_dump(settings).replace(str(toy.parent), str(tmp_path))
    (tmp_path / "toy.yaml").write_text(text)
    prepare(load(tmp_path / "toy.yaml"), workers=1)
    return tmp_path / "toy.yaml"


def test_a_run_holds_all_that_later_commands_need(toy, tmp_path):
    settings = experiment(toy, tmp_path, training__steps=2)
    train(settings)
    run = RunDirectory(tmp_path)
    assert run.experiment() == settings
    assert run.vocabulary().languages == ("en", "de", "fr")
    sources, references = run.held_out.pair("dev", "de", "fr")
    assert (sources[0], references[0]) == (number(7001, "de"), number(7001, "fr"))
    lines = run.vocabulary().encode([number(i * i, "de") for i in range(60)])
    counts = run.token_counts("de")
    wanted = np.bincount([i for line in lines for i in line], minlength=len(counts))
    assert counts.tolist() == wanted.tolist()
    assert json.loads((tmp_path / "environment.json").read_text())["torch"]


def test_a_directory_without_a_run_is_said_to_be_none(tmp_path):
    with pytest.raises(AccordError, match="no run directory"):
        RunDirectory(tmp_path).experiment()


def test_checkpoints_alone_are_no_run_either(toy, tmp_path):
    settings = experiment(toy, tmp_path, training__steps=2)
    train(settings)
    (tmp_path / "experiment.yaml").unlink()
    with pytest.raises(AccordError, match="has no experiment"):
        train(settings)


def test_a_line_of_the_log_says_how_many_cuda_graphs_were_recorded(toy, tmp_path, monkeypatch):
    made = iter([2, 5, 5, 6])  # when training begins, then with each line
    monkeypatch.setattr(run_log, "recordings", lambda: next(made))
    train(experiment(toy, tmp_path, training__steps=3, training__log_every=1))
    assert [line.get("recordings") for line in metrics(tmp_path, "train")] == [3, None, 1]


def test_a_changed_experiment_is_refused_with_the_difference(toy, tmp_path):
    train(experiment(toy, tmp_path, training__steps=3))
    changed = experiment(toy, tmp_path, training__steps=5, training__optimizer__warmup=20)
    before = metrics(tmp_path)
    with pytest.raises(AccordError) as error:
        train(changed)
    assert error.value.what.splitlines()[1:] == [
        "  training.optimizer.warmup: 10, now 20",
        "  training.steps: 3, now 5",
    ]
    assert "--accept-changes" in error.value.fix
    assert metrics(tmp_path) == before
    assert train(changed, accept_changes=True).step == 5
    assert train(changed).step == 5  # it is this run's experiment now


@pytest.mark.parametrize("change", [{"model__units": 12}, {"model__input_feeding": False}])
def test_another_model_cannot_be_accepted(toy, tmp_path, change):
    before = experiment(toy, tmp_path, training__steps=3)
    train(before)
    with pytest.raises(AccordError, match="of another model"):
        train(experiment(toy, tmp_path, training__steps=5, **change), accept_changes=True)
    assert RunDirectory(tmp_path).experiment() == before


def test_a_key_that_is_newer_than_the_run_is_no_change(toy, tmp_path):
    """Runs of before `model.kind` go on: what they do not say has its default."""
    settings = experiment(toy, tmp_path, training__steps=3)
    train(settings)
    without_seals(tmp_path)
    recorded = tmp_path / "experiment.yaml"
    text = recorded.read_text(encoding="utf-8")
    assert "\n  kind: gnmt\n" in text
    recorded.write_text(text.replace("\n  kind: gnmt\n", "\n"), encoding="utf-8")
    assert RunDirectory(tmp_path).experiment() == settings
    assert train(settings).step == 3
    assert "\n# seal: " in recorded.read_text(encoding="utf-8")  # now it has them


def test_dropout_may_change(toy, tmp_path):
    train(experiment(toy, tmp_path, training__steps=3))
    settings = experiment(toy, tmp_path, training__steps=5, model__dropout=0.0)
    assert train(settings, accept_changes=True).step == 5


def test_before_the_first_checkpoint_a_change_is_no_matter(toy, tmp_path):
    """A slip that shows only when training has begun must not block the run's directory."""
    wrong = experiment(toy, tmp_path, objective__complete={"start": 0})
    with pytest.raises(AccordError, match="learnt nothing yet"):
        train(wrong)
    assert (tmp_path / "experiment.yaml").is_file()
    assert train(experiment(toy, tmp_path, training__steps=2)).finished
    assert checkpoints(tmp_path) == [2]


def test_other_data_is_refused_and_another_vocabulary_altogether(own, tmp_path):
    run = tmp_path / "run"
    settings = experiment(own, run, training__steps=3)
    train(settings)
    old = Store(store_directory(settings)).manifest
    write_text(tmp_path / "dev.de", range(6001, 6005), "de")  # no subwords are made of it
    prepare(settings, workers=1)
    new = Store(store_directory(settings)).manifest
    assert old["files"]["vocabulary.model"] == new["files"]["vocabulary.model"]
    with pytest.raises(AccordError, match="the prepared data") as error:
        train(settings)
    assert old["fingerprint"] in error.value.what
    assert new["fingerprint"] in error.value.what
    assert train(settings, accept_changes=True).step == 3
    write_text(tmp_path / "train.de", range(5000, 5060), "de")
    prepare(settings, workers=1)
    kept = (run / "vocabulary.model").read_bytes()
    with pytest.raises(AccordError, match="of another vocabulary"):
        train(settings, accept_changes=True)
    assert (run / "vocabulary.model").read_bytes() == kept


def test_a_store_of_another_experiment_is_refused(toy, tmp_path):
    settings = experiment(toy, tmp_path, seed=5)
    with pytest.raises(AccordError, match="prepared with another `seed`: 1, now 5"):
        check_store(Store(store_directory(settings)), settings)
    with pytest.raises(AccordError, match="accord prepare"):
        train(settings)


def test_two_trainings_of_one_run_do_not_mix(toy, tmp_path):
    from accord.files import exclusive

    with exclusive(tmp_path, "accord train"), pytest.raises(AccordError, match="another process"):
        train(experiment(toy, tmp_path))
