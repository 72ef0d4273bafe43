"""Versions of the teacher on disk, and what the guard measures."""

from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from accord.config.model_settings import ModelSettings
from accord.errors import AccordError
from accord.graph import Direction
from accord.objectives.distillation.teacher_weights import (
    Guard,
    Quality,
    RunningAverage,
    TeacherVersions,
)

EN_DE, EN_FR = Direction("en", "de"), Direction("en", "fr")


def test_a_version_holds_its_weights_and_what_model_they_are_of(tmp_path):
    versions, model = TeacherVersions(tmp_path / "teacher"), torch.nn.Linear(3, 2)
    settings = ModelSettings(units=7, input_feeding=False)
    versions.write(versions.name(500), model.state_dict(), settings)
    other = torch.nn.Linear(3, 2)
    versions.load("step-00000500", other)
    assert torch.equal(other.weight, model.weight)
    assert versions.settings("step-00000500") == settings
    versions.write(versions.name(9), model.state_dict(), settings)
    versions.prune({"step-00000009", ""})
    assert [p.name for p in versions.directory.iterdir()] == ["step-00000009.safetensors"]


@pytest.mark.parametrize("damage", ["gone", "cut", "other model", "weight", "settings", "bare"])
def test_a_version_that_cannot_be_read_is_named(tmp_path, damage):
    versions, model = TeacherVersions(tmp_path), torch.nn.Linear(3, 2)
    path = versions.path("step-00000001")
    if damage != "gone":
        versions.write("step-00000001", model.state_dict(), ModelSettings())
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-5])
    if damage == "weight":
        path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    if damage == "settings":
        path.write_bytes(path.read_bytes().replace(b'units\\":512', b'units\\":513'))
    if damage == "bare":
        save_file(model.state_dict(), path)
    with pytest.raises(AccordError, match="cannot be read") as error:
        versions.load("step-00000001", torch.nn.Linear(4, 4) if damage == "other model" else model)
    assert error.value.where == str(path)


class HeldOut:
    """Dev sentences of one direction only."""

    def pair(self, split, source, target):
        assert split == "dev"
        known = ["ein Haus steht dort drüben", "zwei Katzen laufen schnell davon"]
        return (["a", "b"], known) if (source, target) == EN_DE else ([], [])


def test_the_guard_measures_directions_with_dev_sentences():
    guard = Guard(HeldOut(), [EN_DE, EN_FR], 0.5)
    assert list(guard.sets) == [EN_DE]
    said = {"a": "ein Haus steht dort drüben", "b": "zwei Katzen laufen schnell davon ja ja ja"}
    decoder = SimpleNamespace(greedy=lambda texts, target, source: [said[text] for text in texts])
    found = guard.measure(decoder)
    assert 60 < found.bleu < 100
    assert found.length_ratio == 13 / 10
    with pytest.raises(AccordError, match="no dev sentences"):
        Guard(HeldOut(), [EN_FR], 0.5)


@pytest.mark.parametrize(
    ("bleu", "ratio", "good"),
    [(20, 1.0, True), (19.5, 0.9, True), (19.49, 1.0, False), (25, 1.11, False), (25, 0.8, False)],
)
def test_the_guard_allows_for_chance_but_not_for_drift(bleu, ratio, good):
    refusal = Guard(HeldOut(), [EN_DE], 0.5).refusal(Quality(bleu, ratio), 20.0, 1.0)
    assert (refusal is None) == good


def test_a_running_average_lags_behind():
    model = torch.nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(0.0)
    average = RunningAverage(model, decay=0.9)
    for wanted in (0.1, 0.19, 0.271):
        model.weight.data.fill_(1.0)
        average.follow()
        assert float(average.tensors["weight"]) == pytest.approx(wanted)
    assert model.weight.item() == 1.0
