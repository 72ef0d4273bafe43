"""Distill inside the trainer: who learns what from which pairs, and that such runs resume."""

import hashlib
import json

import numpy as np
import pytest
import torch

from accord.config.load import run_directory, store_directory
from accord.data.store import Store
from accord.errors import AccordError
from accord.models.build import build_model
from accord.objectives.base import Context
from accord.objectives.distillation import objective
from accord.objectives.distillation.objective import DistillationObjective
from accord.objectives.distillation.rounds import Round
from accord.objectives.distillation.whole_softmax import TaughtInputs
from accord.objectives.likelihood import LikelihoodObjective
from accord.ops.distributed import World
from accord.progress import Silent
from accord.run_directory import RunDirectory
from accord.training.trainer import train
from toy_training import Notes, checkpoints, experiment, metrics, prepared, stop_at, story

STEPS = 16
OPEN = {"length_ratio": [0.0, 9.0], "distinct_bigrams": 0.0}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp(), units=16)


@pytest.fixture(scope="module")
def base(toy, tmp_path_factory):
    """A run that has learnt to end its sentences, from English only."""
    run = tmp_path_factory.mktemp("base")
    trained = {"training__steps": 60, "training__save_every": 60}
    train(experiment(toy, run, training__directions=["en-fr", "en-de"], **trained))
    return run


def distill(toy, base, run, preset, teacher=None, **keys):
    complete = {"preset": preset, "pairs": 30, "teacher": {"run": str(base), **(teacher or {})}}
    given = {"training__steps": STEPS, "objective__complete": {**complete, **keys}}
    return experiment(toy, run, **given)


def newest_round(run):
    return Round.load(max((run / "pool").glob("round-*.npz")))


def without_times(run):
    found = story(run, STEPS)
    for tally in found["state"]["totals"]["objectives"].values():
        tally.pop("waited")
    for line in found["metrics"]:
        line.pop("complete_wait", None)
    return found


@pytest.mark.parametrize("preset", ["sentence-greedy", "word-sampling"])
def test_without_gold_pairs_nothing_of_them_is_computed_and_runs_resume(
    toy, base, tmp_path, monkeypatch, preset
):
    shown, seen = LikelihoodObjective.loss, []
    whole = DistillationObjective.loss

    def loss(self, model, inputs):
        seen.append(type(inputs))
        return (whole if isinstance(self, DistillationObjective) else shown)(self, model, inputs)

    monkeypatch.setattr(LikelihoodObjective, "loss", loss)
    monkeypatch.setattr(DistillationObjective, "loss", loss)
    monkeypatch.setattr(LikelihoodObjective, "work", None)  # that of gold pairs
    keys = {"gold": False, "directions": ["de-fr"]}
    notes = Notes()
    train(distill(toy, base, tmp_path / "whole", preset, **keys), progress=notes)
    assert len(seen) >= STEPS
    assert {kind is TaughtInputs for kind in seen} == {preset == "word-sampling"}
    lines = metrics(tmp_path / "whole", "train")
    assert all(line["loss"] == line["complete_loss"] > 0 for line in lines)
    assert not metrics(tmp_path / "whole", "validation")  # nothing with data is trained
    with monkeypatch.context() as patched:
        stop_at(patched, 9)
        train(distill(toy, base, tmp_path / "parts", preset, **keys))
    assert checkpoints(tmp_path / "parts")[-1] == 9
    train(distill(toy, base, tmp_path / "parts", preset, **keys))
    assert without_times(tmp_path / "parts") == without_times(tmp_path / "whole")


def test_synthetic_pairs_are_of_the_directions_asked_for(toy, base, tmp_path, monkeypatch):
    made, plain = [], Round.pairs

    def pairs(self, gold, triads):
        made.extend(found := plain(self, gold, triads))
        return found

    monkeypatch.setattr(Round, "pairs", pairs)
    one = {"directions": ["de-fr"], "gold": False}
    train(distill(toy, base, tmp_path / "one", "sentence-greedy", **one))
    assert {direction for each in made for direction in each.corpus.directions} == {("de", "fr")}
    found = newest_round(tmp_path / "one")
    assert set(found.origins.language_N.tolist()) == {2}
    assert set(found.origins.corpus_N.tolist()) == {0}  # en-de
    made.clear()
    train(distill(toy, base, tmp_path / "all", "sentence-greedy"))
    directions = {direction for each in made for direction in each.corpus.directions}
    assert directions == {("de", "fr"), ("fr", "de")}
    assert all("nll" in line for line in metrics(tmp_path / "all", "train"))  # of gold pairs


def test_translations_are_drawn_and_the_same_whoever_asks(toy, base, tmp_path):
    for run, preset in (("one", "word-sampling"), ("two", "word-sampling"), ("not", "accord")):
        keys = {"pairs": 10, "directions": ["de-fr"], "uses": 8, "filters": OPEN}
        train(distill(toy, base, tmp_path / run, preset, **keys))
    found = {run: newest_round(tmp_path / run) for run in ("one", "two", "not")}
    assert np.array_equal(found["one"].sentences.ids, found["two"].sentences.ids)
    assert not np.array_equal(found["one"].sentences.ids, found["not"].sentences.ids)


def test_the_mass_of_likely_tokens_is_told(toy, base, tmp_path):
    notes = Notes()
    keys = {"directions": ["de-fr"], "teacher": {"tokens": 4}, "every": 4}
    train(distill(toy, base, tmp_path, "sentence-beam", **keys), progress=notes)
    lines = metrics(tmp_path, "pool")
    assert all(0.1 < line["mass_kept"] < 0.999 for line in lines)
    first = f"likely tokens hold {lines[0]['mass_kept']:.0%}"
    assert any(first in note for note in notes.notes)


def test_a_teacher_of_some_directions_teaches_no_others(toy, tmp_path):
    run = tmp_path / "teacher"
    train(experiment(toy, run, training__directions=["en-fr"], training__steps=2))
    with pytest.raises(AccordError, match="to translate en-de, but was trained on en-fr only"):
        train(distill(toy, run, tmp_path / "x", "sentence-greedy"))
    keys = {"directions": ["de-fr"], "gold": False}
    train(distill(toy, run, tmp_path / "x", "sentence-greedy", **keys))


def test_rounds_of_former_versions_are_used_on(toy, base, tmp_path):
    """Keys that they did not know are no part of what rounds are known by."""
    settings = experiment(toy, tmp_path, objective__complete={"start": 3})
    store = Store(store_directory(settings))
    model = build_model(settings.model, len(store.vocabulary), 1)
    world = World(0, 1, torch.device("cpu"))
    run = RunDirectory(run_directory(settings))
    made = DistillationObjective(
        settings.objective.complete,
        Context(settings, store, world, model, run, False, Silent()),
        LikelihoodObjective(0.1),
    )
    made._longest = 20
    known = {
        "parts": ["distillation", "back-translation"],
        "pairs": 100_000,
        "uses": 3,
        "search": {"beam": 1, "nbest": 1, "vocabulary": "all", "batch_tokens": 65_536},
        "filters": {
            "length_ratio": [0.6, 1.5],
            "distinct_bigrams": 0.8,
            "language": False,
            "round_trip": None,
        },
        "select": "first",
        "vote": 0.0,
        "tokens": 1,
        "asked": "frozen",
        "seed": 1,
        "data": store.manifest["fingerprint"],
        "batch_tokens": 128,
        "longest": 20,
    }
    text = json.dumps(known, sort_keys=True)
    assert made._fingerprint() == hashlib.sha256(text.encode()).hexdigest()


def test_on_a_gpu_it_waits_for_its_first_round_where_there_is_nothing_else(
    toy, base, tmp_path, monkeypatch
):
    monkeypatch.setattr(objective, "goes_on_without", lambda device: True)
    keys = {"directions": ["de-fr"], "gold": False}
    train(distill(toy, base, tmp_path, "sentence-greedy", **keys))
    assert all(line["complete_tokens"] for line in metrics(tmp_path, "train"))
    assert not any("complete_late" in line for line in metrics(tmp_path, "train"))
