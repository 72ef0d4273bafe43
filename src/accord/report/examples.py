"""Sentences to look at: for every direction some that nobody picked, and some of the worst."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from accord.evaluation.records import Lines
from accord.metrics.bleu import chrf_of
from accord.report.answer import System
from accord.report.contents import Report

# About so many in all, so that a page with many languages stays small.
_ALL = 160
_MOST = 6
_LEAST = 2
_LONGEST = 600


@dataclass(frozen=True)
class Output:
    """What one system made of a sentence."""

    system: str
    text: str
    exact: bool
    """The same as the reference."""


@dataclass(frozen=True)
class Example:
    """One sentence of the test set with all its translations."""

    line: int
    source: str
    reference: str
    outputs: tuple[Output, ...]
    worst: bool
    """Chosen because the first run does so badly on it (chrF)."""


@dataclass(frozen=True)
class DirectionExamples:
    """The examples of one direction."""

    direction: str
    source: str
    target: str
    kind: str
    examples: tuple[Example, ...]


def examples(report: Report) -> tuple[DirectionExamples, ...]:
    """Examples in every direction that was evaluated, zero-shot first: these are asked about."""
    rows = sorted(report.main.evaluation.by_direction, key=lambda row: row.kind == "supervised")
    number = min(_MOST, max(_LEAST, _ALL // len(rows)))
    return tuple(
        DirectionExamples(
            row.direction,
            row.source,
            row.target,
            row.kind,
            _of_direction(report.systems, row.direction, row.kind, number),
        )
        for row in rows
    )


def _of_direction(
    found: Sequence[System], direction: str, kind: str, number: int
) -> tuple[Example, ...]:
    # Other ways are gone only where there is no data; elsewhere they repeat the direct column.
    shown = [system for system in found if kind == "zero-shot" or not system.repeats]
    texts = {
        system.label: {str(item.direction): item for item in system.evaluated.lines}
        for system in shown
    }
    first = next(system for system in shown if direction in system.rows)
    main = texts[first.label][direction]
    scores = chrf_of(first.evaluated.statistics[direction].chrf.astype(np.float64))
    chosen = []
    for line, worst in _choose(scores.tolist(), number):
        reference = main.references[line]
        outputs = [
            Output(label, _short(of[direction].hypotheses[line]), _same(of, direction, line))
            for label, of in texts.items()
            if direction in of
        ]
        chosen.append(
            Example(line + 1, _short(main.sources[line]), _short(reference), tuple(outputs), worst)
        )
    return tuple(chosen)


def _choose(scores: Sequence[float], number: int) -> list[tuple[int, bool]]:
    """Lines at even distances, the same in every direction, then the worst of the others."""
    worst = number // 3
    even = min(number - worst, len(scores))
    unpicked = [(2 * i + 1) * len(scores) // (2 * even) for i in range(even)]
    rest = sorted(set(range(len(scores))) - set(unpicked), key=lambda line: (scores[line], line))
    return [(line, False) for line in unpicked] + [
        (line, True) for line in rest[:worst] if scores[line] < 100.0
    ]


def _same(of: Mapping[str, Lines], direction: str, line: int) -> bool:
    return of[direction].hypotheses[line] == of[direction].references[line]


def _short(text: str) -> str:
    """A translation that runs away should not fill the page."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
