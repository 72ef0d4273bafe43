"""Consistency inside the trainer: off it changes nothing, on it is logged, and runs resume."""

import math

import pytest
import torch

from accord.config.objectives import ConsistencyConfig
from accord.models.tensor_batch import TensorBatch
from accord.objectives.base import Work
from accord.objectives.consistency import (
    ConsistencyInputs,
    ConsistencyObjective,
    consistent_likelihood,
)
from accord.objectives.likelihood import LikelihoodObjective, PairInputs
from accord.training.trainer import train
from toy_training import (
    HARD,
    arguments,
    experiment,
    metrics,
    prepared,
    stop_at,
    story,
    two_processes,
    weights,
)
from update_cases import gold, ragged_batch, updater

AGREEMENT = {**HARD, "start": 2, "max_length": 5}
COMPLETE = {
    "every": 2,
    "pairs": 12,
    "filters": {"length_ratio": [0.0, 4.0], "distinct_bigrams": 0.0},
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


def trained(toy, run, steps, consistency, **keys):
    train(experiment(toy, run, training__steps=steps, objective__consistency=consistency, **keys))
    return weights(run, steps)


def same(one, two):
    return all(torch.equal(one[name], two[name]) for name in one)


def near(one, two, atol=1e-5):
    return all(torch.allclose(one[name], two[name], atol=atol) for name in one)


# --- one update ------------------------------------------------------------------------------


def consistent(weight=0.25, **keys):
    config = ConsistencyConfig(weight=weight, **keys)
    return updater(objectives=[ConsistencyObjective(config, LikelihoodObjective(0.1))])


def parts(batch, weight, count=1):
    found = [ConsistencyInputs(part, True) for part in gold(batch, count).parts]
    return [Work(found, (1.0, weight), batch.target_tokens)]


@pytest.mark.parametrize("divergence", ["forward", "symmetric"])
@pytest.mark.parametrize("count", [1, 3, 9])
def test_an_update_follows_the_mean_of_both_over_all_tokens(count, divergence):
    """With 9 parts of 7 rows, two parts are empty."""
    batch, one = ragged_batch(), consistent(0.7, divergence=divergence)
    pairs = TensorBatch.from_numpy(batch)
    likelihood, found = consistent_likelihood(one.model, pairs, divergence=divergence)
    ((likelihood.loss + 0.7 * found.loss) / batch.update_target_tokens).backward()
    wanted = one.gradients.flat.clone()
    outcome = one.update(parts(batch, 0.7, count), batch.update_target_tokens)
    assert torch.allclose(one.gradients.flat, wanted, rtol=1e-4, atol=1e-7)
    sums = dict(zip(one.objectives[0].sums, outcome.sums["consistency"].tolist(), strict=True))
    assert sums == pytest.approx(
        {
            "loss": likelihood.loss.item(),
            "nll": likelihood.nll.item(),
            "consistency_loss": found.loss.item(),
            "consistency_tokens": found.tokens.item(),
        },
        rel=1e-4,
    )
    assert sums["consistency_tokens"] == batch.update_target_tokens


def test_graphs_of_batches_with_and_without_are_kept_apart():
    pairs = PairInputs(TensorBatch.from_numpy(ragged_batch()))
    with_it, without = ConsistencyInputs(pairs, True), ConsistencyInputs(pairs, False)
    assert with_it.shape != without.shape
    assert with_it.to(torch.device("cpu")).consistent


def test_a_divergence_that_is_not_finite_leaves_the_step_out(monkeypatch):
    one, batch = consistent(), ragged_batch()
    plain, second = one._losses, torch.eye(len(one.objectives[0].sums))[1]
    monkeypatch.setattr(
        one, "_losses", lambda *args: plain(*args) + torch.where(second > 0, math.nan, 0.0)
    )
    assert not one.update(parts(batch, 0.25), batch.update_target_tokens).applied


# --- whole runs ------------------------------------------------------------------------------


def test_off_or_before_its_start_it_changes_nothing(toy, tmp_path):
    """The very run of Basic up to `start`, bit for bit, and not one step longer."""
    basic = trained(toy, tmp_path / "basic", 7, None)
    off = trained(toy, tmp_path / "off", 7, {"weight": 0.0})
    late = trained(toy, tmp_path / "late", 7, {"start": 7})
    on = trained(toy, tmp_path / "on", 7, {"start": 6})
    assert same(basic, off)
    assert same(basic, late)
    assert not same(basic, on)
    for run in ("off", "late"):
        assert not any("consistency_loss" in line for line in metrics(tmp_path / run))


@pytest.mark.parametrize("divergence", ["forward", "symmetric"])
def test_it_trains_and_is_logged_a_token(toy, tmp_path, divergence):
    trained(toy, tmp_path, 15, {"start": 8, "divergence": divergence})
    before, first, second = metrics(tmp_path, "train")
    assert "consistency_loss" not in before
    assert 0 < first["consistency_loss"] < 5  # only two of its five updates have one
    assert 0 < second["consistency_loss"] < 5
    assert second["skipped"] == 0


def test_weight_pulls_the_readings_together(toy, tmp_path):
    found = {}
    for weight in (0.001, 2.0):
        run = tmp_path / str(weight)
        trained(toy, run, 40, {"weight": weight}, model__dropout=0.0)
        found[weight] = metrics(run, "train")[-1]["consistency_loss"]
    assert found[2.0] < 0.5 * found[0.001]


def test_accumulation_does_not_change_it(toy, tmp_path):
    one, three = (
        trained(toy, tmp_path / str(k), 4, {}, training__accumulation=k, model__dropout=0.0)
        for k in (1, 3)
    )
    assert near(one, three)


@pytest.mark.parametrize("others", [False, True], ids=["alone", "with agreement and complete"])
def test_resuming_is_exact(toy, tmp_path, monkeypatch, others):
    """With dropout, and interrupted between two lines of the log."""
    keys, begin = {"objective__consistency": {"start": 2}}, 0
    if others:
        toy, base, begin = prepared(toy.parents[1], units=16), tmp_path / "base", 60
        train(experiment(toy, base, training__steps=begin))  # a teacher that ends its sentences
        keys |= {"training__init_from": str(base), "objective__agreement": AGREEMENT}
        keys |= {"objective__complete": COMPLETE | {"start": begin}}
    straight, stopped = (
        experiment(toy, tmp_path / name, training__steps=begin + 12, **keys) for name in "ab"
    )
    train(straight)
    with monkeypatch.context() as patch:
        stop_at(patch, 8)
        assert not train(stopped).finished
    train(stopped)
    assert told(tmp_path / "a", begin + 12) == told(tmp_path / "b", begin + 12)
    last = metrics(tmp_path / "b", "train")[-1]
    assert last["consistency_loss"] > 0
    assert ("agreement_loss" in last, "complete_nll" in last) == (others, others)


def told(run, step):
    found = story(run, step)
    for tally in found["state"]["totals"]["objectives"].values():
        tally.pop("waited")
    for line in found["metrics"]:
        line.pop("complete_wait", None)
    return [found["state"], [line for line in found["metrics"] if line["kind"] != "pool"]]


@pytest.mark.slow
def test_two_processes_equal_one(toy, tmp_path):
    keys = {
        "model__dropout": 0.0,
        "training__steps": 12,
        "training__batch_tokens": 104,
        "objective__consistency": {"start": 3},
    }
    two_processes(arguments(toy, tmp_path / "two", **keys))
    train(experiment(toy, tmp_path / "one", **keys))
    assert near(weights(tmp_path / "one", 12), weights(tmp_path / "two", 12))
    lines = zip(metrics(tmp_path / "one", "train"), metrics(tmp_path / "two", "train"), strict=True)
    for mine, theirs in lines:
        assert mine["consistency_loss"] == pytest.approx(theirs["consistency_loss"], rel=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("divergence", ["forward", "symmetric"])
def test_graphs_with_and_without_it_are_replayed_in_turn(toy, tmp_path, divergence):
    """Basic, then agreement, then both."""
    toy = prepared(toy.parents[1], units=64)
    chosen = {"start": 20, "divergence": divergence}
    last = trained(toy, tmp_path, 40, chosen, objective__agreement=AGREEMENT | {"start": 10})
    assert all(value.isfinite().all() for value in last.values())
    lines = metrics(tmp_path, "train")
    assert all(line["skipped"] == 0 for line in lines)
    assert ["consistency_loss" in line for line in lines] == [False] * 4 + [True] * 4
    assert all(0 < line["consistency_loss"] < 5 for line in lines[4:])
