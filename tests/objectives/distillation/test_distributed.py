"""Synthetic pairs in two processes: the same rounds, the same mean over all tokens."""

import json

import pytest
import torch

from accord.objectives.distillation.rounds import Round
from accord.training.trainer import train
from toy_training import (
    Fault,
    arguments,
    checkpoint,
    experiment,
    metrics,
    prepared,
    story,
    torchrun,
    two_processes,
    weights,
)

pytestmark = pytest.mark.slow
BASE, STEPS = 60, 78
KEYS = {
    "model__dropout": 0.0,
    "training__steps": STEPS,
    "training__batch_tokens": 104,
    "training__optimizer": "adafactor",
    "training__keep": 10,
    "objective__complete": {
        "start": BASE,
        "every": 2,
        "pairs": 11,
        "uses": 1,
        "teacher": {"tokens": 3},
        "filters": {"length_ratio": [0.0, 4.0], "distinct_bigrams": 0.0},
    },
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp(), units=16)


@pytest.fixture(scope="module")
def keys(toy, tmp_path_factory):
    base = tmp_path_factory.mktemp("base")
    train(experiment(toy, base, training__steps=BASE))
    return KEYS | {"training__init_from": str(base)}


@pytest.fixture(scope="module")
def two(toy, keys, tmp_path_factory):
    run = tmp_path_factory.mktemp("two")
    two_processes(arguments(toy, run, **keys))
    return run


def told(run):
    """The story without times; complete_wait is one."""
    found = story(run, STEPS)
    for tally in found["state"]["totals"]["objectives"].values():
        del tally["waited"]
    for line in found["metrics"]:
        line.pop("complete_wait", None)
    return found


def test_two_processes_equal_one(toy, keys, two, tmp_path):
    train(experiment(toy, tmp_path, **keys))
    one, other = weights(tmp_path, STEPS), weights(two, STEPS)
    for name, value in one.items():
        assert torch.allclose(value, other[name], rtol=1e-4, atol=1e-5), name
    for mine, theirs in zip(metrics(tmp_path), metrics(two), strict=True):
        assert (mine["kind"], mine["step"]) == (theirs["kind"], theirs["step"])
        if mine["kind"] == "train" and "complete_nll" in mine:
            assert mine["complete_tokens"] == theirs["complete_tokens"]
            assert mine["complete_nll"] == pytest.approx(theirs["complete_nll"], rel=1e-4)
            assert mine["nll"] == pytest.approx(theirs["nll"], rel=1e-4)
        if mine["kind"] == "pool":
            for key in ("round", "teacher", "pairs", "translations", "kept", "dropped"):
                assert mine[key] == theirs[key]
    state = json.loads((checkpoint(two, STEPS) / "state.json").read_text())["objectives"][
        "complete"
    ]
    mine, theirs = (Round.load(run / "pool" / f"round-{state['round']:06d}.npz")
                    for run in (tmp_path, two))  # fmt: skip
    assert mine.origins.place_N.tolist() == theirs.origins.place_N.tolist()
    assert mine.sentences.ids.tolist() == theirs.sentences.ids.tolist()
    assert mine.likely.token_MK.tolist() == theirs.likely.token_MK.tolist()


def test_after_a_restart_the_weights_are_those_of_an_undisturbed_run(toy, keys, two, tmp_path):
    fault = Fault(at=12)
    process = torchrun(arguments(toy, tmp_path, **keys), "--max-restarts", "1", fault=fault)
    output, _ = process.communicate(timeout=100)
    assert process.returncode == 0, output
    assert "resuming from step" in output
    assert told(tmp_path) == told(two)


def test_the_run_goes_on_in_another_number_of_processes(toy, keys, two, tmp_path):
    train(experiment(toy, tmp_path, **keys | {"training__steps": 69}))
    two_processes([*arguments(toy, tmp_path, **keys), "--accept-changes"])
    for name, value in weights(tmp_path, STEPS).items():
        assert torch.allclose(value, weights(two, STEPS)[name], rtol=1e-4, atol=1e-5), name
