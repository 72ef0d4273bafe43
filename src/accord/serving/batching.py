"""One thread that translates for all requests: what waits for the same route goes together."""

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence

from accord.search.result import Translation
from accord.serving.metrics import Meter
from accord.serving.refusal import Refusal
from accord.serving.settings import ServeSettings
from accord.serving.waiting import Job, Part, Route, Waiting

Translate = Callable[[Sequence[str], Route, int], list[Translation]]
"""Sentences, their route, and how many translations of each are wanted."""

_LOGGER = logging.getLogger("accord.serving")
_LONGEST_WAIT = 60
_FORGET = 0.8  # how much the speed of past batches counts against that of the last one


class Batcher:
    """Takes jobs from any thread, computes in its own.

    `submit` never waits: a full queue refuses. After `close`, nothing more is taken, and all that
    was taken is finished.
    """

    def __init__(
        self,
        translate: Translate,
        settings: ServeSettings,
        meter: Meter,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._translate = translate
        self._meter = meter
        self._clock = clock
        self._waiting = Waiting(settings.queue, settings.batch_size, settings.batch_delay / 1000)
        self._changed = threading.Condition()
        self._closing = False
        self._speed: float | None = None  # sentences a second
        self._thread = threading.Thread(target=self._work, name="accord-model", daemon=True)

    def start(self) -> None:
        """Begin to translate."""
        self._thread.start()

    def close(self) -> None:
        """Finish what was taken, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether jobs are being worked on."""
        return self._thread.is_alive() and not self._closing

    def check_room(self) -> None:
        """Refuse early where not even one more sentence may wait."""
        if not self._waiting.has_room(1):
            raise self._full()

    def submit(self, jobs: Sequence[Job]) -> None:
        """Take jobs, all of them or none; their futures get the translations."""
        with self._changed:
            if self._closing:
                raise Refusal(503, "the server is shutting down: try again soon", retry_after=5)
            if not self._waiting.has_room(sum(len(job.texts) for job in jobs)):
                raise self._full()
            for job in jobs:
                # From now on the future can only be fulfilled; nobody else may cancel it.
                job.future.set_running_or_notify_cancel()
                self._waiting.add(job, self._clock())
            self._meter.set("waiting_sentences", len(self._waiting))
            self._changed.notify()

    def drop(self, jobs: Sequence[Job]) -> None:
        """Nobody wants the answers any more: what has not begun never will."""
        with self._changed:
            removed = sum(self._waiting.remove(job) for job in jobs)
            self._meter.add("dropped_sentences_total", removed)
            self._meter.set("waiting_sentences", len(self._waiting))

    def _full(self) -> Refusal:
        # Not under the lock when called by check_room: the figure is a guess in any case.
        seconds = len(self._waiting) / self._speed if self._speed else 1
        return Refusal(
            429,
            "the server has more to translate than it can take: try again later",
            retry_after=min(_LONGEST_WAIT, max(1, math.ceil(seconds))),
        )

    def _work(self) -> None:
        while batch := self._next():
            begun = self._clock()
            self._meter.observe("batch_sentences", len(batch))
            self._compute(batch)
            seconds = self._clock() - begun
            self._meter.observe("batch_seconds", seconds)
            if seconds > 0:
                speed = len(batch) / seconds
                before = speed if self._speed is None else self._speed
                self._speed = _FORGET * before + (1 - _FORGET) * speed

    def _next(self) -> list[Part]:
        """The next batch, as soon as it is due; an empty one when all is done."""
        with self._changed:
            while True:
                due_in = self._waiting.due_in(self._clock())
                if due_in == 0 or self._closing:  # nobody is waited for at the end
                    batch = self._waiting.take(self._clock())
                    self._meter.set("waiting_sentences", len(self._waiting))
                    return batch
                self._changed.wait(due_in)

    def _compute(self, batch: Sequence[Part]) -> None:
        route = batch[0].job.route
        # One of two, not any number: a search of its own is kept for every number asked for.
        nbest = route.beam if any(part.job.nbest > 1 for part in batch) else 1
        try:
            found = self._translate([part.text for part in batch], route, nbest)
            pairs = list(zip(batch, found, strict=True))
        except Exception as error:  # noqa: BLE001  # the thread must outlive any failure
            self._failed(batch, error)
            return
        for part, translation in pairs:
            part.job.put(part.index, translation)

    def _failed(self, batch: Sequence[Part], error: Exception) -> None:
        """One request must not fail because of another: each job is tried on its own."""
        jobs = list(dict.fromkeys(part.job for part in batch))
        if len(jobs) > 1:
            for job in jobs:
                self._compute([part for part in batch if part.job is job])
            return
        _LOGGER.error("a translation failed", exc_info=error)
        self.drop(jobs)
        if not jobs[0].future.done():
            jobs[0].future.set_exception(error)
