"""Counters for Prometheus, in plain arrays that worker processes can share.

What is counted is known beforehand, so each figure has a fixed place in an array of numbers. With
several workers every one writes to a row of its own, and whoever is asked for the figures adds up
all rows. A worker that replaces another goes on in its row: counters never fall.
"""

from bisect import bisect_left
from collections.abc import Iterator, MutableSequence
from dataclasses import dataclass
from typing import Literal

PATHS = (
    *("/translate", "/translate_file", "/detect", "/languages", "/graph"),
    *("/health", "/health/ready", "/metrics"),
)
STATUSES = (
    *("200", "304", "400", "403", "404", "405", "408", "413", "429", "499"),
    *("500", "501", "503", "504"),
)
OTHER = "other"


@dataclass(frozen=True)
class Figure:
    """One metric; `labels` are its pairs of path and status, `bounds` those of a histogram."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    text: str
    labels: tuple[str, ...] = ("",)
    bounds: tuple[float, ...] = ()

    @property
    def size(self) -> int:
        """Numbers that it needs: a histogram has its buckets, the one without end, and a sum."""
        return len(self.bounds) + 2 if self.kind == "histogram" else len(self.labels)


_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
FIGURES = (
    Figure(
        "requests_total",
        "counter",
        "Requests answered, by path and status.",
        tuple(
            f'{{path="{path}",status="{status}"}}'
            for path in (*PATHS, OTHER)
            for status in (*STATUSES, OTHER)
        ),
    ),
    Figure(
        "refused_connections_total",
        "counter",
        "Connections sent away in a crowd, before their request was read.",
    ),
    Figure("open_requests", "gauge", "Requests being read, waiting or computed."),
    Figure(
        "translate_seconds", "histogram", "Time to answer /translate with 200.", bounds=_SECONDS
    ),
    Figure("characters_total", "counter", "Characters translated."),
    Figure("sentences_total", "counter", "Sentences translated."),
    Figure("dropped_sentences_total", "counter", "Sentences dropped before work on them began."),
    Figure("waiting_sentences", "gauge", "Sentences in the queue."),
    Figure(
        "batch_sentences",
        "histogram",
        "Sentences translated together.",
        bounds=(1, 2, 4, 8, 16, 32, 64, 128, 256),
    ),
    Figure("batch_seconds", "histogram", "Time to translate a batch.", bounds=_SECONDS),
    Figure("worker_restarts_total", "counter", "Worker processes that had to be replaced."),
    Figure("lost_log_lines_total", "counter", "Log lines dropped because stderr is not read."),
)
SIZE = sum(figure.size for figure in FIGURES)
"""Numbers in one row."""


def _places() -> dict[str, tuple[Figure, int]]:
    found, at = {}, 0
    for figure in FIGURES:
        found[figure.name] = (figure, at)
        at += figure.size
    return found


_PLACES = _places()
_REQUESTS = {label: place for place, label in enumerate(_PLACES["requests_total"][0].labels)}


class Meter:
    """Counts in one row of `values`, shows the sum of all rows.

    A figure is only ever changed by one thread, or under one lock.
    """

    def __init__(self, values: MutableSequence[float] | None = None, row: int = 0) -> None:
        self._values = [0.0] * SIZE if values is None else values
        self._row = row * SIZE
        for figure, place in _PLACES.values():
            if figure.kind == "gauge":  # what a dead worker held is no more
                self._values[self._row + place] = 0.0

    def add(self, name: str, count: float = 1) -> None:
        """Raise a counter."""
        self._values[self._row + _PLACES[name][1]] += count

    def set(self, name: str, value: float) -> None:
        """Set a gauge."""
        self._values[self._row + _PLACES[name][1]] = value

    def observe(self, name: str, value: float) -> None:
        """Add a value to a histogram."""
        figure, place = _PLACES[name]
        place += self._row
        self._values[place + bisect_left(figure.bounds, value)] += 1
        self._values[place + figure.size - 1] += value

    def request(self, path: str, status: int) -> None:
        """Count a request; addresses that do not exist share one place."""
        where = path if path in PATHS else OTHER
        which = str(status) if str(status) in STATUSES else OTHER
        place = _REQUESTS[f'{{path="{where}",status="{which}"}}']
        self._values[self._row + _PLACES["requests_total"][1] + place] += 1

    def exposition(self) -> str:
        """All figures in Prometheus' text format, version 0.0.4."""
        return "".join(
            line + "\n" for figure, place in _PLACES.values() for line in self._lines(figure, place)
        )

    def _lines(self, figure: Figure, place: int) -> Iterator[str]:
        name = f"accord_{figure.name}"
        yield f"# HELP {name} {figure.text}"
        yield f"# TYPE {name} {figure.kind}"
        if figure.kind == "histogram":
            yield from self._histogram(name, figure, place)
            return
        for number, label in enumerate(figure.labels):
            value = self._sum(place + number)
            if value or not label:  # most pairs of path and status never occur
                yield f"{name}{label} {value:.17g}"

    def _histogram(self, name: str, figure: Figure, place: int) -> Iterator[str]:
        total = 0.0
        for number, bound in enumerate((*figure.bounds, "+Inf")):
            total += self._sum(place + number)
            yield f'{name}_bucket{{le="{bound}"}} {total:.17g}'
        yield f"{name}_sum {self._sum(place + figure.size - 1):.17g}"
        yield f"{name}_count {total:.17g}"

    def _sum(self, place: int) -> float:
        return sum(self._values[place::SIZE])
