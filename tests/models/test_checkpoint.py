"""Checkpoints on disk: whole or not there, checked when opened, pruned and averaged."""

import errno
import os

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from accord import files
from accord.errors import AccordError
from accord.models.checkpoint import Checkpoints, average, find_checkpoint, open_checkpoint
from accord.training.optim import build_optimizer
from accord.training.trainer import train
from toy_training import (
    Fault,
    arguments,
    checkpoint,
    checkpoints,
    experiment,
    prepared,
    run_fork,
)


@pytest.fixture
def model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2))


def trained(model, kind, steps):
    optimizer = build_optimizer(kind, model)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).square().sum().backward()
        optimizer.step()
    return optimizer


@pytest.mark.parametrize("kind", ["adam", "adafactor"])
def test_what_is_saved_comes_back_bit_for_bit(tmp_path, model, kind):
    optimizer = trained(model, kind, 3)
    store = Checkpoints(tmp_path)
    path = store.save(3, model, optimizer, {"seconds": 0.1 + 0.2})
    assert {p.suffix for p in path.iterdir()} == {".safetensors", ".json"}
    again = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2))
    fresh = build_optimizer(kind, again)
    found, problems = store.newest()
    assert (found.step, found.state["seconds"], problems) == (3, 0.1 + 0.2, [])
    found.load_model(again)
    found.load_optimizer(again, fresh)
    # One more step shows whether anything of the optimiser's memory is missing.
    for one, other in ((model, optimizer), (again, fresh)):
        other.zero_grad()
        one(torch.ones(3, 4)).square().sum().backward()
        other.step()
    for got, wanted in zip(again.parameters(), model.parameters(), strict=True):
        assert torch.equal(got, wanted)


def test_weights_of_another_model_are_refused(tmp_path, model):
    path = Checkpoints(tmp_path).save(1, model, trained(model, "adam", 1), {})
    with pytest.raises(AccordError, match="not those of this model") as error:
        open_checkpoint(path).load_model(nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2)))
    assert str(path) in str(error.value)
    assert "size mismatch for 0.weight" in error.value.what
    assert "(and 2 more)" in error.value.what  # and no line for each of a thousand tensors
    assert "\n" not in error.value.what


def test_pruning_keeps_the_newest_and_the_best(tmp_path, model):
    store, optimizer = Checkpoints(tmp_path), trained(model, "adam", 1)
    for step in (5, 10, 15, 20, 100_000_000):
        store.save(step, model, optimizer, {})
    (tmp_path / ".step-00000025.123").mkdir()
    (tmp_path / "average").mkdir()
    store.prune(2, best=10)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "average",
        "step-00000010",
        "step-00000020",
        "step-100000000",
    ]


def test_saving_over_a_damaged_checkpoint_replaces_it(tmp_path, model):
    store, optimizer = Checkpoints(tmp_path), trained(model, "adam", 1)
    path = store.save(5, model, optimizer, {})
    (path / "state.json").write_text("{}")
    (path / "left-over").write_text("")
    store.save(5, model, optimizer, {})
    assert open_checkpoint(path).step == 5
    assert not (path / "left-over").exists()


def test_a_checkpoint_of_another_format_is_not_called_damaged(tmp_path, model, monkeypatch):
    monkeypatch.setattr("accord.models.checkpoint.FORMAT", 99)
    path = Checkpoints(tmp_path).save(5, model, trained(model, "adam", 1), {})
    monkeypatch.undo()
    with pytest.raises(AccordError, match="of format 99"):
        open_checkpoint(path)


@pytest.mark.parametrize("name", ["best", "last"])
@pytest.mark.parametrize("file", ["state.json", "model.safetensors", "optimizer.safetensors"])
def test_a_damaged_newest_checkpoint_is_never_replaced_by_an_older_one(tmp_path, model, name, file):
    """It may be the best one, or name it: whatever is taken instead would be another model."""
    store, optimizer = Checkpoints(tmp_path / "checkpoints"), trained(model, "adam", 1)
    for step in (10, 20):
        path = store.save(step, model, optimizer, {"best_step": 10})
    assert find_checkpoint(tmp_path, name).step == {"best": 10, "last": 20}[name]
    data = bytearray((path / file).read_bytes())
    data[len(data) // 2] ^= 4
    (path / file).write_bytes(data)
    with pytest.raises(AccordError, match="damaged checkpoint") as error:
        find_checkpoint(tmp_path, name)
    assert error.value.where == str(path / file)
    assert "--checkpoint step-00000010" in error.value.fix
    assert find_checkpoint(tmp_path, "step-00000010").step == 10


def test_a_full_disk_leaves_the_older_checkpoints_alone(tmp_path, model, monkeypatch):
    store, optimizer = Checkpoints(tmp_path), trained(model, "adam", 1)
    store.save(5, model, optimizer, {})

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(AccordError, match="no space left") as error:
        store.save(10, model, optimizer, {})
    assert "step-00000010" in error.value.where
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == ["step-00000005"]
    assert store.newest()[0].step == 5


def test_a_run_that_may_not_write_so_much_ends_with_a_remedy(tmp_path, tmp_path_factory):
    """The operating system itself refuses, in the middle of the second file of a checkpoint."""
    toy = prepared(tmp_path_factory.getbasetemp())
    run, output = tmp_path / "run", tmp_path / "output"
    train(experiment(toy, tmp_path / "measure", training__steps=1))
    size = (checkpoint(tmp_path / "measure", 1) / "optimizer.safetensors").stat().st_size
    assert run_fork(arguments(toy, run), output, Fault(at=21, number=15)) == 0
    before = checkpoints(run)
    assert run_fork(arguments(toy, run), output, Fault(largest_file=size - 1)) == 1
    text = output.read_text()
    assert "cannot write: the file would be larger than allowed" in text
    assert "Traceback" not in text
    assert checkpoints(run) == before
    assert not list((run / "checkpoints").glob(".*"))
    assert run_fork(arguments(toy, run), output) == 0


def test_the_average_is_the_mean_of_the_weights(tmp_path, model):
    store, optimizer = Checkpoints(tmp_path), trained(model, "adam", 1)
    paths, states = [], []
    for step in (10, 20, 30):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))
        paths.append(store.save(step, model, optimizer, {}))
        states.append({name: value.clone() for name, value in model.state_dict().items()})
    average(paths, tmp_path / "average")
    mean = load_file(tmp_path / "average" / "model.safetensors")
    assert mean.keys() == states[0].keys()
    for name, value in mean.items():
        by_hand = sum(state[name].double() for state in states) / 3
        assert torch.equal(value, by_hand.float())
    found = open_checkpoint(tmp_path / "average")
    assert found.state["average_of"] == [10, 20, 30]
    assert store.newest()[0].step == 30  # an average is no place to resume from
    (paths[1] / "model.safetensors").write_bytes(b"")
    with pytest.raises(AccordError, match="damaged"):
        average(paths, tmp_path / "average")
    assert open_checkpoint(tmp_path / "average").step == 30


def test_averaging_more_checkpoints_than_there_are(tmp_path, tmp_path_factory):
    toy = prepared(tmp_path_factory.getbasetemp())
    run, output = tmp_path / "run", tmp_path / "output"
    train(experiment(toy, run, training__steps=15))
    assert checkpoints(run) == [14, 15]
    assert run_fork(["average", str(run), "--last", "2"], output) == 0
    assert (run / "checkpoints" / "average" / "model.safetensors").is_file()
    assert run_fork(["average", str(run), "--last", "3"], output) == 1
    assert "the run has 2 checkpoints, not 3" in output.read_text()


def test_what_objectives_add_is_sealed_with_the_rest(tmp_path, model):
    more = {"teacher": {"weight": torch.arange(3.0)}}
    path = Checkpoints(tmp_path).save(1, model, trained(model, "adam", 1), {}, more)
    assert torch.equal(load_file(path / "teacher.safetensors")["weight"], torch.arange(3.0))
    open_checkpoint(path)
    (path / "teacher.safetensors").write_bytes(b"rot")
    with pytest.raises(AccordError, match=r"damaged checkpoint: teacher\.safetensors"):
        open_checkpoint(path)


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b'{"step": 1}'])
def test_a_state_that_cannot_be_read_is_named(tmp_path, model, content):
    path = Checkpoints(tmp_path).save(1, model, trained(model, "adam", 1), {})
    (path / "state.json").write_bytes(content)
    with pytest.raises(AccordError, match=r"damaged checkpoint: state\.json cannot be read"):
        open_checkpoint(path)


def test_averaging_clears_what_a_killed_writer_left(tmp_path, model):
    path = Checkpoints(tmp_path).save(1, model, trained(model, "adam", 1), {})
    left = tmp_path / ".average.abcdefgh"
    left.mkdir()
    (left / ".lock").write_text(f"{files._OURS} writing")
    average([path], tmp_path / "average")
    assert not left.exists()
    assert (tmp_path / "average").is_dir()


def test_a_checkpoint_is_found_by_its_name(tmp_path, model):
    with pytest.raises(AccordError, match="no checkpoint"):
        find_checkpoint(tmp_path, "last")
    store = Checkpoints(tmp_path / "checkpoints")
    for step in (1, 2):
        store.save(step, model, trained(model, "adam", 1), {})
    assert find_checkpoint(tmp_path, "last").step == 2
    assert find_checkpoint(tmp_path, "best").step == 2  # none was judged
    assert find_checkpoint(tmp_path, "step-00000001").step == 1
    with pytest.raises(AccordError, match="there are: step-00000001, step-00000002"):
        find_checkpoint(tmp_path, "step-00000003")
    with pytest.raises(AccordError, match="accord average"):
        find_checkpoint(tmp_path, "average")
    store.save(3, model, trained(model, "adam", 1), {"best_step": 1})
    assert find_checkpoint(tmp_path, "best").step == 1
    assert find_checkpoint(tmp_path, "last").step == 3
