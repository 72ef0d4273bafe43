"""How well scores without zero-shot references choose among checkpoints.

A point is one checkpoint, or one run: its true zero-shot BLEU, which nobody may choose by, and the
scores that one may choose by. What is asked is how far they rise together, and what is lost by
taking the point that a score puts first.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from accord.errors import AccordError
from accord.evaluation.matrix import evaluation_name
from accord.evaluation.records import Evaluation
from accord.inference.results import SearchSettings
from accord.run_directory import log_errors, read_metrics

# Higher is better for each of them.
AGREEMENT = "agreement"
BOTH = "agreement with supervised BLEU"
BLEU = "supervised BLEU"
ENTROPY = "supervised cross-entropy, negative"

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Point:
    """One checkpoint or run, under the name it is shown by."""

    name: str
    zero_shot: float
    scores: Mapping[str, float]


@dataclass(frozen=True)
class Choice:
    """How a score goes with true zero-shot BLEU, and what it chooses."""

    score: str
    points: int
    pearson: float
    spearman: float
    kendall: float
    """tau-b. All three are NaN where one of the two never changes."""
    chosen: str
    bleu: float
    """True zero-shot BLEU of the point chosen."""
    best: float
    """That of the best point there is."""


def validations(run: Path) -> list[Point]:
    """The validations of a run that watched all directions, from its metrics.jsonl."""
    path = run / "metrics.jsonl"
    if not path.is_file():
        raise AccordError(
            "the log cannot be read: No such file or directory",
            where=str(path),
            fix="name a run directory",
        )
    entries = [entry for entry in read_metrics(path) if entry["kind"] == "validation"]
    with log_errors(path):
        return [point for entry in entries if (point := _point(run.name, entry)) is not None]


def _point(run: str, entry: Mapping[str, Any]) -> Point | None:
    rows = entry["directions"].values()
    hidden = [row["bleu"] for row in rows if row["kind"] == "zero-shot" and row["bleu"] is not None]
    seen = [row for row in rows if row["kind"] == "supervised" and row["bleu"] is not None]
    if not hidden or not seen or entry.get("agreement") is None:
        return None
    known, agreed = fmean(row["bleu"] for row in seen), float(entry["agreement"])
    scores = {AGREEMENT: agreed, BOTH: math.sqrt(agreed * known), BLEU: known}
    scores[ENTROPY] = -fmean(row["cross_entropy"] for row in seen)
    return Point(f"{run}, step {entry['step']:,}", fmean(hidden), scores)


def evaluations(runs: Sequence[Path]) -> dict[str, list[Point]]:
    """All evaluations of some runs, those on the same sentences with the same search together."""
    found: defaultdict[str, list[Point]] = defaultdict(list)
    for run in runs:
        for path in sorted((run / "evaluation").glob("[!.]*/evaluation.json")):
            evaluation = Evaluation.load(path)
            point = _evaluated(run.name, evaluation)
            if point is not None:
                settings = SearchSettings(**evaluation.search)
                name = evaluation_name(
                    evaluation.split, settings, limit=evaluation.limit, lines=evaluation.lines
                )
                found[name].append(point)
    return dict(found)


def _evaluated(run: str, evaluation: Evaluation) -> Point | None:
    means, agreed = evaluation.averages, evaluation.agreement
    if agreed is None or not {"supervised", "zero_shot"} <= means.keys():
        return None
    known, agreement = means["supervised"], agreed.bleu.get("zero_shot")
    if agreement is None or known.cross_entropy is None:
        return None
    scores = {
        AGREEMENT: agreement,
        BOTH: math.sqrt(agreement * known.bleu),
        BLEU: known.bleu,
        ENTROPY: -known.cross_entropy,
    }
    return Point(f"{run}, {evaluation.origin.checkpoint}", means["zero_shot"].bleu, scores)


def choices(points: Sequence[Point]) -> list[Choice]:
    """Every score that all points have, by the points' true zero-shot BLEU."""
    true = np.array([point.zero_shot for point in points])
    found = []
    for score in points[0].scores:
        values = np.array([point.scores[score] for point in points])
        chosen = points[int(values.argmax())]
        found.append(
            Choice(
                score,
                len(points),
                pearson(values, true),
                pearson(ranks(values), ranks(true)),
                kendall(values, true),
                chosen.name,
                chosen.zero_shot,
                float(true.max()),
            )
        )
    return found


def pearson(one: Values, other: Values) -> float:
    """Linear correlation; of ranks, it is Spearman's."""
    a, b = one - one.mean(), other - other.mean()
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / scale if scale else math.nan


def ranks(values: Values) -> Values:
    """Places in order, from 1; equal values share the mean of theirs."""
    below = (values[:, None] > values).sum(axis=1)
    same = (values[:, None] == values).sum(axis=1)
    found: Values = below + (same + 1) / 2
    return found


def kendall(one: Values, other: Values) -> float:
    """tau-b: pairs in the same order less pairs in the other order, allowing for ties."""
    a, b = np.sign(one[:, None] - one), np.sign(other[:, None] - other)
    scale = math.sqrt(float((a * a).sum()) * float((b * b).sum()))
    return float((a * b).sum()) / scale if scale else math.nan


_LEAST = 3  # points; two always lie on a line


def table(title: str, points: Sequence[Point]) -> list[str]:
    """A section of Markdown: how well each score goes with true zero-shot BLEU."""
    if len(points) < _LEAST:
        return [f"## {title}\n", f"{len(points)} points: too few.\n"]
    head = ["score", "Pearson", "Spearman", "Kendall", "would choose", "BLEU there", "best"]
    return [
        f"## {title}\n",
        f"{len(points)} points; BLEU is the true zero-shot mean.\n",
        f"| {' | '.join(head)} |",
        "|---|---:|---:|---:|---|---:|---:|",
        *(_row(choice) for choice in choices(points)),
        "",
    ]


def _row(choice: Choice) -> str:
    three = " | ".join(f"{x:+.3f}" for x in (choice.pearson, choice.spearman, choice.kendall))
    return f"| {choice.score} | {three} | {choice.chosen} | {choice.bleu:.2f} | {choice.best:.2f} |"
