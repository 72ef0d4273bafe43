"""Translating beside training on one GPU: two threads, two streams, graphs recorded in both."""

import signal

import pytest
import torch

from accord.objectives.distillation import objective
from accord.training.trainer import train
from toy_training import experiment, late_round, metrics, prepared, weights

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
OPEN = {"length_ratio": [0.0, 4.0], "distinct_bigrams": 0.0}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp(), units=64)


@pytest.fixture(scope="module")
def base(toy, tmp_path_factory):
    run = tmp_path_factory.mktemp("base")
    train(experiment(toy, run, training__steps=60))
    return run


@pytest.mark.parametrize(
    "teacher",
    [
        {},
        {"kind": "ema", "tolerance": 100.0},
        {"kind": "rounds", "tolerance": 100.0},
        {"vote": 0.4},
        {"tokens": 4},
    ],
    ids=["frozen", "ema", "rounds", "vote", "tokens"],
)
@pytest.mark.parametrize("optimizer", ["adam", "adafactor"])
def test_both_threads_record_and_replay(toy, base, tmp_path, monkeypatch, teacher, optimizer):
    late_round(63, monkeypatch.setattr)  # so few updates might be done before it is there
    rounds = {"start": 60, "every": 2, "pairs": 9, "uses": 1}
    complete = {**rounds, "filters": OPEN, "teacher": teacher}
    keys = {"training__init_from": str(base), "training__optimizer": optimizer}
    for steps in (100, 120):  # and resumes
        train(
            experiment(toy, tmp_path, training__steps=steps, objective__complete=complete, **keys),
            accept_changes=True,
        )
    assert all(value.isfinite().all() for value in weights(tmp_path, 120).values())
    lines, pool = metrics(tmp_path, "train"), metrics(tmp_path, "pool")
    assert lines[-1]["complete_nll"] > 0
    assert lines[-1]["skipped"] == 0
    assert [line["round"] for line in pool] == list(range(len(pool)))
    assert len(pool) > 5


@pytest.mark.parametrize("preset", ["sentence-greedy", "word-sampling"])
def test_distill_without_gold_pairs(toy, base, tmp_path, preset):
    """Drawn tokens are replayed steps, and so is the teacher's part in updates."""
    complete = {"preset": preset, "gold": False, "pairs": 30, "teacher": {"run": str(base)}}
    for steps in (20, 40):
        train(
            experiment(toy, tmp_path, training__steps=steps, objective__complete=complete),
            accept_changes=True,
        )
    lines = metrics(tmp_path, "train")
    assert all(line["complete_tokens"] > 0 for line in lines)
    assert lines[-1]["skipped"] == 0
    assert lines[-1]["loss"] < lines[0]["loss"]


def test_updates_go_on_while_the_first_round_is_made(toy, base, tmp_path, monkeypatch):
    """Both threads record from the first update on; training ends when the round has joined."""
    plain = objective.pool_line

    def pool_line(*args):
        signal.raise_signal(signal.SIGTERM)
        return plain(*args)

    monkeypatch.setattr(objective, "pool_line", pool_line)
    complete = {"start": 60, "every": 1, "pairs": 30, "uses": 1, "filters": OPEN}
    keys = {"training__init_from": str(base), "training__log_every": 1}
    keys |= {"training__steps": 100_000, "objective__complete": complete}
    step = train(experiment(toy, tmp_path, **keys)).step
    [joined] = metrics(tmp_path, "pool")
    assert joined["step"] == step > 61
    line = metrics(tmp_path, "train")[-1]
    assert line["complete_late"] == step - 61
    assert line["complete_tokens"] > 0
    assert line["skipped"] == 0
