"""Translating beside training on one GPU: two threads, two streams, graphs recorded in both."""

import pytest
import torch

from accord.training.trainer import train
from toy_training import experiment, metrics, prepared, weights

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
def test_both_threads_record_and_replay(toy, base, tmp_path, teacher, optimizer):
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
