"""The course of training, read from metrics.jsonl."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

KINDS = ("supervised", "zero-shot")
Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class DevScores:
    """One direction of a validation."""

    kind: str
    cross_entropy: float | None
    bleu: float | None


@dataclass(frozen=True)
class Validation:
    """All directions that were measured at a step."""

    step: int
    directions: dict[str, DevScores]

    def mean(self, kind: str, what: str) -> float | None:
        """The mean of `cross_entropy` or `bleu` over the directions of a kind."""
        values = self._values(kind, what)
        return fmean(values) if values else None

    def worst(self, kind: str) -> float | None:
        """The largest cross-entropy of a kind: epsilon or kappa of the paper's Definition 1."""
        return max(self._values(kind, "cross_entropy"), default=None)

    def _values(self, kind: str, what: str) -> list[float]:
        found = [getattr(s, what) for s in self.directions.values() if s.kind == kind]
        return [value for value in found if value is not None]


@dataclass(frozen=True)
class History:
    """The training loss and all validations, in order of steps."""

    training: Points
    """Steps with negative log-likelihood, nats a target subword."""
    validations: tuple[Validation, ...]

    def course(self, kind: str, what: str) -> Points:
        """The mean over the directions of a kind, by step."""
        found = [(item.step, item.mean(kind, what)) for item in self.validations]
        return tuple((float(step), value) for step, value in found if value is not None)

    def bounds(self) -> tuple[tuple[int, float, float], ...]:
        """Step, epsilon and kappa, where both kinds of directions were validated."""
        found = [(v.step, v.worst("supervised"), v.worst("zero-shot")) for v in self.validations]
        return tuple((s, e, k) for s, e, k in found if e is not None and k is not None)


def read_history(path: Path) -> History:
    """Read metrics.jsonl; a run without one has no history to show."""
    training: list[tuple[float, float]] = []
    validations: list[Validation] = []
    for entry in _entries(path):
        if entry["kind"] == "train" and entry["nll"] is not None:
            training.append((float(entry["step"]), entry["nll"]))
        elif entry["kind"] == "validation":
            found = {
                direction: DevScores(scores["kind"], scores["cross_entropy"], scores["bleu"])
                for direction, scores in entry["directions"].items()
            }
            validations.append(Validation(entry["step"], found))
    return History(tuple(training), tuple(validations))


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue  # the last line of a process that was killed while writing
