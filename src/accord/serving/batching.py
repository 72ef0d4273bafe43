"""One thread that translates for all requests: what waits for the same route goes together."""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from accord.inference.results import Translation
from accord.serving.messages import SHUTTING_DOWN, Refusal
from accord.serving.metrics_text import Meter
from accord.serving.settings import RETRY_AT_MOST, RETRY_SOON, ServeSettings

# --- Sentences that wait to be translated, and when which of them go together.
#
# Nothing here knows of threads or of the time of day, so that every rule can be tested.


@dataclass(frozen=True)
class Route:
    """What sentences must have in common to be translated together."""

    target: str
    via: tuple[str, ...]
    beam: int
    source: str | None = None
    """The language that they are in, where the model has to be told."""


@dataclass(eq=False)
class Job:
    """The sentences of one request, and where their translations are put as they come."""

    texts: Sequence[str]
    route: Route
    nbest: int = 1
    future: "Future[list[Translation]]" = field(default_factory=Future)
    found: dict[int, Translation] = field(default_factory=dict)

    def put(self, index: int, translation: Translation) -> None:
        """Take the translation of one sentence; with the last of them the job is done."""
        self.found[index] = translation
        if len(self.found) == len(self.texts):
            self.future.set_result([self.found[i] for i in range(len(self.texts))])


@dataclass(frozen=True)
class Part:
    """One sentence of a job."""

    job: Job
    index: int
    arrived: float

    @property
    def text(self) -> str:
        """The sentence."""
        return self.job.texts[self.index]


class Waiting:
    """At most `limit` sentences, in the order of their arrival on each route.

    A route is due when a whole batch of it waits, or as many sentences as there were the last time
    (whoever is alone need not wait for company), or when its first sentence has waited for `delay`
    seconds. Of the routes that are due, the one that has waited longest goes first.
    """

    def __init__(self, limit: int, batch_size: int, delay: float) -> None:
        self._limit = limit
        self._batch_size = batch_size
        self._delay = delay
        self._routes: dict[Route, deque[Part]] = {}
        self._expected: dict[Route, int] = {}
        self._finished: dict[Route, float] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def has_room(self, count: int) -> bool:
        """Whether so many sentences more may wait."""
        return self._count + count <= self._limit

    def add(self, job: Job, now: float) -> None:
        """Let all sentences of a job wait; ask `has_room` first."""
        queue = self._routes.setdefault(job.route, deque())
        queue.extend(Part(job, index, now) for index in range(len(job.texts)))
        self._count += len(job.texts)

    def remove(self, job: Job) -> int:
        """Forget what still waits of a job; returns how many sentences that were."""
        queue = self._routes.get(job.route, deque())
        kept = deque(part for part in queue if part.job is not job)
        removed = len(queue) - len(kept)
        self._put(job.route, kept)
        self._count -= removed
        return removed

    def due_in(self, now: float) -> float | None:
        """Seconds until a batch is due, 0 where one is, None where nothing waits."""
        return min(
            (max(0.0, self._due(*item) - now) for item in self._routes.items()), default=None
        )

    def take(self, now: float) -> list[Part]:
        """The next batch; if none is due yet, the one that will be next."""
        if not self._routes:
            return []
        due = [item for item in self._routes.items() if self._due(*item) <= now]
        route, queue = min(due or self._routes.items(), key=lambda item: item[1][0].arrived)
        batch = [queue.popleft() for _ in range(min(self._batch_size, len(queue)))]
        self._put(route, queue)
        self._count -= len(batch)
        return batch

    def finish(self, batch: Sequence[Part], now: float) -> None:
        """A batch is done: as many may come again, beside those that came meanwhile."""
        route = batch[0].job.route
        count = len(batch) + len(self._routes.get(route, ()))
        self._expected[route] = min(self._batch_size, count)
        self._finished[route] = now

    def _due(self, route: Route, queue: deque[Part]) -> float:
        full = len(queue) >= self._expected.get(route, self._batch_size)
        if full:
            return queue[0].arrived
        return max(queue[0].arrived, self._finished.get(route, 0.0)) + self._delay

    def _put(self, route: Route, queue: deque[Part]) -> None:
        if queue:
            self._routes[route] = queue
        else:
            self._routes.pop(route, None)


Translate = Callable[[Sequence[str], Route, int], list[Translation]]
"""Sentences, their route, and how many translations of each are wanted."""

_LOGGER = logging.getLogger("accord.serving")
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

    @property
    def full(self) -> bool:
        """Whether not even one more sentence may wait."""
        return not self._waiting.has_room(1)

    def check_room(self) -> None:
        """Refuse early where not even one more sentence may wait."""
        if self.full:
            raise self._full()

    def submit(self, jobs: Sequence[Job]) -> None:
        """Take jobs, all of them or none; their futures get the translations."""
        with self._changed:
            if self._closing:
                raise Refusal(503, SHUTTING_DOWN, retry_after=RETRY_SOON)
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
            retry_after=min(RETRY_AT_MOST, max(1, math.ceil(seconds))),
        )

    def _work(self) -> None:
        while batch := self._next():
            begun = self._clock()
            self._meter.observe("batch_sentences", len(batch))
            self._compute(batch)
            seconds = self._clock() - begun
            with self._changed:
                self._waiting.finish(batch, begun + seconds)
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
