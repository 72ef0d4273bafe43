"""Windows of an epoch: which examples are planned together, so that memory does not grow with data.

An example is one line of one corpus in one direction. Up to 2^25 of them are one window, and the
order of an epoch is random throughout. More are cut into several windows of equal size. Each
direction of each corpus then walks through its lines in blocks of at most 2^20, in a random order
of blocks that is drawn anew for every walk; a window is the next piece of all these walks, each
piece as long as the direction's share of the epoch. So all windows have the same mixture, and what
is read at a time lies in a few places on disk. Everything follows from the seed.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from accord.data.epoch_plan import Buckets, ExampleIds, Int64s, Plan, corpus_quotas, shuffled
from accord.data.store import ParallelCorpus
from accord.errors import AccordError

# Examples; a plan takes 4 bytes for each, and 15 more while it is made, or 31 by directions.
WINDOW = 2**25
BLOCK = 2**20  # lines that stay together, at most
_BLOCKS = 16  # of a direction in a window, at least, where it has so many lines
_WALKS = 1 << 16  # random streams of walks: above those of plans, by direction


def _bucket_limits() -> Int64s:
    """The longest length of every bucket but the last, which is open.

    Limits grow by 1.1 from 8; each bucket is then halved, which takes two points off the padding
    and, unlike a split by the length of one side, leaves the mix of directions random.
    """
    limits = [8]
    while len(limits) < 254:  # so that a bucket number fits into a byte
        low = limits[-1]
        high = max(low + 1, int(low * 1.1))
        limits += sorted({(low + high + 1) // 2, high})
    return np.array(limits[:255], dtype=np.int64)


_LIMITS = _bucket_limits()


@dataclass(frozen=True)
class Segments:
    """Stretches of lines, one after the other: from line `first_K` of a direction on each."""

    direction_K: Int64s
    first_K: Int64s
    starts_K1: Int64s
    """Where each begins among all the lines here, and the end."""

    @staticmethod
    def of(stretches: Sequence[tuple[int, int, int]]) -> "Segments":
        """From (direction, first line, number of lines)."""
        direction_K, first_K, length_K = np.array(stretches, dtype=np.int64).reshape(-1, 3).T
        return Segments(direction_K, first_K, np.concatenate([[0], np.cumsum(length_K)]))

    def __len__(self) -> int:
        return int(self.starts_K1[-1])

    def directions(self) -> ExampleIds:
        """The direction of each of the lines here."""
        return np.repeat(self.direction_K.astype(np.uint32), np.diff(self.starts_K1))

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        ends = self.first_K + np.diff(self.starts_K1)
        return zip(self.direction_K.tolist(), self.first_K.tolist(), ends.tolist(), strict=True)


@dataclass(frozen=True)
class Window:
    """The batches of a window, as directions and lines."""

    segments: Segments
    plan: Plan

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, batch: int) -> tuple[Int64s, Int64s]:
        """The direction (an index into those of `Examples`) and the line of each example."""
        ids, of = self.plan[batch], self.segments
        k_B = np.searchsorted(of.starts_K1, ids, side="right") - 1
        return of.direction_K[k_B], ids - of.starts_K1[k_B] + of.first_K[k_B]


class Examples:
    """All examples of all corpora: how long they are, and in which windows they come.

    Making it reads the length of every line once; what it keeps does not grow with them.
    """

    def __init__(
        self,
        corpora: Sequence[ParallelCorpus],
        batch_tokens: int,
        *,
        seed: int,
        temperature: float = 1.0,
        window: int = WINDOW,
        one_direction: bool = False,
    ) -> None:
        self.corpora = tuple(corpora)
        self._one_direction = one_direction
        self.directions = [
            (c, *pair) for c, corpus in enumerate(corpora) for pair in corpus.directions
        ]
        self.sizes = [len(corpora[c]) for c, _, _ in self.directions]
        self.windows = window_count(corpora, window)
        self.longest = np.zeros(len(_LIMITS) + 1, dtype=np.int64)  # per bucket; 0: nothing in it
        self._seed = seed
        self._batch_tokens = batch_tokens
        self._corpus_sizes = [len(corpus) * len(corpus.directions) for corpus in corpora]
        self._corpus_quotas = corpus_quotas(self._corpus_sizes, temperature)
        self._quotas = self._shared_out()
        self._bucket_of_length = np.searchsorted(_LIMITS, np.arange(batch_tokens + 1)).astype(
            np.uint8
        )
        self._counts_DK = np.zeros((len(self.sizes), len(self.longest)), dtype=np.int64)
        for direction in range(len(self.sizes)):
            self._survey(direction)
        self._walk = lru_cache(maxsize=2 * len(self.sizes))(self._blocks)

    def __len__(self) -> int:
        return sum(self.sizes)

    @property
    def rows_per_bucket(self) -> Int64s:
        """How many rows fit into a batch whose longest example lies in this bucket."""
        return self._batch_tokens // np.maximum(self.longest, 1)

    def window(self, epoch: int, window: int) -> Window:
        """The batches of a window: the only one of an epoch, or one of several."""
        segments = self._segments(epoch, window)
        sizes, quotas = [len(segments)], [len(segments)]
        if self.windows == 1:
            sizes, quotas = self._corpus_sizes, self._corpus_quotas
        buckets, rows = self._buckets(segments), self.rows_per_bucket
        apart = segments.directions() if self._one_direction else None
        plan = Plan.build(
            buckets, rows, sizes, quotas, apart, seed=self._seed, epoch=epoch, window=window
        )
        return Window(segments, plan)

    def estimated_batches(self) -> int:
        """About so many batches has an epoch: too few by one a window, or a few."""
        sizes = zip(self._quotas, self.sizes, strict=True)
        shares_D = np.array([quota / max(size, 1) for quota, size in sizes])
        return math.ceil(float((shares_D @ self._counts_DK / self.rows_per_bucket).sum()))

    def target_tokens(self, direction_B: Int64s, line_B: Int64s) -> int:
        """Target tokens of these examples, ends of sentence included."""
        total = len(line_B)
        for direction in np.unique(direction_B):
            c, _, target = self.directions[direction]
            offsets = self.corpora[c].side(target).offsets
            lines = line_B[direction_B == direction]
            total += int((offsets[lines + 1] - offsets[lines]).sum())
        return total

    # --- which lines a window holds --------------------------------------------------------

    def _shared_out(self) -> list[int]:
        """Examples of each direction in an epoch: those of its corpus in equal parts."""
        found: list[int] = []
        for corpus, quota in zip(self.corpora, self._corpus_quotas, strict=True):
            count = len(corpus.directions)
            found += [quota // count + (k < quota % count) for k in range(count)]
        return found

    def _segments(self, epoch: int, window: int) -> Segments:
        if self.windows == 1:
            return Segments.of([(d, 0, size) for d, size in enumerate(self.sizes)])
        found: list[tuple[int, int, int]] = []
        for direction, quota in enumerate(self._quotas):
            # Whole numbers of Python's: no count of examples is too large for them.
            begin, end = (epoch * quota + quota * w // self.windows for w in (window, window + 1))
            found += self._piece(direction, begin, end)
        return Segments.of(found)

    def _piece(self, direction: int, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """From example `begin` to `end` of a direction that is walked through again and again."""
        size = self.sizes[direction]
        while begin < end:
            walk, start = divmod(begin, size)
            stop = min(size, start + end - begin)
            if stop - start == size:  # all of it: in which order does not matter in a window
                yield direction, 0, size
            else:
                first_K, starts_K1 = self._walk(direction, walk)
                low_K = np.maximum(starts_K1[:-1], start)
                high_K = np.minimum(starts_K1[1:], stop)
                for k in np.flatnonzero(low_K < high_K):
                    first = int(first_K[k] + low_K[k] - starts_K1[k])
                    yield direction, first, int(high_K[k] - low_K[k])
            begin += stop - start

    def _blocks(self, direction: int, walk: int) -> tuple[Int64s, Int64s]:
        """The first lines of the blocks in the order of a walk, and where each comes in it."""
        size = self.sizes[direction]
        block = min(BLOCK, max(1, size // (_BLOCKS * self.windows)))
        return shuffled_blocks(size, block, (self._seed, walk, _WALKS + direction))

    # --- lengths ---------------------------------------------------------------------------

    def _lengths(self, direction: int, begin: int, end: int) -> Int64s:
        """The longer row, source or target, of each of these lines."""
        c, *pair = self.directions[direction]
        sides = (self.corpora[c].side(language).offsets for language in pair)
        source_N, target_N = (np.diff(offsets[begin : end + 1]) for offsets in sides)
        longer_N: Int64s = np.maximum(source_N + 2, target_N + 1)
        return longer_N

    def _survey(self, direction: int) -> None:
        """Count what each bucket holds; refuse what fits into no batch."""
        longest, line = 0, 0
        for begin, end in _chunks(0, self.sizes[direction]):
            length_N = self._lengths(direction, begin, end)
            if length_N.max() > longest:
                longest, line = int(length_N.max()), begin + int(length_N.argmax())
            counts = np.bincount(length_N, minlength=self._batch_tokens + 1)
            present = np.flatnonzero(counts[: self._batch_tokens + 1])
            buckets = self._bucket_of_length[present]
            np.maximum.at(self.longest, buckets, present)
            np.add.at(self._counts_DK[direction], buckets, counts[present])
        if longest > self._batch_tokens:
            corpus = self.corpora[self.directions[direction][0]]
            raise AccordError(
                f"an example of {longest} tokens does not fit into a batch of {self._batch_tokens}",
                where=f"corpus {corpus.name}, line {line + 1}",
                fix=f"raise training.batch_tokens to {longest} or lower the cleaning's length "
                "limit",
            )

    def _buckets(self, segments: Segments) -> Buckets:
        """The length bucket of every example of a window."""
        found = np.empty(len(segments), dtype=np.uint8)
        place = 0
        for direction, first, last in segments:
            for begin, end in _chunks(first, last):
                length_N = self._lengths(direction, begin, end)
                found[place : place + len(length_N)] = self._bucket_of_length[length_N]
                place += len(length_N)
        return found


def window_count(corpora: Sequence[ParallelCorpus], window: int = WINDOW) -> int:
    """Into how many windows an epoch of these corpora is cut; each has some of its examples."""
    directions = sum(len(corpus.directions) for corpus in corpora)
    total = sum(len(corpus) * len(corpus.directions) for corpus in corpora)
    if total == 0:
        raise AccordError(
            "the corpora hold no training examples",
            fix="check the files of the corpora and how many lines the cleaning dropped",
        )
    # Pieces of walks are rounded, by less than one example each: so none of them is empty.
    return max(1, min(-(-total // window), total // (2 * directions)))


def shuffled_blocks(size: int, block: int, stream: tuple[int, int, int]) -> tuple[Int64s, Int64s]:
    """The first of every block of numbers below `size`, in random order; where each block starts
    if they are laid end to end in that order, and the end."""
    numbers = np.arange(-(-size // block), dtype=np.uint32)
    first_K = shuffled(numbers, stream).astype(np.int64) * block
    length_K = np.minimum(first_K + block, size) - first_K
    return first_K, np.concatenate([[0], np.cumsum(length_K)])


def _chunks(begin: int, end: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + BLOCK, end)) for start in range(begin, end, BLOCK))
