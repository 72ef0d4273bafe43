"""Training by the clock: the time of a branch, and a learning rate that falls at its end."""

import json
import warnings
from itertools import count
from types import SimpleNamespace

import pytest
import torch

from accord.errors import AccordWarning
from accord.ops.distributed import World
from accord.studies.branches import trained
from accord.training import trainer
from accord.training.stopping import Clock
from accord.training.train_state import TrainState
from accord.training.trainer import train
from toy_training import checkpoint, checkpoints, experiment, metrics, prepared, stop_at, story

BASE = 10
CPU = torch.device("cpu")
BRANCH = {
    "training__steps": 1000,
    "training__branch_minutes": 0.1,  # 6 seconds, of which an update takes half a one
    "training__optimizer": {
        "kind": "adam",
        "schedule": "constant",
        "learning_rate": 0.01,
        "decay_minutes": 0.05,
    },
    "training__log_every": 1,
}


@pytest.fixture
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


@pytest.fixture
def base(toy, tmp_path, monkeypatch):
    """A run to branch off, and from now on a clock by which every update takes half a second."""
    ticks = count()
    clock = SimpleNamespace(perf_counter=lambda: next(ticks) / 2)
    monkeypatch.setattr(trainer, "time", clock)
    train(experiment(toy, tmp_path / "base", training__steps=BASE))
    return str(tmp_path / "base")


def branch(toy, run, base, **keys):
    return experiment(toy, run, training__init_from=base, **BRANCH | keys)


def test_a_branch_has_its_own_time(toy, base, tmp_path):
    result = train(branch(toy, tmp_path / "run", base))
    assert result.finished
    assert (result.step, result.reason) == (BASE + 12, "0.1 minutes are over")
    state = json.loads((checkpoint(tmp_path / "run", BASE + 12) / "state.json").read_text())
    assert (state["branched_at"], state["seconds"]) == (5.0, 11.0)
    whole = branch(toy, tmp_path / "whole", base, training__minutes=0.1)
    assert train(whole).step == BASE + 2  # the five seconds before the branch count


def test_a_branch_without_an_update_says_what_steps_count(toy, base, tmp_path):
    short = branch(toy, tmp_path / "run", base, training__steps=BASE - 2)
    said = rf"this is step {BASE}, and training.steps, {BASE - 2}, counts those of .*base"
    with pytest.warns(AccordWarning, match=said):
        train(short)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(short)  # it was done, and is


def test_the_rate_falls_to_nothing_in_the_last_minutes(toy, base, tmp_path):
    train(branch(toy, tmp_path / "run", base))
    rates = [line["lr"] for line in metrics(tmp_path / "run", "train")][-12:]
    shares = [1, 1, 1, 1, 1, 1, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]
    assert rates == pytest.approx([0.01 * share for share in shares])


def test_an_interrupted_branch_goes_on_by_the_time_it_had(toy, base, tmp_path, monkeypatch):
    train(branch(toy, tmp_path / "straight", base))
    with monkeypatch.context() as patch:
        stop_at(patch, 8)
        assert not train(branch(toy, tmp_path / "run", base)).finished
    assert not trained(tmp_path / "run", branch(toy, tmp_path / "run", base))
    train(branch(toy, tmp_path / "run", base))
    last = BASE + 12
    assert checkpoints(tmp_path / "run")[-1] == last
    assert story(tmp_path / "run", last) == story(tmp_path / "straight", last)
    assert trained(tmp_path / "run", branch(toy, tmp_path / "run", base))


class Second(World):
    """A process beside a first one, whose clock says something else."""

    def share(self, text):
        return "40.0"


def clock(toy, tmp_path, world, **state):
    settings = experiment(toy, tmp_path, **BRANCH).training
    known = TrainState(branched_at=40.0, **state)
    return Clock(settings, known, world), known


def test_all_processes_go_by_the_time_of_the_first(toy, tmp_path):
    world = Second(1, 2, CPU)
    found, state = clock(toy, tmp_path, world, seconds=40.0)
    state.seconds = 45.5  # half a second is left, by this process's own
    assert not found.agree()
    assert found.rate == 1.0


def test_how_far_training_will_come_at_most(toy, tmp_path):
    found, state = clock(toy, tmp_path, World(0, 1, CPU), step=100, seconds=40.0)
    assert found.latest_step() == 1000  # nobody knows yet
    state.step, state.seconds = 104, 42.0
    found.agree()
    assert found.latest_step() == 104 + 12  # 8 more at this speed, and half as many again
