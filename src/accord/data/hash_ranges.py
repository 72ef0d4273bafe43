"""Choices among all lines of all shards, on hashes and in bounded memory.

Equal sentences have equal hashes, so what becomes of a sentence is decided within a range of hashes
by the functions of dedup.py, as if there were no other lines. Shards set down their hashes in
order, and a range reads its stretch of each.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from accord.data.dedup import (
    HashedCorpus,
    Hashes,
    Mask,
    Matching,
    Meeting,
    ZeroShotPairs,
    common_pivots,
    contains,
    halve,
    make_disjoint,
    repeated_pairs,
    shared_strings,
)
from accord.data.jobs import Facts, Report, written
from accord.data.shards import Shard

RANGE_LINES = 1 << 22  # more at once would not fit a processor's caches, which takes longer
BYTES_PER_LINE = 64  # of a range while it is worked on, at most

Lines = npt.NDArray[np.uint32]


def count_ranges(lines: int, workers: int, memory: int) -> int:
    """Into how many ranges so many lines are cut; never a matter of the result."""
    at_once = min(RANGE_LINES, memory // (BYTES_PER_LINE * workers))
    return max(1, -(-lines // max(1, at_once)))


# --- Shards in the order of their hashes.


@dataclass(frozen=True)
class SortTask:
    """One shard, of which the lines of a state are put in order: by one side, or by both."""

    shard: Shard
    state: str
    side: int | None
    matching: Matching

    @property
    def name(self) -> str:
        """For notes."""
        return f"{self.kind}.{self.state}.{self.shard.name}"

    @property
    def kind(self) -> str:
        """What is put in order: the language, or pairs."""
        return "pairs" if self.side is None else self.shard.languages[self.side]

    @property
    def file(self) -> Path:
        """Hashes in order, then (by both sides) the hashes of the other side, then lines."""
        return self.shard.folder / "sorted" / f"{self.kind}.{self.state}" / self.shard.name


def sort_shard(task: SortTask, report: Report) -> Facts:
    """Set down the hashes of the lines that are still in, in order, with their lines."""
    first, second = task.shard.hashes(task.matching)
    lines = np.flatnonzero(task.shard.keep(task.state)).astype(np.uint32)
    columns = [first[lines], second[lines]]
    if task.side is not None:
        columns = columns[task.side : task.side + 1]
    order = np.argsort(columns[0], kind="stable")
    with written(task.file) as file:
        for column in columns:
            file.write(column[order].tobytes())
        file.write(lines[order].tobytes())
    report(len(lines))
    return {"lines": len(lines)}


@dataclass(frozen=True)
class Range:
    """Number `index` of `count` equal parts of all possible hashes."""

    index: int
    count: int

    @property
    def name(self) -> str:
        """For notes and files."""
        return f"{self.index:05d}-of-{self.count:05d}"

    def stretch(self, ordered: Hashes) -> slice:
        """Where the hashes of this range lie in a sorted array."""
        begin, end = (2**64 * part // self.count for part in (self.index, self.index + 1))
        start = int(np.searchsorted(ordered, np.uint64(begin)))
        if end == 2**64:
            return slice(start, len(ordered))
        return slice(start, int(np.searchsorted(ordered, np.uint64(end))))


@dataclass(frozen=True)
class _Part:
    """What a range holds of a corpus: hashes (one column or two), and how many of each shard."""

    columns: list[Hashes]
    lines: Lines
    counts: list[int]


def _read(tasks: Sequence[SortTask], part: Range) -> _Part:
    width = 2 if tasks[0].side is None else 1
    columns: list[list[Hashes]] = [[np.zeros(0, dtype="<u8")] for _ in range(width)]
    numbers = [np.zeros(0, dtype="<u4")]
    for task in tasks:
        size = task.file.stat().st_size // (8 * width + 4)
        # Nothing cannot be mapped.
        data = np.memmap(task.file, np.uint8, "r") if size else np.zeros(0, dtype=np.uint8)
        hashes = data[: 8 * width * size].view("<u8").reshape(width, size)
        own = part.stretch(hashes[0])
        for column, values in zip(columns, hashes, strict=True):
            column.append(np.array(values[own]))
        numbers.append(np.array(data[8 * width * size :].view("<u4")[own]))
    return _Part(
        [np.concatenate(column) for column in columns],
        np.concatenate(numbers),
        [len(lines) for lines in numbers[1:]],
    )


# --- What is decided range by range: which lines go.


@dataclass(frozen=True)
class RangeTask:
    """A range of the shards of some corpora, and where the lines that go are set down."""

    part: Range
    corpora: tuple[tuple[SortTask, ...], ...]
    step: str
    """What is done, and to which state: no two steps of a build are called the same."""

    @property
    def name(self) -> str:
        """For notes."""
        return f"{self.step}.{self.part.name}"

    @property
    def file(self) -> Path:
        """Where the result goes."""
        return self.corpora[0][0].shard.folder / "ranges" / self.name


@dataclass(frozen=True)
class PivotTask(RangeTask):
    """The same for overlap, where corpora meet in a pivot."""

    pivot: str
    zero_shot: ZeroShotPairs
    seed: int
    meeting: Meeting | None = None
    middle: int = 0

    def read(self) -> tuple[list[_Part], list[HashedCorpus]]:
        """Everything there is in this range; dedup.py looks at the side of the pivot only."""
        parts = [_read(tasks, self.part) for tasks in self.corpora]
        corpora = [
            HashedCorpus(
                tasks[0].shard.languages,
                (part.columns[0], part.columns[0]),
                np.ones(len(part.lines), dtype=np.bool_),
            )
            for tasks, part in zip(self.corpora, parts, strict=True)
        ]
        return parts, corpora


def find_duplicates(task: RangeTask, report: Report) -> Facts:
    """Of equal pairs of a corpus all but the first: by shard, then by line."""
    part = _read(task.corpora[0], task.part)
    # Shards come in their order, and equal pairs of one shard in the order of their lines.
    repeated = repeated_pairs(*part.columns)
    report(len(repeated))
    return _set_down(task, [part], [repeated])


def find_overlap(task: PivotTask, report: Report) -> Facts:
    """Mode `disjoint`: the lines of pivot sentences that stay in another corpus."""
    parts, corpora = task.read()
    make_disjoint(corpora, task.zero_shot, task.seed, task.pivot)
    report(sum(len(part.lines) for part in parts))
    return _set_down(task, parts, [~corpus.keep for corpus in corpora])


def count_shared(task: PivotTask, report: Report) -> Facts:
    """How many pivot sentences every two corpora have in common."""
    parts, corpora = task.read()
    report(sum(len(part.lines) for part in parts))
    return {"shared": [asdict(s) for s in shared_strings(corpora, task.zero_shot, task.pivot)]}


def order_common(task: PivotTask, report: Report) -> Facts:
    """Mode `pairwise`: the order of the pivot sentences that two corpora have in common."""
    assert task.meeting is not None
    parts, (first, second) = task.read()
    _, order = common_pivots(first, second, task.meeting, task.seed)
    with written(task.file) as file:
        file.write(np.sort(order).tobytes())
    report(sum(len(part.lines) for part in parts))
    return {"common": len(order)}


def find_halves(task: PivotTask, report: Report) -> Facts:
    """Mode `pairwise`: the lines of the half that stays in the other corpus."""
    assert task.meeting is not None
    parts, (first, second) = task.read()
    halve(first, second, task.meeting, task.seed, task.middle)
    report(sum(len(part.lines) for part in parts))
    return _set_down(task, parts, [~first.keep, ~second.keep])


def _set_down(task: RangeTask, parts: Sequence[_Part], gone: Sequence[Mask]) -> Facts:
    """Write the lines that go, shard after shard; how many of each shard is the result."""
    counts = []
    with written(task.file) as file:
        for part, mask in zip(parts, gone, strict=True):
            ends = np.cumsum(part.counts)
            for end, size in zip(ends.tolist(), part.counts, strict=True):
                lines = part.lines[end - size : end][mask[end - size : end]]
                file.write(lines.tobytes())
                counts.append(len(lines))
    return {"gone": counts}


@dataclass(frozen=True)
class Gone:
    """A stretch of a file of lines that go."""

    file: Path
    start: int
    count: int

    def lines(self) -> Lines:
        """Their numbers within the shard."""
        return np.fromfile(self.file, "<u4", self.count, offset=4 * self.start)


def gone_by_shard(tasks: Sequence[RangeTask], results: Sequence[Facts]) -> list[list[Gone]]:
    """For each shard, where the lines that go lie in the files of all ranges."""
    starts = [np.concatenate([[0], np.cumsum(facts["gone"])]).tolist() for facts in results]
    return [
        [
            Gone(task.file, start[shard], facts["gone"][shard])
            for task, facts, start in zip(tasks, results, starts, strict=True)
            if facts["gone"][shard]
        ]
        for shard in range(len(results[0]["gone"]))
    ]


# --- What is decided shard by shard.


@dataclass(frozen=True)
class DropTask:
    """A shard, and what is to be taken out of it."""

    shard: Shard
    before: str
    after: str
    gone: tuple[Gone, ...] = ()
    held_out: tuple[Path, Path] | None = None
    """Hashes of the dev and test lines of both sides."""
    matching: Matching = "exact"

    @property
    def name(self) -> str:
        """For notes."""
        return self.shard.name


def drop_lines(task: DropTask, report: Report) -> Facts:
    """Take out the lines that go, and dev and test lines; how many are left after each."""
    keep = task.shard.keep(task.before)
    for gone in task.gone:
        keep[gone.lines()] = False
    left = int(keep.sum())
    if task.held_out is not None:
        for file, side in zip(task.held_out, task.shard.hashes(task.matching), strict=True):
            keep &= ~contains(np.fromfile(file, "<u8"), side)
    task.shard.write_keep(task.after, keep)
    report(len(keep))
    return {"left": left, "left_at_last": int(keep.sum())}
