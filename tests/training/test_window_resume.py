"""A run whose epochs have windows resumes in them; one from before there were windows goes on."""

import json
import re

import pytest
import torch

from accord.data.batches import BatchStream
from accord.data.windows import window_count
from accord.files import sealed
from accord.training.trainer import train
from toy_training import Notes, checkpoint, experiment, prepared, stop_at, story, weights

STEPS = 18
KEYS = {"training__steps": STEPS}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


@pytest.fixture
def small_windows(monkeypatch):
    """Windows of 50 examples: an epoch of the toy corpora, 240 examples, has five of them."""
    options = BatchStream.__init__.__kwdefaults__ | {"window": 50}
    monkeypatch.setattr(BatchStream.__init__, "__kwdefaults__", options)
    monkeypatch.setattr(window_count, "__defaults__", (50,))


def test_a_run_resumes_in_the_middle_of_a_window(toy, tmp_path, small_windows):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    notes = Notes()
    train(experiment(toy, whole, **KEYS), progress=notes)
    said = next(note for note in notes.notes if "windows" in note)
    assert re.fullmatch(r"an epoch has 5 windows, and an estimated \d+ updates", said)
    train(experiment(toy, cut, training__steps=8))
    state = json.loads((checkpoint(cut, 8) / "state.json").read_text())
    assert state["position"]["window"] > 0
    assert state["data"]["windows"] == 5
    train(experiment(toy, cut, **KEYS), accept_changes=True)
    for name, value in weights(whole, STEPS).items():
        assert torch.equal(value, weights(cut, STEPS)[name])


def test_no_epoch_is_planned_as_a_whole(toy, tmp_path, small_windows, monkeypatch):
    def refuse(*_):
        raise AssertionError("it would plan one window after the other")

    monkeypatch.setattr(BatchStream, "batches_per_epoch", refuse)
    notes = Notes()
    train(experiment(toy, tmp_path, training__steps=3), progress=notes)
    assert any("updates per epoch" in note for note in notes.notes)


def test_a_run_from_before_windows_goes_on_with_the_next_epoch(toy, tmp_path, request):
    """Its place in an epoch that was planned as a whole is none in one that has windows."""
    train(experiment(toy, tmp_path, training__steps=8))
    file = checkpoint(tmp_path, 8) / "state.json"
    state = json.loads(file.read_text())
    assert "windows" not in state["data"]
    del state["position"]["window"]  # as former versions wrote it
    file.write_text(json.dumps(sealed(state)))
    request.getfixturevalue("small_windows")
    notes = Notes()
    train(experiment(toy, tmp_path, training__steps=9), accept_changes=True, progress=notes)
    assert "other batches than before: continuing with the next epoch" in notes.notes
    now = json.loads((checkpoint(tmp_path, 9) / "state.json").read_text())
    assert now["position"] == {"epoch": state["position"]["epoch"] + 1, "window": 0, "batch": 1}


def test_a_state_from_before_windows_resumes_bit_for_bit(toy, tmp_path, monkeypatch):
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    train(experiment(toy, straight, **KEYS))
    stop_at(monkeypatch, 8)
    train(experiment(toy, stopped, **KEYS))
    monkeypatch.undo()
    file = checkpoint(stopped, 8) / "state.json"
    state = json.loads(file.read_text())
    del state["position"]["window"]
    file.write_text(json.dumps(sealed(state)))
    train(experiment(toy, stopped, **KEYS))
    assert story(stopped, STEPS) == story(straight, STEPS)
