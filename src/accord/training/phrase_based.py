"""Training a phrase-based run: the systems of all directions with data, several at once."""

from collections.abc import Mapping
from pathlib import Path

from accord.config.load import run_directory, store_directory
from accord.config.schema import Experiment
from accord.data.store import Store
from accord.data.workers import Processes
from accord.files import exclusive
from accord.machine import some_cores
from accord.phrases.alignment import MOST_WORDS, thot
from accord.phrases.train import STAGES, Task, train_direction
from accord.progress import Line, Progress, Silent
from accord.run_directory import RunDirectory
from accord.training.begin import begin_run, check_store
from accord.training.stopping import Result, StopSignals


class _StoppedError(Exception):
    """A signal came: what is unfinished is left as it is, for the next call."""


def train_phrase_based(
    experiment: Experiment, *, accept_changes: bool = False, progress: Progress | None = None
) -> Result:
    """Train, or go on training, the experiment's systems; stages that are done are not repeated."""
    shown, directory = progress or Silent(), run_directory(experiment)
    thot("alignment")  # before anything is written
    with exclusive(directory, "accord train"):
        place = store_directory(experiment)
        store = Store(place)
        check_store(store, experiment)
        for change in begin_run(RunDirectory(directory), experiment, store, accept_changes):
            shown.note(f"changed{change}")
        directions = experiment.graph.supervised_directions
        tasks = [
            Task(place, directory, direction, experiment.model, experiment.training_seed)
            for direction in directions
        ]
        return _train(directory, tasks, experiment.training.threads or some_cores(), shown)


def _train(directory: Path, tasks: list[Task], workers: int, progress: Progress) -> Result:
    count = f"{len(tasks)} directions"
    progress.note(f"{count}, {min(workers, len(tasks))} at once (training.threads)")
    progress.start(f"training {count}", total=sum(task.steps for task in tasks))
    with StopSignals(progress) as signals, Processes(min(workers, len(tasks))) as processes:
        try:
            found = processes.run(train_direction, tasks, _Watched(progress, signals))
        except _StoppedError:
            return Result(directory, 0, "told to stop", False, None, signals.received)
    for task, outcome in zip(tasks, found, strict=True):
        if outcome.left_out:
            progress.note(
                f"{task.direction}: {outcome.left_out:,} pairs are not trained on, with a side "
                f"that is empty or has more than {MOST_WORDS} words"
            )
    for stage in STAGES:
        spent = sum(outcome.seconds[stage] for outcome in found)
        progress.note(f"{stage.replace('_', ' ')}: {spent:,.1f} CPU seconds")
    return Result(directory, 0, f"{count} trained", True, None)


class _Watched:
    """Progress that breaks off when a signal has come; workers end with their current step."""

    def __init__(self, progress: Progress, signals: StopSignals) -> None:
        self._progress, self._signals = progress, signals

    def start(self, what: str, total: int | None = None, keep: bool = True) -> None:
        self._progress.start(what, total, keep)

    def reach(self, done: int, detail: str = "", line: Line | None = None) -> None:
        self._progress.reach(done, detail, line)
        if self._signals.received:
            raise _StoppedError

    def note(self, text: str) -> None:
        self._progress.note(text)

    def row(self, cells: Mapping[str, str], text: str) -> None:
        self._progress.row(cells, text)
