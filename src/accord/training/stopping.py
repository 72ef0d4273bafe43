"""When training ends: at its goal, by the clock, by stop signals; and who said so."""

import math
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from accord.config.schema import TrainingSettings
from accord.ops.distributed import World
from accord.progress import Progress
from accord.training.train_state import TrainState
from accord.training.validation import Scores

_FASTER = 1.5  # how much faster than so far updates may still become


@dataclass(frozen=True)
class End:
    """Why training ends here; a run that was only told to stop is not finished."""

    reason: str
    finished: bool = True


@dataclass(frozen=True)
class Result:
    """How a call of `train` ended: at its goal, by patience, by time, or because it was told to."""

    run: Path
    step: int
    reason: str
    finished: bool
    scores: Scores | None
    signal: int = 0
    """The signal that this process was told to stop by, if it was."""


def goal(settings: TrainingSettings, state: TrainState) -> End | None:
    """Whether the run has come to its end; every process finds the same."""
    if state.step >= settings.steps:
        return End(f"{settings.steps:,} steps done")
    patience = settings.validation.patience
    if patience is not None and state.without_best >= patience:
        return End(f"no better for {patience} validations")
    return None


class Clock:
    """Training time as all processes know it, which each of them measures for itself.

    What they must do alike follows the first one's, as it was when they last agreed.
    """

    def __init__(self, settings: TrainingSettings, state: TrainState, world: World) -> None:
        self.limit = state.time_limit(settings)
        """Seconds of training at which it ends, or infinity."""
        self._settings, self._state, self._world = settings, state, world
        self._began = (state.step, state.seconds)
        self._seconds = state.seconds

    def agree(self) -> bool:
        """Take over the time of the first process; whether it is up. All must ask alike."""
        if math.isinf(self.limit):
            return False
        self._seconds = float(self._world.share(repr(self._state.seconds)))
        return self._seconds >= self.limit

    @property
    def reason(self) -> str:
        """Which time is up."""
        whole, own = self._settings.minutes, self._settings.branch_minutes
        minutes = whole if whole is not None and self.limit == 60 * whole else own
        return f"{minutes:g} minutes are over"

    @property
    def rate(self) -> float:
        """The share of the learning rate that its fall at the end of the time leaves."""
        minutes = self._settings.optimizer.decay_minutes
        if minutes is None:
            return 1.0
        return min(1.0, max(0.0, self.limit - self._seconds) / (60 * minutes))

    def latest_step(self) -> int:
        """A step that training will hardly get past in the time it has."""
        steps, (step, seconds) = self._settings.steps, self._began
        done, took = self._state.step - step, self._seconds - seconds
        if math.isinf(self.limit) or not done or took <= 0:
            return steps
        return min(
            steps, step + done + math.ceil(_FASTER * (self.limit - self._seconds) * done / took)
        )


class StopSignals:
    """Ctrl-C and SIGTERM ask training to end after the current step; a second one ends it at once.

    As a context manager it listens; before and after, signals do what they did.
    """

    def __init__(self, progress: Progress) -> None:
        self.received = 0
        """Which signal came; 0 while there was none."""
        self._progress = progress
        self._before: dict[int, Callable[..., Any] | int | None] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for number in self._before:
            self._restore(number)

    def _restore(self, number: int) -> None:
        signal.signal(number, self._before[number])

    def _stop(self, number: int, _: object) -> None:
        self.received = number
        self._restore(number)
        with suppress(RuntimeError):  # the signal came in the middle of another message
            self._progress.note("stopping after this step; once more stops at once, unsaved")
