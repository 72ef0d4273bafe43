"""The log of a run: updates are added up, and now and then become a line of metrics.jsonl.

Every process adds up its own; the sums of all are brought together, and the first one writes.
"""

from collections.abc import Sequence
from typing import Any

from accord.config.schema import Experiment
from accord.data.batches import Batch, BatchStream
from accord.objectives.base import Objective, Work
from accord.ops.cuda_graphs import recordings
from accord.ops.distributed import World
from accord.progress import Progress
from accord.run_directory import MetricsLog, RunDirectory
from accord.training.display import Display, Values
from accord.training.loggers import open_loggers
from accord.training.running_totals import Window
from accord.training.train_state import TrainState
from accord.training.update import Outcome


class RunLog:
    """One process's part in the log. Before `open`, and in all but the first, nothing is written.

    What is added up lies in `state`: a checkpoint holds the line that has begun.
    """

    def __init__(
        self,
        world: World,
        state: TrainState,
        objectives: Sequence[Objective[Any]],
        stream: BatchStream,
        progress: Progress,
        display: Display,
    ) -> None:
        self._world, self._state, self._objectives = world, state, objectives
        self._stream, self._progress, self._display = stream, progress, display
        self._window = Window(world, state.totals, objectives)
        self._file: MetricsLog | None = None
        self._warned: set[str] = set()
        self._rate = 0.0  # of the last update
        self._recordings = recordings()  # of CUDA graphs, until the last line

    def open(self, experiment: Experiment, run: RunDirectory) -> None:
        """Go on after the step that the run resumes from; loggers hear of it as well."""
        if self._world.is_first:
            step = self._state.step
            loggers = open_loggers(experiment, run.path, step)
            self._file = MetricsLog(run.metrics, step, self._progress.note, loggers)

    def close(self) -> None:
        """Nothing more to write."""
        if self._file is not None:
            self._file.close()

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """A line of metrics.jsonl."""
        if self._file is not None:
            self._file.write(kind, step, values)

    # --- updates ---------------------------------------------------------------------------

    def add(self, batch: Batch, work: Sequence[Work[Any]], outcome: Outcome, rate: float) -> None:
        """One more update, made with this learning rate."""
        self._window.add(batch, work, outcome)
        self._rate = rate

    def took(self, seconds: float, wait: float, work: Sequence[Work[Any]]) -> None:
        """So long did the update take, and so much of that was waiting for batches."""
        self._window.took(seconds, wait, work)
        self._display.updated(self._state.step, self._state.seconds, self._look)

    def _look(self) -> Values:
        """How it goes since the last line, as far as this process knows."""
        totals = self._window.look()
        rates = {"lr": self._rate, "steps": totals.steps}
        return {**totals.summary(self._objectives), **rates}

    # --- lines -----------------------------------------------------------------------------

    def write_updates(self) -> None:
        """The line of the updates since the one before; all processes must ask."""
        self.fold()
        state, totals = self._state, self._state.totals
        values = {
            **totals.summary(self._objectives),
            "lr": self._rate,
            "epoch": self._stream.epochs(state.position),
            "skipped": state.skipped,
            "training_seconds": state.seconds,
        }
        if (made := recordings()) > self._recordings:
            values["recordings"], self._recordings = made - self._recordings, made
        self.write("train", state.step, values)
        self._warn(values)
        self._display.logged(state.step, state.seconds, values | {"steps": totals.steps})
        totals.clear()

    def _warn(self, values: dict[str, Any]) -> None:
        """Say what is wrong with an objective, when it begins."""
        for objective in self._objectives:
            problem = objective.warning(values)
            if problem is not None and objective.name not in self._warned:
                self._progress.note(f"step {self._state.step:,}: {problem}")
            self._warned.discard(objective.name)
            if problem is not None:
                self._warned.add(objective.name)

    def fold(self) -> None:
        """Bring the sums of all processes into `state`; all must ask."""
        self._window.fold()

    def sync(self) -> None:
        """Wait until all lines are on disk: a checkpoint must not be ahead of its log."""
        if self._file is not None:
            self._file.sync()
