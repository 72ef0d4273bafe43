"""metrics.jsonl and the sums that its lines are made of."""

import json
import math
from dataclasses import asdict
from types import SimpleNamespace

import pytest
import torch

from accord.objectives.base import Work
from accord.objectives.likelihood import LikelihoodObjective
from accord.ops.distributed import World
from accord.run_directory import MetricsLog
from accord.training.running_totals import Totals, Window
from accord.training.update import Outcome

ALONE = World(0, 1, torch.device("cpu"))
BASIC = [LikelihoodObjective(0.1)]


def batch(rows, source, target):
    return SimpleNamespace(rows=rows, source_tokens=source, target_tokens=target)


def outcome(loss, nll, norm, applied=True):
    return Outcome({"likelihood": torch.tensor([loss, nll])}, norm, applied)


def add(window, batch, outcome):
    window.add(batch, [Work(tokens=batch.target_tokens)], outcome)


def test_lines_after_the_step_of_a_resume_are_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path, 0)
    for step in (5, 10, 15):
        log.write("train", step, {"loss": step / 3})
    log.write("validation", 10, {"bleu": 1.5})
    log.close()
    with path.open("a") as file:
        file.write('{"kind": "train", "step": 2')  # killed in the middle of a line
    log = MetricsLog(path, 10)
    log.write("train", 15, {"loss": 0.1})
    log.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["kind"], line["step"]) for line in lines] == [
        ("train", 5),
        ("train", 10),
        ("validation", 10),
        ("train", 15),
    ]
    assert lines[1]["loss"] == 10 / 3


def test_numbers_that_are_not_finite_stay_json(tmp_path):
    log = MetricsLog(tmp_path / "m", 0)
    log.write("validation", 1, {"a": math.nan, "b": {"c": math.inf, "d": 1.5}, "e": None})
    log.close()
    found = json.loads((tmp_path / "m").read_text(), parse_constant=pytest.fail)
    assert (found["a"], found["b"], found["e"]) == (None, {"c": None, "d": 1.5}, None)


def test_means_are_over_tokens_and_rates_over_seconds():
    window = Window(ALONE, Totals(), BASIC)
    add(window, batch(2, 10, 8), outcome(16.0, 24.0, 3.0))
    window.took(0.5, 0.1, [Work()])
    add(window, batch(1, 4, 2), outcome(14.0, 16.0, 1.0))
    window.took(1.5, 0.3, [Work()])
    window.fold()
    found = window.totals.summary(BASIC)
    assert found["loss"] == 30 / 10
    assert found["nll"] == 40 / 10
    assert found["perplexity"] == pytest.approx(math.exp(4))
    assert found["gradient_norm"] == 2.0
    assert (found["rows"], found["source_tokens"], found["target_tokens"]) == (3, 14, 10)
    assert (found["source_tokens_per_s"], found["target_tokens_per_s"]) == (7.0, 5.0)
    assert found["wait_share"] == pytest.approx(0.2)


def test_a_step_that_was_left_out_counts_as_work_but_not_as_loss():
    window = Window(ALONE, Totals(), BASIC)
    add(window, batch(1, 4, 2), outcome(6.0, 8.0, 1.0))
    add(window, batch(9, 40, 30), outcome(math.nan, math.inf, math.nan, applied=False))
    window.took(1.0, 0.0, [Work()])
    window.fold()
    found = window.totals.summary(BASIC)
    assert (found["loss"], found["nll"], found["gradient_norm"]) == (3.0, 4.0, 1.0)
    assert found["target_tokens"] == 32
    assert window.totals.steps == 2


def test_totals_that_go_through_a_checkpoint_are_the_same():
    straight, stopped = Window(ALONE, Totals(), BASIC), Window(ALONE, Totals(), BASIC)
    torch.manual_seed(1)
    for step in range(50):
        values = (torch.rand(2) * 1000).tolist()
        for window in (straight, stopped):
            add(window, batch(step, 3 * step, 2 * step), outcome(*values, values[0] / 7))
        if step % 7 == 3:
            stopped.fold()
            state = json.loads(json.dumps(asdict(stopped.totals)))
            stopped = Window(ALONE, Totals.of(state), BASIC)
    straight.fold()
    stopped.fold()
    assert straight.totals == stopped.totals
    straight.totals.clear()
    assert straight.totals == Totals()


def test_totals_of_a_version_that_counted_otherwise_can_go_on():
    """As they were before sums had names: the line that has begun lacks what came before."""
    before = {"steps": 3, "applied": 3, "rows": 5.0, "seconds": 2.0, "norm": 1.5, "loss": 3.0}
    before |= {"scored": 7.0, "agreement": [1.0] * 13, "complete_wait": 0.5}
    window = Window(ALONE, Totals.of(before), BASIC)
    add(window, batch(1, 4, 2), outcome(14.0, 16.0, 1.0))
    window.fold()
    assert (window.totals.steps, window.totals.rows, window.totals.norm) == (4, 6.0, 2.5)
    assert window.totals.summary(BASIC)["loss"] == 7.0


def test_a_look_says_what_folding_would_and_changes_nothing():
    window = Window(ALONE, Totals(), BASIC)
    for loss in (16.0, 14.0):
        add(window, batch(2, 10, 8), outcome(loss, 24.0, 3.0))
        window.took(0.5, 0.1, [Work()])
    before = asdict(window.totals)
    seen = window.look()
    assert asdict(window.totals) == before
    window.fold()
    assert seen == window.totals
    assert seen.summary(BASIC)["loss"] == 30 / 16


def test_a_look_does_not_ask_the_other_processes():
    """It takes the others to be like this one; nobody else answers here."""
    window = Window(World(0, 4, torch.device("cpu")), Totals(), BASIC)
    add(window, batch(2, 10, 8), outcome(16.0, 24.0, 3.0))
    window.took(0.5, 0.1, [Work()])
    found = window.look().summary(BASIC)
    assert (found["loss"], found["target_tokens_per_s"]) == (2.0, 64.0)
