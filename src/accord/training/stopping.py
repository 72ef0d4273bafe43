"""Stop signals: when training ends before its goal, and who said so."""

import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from accord.progress import Progress


@dataclass(frozen=True)
class End:
    """Why training ends here; a run that was only told to stop is not finished."""

    reason: str
    finished: bool = True


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
