"""What follows from the step alone, which counts from 1: learning rates, and every n-th update."""

import math
from typing import Literal

ScheduleKind = Literal["paper", "inverse-sqrt", "constant"]


def learning_rate(
    step: int, kind: ScheduleKind = "paper", *, peak: float = 0.01, warmup: int = 10_000
) -> float:
    """The rate of one step.

    `paper` holds the peak for `warmup` steps; `inverse-sqrt` rises to it in a straight line. Both
    then fall with 1/sqrt(step). With the defaults, `paper` is 1/sqrt(max(step, 10000)).
    """
    if kind == "constant":
        return peak
    warmup = max(warmup, 1)
    rise = min(step / warmup, 1.0) if kind == "inverse-sqrt" else 1.0
    return peak * rise * math.sqrt(warmup / max(step, warmup))


def is_due(step: int, *, start: int, every: int) -> bool:
    """Whether an update is one of every n after `start`, of which the first one is."""
    return step > start and (step - start - 1) % every == 0
