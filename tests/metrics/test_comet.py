"""COMET through a stand-in for its package: what is asked of it, and what is made of the answer."""

import os
import sys
from types import ModuleType, SimpleNamespace

import pytest

from accord.errors import AccordError
from accord.metrics.comet import Comet

VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


@pytest.fixture
def package(monkeypatch):
    """A module named comet: its model scores a translation by the share of right characters."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "0")
    module = ModuleType("comet")
    module.calls = []

    def predict(rows, **keys):
        module.calls.append(keys)
        return SimpleNamespace(scores=[float(row["mt"] == row["ref"]) for row in rows])

    def load_from_checkpoint(path, **keys):
        assert all(os.environ[name] == "1" for name in VARIABLES)
        assert keys == {"local_files_only": True}
        with open(path) as file:
            if file.read() != "weights":
                raise KeyError("state_dict")
        return SimpleNamespace(predict=predict)

    module.load_from_checkpoint = load_from_checkpoint
    monkeypatch.setitem(sys.modules, "comet", module)
    return module


@pytest.fixture
def folder(tmp_path):
    """A model as the hub has it."""
    (tmp_path / "wmt-comet/checkpoints").mkdir(parents=True)
    (tmp_path / "wmt-comet/checkpoints/model.ckpt").write_text("weights")
    return tmp_path / "wmt-comet"


def test_the_mean_over_the_sentences_with_a_signature(package, folder):
    comet = Comet.load(folder, gpu=False)
    assert comet.score(["a", "b", "c"], ["x", "y", "z"], ["x", "y", "w"]) == pytest.approx(2 / 3)
    assert package.calls[0]["gpus"] == 0
    assert package.calls[0]["progress_bar"] is False
    assert comet.signature.startswith("wmt-comet|sha256:")
    assert len(comet.signature.split(":")[1]) == 12
    named = Comet.load(folder / "checkpoints/model.ckpt", gpu=True)
    assert (named.gpus, named.signature.split("|")[0]) == (1, "model.ckpt")


def test_a_name_is_no_path_and_nothing_is_downloaded(package, tmp_path):
    with pytest.raises(AccordError, match="no COMET checkpoint here") as caught:
        Comet.load(tmp_path / "Unbabel/wmt22-comet-da", gpu=False)
    assert "nothing is downloaded" in caught.value.fix
    with pytest.raises(AccordError, match="no COMET checkpoint here"):
        Comet.load(tmp_path, gpu=False)  # a folder without a model


def test_a_checkpoint_that_cannot_be_loaded(package, folder):
    (folder / "checkpoints/model.ckpt").write_text("rubbish")
    with pytest.raises(AccordError, match="cannot be loaded: 'state_dict'"):
        Comet.load(folder, gpu=False)


def test_without_the_package_the_error_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "comet", None)
    with pytest.raises(AccordError, match="unbabel-comet") as caught:
        Comet.load(folder, gpu=False)
    assert caught.value.fix == "pip install 'accord[comet]'"


def test_a_score_for_each_sentence_or_none(package, folder):
    comet = Comet.load(folder, gpu=False)
    comet.model.predict = lambda rows, **keys: SimpleNamespace(scores=[1.0])
    with pytest.raises(AccordError, match="1 scores for 2 sentences"):
        comet.score(["a", "b"], ["x", "y"], ["x", "y"])
