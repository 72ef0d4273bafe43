"""Work on several processes: what becomes of it when one of them is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from accord.data.workers import run_all
from accord.errors import AccordError
from accord.progress import Silent
from worker_tasks import blocked, die, linger


def test_workers_are_deaf_to_ctrl_c_and_the_parent_is_not():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    for mask in run_all(blocked, [1, 2], 2, Silent()):
        assert signal.SIGINT in mask
        assert signal.SIGTERM not in mask
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_a_killed_worker_is_explained():
    with pytest.raises(AccordError, match="a worker process was ended") as caught:
        run_all(die, [1, 2], 2, Silent())
    assert "--workers" in str(caught.value.fix)


def test_workers_that_are_gone_are_not_waited_for(monkeypatch):
    """The pool itself would notice, unless its own thread is gone too."""
    monkeypatch.setattr("accord.data.workers.multiprocessing.active_children", list)
    with pytest.raises(AccordError, match="a worker process was ended"):
        run_all(linger, [1, 2], 2, Silent())


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # One that has ended but was not waited for by its new parent counts as gone.
    return " Z " not in Path(f"/proc/{process}/stat").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_end_with_a_parent_that_was_killed(tmp_path):
    code = (
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[1] / 'helpers')!r})\n"
        "from accord.data.workers import run_all\n"
        "from accord.progress import Silent\n"
        "from worker_tasks import sleep_deaf\n"
        "if __name__ == '__main__':\n"
        "    run_all(sleep_deaf, [sys.argv[1]] * 2, 2, Silent())\n"
    )
    script = tmp_path / "parent.py"
    script.write_text(code)
    folder = tmp_path / "workers"
    folder.mkdir()
    parent = subprocess.Popen([sys.executable, str(script), str(folder)])
    deadline = time.monotonic() + 60
    while len(workers := [int(path.name) for path in folder.iterdir()]) < 2:
        assert parent.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    while any(alive(worker) for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)
