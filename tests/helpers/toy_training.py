"""Tiny experiments to train in the tests of this folder, and processes that die when told to.

Run as a script it is the command `accord` with a fault: see `Fault.of`.
"""

import atexit
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml
from safetensors.torch import load_file
from torch.distributed import TCPStore

from accord import cli
from accord.config.load import load
from accord.config.schema import Experiment
from accord.files import sealed
from accord.objectives.distillation import objective
from accord.objectives.distillation.rounds import RoundMaker
from accord.progress import Line
from accord.training.update import Updater

LANGUAGES = ("en", "de", "fr")
WORDS = {
    "en": "zero one two three four five six seven eight nine".split(),
    "de": "null eins zwei drei vier fünf sechs sieben acht neun".split(),
    "fr": "zéro un deux trois quatre cinq six sept huit neuf".split(),
}
TIMES = ("seconds", "training_seconds", "wait_share", "source_tokens_per_s", "target_tokens_per_s")

# Hard agreement of a model of a few steps, which says nothing sensible: learn whatever it says.
HARD = {
    "decoding": "hard",
    "weight": 0.3,
    "normalize": "token",
    "relative_length": False,
    "distinct_bigrams": 0.0,
    "least_length": 0.0,
}


def number(value: int, language: str) -> str:
    return " ".join(WORDS[language][int(digit)] for digit in str(value))


def write_text(path: Path, numbers, language: str) -> None:
    path.write_text("".join(f"{number(n, language)}\n" for n in numbers), encoding="utf-8")


@cache
def prepared(base: Path, lines: int = 60, units: int = 8) -> Path:
    """An experiment file with its store; made once in the base directory of a test session."""
    from accord.data.prepare import prepare

    directory = base / f"toy-training-{lines}-{units}"
    directory.mkdir()
    for language in LANGUAGES:
        # Numbers of one to four digits, so that there are several buckets of length.
        write_text(directory / f"train.{language}", (i * i for i in range(lines)), language)
        write_text(directory / f"dev.{language}", range(7001, 7005), language)
    settings = {
        "languages": list(LANGUAGES),
        "corpora": [
            {"pair": f"en-{other}", "train": str(directory / "train.{lang}")}
            for other in LANGUAGES[1:]
        ],
        "dev": str(directory / "dev.{lang}"),
        "overlap": "keep",
        "vocabulary": {"size": 320},
        "store": str(directory / "store"),
        "model": {"units": units, "encoder_layers": 1, "decoder_layers": 2},
        "training": {
            "steps": 40,
            "batch_tokens": 128,
            "threads": 1,
            "optimizer": {"kind": "adam", "learning_rate": 0.01, "warmup": 10},
            "log_every": 5,
            "save_every": 7,
            "keep": 2,
            "loggers": [],
            "validation": {"every": 9, "sentences": 0},
        },
    }
    path = directory / "toy.yaml"
    path.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    prepare(load(path), workers=1)
    return path


def experiment(toy: Path, run: Path, **keys: object) -> Experiment:
    """The toy experiment in a run directory; a double underscore in a key stands for a dot."""
    return load(toy, overrides(run, **keys))


def overrides(run: Path, **keys: object) -> list[str]:
    changed = {"run": str(run), **keys}
    return [f"{key.replace('__', '.')}={json.dumps(value)}" for key, value in changed.items()]


def arguments(toy: Path, run: Path, **keys: object) -> list[str]:
    """The command line of the same."""
    flags = [part for item in overrides(run, **keys) for part in ("--set", item)]
    return ["train", str(toy), *flags]


class Notes:
    """Progress that remembers what it was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.details: list[str] = []

    def start(self, what: str, total: int | None = None) -> None:
        pass

    def reach(self, done: int, detail: str = "", line: Line | None = None) -> None:
        self.details.append(detail)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def row(self, cells: Mapping[str, str], text: str) -> None:
        self.notes.append(text)


# --- what a run has written ------------------------------------------------------------------


def checkpoints(run: Path) -> list[int]:
    """The steps that have a checkpoint."""
    return sorted(int(p.name.split("-")[1]) for p in (run / "checkpoints").glob("step-????????"))


def checkpoint(run: Path, step: int) -> Path:
    return run / "checkpoints" / f"step-{step:08d}"


def weights(run: Path, step: int):
    return load_file(checkpoint(run, step) / "model.safetensors")


def story(run: Path, step: int) -> dict[str, object]:
    """All that must not depend on interruptions: weights, optimiser, standing, metrics."""
    path = checkpoint(run, step)
    state = json.loads((path / "state.json").read_text())
    for key in ("seal", "seconds", "branched_at"):
        del state[key]
    del state["totals"]["seconds"], state["totals"]["wait"]
    return {
        "state": state,  # with the checksums of weights and optimiser
        "metrics": [
            {k: v for k, v in line.items() if k not in (*TIMES, "seal")} for line in metrics(run)
        ],
    }


def metrics(run: Path, kind: str | None = None) -> list[dict]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if kind in (None, line["kind"])]


def without_seals(run: Path) -> None:
    """Make a run what it would be if a former version, which knew no seals, had written it."""
    manifest = json.loads((run / "manifest.json").read_text())
    del manifest["run"]
    (run / "manifest.json").write_text(json.dumps(sealed(manifest)))
    file = run / "experiment.yaml"
    file.write_text(file.read_text("utf-8").partition("# seal:")[0], "utf-8")
    environment = json.loads((run / "environment.json").read_text())
    del environment["seal"]
    (run / "environment.json").write_text(json.dumps(environment))
    lines = [line for line in metrics(run) if line.pop("seal")]
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (run / "metrics.seal").unlink()


# --- processes -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """At the `at`-th of the named events the process gets a signal; each update takes `pause`."""

    at: int = 0
    number: int = signal.SIGKILL
    events: str = "update"
    """update, disk and delete, joined by +"""
    pause: float = 0.0
    late: int = 0
    """The step at which the first round of synthetic pairs is there, and not before."""
    largest_file: int | None = None

    @staticmethod
    def of(text: str) -> "Fault":
        return Fault(**json.loads(text))

    def arm(self) -> None:
        left = self.at

        def before(original):
            def call(*args, **kwargs):
                nonlocal left
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), self.number)
                return original(*args, **kwargs)

            return call

        if self.late:
            late_round(self.late)
        if self.pause:
            plain = Updater.update
            Updater.update = lambda *args: (time.sleep(self.pause), plain(*args))[1]
        if "update" in self.events:
            Updater.update = before(Updater.update)
        if "disk" in self.events:
            os.fsync = before(os.fsync)
            Path.replace = before(Path.replace)
            Path.rename = before(Path.rename)
            Path.mkdir = before(Path.mkdir)
        if "delete" in self.events:
            os.unlink, os.rmdir = before(os.unlink), before(os.rmdir)
        if self.largest_file is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_FSIZE, (self.largest_file, self.largest_file))


def command(args: list[str], output: str, fault: Fault) -> None:
    """What the console script does, as the body of a forked process."""
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(file, stream)
    fault.arm()
    sys.argv = ["accord", *args]
    cli.main()


_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["accord.cli", "accord.training.trainer", "torch._dynamo"])


def fork(args: list[str], output: Path, fault: Fault | None = None):
    """Start the command in a process of its own; torch is imported once for all of them."""
    process = _FORKS.Process(target=command, args=(args, str(output), fault or Fault()))
    process.start()
    return process


def run_fork(args: list[str], output: Path, fault: Fault | None = None) -> int:
    """Its exit status, negative for a signal; how long that takes is for the test's own limit."""
    process = fork(args, output, fault)
    process.join()
    return process.exitcode


def run_command(
    args: list[str], *, cwd: Path | None = None, said: str | None = None
) -> subprocess.CompletedProcess:
    """As a user types it, in a process of its own; but torch is imported already."""
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
        streams[0].write_text(said or "", encoding="utf-8")
        process = _FORKS.Process(target=_typed, args=(args, streams, cwd or Path.cwd()))
        process.start()
        process.join()
        printed = [path.read_text(encoding="utf-8") for path in streams[1:]]
    return subprocess.CompletedProcess(args, process.exitcode, *printed)


def _typed(args: list[str], streams: list[Path], cwd: Path) -> None:
    os.chdir(cwd)
    for number, path in enumerate(streams):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
    sys.argv = ["accord", *args]
    cli.main()


def two_processes(args: list[str], fault: Fault | None = None) -> str:
    """The command in two processes, as torchrun starts them, but torch is imported already; what
    they said."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    there = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": store.port, "OMP_NUM_THREADS": 1}
    there |= {"WORLD_SIZE": 2, "TORCHELASTIC_USE_AGENT_STORE": True}
    with tempfile.NamedTemporaryFile("r") as output:
        processes = []
        for rank in (0, 1):
            env = {key: str(value) for key, value in (there | {"RANK": rank}).items()}
            env["LOCAL_RANK"] = env["RANK"]
            process = _FORKS.Process(target=_one_of_many, args=(args, output.name, env, fault))
            process.start()
            processes.append(process)
        for process in processes:
            process.join()
        said = output.read()
    assert [process.exitcode for process in processes] == [0, 0], said
    return said


def _one_of_many(args: list[str], output: str, env: dict[str, str], fault: Fault | None) -> None:
    os.environ.update(env)
    command(args, output, fault or Fault())


def torchrun(args: list[str], *options: str, fault: Fault | None = None) -> subprocess.Popen:
    """Two processes and their agent; a fault befalls the second of them, and only once."""
    program = ["-m", "accord"] if fault is None else [__file__, json.dumps(vars(fault))]
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", *options, *program, *args),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def stop_at(monkeypatch, step, number=signal.SIGTERM):
    """A signal arrives in the middle of an update."""
    plain, left = Updater.update, step

    def update(*args):
        nonlocal left
        left -= 1
        if left == 0:
            signal.raise_signal(number)
        return plain(*args)

    monkeypatch.setattr(Updater, "update", update)


def late_round(step, put=setattr):
    """As on a GPU, training goes on without synthetic pairs; they are there at this step.

    In several processes it is the second that makes its share so late.
    """
    here = threading.Event()
    make, work = RoundMaker.make, objective.DistillationObjective.work

    def make_late(self, picks, facts):
        if facts["round"] == 0 and os.environ.get("RANK", "1") == "1":
            while not here.wait(0.01):
                self.teacher._check()  # somebody may have said stop
        return make(self, picks, facts)

    def work_at(self, now, *args):
        if now >= step:
            here.set()
            while any(thread.name == "pool" for thread in threading.enumerate()):
                time.sleep(0.001)
        return work(self, now, *args)

    put(objective, "goes_on_without", lambda device: True)
    put(RoundMaker, "make", make_late)
    put(objective.DistillationObjective, "work", work_at)


def say_which_threads_are_left() -> None:
    names = []
    for path in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # it has ended since it was listed
            names.append(path.read_text().strip())
    print("threads left:", *sorted(names), flush=True)


if __name__ == "__main__":
    atexit.register(say_which_threads_are_left)
    wanted = Fault.of(sys.argv.pop(1))
    first_time = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if first_time and (os.environ["RANK"] == "1" or not wanted.at):
        wanted.arm()
    cli.main()
