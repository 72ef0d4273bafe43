"""Several worker processes on one socket: started, watched, replaced when they die, stopped."""

import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, MutableSequence, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from typing import Any, cast

from accord.errors import AccordError
from accord.serving.access_log import Log
from accord.serving.metrics_text import SIZE, Meter
from accord.serving.model_process import start_shielded
from accord.serving.server import Open, serve
from accord.serving.settings import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    SIGNAL_WITHIN,
    STOP_GRACE,
    ServeSettings,
)

_STOP = (signal.SIGINT, signal.SIGTERM)
_MODULES = ("accord.serving.server", "accord.serving.model_process")


class Worker:
    """One place for a process; whoever takes it goes on with its figures."""

    def __init__(self, number: int, start: Callable[[int, Connection], ForkServerProcess]) -> None:
        self.number = number
        self.ready = False
        self.begins_at = 0.0
        self._start = start
        self._pause = FIRST_PAUSE
        self.process: ForkServerProcess | None = None
        self.messages: Connection | None = None

    def start(self) -> None:
        """Start a process here."""
        self.messages, theirs = multiprocessing.Pipe(duplex=False)
        self.process = self._start(self.number, theirs)
        theirs.close()

    def heard(self) -> str | None:
        """What the process has said: nothing, that it is ready, or why it is not."""
        try:
            if self.messages is None or not self.messages.poll():
                return None
            word = str(self.messages.recv())
        except (EOFError, OSError):
            self.messages = None
            return None
        if not word:
            self.ready, self._pause = True, FIRST_PAUSE
        return word

    def ended(self, now: float) -> int | None:
        """The exit code if the process has ended; the place is then free, and waits a while."""
        if self.process is None or self.process.exitcode is None:
            return None
        code = self.process.exitcode
        self.process, self.ready = None, False
        # A worker that dies again and again must not keep the machine busy with loading models.
        self.begins_at, self._pause = now + self._pause, min(2 * self._pause, LONGEST_PAUSE)
        return code


class Supervisor:
    """Keeps `settings.workers` processes running until a signal comes."""

    def __init__(
        self,
        settings: ServeSettings,
        open_model: Open,
        sock: socket.socket,
        modules: Sequence[str] = (),
    ) -> None:
        self._settings = settings
        self._open = open_model
        self._sock = sock
        # Workers are forks of a process that has imported what they need (`modules` are those of
        # the model) and done nothing else: one that dies is replaced within a second or two.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([*_MODULES, *modules])
        # The first row is the supervisor's own.
        self._figures = self._context.RawArray("d", SIZE * (settings.workers + 1))
        self._meter = Meter(cast(MutableSequence[float], self._figures))
        self._workers = [Worker(number, self._start) for number in range(settings.workers)]
        self._signals = 0
        self._log = Log(self._meter)

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve; `ready` is called when the first worker is. Returns when all workers ended."""
        before = {number: signal.signal(number, self._stop) for number in _STOP}
        announced = False
        try:
            for worker in self._workers:
                worker.start()
            while True:
                self._wait(SIGNAL_WITHIN)
                if self._signals:  # workers may have had it, too, and have ended for it
                    break
                self._listen(announced)
                if not announced and any(worker.ready for worker in self._workers):
                    announced = True
                    ready()
                self._replace(announced)
            self._finish()
        finally:
            self._kill()
            self._log.close()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _start(self, number: int, messages: Connection) -> ForkServerProcess:
        process = self._context.Process(
            target=_work,
            args=(self._settings, self._open, self._sock, self._figures, number + 1, messages),
            name=f"accord-worker-{number + 1}",
        )
        start_shielded(process)  # so that only the supervisor acts on Ctrl-C
        return process

    def _stop(self, number: int, _: Any) -> None:
        self._signals += 1
        if self._signals > 1:
            self._kill()
            os._exit(128 + number)

    def _wait(self, seconds: float) -> None:
        processes = [worker.process for worker in self._workers if worker.process is not None]
        pipes = [worker.messages for worker in self._workers if worker.messages is not None]
        wait([*(process.sentinel for process in processes), *pipes], seconds)
        if not processes:
            time.sleep(min(seconds, FIRST_PAUSE))

    def _listen(self, announced: bool) -> None:
        for worker in self._workers:
            word = worker.heard()
            if word and not announced:  # none can serve: the reason is the same for all
                raise AccordError(word)
            if word:
                self._say("worker cannot start", worker, reason=word)

    def _replace(self, announced: bool) -> None:
        now = time.monotonic()
        for worker in self._workers:
            code = worker.ended(now)
            if code is not None and not announced:
                raise AccordError(
                    f"a worker ended with code {code} before it could serve",
                    fix="see what it wrote above; -9 often means that memory ran out",
                )
            if code is not None:
                self._meter.add("worker_restarts_total")
                pause = round(worker.begins_at - now, 1)
                self._say("worker ended", worker, code=code, restart_in=pause)
            if worker.process is None and worker.begins_at <= now:
                worker.start()

    def _finish(self) -> None:
        """Let every worker answer what it has taken."""
        processes = [worker.process for worker in self._workers if worker.process is not None]
        for process in processes:
            process.terminate()
        until = time.monotonic() + self._settings.timeout + self._settings.read_timeout + STOP_GRACE
        for process in processes:
            process.join(max(0.0, until - time.monotonic()))

    def _kill(self) -> None:
        for worker in self._workers:
            if worker.process is not None:
                worker.process.kill()

    def _say(self, event: str, worker: Worker, **facts: object) -> None:
        self._log.write({"event": event, "worker": worker.number + 1, **facts})


def _work(
    settings: ServeSettings,
    open_model: Open,
    sock: socket.socket,
    figures: MutableSequence[float],
    row: int,
    messages: Connection,
) -> None:
    """What a worker process does."""
    # The server of forks must not end with its workers still at work, so they begin as it does.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    try:
        serve(
            settings,
            open_model,
            sock,
            meter=Meter(figures, row),
            ready=lambda: messages.send(""),
        )
    except AccordError as error:
        messages.send(str(error))
        sys.exit(1)
