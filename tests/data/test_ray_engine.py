"""Ray as the engine: the same bytes, lost workers, errors that arrive as they were."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

import accord.data.encode
from accord.config.load import load
from accord.data.prepare import prepare
from accord.data.ray_engine import RayEngine
from accord.errors import AccordError
from accord.progress import Silent
from store_digests import files
from toy_corpus import sentence, write_lines


def test_without_ray_it_is_said_how_to_get_it(toy, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(AccordError, match=r"pip install 'accord\[ray\]'"):
        prepare(load(toy), engine="ray")


def dies_once(folder, report):
    if not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    report(3)
    return "alive"


def dying_encode(task, report):
    dies_once(task.shard.folder.parent.parent, report)
    return accord.data.encode.encode_shard(task, report)


class Steps(Silent):
    def __init__(self):
        self.seen = []

    def reach(self, done, detail="", line=None):
        self.seen.append(done)


@pytest.mark.slow
@pytest.mark.timeout(900)  # a busy machine is no failure
def test_the_same_bytes_as_local_though_workers_are_killed(toy, monkeypatch):
    """One test, as starting Ray takes longer than all the rest."""
    ray = pytest.importorskip("ray")
    # Workers cannot import this file: what they need of it travels with the task.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    local = files(prepare(load(toy), workers=1, shard_lines=250).store.directory)
    shutil.rmtree(toy.parent / "store")
    on_sigterm = signal.getsignal(signal.SIGTERM)
    with RayEngine(2, None) as engine:
        a_task_is_done_again(engine, toy.parent / "alone")
        monkeypatch.setattr("accord.data.build_store.encode_shard", dying_encode)
        experiment = load(toy, ["prepare.memory=0.000010"])
        store = prepare(experiment, engine="ray", shard_lines=250).store  # finds the one at work
        assert (toy.parent / "died").exists()
        assert files(store.directory) == local
        shutil.rmtree(store.directory)
        errors_arrive_as_they_were(toy)
    assert not ray.is_initialized()
    assert signal.getsignal(signal.SIGTERM) is on_sigterm


def a_task_is_done_again(engine, folder):
    folder.mkdir()
    progress = Steps()
    assert engine.run(dies_once, [folder, folder], progress) == ["alive", "alive"]
    assert (folder / "died").exists()
    assert progress.seen[-1] == 6


def errors_arrive_as_they_were(toy):
    write_lines(toy.parent / "train.de", [sentence(i, "de") for i in range(590)])
    with pytest.raises(AccordError, match="590") as caught:
        prepare(load(toy), engine="ray")
    assert "the two sides do not go together" in caught.value.what
    assert "look at the lines around" in caught.value.fix
    assert not list((toy.parent / "store").glob(".building-*"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_where_there_is_no_cluster_it_is_said(toy):
    pytest.importorskip("ray")
    code = "from accord.cli import main; main()"
    command = ["prepare", str(toy), "--engine", "ray", "--address", "127.0.0.1:1"]
    found = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, check=False
    )
    assert found.returncode == 1
    assert "there is no Ray cluster" in found.stderr
    assert "Traceback" not in found.stderr
