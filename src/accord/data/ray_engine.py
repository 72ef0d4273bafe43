"""Carrying out tasks on Ray: on the cores of this machine, or on all machines of a cluster.

Ray hands out the tasks and repeats those of a worker or a machine that was lost. Data travels by
the disk that all machines share, so that the death of the one who started it all loses no more than
the tasks at work: the next start finds what is finished (jobs.py).
"""

import logging
import os
import signal
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accord.data.workers import Argument, Result, Work, WorkerEndedError
from accord.errors import AccordError
from accord.progress import Progress

_RETRIES = 5  # of a task whose worker or machine was lost
_PATIENCE = 60  # seconds for tasks to end that were told to
_OBJECT_STORE = 100 << 20  # bytes; results are counts


class RayEngine:
    """A cluster, or processes of this machine under Ray."""

    def __init__(self, workers: int, address: str | None) -> None:
        self.workers = workers
        self._address = address
        self._ray = _imported()
        self._started = False
        self._on_sigterm = signal.getsignal(signal.SIGTERM)

    def __enter__(self) -> "RayEngine":
        if not self._ray.is_initialized():
            self._start()
            self._started = True
        self.workers = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        return self

    def _start(self) -> None:
        # Nothing is sent anywhere.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        own = {"num_cpus": self.workers, "object_store_memory": _OBJECT_STORE}
        options = own if self._address is None else {"address": self._address}
        try:
            _knock(self._address)
            self._ray.init(
                **options,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except OSError as error:  # a ConnectionError is one
            raise AccordError(
                f"there is no Ray cluster: {error}",
                where=f"--address {self._address}",
                fix="start one with `ray start --head`, or leave --address out",
            ) from None

    def __exit__(self, *_: object) -> None:
        if self._started:
            self._ray.shutdown()
            if threading.current_thread() is threading.main_thread():
                # Ray puts its own in the place of the one that was there, and leaves it.
                signal.signal(signal.SIGTERM, self._on_sigterm or signal.SIG_DFL)

    def run(
        self, work: Work[Argument, Result], arguments: Sequence[Argument], progress: Progress
    ) -> list[Result]:
        """The results in the order of the arguments; the first error ends all work."""
        ray = self._ray
        # Spread, as what a task reads and writes lies on the shared disk.
        remote = ray.remote(num_cpus=1, max_retries=_RETRIES, scheduling_strategy="SPREAD")(_run)
        here = Path.cwd()
        wanted = [remote.remote(work, argument, here) for argument in arguments]
        results: dict[Any, tuple[Result, int]] = {}
        pending = list(wanted)
        try:
            while pending:
                ready, pending = ray.wait(pending, num_returns=1, timeout=1)
                for task in ready:
                    results[task] = ray.get(task)
                progress.reach(sum(done for _, done in results.values()))
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise WorkerEndedError(
                f"Ray lost workers again and again: {str(error).splitlines()[0]}",
                fix="see to the machines and their memory, then run it again: what is finished "
                "is kept",
            ) from None
        finally:
            for task in pending:
                ray.cancel(task, force=True)
            if pending:  # nobody should write any more where somebody clears up
                ray.wait(pending, num_returns=len(pending), timeout=_PATIENCE)
        return [results[task][0] for task in wanted]


def _run(work: Work[Argument, Result], argument: Argument, here: Path) -> tuple[Result, int]:
    """The result of a task, and how many steps it took; relative paths mean what they do `here`."""
    try:
        os.chdir(here)
    except OSError:
        raise AccordError(
            f"the machine {socket.gethostname()} does not see this directory",
            where=str(here),
            fix="run the command in a directory that all machines share, under the same path",
        ) from None
    steps = 0

    def report(done: int) -> None:
        nonlocal steps
        steps = done

    return work(argument, report), steps


def _knock(address: str | None) -> None:
    """Ray itself would try for many minutes to reach a place where nobody listens."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _imported() -> Any:
    try:
        import ray
    except ImportError:
        raise AccordError(
            "Ray is not installed", where="--engine ray", fix="pip install 'accord[ray]'"
        ) from None
    return ray
