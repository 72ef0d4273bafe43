"""Two sides walked in step: line i of one belongs to line i of the other, or it is an error."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest

from accord.errors import AccordError

_WINDOW = 20  # lines looked at together
_FACTOR = 2.0  # how much wider than usual the lengths must scatter to be suspicious
_FLOOR = 0.3  # scatter below this (a natural logarithm) is never suspicious


class _End(Enum):
    MARK = "end"


@dataclass(frozen=True)
class Side:
    """One side of a corpus: its language, the path it is read from, and its lines."""

    language: str
    path: str
    lines: Iterable[str | None]


def aligned(
    first: Side, second: Side, *, unit: str = "line"
) -> Iterator[tuple[str | None, str | None]]:
    """The pairs of both sides; different numbers of lines raise an error with both counts."""
    drift = Drift()
    lines = iter(first.lines), iter(second.lines)
    for a, b in zip_longest(*lines, fillvalue=_End.MARK):
        if a is _End.MARK:
            counts = drift.lines, drift.lines + 1 + sum(1 for _ in lines[1])
            raise _unequal((first, second), counts, drift, unit)
        if b is _End.MARK:
            counts = drift.lines + 1 + sum(1 for _ in lines[0]), drift.lines
            raise _unequal((first, second), counts, drift, unit)
        drift.see(a, b)
        yield a, b


def _unequal(
    sides: tuple[Side, Side], counts: tuple[int, int], drift: "Drift", unit: str
) -> AccordError:
    listed = " but ".join(
        f"{side.language} has {count:,} {unit}s ({side.path})"
        for side, count in zip(sides, counts, strict=True)
    )
    return AccordError(
        f"the two sides do not go together: {listed}; {drift.report(unit)}",
        fix=f"both sides must have the same {unit}s in the same order: look at the {unit}s around "
        "the place named, or fetch both files again from one release",
    )


class Drift:
    """Watches, in constant memory, for the place where two sides stop being translations.

    It is a heuristic, for error messages only. A line is suspicious if it is empty on one side
    only. Two neighbouring windows of lines are suspicious if the ratios of the two lengths
    scatter far more in them than before: where a line was lost, sentences of unrelated lengths
    meet, although their average lengths stay the same.
    """

    def __init__(self) -> None:
        self.lines = 0
        self.lopsided: int | None = None
        self.drifted: int | None = None
        self._ratios, self._ratio_sum = 0, 0.0
        self._calm, self._calm_sum = 0, 0.0
        self._window, self._window_sum, self._window_start = 0, 0.0, 1
        self._suspect: int | None = None

    def see(self, first: str | None, second: str | None) -> None:
        """Takes notice of the next pair of lines; None is a line whose content is unknown."""
        self.lines += 1
        if self.drifted is not None or first is None or second is None:
            return
        if first and second:
            self._measure(math.log(len(first) / len(second)))
        elif (first or second) and self.lopsided is None:
            self.lopsided = self.lines

    def _measure(self, ratio: float) -> None:
        self._ratios += 1
        self._ratio_sum += ratio
        if self._window == 0:
            self._window_start = self.lines
        self._window += 1
        self._window_sum += abs(ratio - self._ratio_sum / self._ratios)
        if self._window == _WINDOW:
            self._judge(self._window_sum / _WINDOW)
            self._window, self._window_sum = 0, 0.0

    def _judge(self, scatter: float) -> None:
        if self._calm >= 2 and scatter > max(_FLOOR, _FACTOR * self._calm_sum / self._calm):
            self.drifted = self._suspect
            self._suspect = self._window_start
            return
        self._suspect = None
        self._calm += 1
        self._calm_sum += scatter

    def report(self, unit: str) -> str:
        """What was found, in words."""
        empty = f"{unit} {self.lopsided:,} is empty on one side only" if self.lopsided else ""
        if self.drifted is not None:
            also = f" ({empty})" if empty else ""
            return (
                f"first suspicious {unit} {self.drifted:,}: from about there on the lengths of "
                f"the two sides no longer agree{also}"
            )
        if empty:
            return f"first suspicious {unit} {self.lopsided:,}: it is empty on one side only"
        return f"no suspicious {unit} was found, so the difference may lie at the end"
