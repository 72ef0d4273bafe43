"""Running totals: what has been added up since the last line of the log, in all processes."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Any

import torch

from accord.data.batches import Batch
from accord.objectives.base import Objective, Tally, Work
from accord.ops.distributed import World
from accord.training.update import Outcome


@dataclass
class Totals:
    """Sums over all processes and the updates since the last line of the log.

    They are part of a checkpoint, so that the line which a stop interrupts says the same as it
    would have without.
    """

    steps: int = 0
    applied: int = 0
    rows: float = 0.0
    source: float = 0.0
    target: float = 0.0
    norm: float = 0.0
    seconds: float = 0.0
    wait: float = 0.0
    objectives: dict[str, Tally] = field(default_factory=dict)
    """By the name of the objective."""

    @staticmethod
    def of(saved: dict[str, Any]) -> "Totals":
        """From a checkpoint; what another version added up otherwise is missing in this line."""
        known = {key: saved[key] for key in _PLAIN if key in saved}
        tallies = saved.get("objectives", {}).items()
        return Totals(**known, objectives={name: Tally(**tally) for name, tally in tallies})

    def clear(self) -> None:
        """Begin anew."""
        vars(self).update(vars(Totals()))

    def tally(self, objective: Objective[Any]) -> Tally:
        """Of one objective, which may be the first to have one."""
        return self.objectives.setdefault(objective.name, Tally())

    def add(self, objectives: Sequence[Objective[Any]], sums: Iterable[float]) -> None:
        """Counts of gold batches, tokens and scored tokens of every objective, then their sums."""
        found = iter(sums)
        for name in _GOLD:
            setattr(self, name, getattr(self, name) + next(found))
        for objective in objectives:
            tally = self.tally(objective)
            tally.tokens += next(found)
            tally.scored += next(found)
        for objective in objectives:
            mine = self.tally(objective).sums
            for name in objective.sums:
                mine[name] = mine.get(name, 0.0) + next(found)

    def summary(self, objectives: Sequence[Objective[Any]]) -> dict[str, float | None]:
        """Means and rates; no loss where no update was applied."""
        found: dict[str, float | None] = {
            "gradient_norm": self.norm / self.applied if self.applied else None,
            "seconds": self.seconds,
            "source_tokens": self.source,
            "target_tokens": self.target,
            "rows": self.rows,
            "source_tokens_per_s": self.source / self.seconds,
            "target_tokens_per_s": self.target / self.seconds,
            "wait_share": self.wait / self.seconds,
        }
        for objective in objectives:
            tally = self.objectives.get(objective.name, Tally())
            found |= objective.metrics(tally, self.rows)
        return found


_PLAIN = [item.name for item in fields(Totals) if item.name != "objectives"]
_GOLD = ("rows", "source", "target")


class Window:
    """Adds up updates in this process, and now and then over all of them."""

    def __init__(self, world: World, totals: Totals, objectives: Sequence[Objective[Any]]) -> None:
        self.totals = totals
        self._world = world
        self._objectives = objectives
        self._clear()

    def _clear(self) -> None:
        # Counts of gold batches, then tokens and scored tokens of every objective.
        self._counts = [0] * (len(_GOLD) + 2 * len(self._objectives))
        self._sums = [
            torch.zeros(len(each.sums), dtype=torch.float64, device=self._world.device)
            for each in self._objectives
        ]

    def add(self, batch: Batch, work: Sequence[Work[Any]], outcome: Outcome) -> None:
        """One more update; the losses stay on the device."""
        new = [batch.rows, batch.source_tokens, batch.target_tokens]
        for done in work:
            new += [done.tokens, done.tokens if outcome.applied else 0]
        self._counts = [old + more for old, more in zip(self._counts, new, strict=True)]
        self.totals.steps += 1
        if outcome.applied:
            self.totals.applied += 1
            self.totals.norm += outcome.gradient_norm
            for sums_K, objective in zip(self._sums, self._objectives, strict=True):
                if objective.name in outcome.sums:
                    sums_K += outcome.sums[objective.name]

    def took(self, seconds: float, wait: float, work: Sequence[Work[Any]]) -> None:
        """So long did the update take, and so much of that was waiting for batches."""
        self.totals.seconds += seconds
        self.totals.wait += wait
        for objective, done in zip(self._objectives, work, strict=True):
            if done.waited:
                self.totals.tally(objective).waited += done.waited

    def fold(self) -> None:
        """Bring the totals up to date; all processes must ask. This waits for the device."""
        self.totals.add(self._objectives, self._world.sum(self._here()).tolist())
        self._clear()

    def look(self) -> Totals:
        """What the totals would be by now if all processes had seen what this one has.

        Nobody else is asked and nothing is changed; this waits for the device.
        """
        found = deepcopy(self.totals)
        found.add(self._objectives, (self._here() * self._world.size).tolist())
        return found

    def _here(self) -> torch.Tensor:
        counts = torch.tensor(self._counts, dtype=torch.float64, device=self._world.device)
        return torch.cat([counts, *self._sums])
