"""Sentences that wait to be translated, and when which of them go together.

Nothing here knows of threads or of the time of day, so that every rule can be tested.
"""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from accord.search.result import Translation


@dataclass(frozen=True)
class Route:
    """What sentences must have in common to be translated together."""

    target: str
    via: tuple[str, ...]
    beam: int


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

    A route is due when a whole batch of it waits, or when its first sentence has waited for
    `delay` seconds. Of the routes that are due, the one that has waited longest goes first.
    """

    def __init__(self, limit: int, batch_size: int, delay: float) -> None:
        self._limit = limit
        self._batch_size = batch_size
        self._delay = delay
        self._routes: dict[Route, deque[Part]] = {}
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
            (max(0.0, self._due(queue) - now) for queue in self._routes.values()), default=None
        )

    def take(self, now: float) -> list[Part]:
        """The next batch; if none is due yet, the one that will be next."""
        if not self._routes:
            return []
        due = [item for item in self._routes.items() if self._due(item[1]) <= now]
        route, queue = min(due or self._routes.items(), key=lambda item: item[1][0].arrived)
        batch = [queue.popleft() for _ in range(min(self._batch_size, len(queue)))]
        self._put(route, queue)
        self._count -= len(batch)
        return batch

    def _due(self, queue: deque[Part]) -> float:
        full = len(queue) >= self._batch_size
        return queue[0].arrived + (0.0 if full else self._delay)

    def _put(self, route: Route, queue: deque[Part]) -> None:
        if queue:
            self._routes[route] = queue
        else:
            self._routes.pop(route, None)
