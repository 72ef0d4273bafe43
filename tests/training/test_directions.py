"""Training on some directions only: what is batched, measured, and called supervised."""

import json

import pytest
import torch

from accord.config.load import load, store_directory
from accord.data.store import Store, trained_corpora
from accord.errors import AccordError
from accord.inference.translator import Translator
from accord.objectives.likelihood import LikelihoodObjective
from accord.ops.distributed import World
from accord.training.setup import identity
from accord.training.trainer import train
from toy_training import Notes, checkpoint, experiment, metrics, prepared, stop_at, story

STEPS = 12
CHOSEN = ["en-fr", "de-en"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def straight(toy, tmp_path_factory):
    run = tmp_path_factory.mktemp("straight")
    train(some(toy, run))
    return run


def some(toy, run, **keys):
    return experiment(toy, run, training__directions=CHOSEN, training__steps=STEPS, **keys)


def test_only_these_are_batched_and_measured(toy, tmp_path, monkeypatch):
    seen, work = set(), LikelihoodObjective.work

    def noting(self, step, batch, inputs):
        rows = (batch.source_language_B.tolist(), batch.target_language_B.tolist())
        seen.update(zip(*rows, strict=True))
        return work(self, step, batch, inputs)

    monkeypatch.setattr(LikelihoodObjective, "work", noting)
    train(some(toy, tmp_path))
    assert seen == {(0, 2), (1, 0)}  # languages are en, de, fr
    line = metrics(tmp_path, "validation")[0]
    assert set(line["directions"]) == set(CHOSEN)
    assert {scores["kind"] for scores in line["directions"].values()} == {"supervised"}


def test_the_run_calls_supervised_what_it_was_trained_on(straight):
    graph = Translator(straight).graph
    assert list(map(str, graph.supervised_directions)) == CHOSEN
    assert graph.pivot_path("de", "fr") == ("de", "en", "fr")
    assert graph.pivot_path("fr", "de") is None


def test_such_a_run_resumes_exactly_and_notices_other_directions(
    toy, straight, tmp_path, monkeypatch
):
    with monkeypatch.context() as patched:
        stop_at(patched, 5)
        train(some(toy, tmp_path))
    train(some(toy, tmp_path))
    assert story(tmp_path, STEPS) == story(straight, STEPS)
    state = json.loads((checkpoint(tmp_path, STEPS) / "state.json").read_text())
    assert state["data"]["directions"] == sorted(CHOSEN)
    other = experiment(toy, tmp_path, training__directions=["en-fr"], training__steps=STEPS + 1)
    with pytest.raises(AccordError, match=r"training.directions"):
        train(other)
    notes = Notes()
    train(other, accept_changes=True, progress=notes)
    assert "other batches than before: continuing with the next epoch" in notes.notes
    assert metrics(tmp_path, "validation")[-1]["directions"].keys() == {"en-fr"}


def test_all_directions_are_what_they_were(toy):
    """A run that restricts nothing has the corpora and the identity of former versions."""
    settings = load(toy)
    store = Store(store_directory(settings))
    assert trained_corpora(store.corpora, settings.graph.supervised) == store.corpora
    found = identity(settings, store, World(0, 1, torch.device("cpu")))
    assert set(found["data"]) == {"fingerprint", "seed", "batch_tokens", "temperature"}
    listed = [str(direction) for direction in settings.graph.supervised_directions]
    every = load(toy, [f"training.directions={json.dumps(listed)}"])
    assert trained_corpora(store.corpora, every.graph.supervised) == store.corpora


def test_a_corpus_without_a_trained_direction_is_left_out(toy):
    settings = load(toy, ["training.directions=[en-fr]"])
    store = Store(store_directory(settings))
    (corpus,) = trained_corpora(store.corpora, settings.graph.supervised)
    assert corpus.languages == ("en", "fr")
    assert corpus.directions == (("en", "fr"),)
    assert store.corpora[1].directions == (("en", "fr"), ("fr", "en"))
