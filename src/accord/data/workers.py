"""Running one task a corpus on several processes, with progress and a clean end on Ctrl-C."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.sharedctypes import SynchronizedArray
from typing import TypeVar

from accord.errors import AccordError
from accord.progress import Progress

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Work = Callable[[Argument, Callable[[int], None]], Result]

_counters: "SynchronizedArray[int]"  # one a task, and last of all the sign to stop


class StoppedError(Exception):
    """Raised inside a worker that was told to stop."""


def _initialise(counters: "SynchronizedArray[int]") -> None:
    global _counters
    _counters = counters
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that was killed cannot give the sign to stop."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run(work: Work[Argument, Result], index: int, argument: Argument) -> Result:
    def report(done: int) -> None:
        _counters[index] = done
        if _counters[len(_counters) - 1]:
            raise StoppedError

    return work(argument, report)


def run_all(
    work: Work[Argument, Result], arguments: Sequence[Argument], workers: int, progress: Progress
) -> list[Result]:
    """The results in the order of the arguments; the first error ends all work and is raised."""
    if workers <= 1 or len(arguments) <= 1:
        return _run_here(work, arguments, progress)
    context = multiprocessing.get_context("spawn")
    counters: SynchronizedArray[int] = context.Array("q", len(arguments) + 1)
    pool = ProcessPoolExecutor(
        min(workers, len(arguments)), context, initializer=_initialise, initargs=(counters,)
    )
    try:
        futures = _submitted(pool, work, arguments)
        pending = set(futures)
        while pending:
            done, pending = wait(pending, timeout=0.2, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
            if pending and not multiprocessing.active_children():
                raise BrokenProcessPool
            progress.reach(sum(counters[:-1]))
        return [future.result() for future in futures]
    except BrokenProcessPool:
        raise AccordError(
            "a worker process was ended, perhaps for want of memory",
            fix="take fewer --workers, or a machine with more memory",
        ) from None
    finally:
        counters[len(counters) - 1] = 1
        pool.shutdown(cancel_futures=True)


def _submitted(
    pool: ProcessPoolExecutor, work: Work[Argument, Result], arguments: Sequence[Argument]
) -> "list[Future[Result]]":
    """Start the workers, deaf to Ctrl-C from their first moment.

    It reaches every process of the group, but the parent alone decides what it means. Processes
    inherit what is blocked when they start; the parent gets a signal from this time afterwards.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return [pool.submit(_run, work, i, argument) for i, argument in enumerate(arguments)]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
