"""Two processes under torchrun: the same result as one, and an orderly end whatever happens."""

import json
import signal
import time

import pytest
import torch

from accord.config.load import store_directory
from accord.data.batches import BatchStream
from accord.data.store import Store
from accord.training.trainer import train
from toy_training import (
    Fault,
    Notes,
    arguments,
    checkpoint,
    checkpoints,
    experiment,
    metrics,
    prepared,
    story,
    torchrun,
    two_processes,
    weights,
)

pytestmark = pytest.mark.slow
STEPS = 34
KEYS = {
    "model__dropout": 0.0,
    "training__steps": STEPS,
    "training__batch_tokens": 104,
    "training__optimizer": "adafactor",
    "training__keep": 10,
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def two(toy, tmp_path_factory):
    """A run of two processes that nothing happened to, and what they said."""
    run = tmp_path_factory.mktemp("two")
    return run, two_processes(arguments(toy, run, **KEYS))


def test_two_processes_equal_one(toy, two, tmp_path):
    settings = experiment(toy, tmp_path, **KEYS)
    store = Store(store_directory(settings))
    stream = BatchStream(
        store.corpora, store.languages, store.vocabulary.tags, batch_tokens=104, seed=1
    )
    batches = iter(stream)
    rows = [next(batches)[1].rows for _ in range(STEPS)]
    assert 1 in rows  # such a batch leaves nothing for the second process
    assert stream.batches_per_epoch(0) < STEPS
    train(settings)
    one, other = weights(tmp_path, STEPS), weights(two[0], STEPS)
    for name, value in one.items():
        assert torch.allclose(value, other[name], rtol=1e-5, atol=1e-6), name
    for mine, theirs in zip(metrics(tmp_path), metrics(two[0]), strict=True):
        assert (mine["kind"], mine["step"]) == (theirs["kind"], theirs["step"])
        if mine["kind"] == "train":
            assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
            assert mine["gradient_norm"] == pytest.approx(theirs["gradient_norm"], rel=1e-4)
            for key in ("rows", "source_tokens", "target_tokens", "epoch", "lr"):
                assert mine[key] == theirs[key]
        else:
            assert mine["cross_entropy"] == pytest.approx(theirs["cross_entropy"], rel=1e-5)


def test_only_the_first_process_speaks_and_writes(two):
    run, output = two
    assert output.count("2 processes") == 1
    assert output.count("step 9: dev cross-entropy") == 1
    assert [line["step"] for line in metrics(run, "train")] == [5, 10, 15, 20, 25, 30, 34]
    assert checkpoints(run) == [7, 9, 14, 18, 21, 27, 28, 34]
    assert not [path for path in run.rglob("*") if "rank" in path.name]


def test_a_run_whose_first_checkpoint_is_its_last_ends_well_in_all_processes(toy, tmp_path):
    """The second one was done before that was on disk, and wanted to save what was not there."""
    rare = {"training__steps": 3, "training__save_every": 99, "training__validation__every": 99}
    two_processes(arguments(toy, tmp_path, **KEYS | rare, training__exchange="bf16"))
    assert checkpoints(tmp_path) == [3]


def test_a_process_that_dies_ends_all(toy, tmp_path):
    process = torchrun(arguments(toy, tmp_path, **KEYS), fault=Fault(at=12))
    output, _ = process.communicate(timeout=100)
    assert process.returncode != 0
    assert "lost touch with another process" in output  # what the first one says
    assert "Signal 9 (SIGKILL)" in output  # what became of the second
    assert checkpoints(tmp_path)[-1] <= 11
    assert not list((tmp_path / "checkpoints").glob(".*"))


def test_after_a_restart_the_weights_are_those_of_an_undisturbed_run(toy, two, tmp_path):
    process = torchrun(arguments(toy, tmp_path, **KEYS), "--max-restarts", "1", fault=Fault(at=12))
    output, _ = process.communicate(timeout=100)
    assert process.returncode == 0, output
    after = output[output.index("resuming from step") :]
    # A thread of gloo that outlives Python may abort the process, rarely.
    assert after.count("threads left:") == 2
    assert "gloo" not in after
    assert story(tmp_path, STEPS) == story(two[0], STEPS)


def test_a_signal_to_torchrun_saves_at_a_step_that_all_agree_on(toy, two, tmp_path):
    process = torchrun(arguments(toy, tmp_path, **KEYS), fault=Fault(pause=0.1))
    while not (tmp_path / "metrics.jsonl").exists() or not metrics(tmp_path):
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=100)
    assert "told to stop" in output
    step = checkpoints(tmp_path)[-1]
    assert step in (8, 16)
    state = json.loads((checkpoint(tmp_path, step) / "state.json").read_text())
    # On another number of processes the run goes on as well.
    notes = Notes()
    assert train(experiment(toy, tmp_path, **KEYS), progress=notes).step == STEPS
    assert any(note.startswith("1 process, but 2 before: ") for note in notes.notes)
    assert state["totals"]["rows"] > 0
    for name, value in weights(tmp_path, STEPS).items():
        assert torch.allclose(value, weights(two[0], STEPS)[name], rtol=1e-5, atol=1e-6), name
    for mine, theirs in zip(metrics(tmp_path, "train"), metrics(two[0], "train"), strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
        assert mine["target_tokens"] == theirs["target_tokens"]
