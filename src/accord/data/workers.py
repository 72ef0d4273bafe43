"""Work on several processes, with progress and a clean end on Ctrl-C."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.sharedctypes import Synchronized
from typing import Protocol, TypeVar

from accord.errors import AccordError
from accord.progress import Progress

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Work = Callable[[Argument, Callable[[int], None]], Result]

_done: "Synchronized[int]"  # steps of all tasks together
_stop: "Synchronized[int]"  # the sign to stop


class StoppedError(Exception):
    """Raised inside a worker that was told to stop."""


class WorkerEndedError(AccordError):
    """A process was ended from outside: nothing is wrong with what it worked on."""


class Engine(Protocol):
    """Whatever can carry out tasks: processes of this machine, or a cluster."""

    workers: int
    """How many tasks run at once."""

    def run(
        self, work: Work[Argument, Result], arguments: Sequence[Argument], progress: Progress
    ) -> list[Result]:
        """The results in the order of the arguments; the first error ends all work."""


def _initialise(done: "Synchronized[int]", stop: "Synchronized[int]") -> None:
    global _done, _stop
    _done, _stop = done, stop
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that was killed cannot give the sign to stop."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run(work: Work[Argument, Result], argument: Argument) -> Result:
    last = 0

    def report(done: int) -> None:
        nonlocal last
        with _done.get_lock():
            _done.value += done - last
        last = done
        if _stop.value:
            raise StoppedError

    return work(argument, report)


class Processes:
    """Processes of this machine; they start with the first work that is worth it, and stay."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        context = multiprocessing.get_context("spawn")
        self._context = context
        self._done: Synchronized[int] = context.Value("q", 0)
        self._stop: Synchronized[int] = context.Value("q", 0)
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.value = 1
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def run(
        self, work: Work[Argument, Result], arguments: Sequence[Argument], progress: Progress
    ) -> list[Result]:
        """The results in the order of the arguments; the first error ends all work."""
        if self.workers <= 1 or len(arguments) <= 1:
            return _run_here(work, arguments, progress)
        self._done.value = 0
        try:
            futures = self._submitted(work, arguments)
            pending = set(futures)
            while pending:
                done, pending = wait(pending, timeout=0.2, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
                if pending and not multiprocessing.active_children():
                    raise BrokenProcessPool
                progress.reach(self._done.value)
            return [future.result() for future in futures]
        except BrokenProcessPool:
            raise WorkerEndedError(
                "a worker process was ended, perhaps for want of memory",
                fix="take fewer --workers, or a machine with more memory",
            ) from None

    def _submitted(
        self, work: Work[Argument, Result], arguments: Sequence[Argument]
    ) -> "list[Future[Result]]":
        """Start the workers, deaf to Ctrl-C from their first moment.

        It reaches every process of the group, but the parent alone decides what it means. Processes
        inherit what is blocked when they start; the parent gets a signal from this time afterwards.
        """
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self.workers,
                self._context,
                initializer=_initialise,
                initargs=(self._done, self._stop),
            )
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return [self._pool.submit(_run, work, argument) for argument in arguments]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_all(
    work: Work[Argument, Result], arguments: Sequence[Argument], workers: int, progress: Progress
) -> list[Result]:
    """The same, with processes that end as soon as this work is done."""
    with Processes(min(workers, len(arguments))) as processes:
        return processes.run(work, arguments, progress)


def _run_here(
    work: Work[Argument, Result], arguments: Sequence[Argument], progress: Progress
) -> list[Result]:
    results, before = [], 0
    for argument in arguments:
        last = 0

        def report(done: int, offset: int = before) -> None:
            nonlocal last
            last = done
            progress.reach(offset + done)

        results.append(work(argument, report))
        before += last
    return results
