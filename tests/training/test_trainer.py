"""The training loop in one process: it learns, it stops when it should, it survives bad numbers."""

import json
import math
import re

import numpy as np
import pytest
import torch

from accord.errors import AccordError
from accord.models.checkpoint import open_checkpoint
from accord.training.trainer import train
from accord.training.update import Updater
from accord.training.validation import DirectionScores, Scores, Validator
from toy_training import Notes, checkpoint, checkpoints, experiment, metrics, prepared, weights


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


def state(run, step):
    return json.loads((checkpoint(run, step) / "state.json").read_text())


def test_32_sentence_pairs_are_learnt_by_heart(tmp_path, tmp_path_factory):
    small = prepared(tmp_path_factory.getbasetemp(), lines=8, units=32)  # 8 x 4 directions
    settings = experiment(
        small,
        tmp_path,
        model__dropout=0.0,
        training__steps=120,
        training__batch_tokens=1024,
        training__label_smoothing=0.0,
        training__log_every=20,
        training__save_every=1000,
        training__validation__every=1000,
    )
    train(settings)
    losses = [line["loss"] for line in metrics(tmp_path, "train")]
    assert losses[0] > 2
    assert losses[-1] < 0.02


def test_accumulation_changes_nothing(toy, tmp_path):
    """T14: the parts of an update add up to the gradient of the whole."""
    runs = {}
    for parts in (1, 3):
        settings = experiment(
            toy,
            tmp_path / str(parts),
            model__dropout=0.0,
            training__accumulation=parts,
            training__steps=12,
            training__optimizer="adafactor",
        )
        train(settings)
        runs[parts] = weights(tmp_path / str(parts), 12)
    whole, split = (torch.cat([p.flatten() for p in runs[parts].values()]) for parts in (1, 3))
    assert (whole - split).norm() < 1e-5 * whole.norm()
    for one, three in zip(
        metrics(tmp_path / "1", "train"), metrics(tmp_path / "3", "train"), strict=True
    ):
        assert one["loss"] == pytest.approx(three["loss"], rel=1e-6)
        assert one["gradient_norm"] == pytest.approx(three["gradient_norm"], rel=1e-4)
        assert one["rows"] == three["rows"]


# --- numbers that are not finite --------------------------------------------------------------


def poison(monkeypatch, steps, what="gradient"):
    """Spoil the updates with these numbers, counted from 1."""
    plain, step = Updater.accumulate, 0

    def accumulate(self, batches):
        nonlocal step
        step += 1
        sums = plain(self, batches)
        if step in steps and what == "gradient":
            self.gradients.flat[7] = math.nan
        elif step in steps:
            sums = {name: sums_K * math.inf for name, sums_K in sums.items()}
        return sums

    monkeypatch.setattr(Updater, "accumulate", accumulate)


@pytest.mark.parametrize("what", ["gradient", "loss"])
def test_a_bad_step_is_left_out_and_counted(toy, tmp_path, monkeypatch, what):
    poison(monkeypatch, {3, 6, 7}, what)
    steps, notes = [], Notes()
    plain = torch.optim.Adam.step
    monkeypatch.setattr(torch.optim.Adam, "step", lambda self: (steps.append(1), plain(self))[1])
    train(experiment(toy, tmp_path, training__steps=10, training__bad_steps=3), progress=notes)
    assert len(steps) == 7
    assert [n for n in notes.notes if "left out" in n] == [
        f"step {step}: loss or gradient is not finite; step left out" for step in (3, 6, 7)
    ]
    first, second = metrics(tmp_path, "train")
    assert (first["skipped"], second["skipped"]) == (1, 3)
    assert state(tmp_path, 10)["skipped"] == 3
    assert state(tmp_path, 10)["bad_in_a_row"] == 0
    for line in (first, second):  # means are over the steps that were taken
        assert math.isfinite(line["loss"])
        assert 4 < line["loss"] < 6
        assert line["rows"] > 0
    assert all(value.isfinite().all() for value in weights(tmp_path, 10).values())


def test_a_line_of_bad_steps_only_is_still_json(toy, tmp_path, monkeypatch):
    poison(monkeypatch, range(1, 6))
    train(experiment(toy, tmp_path, training__steps=6))
    assert "NaN" not in (tmp_path / "metrics.jsonl").read_text()
    line = metrics(tmp_path, "train")[0]
    assert line["loss"] is None
    assert line["gradient_norm"] is None
    assert line["target_tokens"] > 0


def test_too_many_bad_steps_in_a_row_end_the_run(toy, tmp_path, monkeypatch):
    settings = experiment(toy, tmp_path, training__bad_steps=4)
    poison(monkeypatch, {*range(10, 13), *range(20, 100)})
    with pytest.raises(AccordError, match="4 updates in a row") as error:
        train(settings)
    assert "step 23" in error.value.where
    assert "bad-batch-23.npz" in error.value.fix
    with np.load(tmp_path / "bad-batch-23.npz") as batch:
        rows, length = batch["source_BS"].shape
        assert rows == batch["update_rows"] > 0
        assert batch["source_lengths_B"].max() == length
        assert batch["target_lengths_B"].sum() == batch["update_target_tokens"]
    newest = checkpoints(tmp_path)[-1]
    assert newest == 21
    assert open_checkpoint(checkpoint(tmp_path, newest)).state["bad_in_a_row"] == 2
    assert all(value.isfinite().all() for value in weights(tmp_path, newest).values())
    monkeypatch.undo()
    assert train(settings).step == 40


def test_bad_steps_in_a_row_are_counted_over_a_stop(toy, tmp_path, monkeypatch):
    """Otherwise a run that is restarted often would never give up."""
    poison(monkeypatch, range(6, 100))
    for steps in (7, 9):  # the run stops here and goes on, in the middle of the bad steps
        train(
            experiment(toy, tmp_path, training__steps=steps, training__bad_steps=5),
            accept_changes=True,
        )
        monkeypatch.undo()
        poison(monkeypatch, range(100))
    with pytest.raises(AccordError, match="step 10"):
        train(experiment(toy, tmp_path, training__bad_steps=5), accept_changes=True)


def test_weights_that_are_not_finite_are_never_saved(toy, tmp_path, monkeypatch):
    """An update with a finite gradient can still spoil them; no checkpoint may be lost to that."""
    plain = Updater.update

    def update(self, *args):
        outcome = plain(self, *args)
        if self.optimizer.state[self.gradients.parameters[0]]["step"] == 21:
            with torch.no_grad():
                self.gradients.parameters[2].view(-1)[0] = math.inf
        return outcome

    monkeypatch.setattr(Updater, "update", update)
    settings = experiment(toy, tmp_path, training__keep=1, training__validation__every=100)
    with pytest.raises(AccordError, match="weights are not finite"):
        train(settings)
    assert checkpoints(tmp_path) == [14]


# --- validation, best and last ----------------------------------------------------------------


def scripted(monkeypatch, entropies):
    """Validation finds these cross-entropies, one after the other."""
    values = iter(entropies)

    def scores(self, model):
        value = next(values)
        return Scores({"en-de": DirectionScores("supervised", value, None, None)},
                      "cross_entropy", value, None, None)  # fmt: skip

    monkeypatch.setattr(Validator, "__call__", scores)


def test_training_stops_when_nothing_gets_better(toy, tmp_path, monkeypatch):
    scripted(monkeypatch, [3.0, 2.0, 2.0, math.nan, 2.5, 1.0])
    settings = experiment(
        toy,
        tmp_path,
        training__steps=60,
        training__keep=1,
        training__validation={"every": 4, "sentences": 0, "patience": 3},
    )
    result = train(settings)
    assert (result.step, result.finished) == (20, True)
    assert result.reason == "no better for 3 validations"
    assert checkpoints(tmp_path) == [8, 20]  # the best and the last
    assert (state(tmp_path, 20)["best"], state(tmp_path, 20)["best_step"]) == (-2.0, 8)
    assert [line["step"] for line in metrics(tmp_path, "validation")] == [4, 8, 12, 16, 20]
    assert train(settings).step == 20  # nor does running it again


def test_patience_is_counted_over_a_stop(toy, tmp_path, monkeypatch):
    scripted(monkeypatch, [2.0, 2.5, 2.5, 2.5, 2.5])
    validation = {"every": 4, "sentences": 0, "patience": 2}
    stopped = experiment(toy, tmp_path, training__steps=8, training__validation=validation)
    assert train(stopped).reason == "8 steps done"
    longer = experiment(toy, tmp_path, training__steps=60, training__validation=validation)
    result = train(longer, accept_changes=True)
    assert (result.step, result.reason) == (12, "no better for 2 validations")


def test_the_first_score_may_be_no_number(toy, tmp_path, monkeypatch):
    scripted(monkeypatch, [math.nan, 3.0, 2.0])
    settings = experiment(
        toy, tmp_path, training__steps=12, training__validation={"every": 4, "sentences": 0}
    )
    train(settings)
    assert state(tmp_path, 12)["best_step"] == 12


def test_a_best_by_another_measure_is_forgotten(toy, tmp_path):
    """-5.8 nats and 0.0 BLEU cannot be compared."""
    validation = {"every": 4, "sentences": 2, "metric": "bleu"}
    train(experiment(toy, tmp_path, training__steps=4, training__validation=validation))
    assert state(tmp_path, 4)["best"] >= 0
    validation["metric"] = "cross_entropy"
    settings = experiment(toy, tmp_path, training__steps=8, training__validation=validation)
    train(settings, accept_changes=True)
    assert state(tmp_path, 8)["best"] < 0
    assert state(tmp_path, 8)["best_step"] == 8


def test_without_dev_sentences_training_goes_on_without_validation(toy, tmp_path, monkeypatch):
    monkeypatch.setattr("accord.data.store.HeldOutSets.pair", lambda *_: ([], []))
    assert train(experiment(toy, tmp_path, training__steps=10)).step == 10
    assert metrics(tmp_path, "validation") == []
    assert checkpoints(tmp_path) == [7, 10]


def test_the_first_step_is_number_1_of_the_schedule(toy, tmp_path, monkeypatch):
    rates = []
    plain = torch.optim.Adam.step

    def step(self):
        rates.append(self.param_groups[0]["lr"])
        return plain(self)

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    train(experiment(toy, tmp_path, training__steps=12, training__log_every=1))
    assert rates[:10] == pytest.approx([0.001 * n for n in range(1, 11)])  # peak 0.01 at step 10
    assert rates[11] == pytest.approx(0.01 * math.sqrt(10 / 12))
    assert [line["lr"] for line in metrics(tmp_path, "train")] == rates


def test_the_rate_falls_to_nothing_over_the_last_steps(toy, tmp_path):
    optimizer = {"kind": "adam", "schedule": "constant", "learning_rate": 0.01, "decay": 4}
    train(
        experiment(
            toy, tmp_path, training__steps=6, training__log_every=1, training__optimizer=optimizer
        )
    )
    rates = [line["lr"] for line in metrics(tmp_path, "train")]
    assert rates == pytest.approx([0.01, 0.01, 0.01, 0.0075, 0.005, 0.0025])


# --- what is said ----------------------------------------------------------------------------


def test_speed_is_tokens_counted_over_seconds_measured(toy, tmp_path):
    notes = Notes()
    train(experiment(toy, tmp_path), progress=notes)
    lines = metrics(tmp_path, "train")
    for line in lines:
        for side in ("source", "target"):
            rate = line[f"{side}_tokens"] / line["seconds"]
            assert line[f"{side}_tokens_per_s"] == pytest.approx(rate)
        assert 0 <= line["wait_share"] <= 1
    assert sum(line["seconds"] for line in lines) == pytest.approx(lines[-1]["training_seconds"])
    shown = re.compile(
        r"loss (?P<loss>[\d.]+) ppl (?P<ppl>[\d.]+) lr (?P<lr>\S+) "
        r"src (?P<src>[\d,]+)/s tgt (?P<tgt>[\d,]+)/s wait (?P<wait>\d+)% left \d+:\d\d"
    )
    details = [detail for detail in notes.details if detail.startswith("loss")]
    assert len(details) == len(lines) == 8
    for detail, line in zip(details, lines, strict=True):
        said = shown.fullmatch(detail)
        assert said["src"] == f"{line['source_tokens_per_s']:,.0f}"
        assert said["tgt"] == f"{line['target_tokens_per_s']:,.0f}"
        assert said["loss"] == f"{line['loss']:.3f}"
        assert float(said["ppl"]) == pytest.approx(math.exp(line["nll"]), abs=0.05)


def test_tokens_of_an_epoch_are_those_of_the_store(toy, tmp_path):
    """Every line in both directions, tags and ends of sentence included, none counted twice."""
    from accord.config.load import store_directory
    from accord.data.store import Store

    settings = experiment(toy, tmp_path, training__log_every=1, training__steps=60)
    train(settings)
    lines = metrics(tmp_path, "train")
    epoch = next(i for i, line in enumerate(lines) if line["epoch"] >= 1) + 1
    assert lines[epoch - 1]["epoch"] == 1.0
    words = rows = 0
    for corpus in Store(store_directory(settings)).corpora:
        words += sum(int(side.lengths().sum()) for side in corpus.sides)
        rows += 2 * len(corpus)
    assert sum(line["rows"] for line in lines[:epoch]) == rows
    assert sum(line["target_tokens"] for line in lines[:epoch]) == words + rows
    assert sum(line["source_tokens"] for line in lines[:epoch]) == words + 2 * rows


def test_a_run_shorter_than_a_line_of_the_log_is_logged_all_the_same(toy, tmp_path):
    train(experiment(toy, tmp_path, training__steps=3))
    assert [line["step"] for line in metrics(tmp_path, "train")] == [3]


def test_another_seed_of_training_needs_no_other_data(toy, tmp_path):
    """Only the experiment's own seed is part of the data; None stands for it."""
    for name, seed in (("own", None), ("same", 1), ("other", 2)):
        train(experiment(toy, tmp_path / name, training__steps=2, training__seed=seed))
    own, same, other = (weights(tmp_path / name, 2) for name in ("own", "same", "other"))
    assert all(torch.equal(own[name], same[name]) for name in own)
    assert not any(torch.equal(own[name], other[name]) for name in own if "weight" in name)
