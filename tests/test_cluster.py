"""The Slurm script of docs/cluster.md, with stand-ins for Slurm and torchrun."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Each notes what it was asked for. srun hands signals on to what it started, as Slurm's does.
STAND_INS = {
    "scontrol": """
        [ "$1" = show ] && printf 'node1\\nnode2\\n' || echo "scontrol $*" >> asked""",
    "srun": """
        "$@" & task=$!
        trap 'kill -TERM $task' TERM
        touch ready
        wait $task; code=$?
        [ $code -gt 128 ] && { wait $task; code=$?; }
        exit $code""",
    "torchrun": """
        trap 'echo saved >> asked; exit 1' TERM
        echo "torchrun $*" >> asked
        echo "store $TORCH_DISABLE_SHARE_RDZV_TCP_STORE" >> asked
        while [ ! -e goal ]; do sleep 0.01; done
        exit 0""",
}


@pytest.fixture
def job(tmp_path):
    page = (ROOT / "docs/cluster.md").read_text(encoding="utf-8")
    (tmp_path / "train.sh").write_text(re.search(r"```bash\n(.*?)```", page, re.DOTALL)[1], "utf-8")
    for name, body in STAND_INS.items():
        (tmp_path / name).write_text(f"#!/bin/bash{body}\n", "utf-8")
        (tmp_path / name).chmod(0o755)
    slurm = {"JOB_ID": "7", "JOB_NODELIST": "node[1-2]", "NNODES": "2", "GPUS_ON_NODE": "8"}
    env = {f"SLURM_{key}": value for key, value in slurm.items()}
    (asked := tmp_path / "asked").touch()
    process = subprocess.Popen(
        ["bash", "train.sh", "mine.yaml", "--set", "run=there"],
        cwd=tmp_path,
        env={**os.environ, **env, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    # Both stand-ins have set their traps: a signal before that would end them without a word.
    while not (tmp_path / "ready").exists() or "store" not in asked.read_text():
        assert process.poll() is None
        time.sleep(0.01)
    yield process, tmp_path
    (tmp_path / "goal").touch()  # whatever the test did, nothing is left running
    process.wait(timeout=30)


def test_torchrun_of_each_node_meets_at_the_first(job):
    process, folder = job
    (folder / "goal").touch()
    assert process.wait(timeout=30) == 0
    called, store = (folder / "asked").read_text().splitlines()  # and nobody queued it again
    assert called == (
        "torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint node1:29400 "
        "--rdzv-id 7-0 --max-restarts 3 -m accord train mine.yaml --set run=there"
    )
    assert store == "store 1"


def test_before_time_is_up_training_saves_and_the_job_is_queued_again(job):
    process, folder = job
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    assert (folder / "asked").read_text().splitlines()[2:] == ["saved", "scontrol requeue 7"]


def test_torchrun_knows_these_options():
    from torch.distributed.run import get_args_parser

    words = "--nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint node1:29400"
    more = "--rdzv-id 7-0 --max-restarts 3 -m accord train mine.yaml --set run=there"
    found = get_args_parser().parse_args(f"{words} {more}".split())
    assert (found.module, found.training_script) == (True, "accord")
