"""Which updates of a branch count for its cost, by its log.

The first ones do not: kernels are compiled. Nor do those with a CUDA graph being recorded, which a
long run hardly has. Of a branch that makes rounds of synthetic pairs, whole rounds count, since
some updates wait for the next one and others do not. A slow branch ends by the clock, and the
second half of what it has done counts.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from accord.config.schema import Experiment

MINUTES = 3.0
"""Of updates, after which a slow branch ends all the same."""


@dataclass(frozen=True)
class Pace:
    """What of a branch counts."""

    warm_up: int
    """Updates that are made first, and do not count; by their end all objectives must be on."""
    enough: int
    """Updates that are to count, or rounds that are to be made."""
    line: int
    """Updates of a line of the log. Each waits for the device, so that few updates would seem
    faster than they are; but a line with a recording is lost as a whole."""
    rounds: bool = False
    """Whether rounds of synthetic pairs count, those after the first, or updates."""


USUAL = Pace(warm_up=100, enough=150, line=10)
DECODING = Pace(warm_up=20, enough=60, line=2)
"""Of a branch that decodes in its updates: they are slow, and to record one may take seconds."""
ROUNDS = Pace(warm_up=100, enough=7, line=10, rounds=True)


def pace(experiment: Experiment) -> Pace:
    """What counts of a branch with these objectives."""
    objective = experiment.objective
    decode = (objective.agreement, objective.dual, objective.back_translation)
    if any(each is not None and each.weight for each in decode):
        return DECODING
    return ROUNDS if objective.complete is not None and objective.complete.weight else USUAL


@dataclass(frozen=True)
class Counted:
    """Of the updates that count."""

    updates: int
    seconds: float
    target_tokens: float
    rounds: int
    """Of synthetic pairs, whole."""
    rounds_made: int
    """Also those that do not count."""
    spent: float
    """Seconds of all updates, also of those that do not count."""

    def are_enough(self, pace: Pace) -> bool:
        """Whether no more need be made."""
        made = self.rounds_made if pace.rounds else self.updates
        return made >= pace.enough or self.spent >= 60 * MINUTES


def counted(lines: Iterable[Mapping[str, Any]], began: int, pace: Pace) -> Counted:
    """What a log says of a branch that began after an update."""
    found = list(lines)
    train = [line for line in found if line["kind"] == "train"]
    came = [line["step"] for line in found if line["kind"] == "pool"]
    spent = sum((line["seconds"] for line in train), 0.0)
    timed = [_Timed(before["step"], line) for before, line in pairwise(train)]
    rounds = _whole_rounds(timed, came) if pace.rounds else []
    taken = [each for lines in rounds for each in lines]
    if not pace.rounds:
        first = began + pace.warm_up
        if train and spent >= 60 * MINUTES:  # slow: its time is up
            first = min(first, (began + train[-1]["step"]) // 2)
        taken = [each for each in timed if each.after >= first and not each.recordings]
    return Counted(
        updates=sum(each.line["step"] - each.after for each in taken),
        seconds=sum((each.line["seconds"] for each in taken), 0.0),
        target_tokens=sum((each.line["target_tokens"] for each in taken), 0.0),
        rounds=len(rounds),
        rounds_made=len(came),
        spent=spent,
    )


@dataclass(frozen=True)
class _Timed:
    """A line of the log, and the update after which it begins."""

    after: int
    line: Mapping[str, Any]

    @property
    def recordings(self) -> int:
        return int(self.line.get("recordings", 0))


def _whole_rounds(timed: Sequence[_Timed], came: Sequence[int]) -> list[list[_Timed]]:
    """The lines of whole rounds: from the one in which it came into use until the next one did.

    Of those after the first, the half with the fewest recordings: what decodes beside updates meets
    new shapes for long, and a line that is left out for one may be the one that waited.
    """
    found = [
        [each for each in timed if begin <= each.line["step"] < end]
        for begin, end in pairwise(came[1:])
    ]
    found.sort(key=lambda lines: sum(each.recordings for each in lines))
    return found[: math.ceil(len(found) / 2)]
