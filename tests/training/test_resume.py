"""However a run is interrupted, running the same command again makes it as if it never was."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch

from accord.errors import AccordError
from accord.training.trainer import train
from toy_training import (
    Fault,
    Notes,
    arguments,
    checkpoint,
    checkpoints,
    experiment,
    fork,
    metrics,
    prepared,
    run_fork,
    stop_at,
    story,
)

STEPS = 40


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def straight(toy, tmp_path_factory):
    """The story of a run that nothing happened to."""
    run = tmp_path_factory.mktemp("straight")
    train(experiment(toy, run))
    return story(run, STEPS)


def test_the_story_has_every_step_once(straight):
    lines = [(line["kind"], line["step"]) for line in straight["metrics"]]
    assert sorted(lines) == sorted(
        [("train", step) for step in range(5, 41, 5)]
        + [("validation", step) for step in (9, 18, 27, 36, 40)]
    )


@pytest.mark.timeout(600)  # a busy machine is no failure
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_again_and_again(toy, straight, tmp_path, seed):
    """kill -9 before an update or a step of writing, or from outside as soon as more is on disk."""
    choose, deaths = random.Random(seed), 0
    run, output = tmp_path / "run", tmp_path / "output"
    while (code := killed_once(arguments(toy, run), run, output, choose)) != 0:
        assert code == -signal.SIGKILL, output.read_text()
        deaths += 1
        assert deaths < 50
    assert deaths
    assert story(run, STEPS) == straight
    assert not list((run / "checkpoints").glob(".*"))


def killed_once(args, run, output, choose):
    if choose.random() < 0.7:
        return run_fork(args, output, Fault(at=choose.randint(1, 90), events="update+disk"))

    def progress():
        log = run / "metrics.jsonl"
        return log.stat().st_size if log.exists() else 0

    process = fork(args, output, Fault(pause=0.01))
    before, more = progress(), choose.choice([0, 1, 2000])
    while process.is_alive() and progress() < before + more:
        time.sleep(0.005)
    process.kill()
    process.join()
    return process.exitcode


@pytest.mark.parametrize("step", [1, 11, 14, 18, 39, 40])
def test_told_to_stop_at_any_step(toy, straight, tmp_path, monkeypatch, step):
    """11 is nothing special; at 14 a checkpoint is due, at 18 a validation, at 40 all is done."""
    settings = experiment(toy, tmp_path)
    stop_at(monkeypatch, step)
    result = train(settings)
    assert (result.step, result.finished) == (step, step == STEPS)
    assert checkpoints(tmp_path)[-1] == step
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    monkeypatch.undo()
    assert train(settings).finished
    assert story(tmp_path, STEPS) == straight


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_saves_and_its_exit_status_says_which(toy, straight, tmp_path, number, status):
    run, output = tmp_path / "run", tmp_path / "output"
    args = arguments(toy, run)
    assert run_fork(args, output, Fault(at=23, number=number)) == status
    assert "told to stop, step 23 saved\nresume with: accord train" in output.read_text()
    assert run_fork(args, output) == 0
    assert "resuming from step 23" in output.read_text()
    assert story(run, STEPS) == straight


def test_a_second_signal_ends_at_once(toy, tmp_path):
    output = tmp_path / "output"
    in_an_update = Fault(at=1, number=signal.SIGTERM, pause=60)
    process = fork(arguments(toy, tmp_path / "run"), output, in_an_update)
    while not output.exists() or "once more stops at once" not in output.read_text():
        assert process.is_alive()
        time.sleep(0.01)
    process.terminate()
    process.join(30)
    assert process.exitcode == 128 + signal.SIGTERM
    assert checkpoints(tmp_path / "run") == []


def test_a_finished_run_is_left_as_it_is(toy, straight, tmp_path):
    train(experiment(toy, tmp_path))
    state = checkpoint(tmp_path, STEPS) / "state.json"
    before = state.stat().st_mtime_ns
    result = train(experiment(toy, tmp_path))
    assert (result.step, result.finished) == (STEPS, True)
    assert state.stat().st_mtime_ns == before
    assert story(tmp_path, STEPS) == straight


def test_the_time_limit_counts_over_interruptions(toy, tmp_path, monkeypatch):
    settings = experiment(toy, tmp_path, training__minutes=0.01, training__steps=100_000)
    stop_at(monkeypatch, 3)
    assert not train(settings).finished
    monkeypatch.undo()
    result = train(settings)
    assert result.reason == "0.01 minutes are over"
    spent = json.loads((checkpoint(tmp_path, result.step) / "state.json").read_text())["seconds"]
    assert 0.6 <= spent < 5
    assert train(settings).step == result.step


@pytest.mark.parametrize("damage", ["truncated", "flipped", "state", "no state", "no weights"])
def test_a_damaged_checkpoint_is_left_aside_and_said(toy, straight, tmp_path, monkeypatch, damage):
    settings = experiment(toy, tmp_path)
    stop_at(monkeypatch, 20)
    train(settings)
    monkeypatch.undo()
    newest = checkpoint(tmp_path, 20)
    spoil(newest, damage)
    notes = Notes()
    train(settings, progress=notes)
    assert any(n.startswith(f"left aside: {newest}: damaged checkpoint") for n in notes.notes)
    assert "resuming from step 18" in notes.notes
    assert story(tmp_path, STEPS) == straight
    assert newest.with_name("step-00000020.damaged").is_dir()


def spoil(path, damage):
    weights, state = path / "model.safetensors", path / "state.json"
    if damage == "truncated":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif damage == "flipped":
        data = bytearray(weights.read_bytes())
        data[len(data) // 2] ^= 1
        weights.write_bytes(data)
    elif damage == "state":
        state.write_text(state.read_text().replace('"batch": ', '"batch": 1', 1))
        json.loads(state.read_text())
    elif damage == "no state":
        state.unlink()
    else:
        weights.unlink()


def test_a_damaged_checkpoint_does_not_push_good_ones_out(toy, tmp_path, monkeypatch):
    settings = experiment(toy, tmp_path, training__keep=1)
    stop_at(monkeypatch, 20)
    train(settings)
    assert checkpoints(tmp_path) == [18, 20]  # the best and the newest
    spoil(checkpoint(tmp_path, 20), "truncated")
    stop_at(monkeypatch, 1)
    assert train(settings).step == 19
    assert checkpoints(tmp_path) == [18, 19]


def test_if_all_checkpoints_are_damaged_nothing_is_begun_anew(toy, tmp_path):
    settings = experiment(toy, tmp_path)
    train(settings)
    for step in checkpoints(tmp_path):
        spoil(checkpoint(tmp_path, step), "flipped")
    before = metrics(tmp_path)
    with pytest.raises(AccordError, match="no checkpoint can be read") as error:
        train(settings)
    assert "backup" in error.value.fix
    assert metrics(tmp_path) == before


def test_the_optimiser_kind_may_change_if_accepted(toy, tmp_path):
    train(experiment(toy, tmp_path, training__steps=10))
    notes = Notes()
    settings = experiment(toy, tmp_path, training__steps=20, training__optimizer="adafactor")
    train(settings, accept_changes=True, progress=notes)
    assert "another optimiser than before: it begins without memory" in notes.notes
    assert metrics(tmp_path, "train")[-1]["step"] == 20


def test_other_batches_continue_with_the_next_epoch(toy, tmp_path, monkeypatch):
    """A place in the data means nothing where the batches are others."""
    stop_at(monkeypatch, 13)
    train(experiment(toy, tmp_path))
    monkeypatch.undo()
    state = json.loads((checkpoint(tmp_path, 13) / "state.json").read_text())
    assert state["data"]["batch_tokens"] == 128
    assert state["position"]["batch"] > 0
    notes = Notes()
    settings = experiment(toy, tmp_path, training__batch_tokens=64, training__steps=14)
    train(settings, accept_changes=True, progress=notes)
    assert "other batches than before: continuing with the next epoch" in notes.notes
    after = json.loads((checkpoint(tmp_path, 14) / "state.json").read_text())
    assert after["position"] == {"epoch": state["position"]["epoch"] + 1, "window": 0, "batch": 1}


@pytest.mark.slow
def test_runs_in_other_processes_are_equal_bit_for_bit(toy, straight, tmp_path):
    """Nothing may depend on the order of sets or hashes, nor on the state of this process."""
    seed = "0" if os.environ.get("PYTHONHASHSEED") == "4242" else "4242"
    subprocess.run(
        [sys.executable, "-m", "accord", *arguments(toy, tmp_path / "other")],
        env={**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
    )
    assert story(tmp_path / "other", STEPS) == straight
    torch.manual_seed(99)  # what went on before in this process does not matter either
    train(experiment(toy, tmp_path / "here"))
    assert story(tmp_path / "here", STEPS) == straight
