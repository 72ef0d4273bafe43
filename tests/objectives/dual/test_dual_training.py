"""Dual learning inside the trainer: off it changes nothing, on it is rewarded, and runs resume."""

import pytest
import torch

from accord.config.objectives import DualConfig
from accord.errors import AccordError
from accord.objectives.dual.objective import DualObjective
from accord.training.trainer import train
from toy_training import Notes, experiment, metrics, prepared, stop_at, story, weights
from update_cases import ragged_batch

BASE = 60  # updates after which the toy model ends some of its sentences


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp(), units=16)


@pytest.fixture(scope="module")
def runs(toy, tmp_path_factory):
    """A language model, and Basic to branch off from."""
    path = tmp_path_factory.mktemp("dual")
    small = {"kind": "language-model", "units": 16, "decoder_layers": 1}
    train(experiment(toy, path / "language-model", model=small, training__steps=BASE))
    train(experiment(toy, path / "basic", training__steps=BASE))
    return path


def chosen(runs, **keys):
    """Whatever comes to an end is learnt from."""
    free = {"start": BASE, "distinct_bigrams": 0.0, "least_length": 0.0, "temperature": 1.0}
    return {"language_model": str(runs / "language-model"), **free, **keys}


def branch(toy, runs, run, steps, dual, **keys):
    keys |= {"training__init_from": str(runs / "basic"), "training__steps": BASE + steps}
    return experiment(toy, run, objective__dual=dual, **keys)


def trained(toy, runs, run, steps, dual, **keys):
    train(branch(toy, runs, run, steps, dual, **keys))
    return weights(run, BASE + steps)


def same(one, two):
    return all(torch.equal(one[name], two[name]) for name in one)


def test_off_or_before_its_start_it_changes_nothing(toy, runs, tmp_path):
    basic = trained(toy, runs, tmp_path / "basic", 3, None)
    off = trained(toy, runs, tmp_path / "off", 3, chosen(runs, weight=0.0, start=0))
    late = chosen(runs, start=BASE + 3, likelihood=False)
    assert same(basic, off)
    assert same(basic, trained(toy, runs, tmp_path / "late", 3, late))
    late["start"] -= 1
    assert not same(basic, trained(toy, runs, tmp_path / "on", 3, late))
    assert not any("dual_reward" in line for line in metrics(tmp_path / "late"))


def test_rewards_alone_bring_translations_into_the_right_language(toy, runs, tmp_path):
    """The published form: gold pairs are no longer learnt. Draws at temperature 1 find the way."""
    rate = {"kind": "adam", "schedule": "constant", "learning_rate": 0.01}
    keys = {"training__log_every": 10, "training__batch_tokens": 256}
    dual = chosen(runs, likelihood=False, alpha=0.2)
    trained(toy, runs, tmp_path, 50, dual, training__optimizer=rate, **keys)
    first, *_, last = metrics(tmp_path, "train")
    assert first["loss"] is last["loss"] is None
    assert first["dual_right_language"] < 0.4
    assert last["dual_right_language"] > 0.6
    assert last["dual_reward"] > first["dual_reward"] + 0.3
    assert last["dual_reward"] == pytest.approx(
        0.2 * last["dual_fluency"] + 0.8 * last["dual_reconstruction"]
    )
    assert last["dual_sentences"] == 1  # with English-centric data every pair has one to send
    assert 0 <= last["dual_dropped"] < 1
    assert last["skipped"] == 0


def test_only_some_updates_compute_it(toy, runs, tmp_path):
    trained(toy, runs, tmp_path, 10, chosen(runs, every=5))
    assert all(0 < line["dual_sentences"] < 0.5 for line in metrics(tmp_path, "train"))


def test_rewards_are_a_mean_over_the_rows_of_an_update():
    """On the scale of a sum over its target tokens, by which the gradient is divided."""
    one = DualObjective.__new__(DualObjective)
    one.config = DualConfig(language_model="unused", weight=0.5, start=4, every=3)
    assert [one.weight(step) for step in range(4, 10)] == [0, 1.5, 0, 0, 1.5, 0]
    batch = ragged_batch()
    assert one.work(5, batch, []).scales == (1.5 * batch.update_target_tokens / batch.update_rows,)


def test_accumulation_does_not_change_it(toy, runs, tmp_path):
    """Without what is random: dropout, draws that are not greedy, and who shares a baseline."""
    dual = chosen(runs, baseline="none", advantage_limit=None, temperature=0.0001)
    one, three = (
        trained(toy, runs, tmp_path / str(k), 4, dual, training__accumulation=k, model__dropout=0.0)
        for k in (1, 3)
    )
    assert all(torch.allclose(one[name], three[name], atol=1e-5) for name in one)


def test_resuming_is_exact(toy, runs, tmp_path, monkeypatch):
    """With dropout and draws, and interrupted between two lines of the log."""
    straight, stopped = (branch(toy, runs, tmp_path / name, 8, chosen(runs)) for name in "ab")
    train(straight)
    with monkeypatch.context() as patch:
        stop_at(patch, 4)
        assert not train(stopped).finished
    train(stopped)
    assert story(tmp_path / "a", BASE + 8) == story(tmp_path / "b", BASE + 8)
    assert metrics(tmp_path / "b", "train")[-1]["dual_reward"] < 0


def test_another_language_model_is_refused_when_a_run_goes_on(toy, runs, tmp_path):
    other = tmp_path / "language-model"
    small = {"kind": "language-model", "units": 16, "decoder_layers": 1}
    train(experiment(toy, other, model=small, training__steps=2))
    dual = chosen(runs, language_model=str(other))
    train(branch(toy, runs, tmp_path / "run", 1, dual))
    train(experiment(toy, other, model=small, training__steps=4), accept_changes=True)
    with pytest.raises(AccordError, match="other weights than when the run began"):
        train(branch(toy, runs, tmp_path / "run", 2, dual), accept_changes=True)


def test_a_translation_model_is_no_language_model(toy, runs, tmp_path):
    dual = chosen(runs, language_model=str(runs / "basic"))
    with pytest.raises(AccordError, match="not of a language model") as caught:
        train(branch(toy, runs, tmp_path, 1, dual))
    assert "model.kind is language-model" in str(caught.value)


GOOD = {"dual_copies": 0.1, "dual_right_language": 0.9, "dual_dropped": 0.1}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, None),
        (GOOD, None),
        (GOOD | {"dual_copies": 0.4}, "40% of the round trips only copy"),
        (GOOD | {"dual_right_language": 0.3}, "only 30% of the round trips"),
        (GOOD | {"dual_dropped": 0.7}, "70% of the round trips repeat"),
    ],
)
def test_what_goes_wrong_is_said(values, said):
    found = DualObjective.warning(None, values)
    assert (found is None) if said is None else (said in found and "try " in found)


def test_a_warning_reaches_the_terminal(toy, runs, tmp_path, monkeypatch):
    notes = Notes()
    monkeypatch.setattr("accord.objectives.dual.objective._MOST_COPIES", -1.0)
    train(branch(toy, runs, tmp_path, 5, chosen(runs)), progress=notes)
    assert sum("only copy their sentences" in note for note in notes.notes) == 1


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"objective__dual__every": 2, "objective__dual__likelihood": False}, "dual.every"),
        ({"objective__consistency": {}, "objective__dual__likelihood": False}, "dual.likelihood"),
        ({"corpora__0__pair": "de-en", "corpora__0__directions": "forward"}, "dual"),  # no German
        ({"objective__dual__language_model": ""}, "dual.language_model"),
    ],
)
def test_what_cannot_be_is_refused_when_the_file_is_read(toy, runs, tmp_path, keys, key):
    with pytest.raises(AccordError) as caught:
        experiment(toy, tmp_path, **{"objective__dual": chosen(runs), **keys})
    assert f"key objective.{key}: " in str(caught.value)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("likelihood", [True, False])
def test_graphs_are_replayed(toy, runs, tmp_path, likelihood):
    last = trained(toy, runs, tmp_path, 30, chosen(runs, likelihood=likelihood))
    assert all(value.isfinite().all() for value in last.values())
    lines = metrics(tmp_path, "train")
    assert all(line["skipped"] == 0 for line in lines)
    assert all(line["dual_reward"] < 0 for line in lines)
