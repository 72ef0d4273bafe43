"""Where training does not wait for the first round, updates are gold ones until it is there."""

import json
import shutil
import signal

import pytest
import torch

from accord.objectives.distillation import objective
from accord.training.trainer import train
from toy_training import (
    Fault,
    Notes,
    arguments,
    checkpoint,
    experiment,
    late_round,
    metrics,
    prepared,
    run_fork,
    stop_at,
    two_processes,
    weights,
)
from toy_training import story as plain_story

BASE, JOINED, STEPS = 60, 66, 74
COMPLETE = {
    "start": BASE,
    "every": 2,
    "pairs": 12,
    "uses": 1,
    "filters": {"length_ratio": [0.0, 4.0], "distinct_bigrams": 0.0},
}
FIRST_DUE = 67  # of 61, 63, 65, 67, ... the first at which the round is there


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp(), units=16)


@pytest.fixture(scope="module")
def base(toy, tmp_path_factory):
    run = tmp_path_factory.mktemp("base")
    train(experiment(toy, run, training__steps=BASE, model__dropout=0.0))
    return run


def keys_of(base, **keys):
    return {
        "model__dropout": 0.0,
        "training__steps": STEPS,
        "training__log_every": 1,
        "training__save_every": 3,
        "training__keep": 20,
        "training__init_from": str(base),
        **keys,
    }


def late(toy, base, run, **keys):
    return experiment(toy, run, **keys_of(base, objective__complete=COMPLETE | keys))


def story(run):
    found = plain_story(run, STEPS)
    for tally in found["state"]["totals"]["objectives"].values():
        del tally["waited"]
    for line in found["metrics"]:
        line.pop("complete_wait", None)
    return found


def state(run, step):
    return json.loads((checkpoint(run, step) / "state.json").read_text())["objectives"]["complete"]


@pytest.fixture(scope="module")
def straight(toy, base, tmp_path_factory):
    """A run whose first round was late, and which nothing else happened to."""
    run = tmp_path_factory.mktemp("straight")
    with pytest.MonkeyPatch.context() as patch:
        late_round(JOINED, patch.setattr)
        train(late(toy, base, run))
    return run


def test_until_it_is_there_updates_are_gold_and_counted(toy, base, straight, tmp_path):
    train(experiment(toy, tmp_path, **keys_of(base)))
    for step in (63, 66):
        gold, mine = weights(tmp_path, step), weights(straight, step)
        assert all(torch.equal(gold[name], mine[name]) for name in gold)
    lines = {line["step"]: line for line in metrics(straight, "train")}
    assert [lines[step]["complete_late"] for step in range(61, 69)] == [1, 1, 2, 2, 3, 3, 3, 3]
    mixed = [step for step, line in lines.items() if "complete_tokens" in line]
    assert mixed == list(range(FIRST_DUE, STEPS + 1, 2))
    pool = metrics(straight, "pool")
    assert (pool[0]["step"], pool[0]["round"]) == (FIRST_DUE, 0)
    assert pool[0]["teacher"] == "step-00000060"  # as when it was asked for
    assert state(straight, 66)["round"] == -1
    assert state(straight, 69)["round"] == 0


@pytest.mark.parametrize("step", [1, 4, 8])
def test_told_to_stop_before_and_after_it_is_there(
    toy, base, straight, tmp_path, monkeypatch, step
):
    with monkeypatch.context() as patch:
        late_round(JOINED, patch.setattr)
        stop_at(patch, step)
        notes = Notes()
        assert train(late(toy, base, tmp_path), progress=notes).step == BASE + step
        said = [note for note in notes.notes if "is not there yet" in note]
        assert bool(said) == (BASE + step < JOINED)
    late_round(JOINED, monkeypatch.setattr)
    train(late(toy, base, tmp_path))
    assert story(tmp_path) == story(straight)


def test_killed_again_and_again(toy, base, straight, tmp_path):
    """kill -9 at every fourth update: while the round is being made, as it joins, and after."""
    deaths, output = [], tmp_path / "output"
    args = arguments(toy, tmp_path / "run", **keys_of(base, objective__complete=COMPLETE))
    while (code := run_fork(args, output, Fault(4, late=JOINED))) != 0:
        assert code == -signal.SIGKILL, output.read_text()
        deaths.append(metrics(tmp_path / "run", "train")[-1]["step"])
        assert len(deaths) < 9
    assert deaths == [63, 66, 69, 72]
    assert story(tmp_path / "run") == story(straight)


def test_a_round_that_was_finished_before_a_crash_joins_at_once(
    toy, base, straight, tmp_path, monkeypatch
):
    shutil.copytree(straight, tmp_path, dirs_exist_ok=True)
    for step in (69, 72, STEPS):
        shutil.rmtree(checkpoint(tmp_path, step), ignore_errors=True)
    late_round(STEPS, monkeypatch.setattr)
    train(late(toy, base, tmp_path), accept_changes=True)  # it was moved
    assert metrics(tmp_path, "pool")[0]["step"] == FIRST_DUE


def test_a_run_that_ends_before_says_that_it_had_none(toy, base, tmp_path, monkeypatch):
    late_round(JOINED, monkeypatch.setattr)
    notes = Notes()
    keys = keys_of(base, training__steps=64, objective__complete=COMPLETE)
    assert train(experiment(toy, tmp_path, **keys), progress=notes).finished
    assert "not there yet: 2 updates" in notes.notes[-1]
    assert metrics(tmp_path, "train")[-1]["complete_late"] == 2


def test_a_first_round_that_fails_ends_the_run(toy, base, tmp_path, monkeypatch):
    late_round(JOINED, monkeypatch.setattr)
    monkeypatch.setattr(objective.RoundMaker, "_items", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train(late(toy, base, tmp_path))
    assert metrics(tmp_path, "train")[-1]["step"] == FIRST_DUE - 1


def test_on_a_cpu_training_waits(toy, base, tmp_path):
    assert not objective.goes_on_without(torch.device("cpu"))
    assert objective.goes_on_without(torch.device("cuda"))
    train(late(toy, base, tmp_path))
    assert metrics(tmp_path, "pool")[0]["step"] == BASE + 1
    assert not any("complete_late" in line for line in metrics(tmp_path))


@pytest.mark.slow
def test_two_processes_join_at_the_same_step(toy, base, straight, tmp_path):
    """The share of the second is late, that of the first is there at once."""
    args = arguments(toy, tmp_path, **keys_of(base, objective__complete=COMPLETE))
    two_processes(args, Fault(late=JOINED))
    for mine, theirs in zip(metrics(tmp_path, "train"), metrics(straight, "train"), strict=True):
        assert mine.get("complete_late") == theirs.get("complete_late")
        assert mine.get("complete_tokens") == theirs.get("complete_tokens")
    assert [line["step"] for line in metrics(tmp_path, "pool")] == [
        line["step"] for line in metrics(straight, "pool")
    ]
    for name, value in weights(straight, STEPS).items():
        assert torch.allclose(value, weights(tmp_path, STEPS)[name], rtol=1e-4, atol=1e-5), name
