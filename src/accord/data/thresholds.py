"""The lowest priorities of all shards: a threshold, found by counting; of equal ones the first.

A `limit` keeps so many pairs of a corpus, the vocabulary is trained on so many sentences. Each
shard sets down its lowest priorities in order; where to cut follows from how many lie below.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from accord.data.dedup import Hashes, Mask, kth_lowest, priority
from accord.data.jobs import Facts, Report, written
from accord.data.shards import Shard


@dataclass(frozen=True)
class RankTask:
    """A shard whose lines are ranked by priority: pairs, or each side by itself."""

    shard: Shard
    state: str
    seed: int
    salt: tuple[str, ...]
    most: tuple[int, ...]
    """How many of the lowest may be wanted: of pairs one number, of sides two."""

    @property
    def name(self) -> str:
        """For notes."""
        return self.shard.name

    def file(self, column: int) -> Path:
        """The lowest priorities, in order."""
        return self.shard.folder / "ranks" / self.salt[0] / f"{self.shard.name}.{column}"

    def priorities(self) -> list[Hashes]:
        """The priorities of all lines that are still in: one column or two."""
        first, second = self.shard.hashes("exact")
        keep = self.shard.keep(self.state)
        if len(self.most) == 1:
            return [priority(first + priority(second, 0), self.seed, *self.salt)[keep]]
        return [priority(side, self.seed, *self.salt)[keep] for side in (first, second)]


def rank_lines(task: RankTask, report: Report) -> Facts:
    """Set down the lowest priorities, in order."""
    columns = task.priorities()
    for number, (column, most) in enumerate(zip(columns, task.most, strict=True)):
        with written(task.file(number)) as file:
            file.write(np.sort(column)[:most].tobytes())
    report(len(columns[0]))
    return {"lines": len(columns[0])}


@dataclass(frozen=True)
class Cut:
    """Priorities below `below` are in; of those equal to it, the first `equal`."""

    below: int
    equal: int

    def chosen(self, priorities: Hashes) -> Mask:
        """The lines of one shard that are in."""
        last = np.uint64(self.below)
        mask: Mask = priorities < last
        mask[np.flatnonzero(priorities == last)[: self.equal]] = True
        return mask


def mapped(path: Path) -> Hashes:
    """Hashes or priorities in a file."""
    # Nothing cannot be mapped.
    return np.memmap(path, "<u8", "r") if path.stat().st_size else np.zeros(0, dtype="<u8")


def cuts(ordered: Sequence[Hashes], lines: int, count: int) -> list[Cut]:
    """Where to cut the priorities of each shard, in order, so that `count` of `lines` are in."""
    if count >= lines:
        return [Cut(2**64 - 1, lines)] * len(ordered)
    last = kth_lowest(ordered, count)
    bounds = [
        [int(np.searchsorted(a, np.uint64(last), side)) for side in ("left", "right")]
        for a in ordered
    ]
    left = count - sum(start for start, _ in bounds)
    found = []
    for start, stop in bounds:
        found.append(Cut(last, min(left, stop - start)))
        left -= found[-1].equal
    return found


@dataclass(frozen=True)
class CutTask:
    """A shard whose lines were ranked, and where to cut."""

    ranked: RankTask
    cut: Cut
    after: str

    @property
    def name(self) -> str:
        """For notes."""
        return self.ranked.name


def cut_lines(task: CutTask, report: Report) -> Facts:
    """Leave the lines of the lowest priorities."""
    shard = task.ranked.shard
    keep = shard.keep(task.ranked.state)
    keep[keep] = task.cut.chosen(task.ranked.priorities()[0])
    shard.write_keep(task.after, keep)
    report(len(keep))
    return {"left": int(keep.sum())}
