"""The plan of a window: its examples in random order within length buckets, cut into batches.

A window is all of an epoch, or a part of one that is too large to be planned at once: see
windows.py, which numbers the examples. Everything here follows from (seed, epoch, window) alone, on
any machine, and does not depend on the number of processes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
ExampleIds = npt.NDArray[np.uint32]
Buckets = npt.NDArray[np.uint8]

# Random streams of a seed; _CORPUS + c is the order in which corpus c, if it is the only window
# that there is, is sampled down; windows.py has further ones.
_EXAMPLES, _BATCHES, _CORPUS = 0, 1, 2


def corpus_quotas(sizes: Sequence[int], temperature: float) -> list[int]:
    """Examples of each corpus in an epoch: shares like size^(1/temperature) of the same total."""
    # Decimals, as floating-point powers may differ between machines in the last place.
    exponent = 1 / Decimal(temperature)
    weights = [Decimal(size) ** exponent if size else Decimal(0) for size in sizes]
    exact = [sum(sizes) * weight / sum(weights) for weight in weights]
    quotas = [int(share) for share in exact]
    by_remainder = sorted(range(len(sizes)), key=lambda c: quotas[c] - exact[c])
    for c in by_remainder[: sum(sizes) - sum(quotas)]:
        quotas[c] += 1
    return quotas


@dataclass(frozen=True)
class Plan:
    """The batches of a window: number i is `example_ids[starts[k]:starts[k + 1]]`, k = order[i]."""

    example_ids: ExampleIds
    starts: Int64s
    order: ExampleIds

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, batch: int) -> ExampleIds:
        k = self.order[batch]
        return self.example_ids[self.starts[k] : self.starts[k + 1]]

    @staticmethod
    def build(
        bucket_of: Buckets,
        rows_per_bucket: Int64s,
        sizes: Sequence[int],
        quotas: Sequence[int],
        direction_of: ExampleIds | None = None,
        *,
        seed: int,
        epoch: int,
        window: int = 0,
    ) -> "Plan":
        """Draw the examples, order them at random within length buckets, cut, shuffle batches.

        `sizes` are those of the corpora, whose examples are numbered one after the other, `quotas`
        how many of each are wanted. With `direction_of` each direction is ordered and cut by
        itself, so that a batch has one only; each then leaves a small last batch.
        """
        chosen = _choose(sizes, quotas, seed, epoch)
        parts = [chosen]
        if direction_of is not None:
            of_chosen = direction_of[chosen]
            ends = np.cumsum(np.bincount(of_chosen))
            parts = np.split(chosen[np.argsort(of_chosen, kind="stable")], ends[:-1])
        # The first window draws what the only one draws, and drew before there were windows.
        later = window << 32
        ordered, starts, begin = [], [], 0
        for number, part in enumerate(parts):
            buckets = bucket_of[part]
            counts = np.bincount(buckets, minlength=len(rows_per_bucket))
            starts.append(begin + _cut(counts, rows_per_bucket)[:-1])
            stream = (seed, epoch, _EXAMPLES | later | number << 48)
            ordered.append(shuffled(part, stream, buckets))
            begin += len(part)
        starts.append(np.array([begin]))
        example_ids, all_starts = np.concatenate(ordered), np.concatenate(starts)
        batches = np.arange(len(all_starts) - 1, dtype=np.uint32)
        return Plan(example_ids, all_starts, shuffled(batches, (seed, epoch, _BATCHES | later)))


def _choose(sizes: Sequence[int], quotas: Sequence[int], seed: int, epoch: int) -> ExampleIds:
    """The examples of an epoch: each corpus in full as often as it fits, and part of it once more.

    That part is cut from one fixed random order of the corpus, each epoch where the last one
    stopped, so that a corpus that is sampled down still shows all its examples in time.
    """
    parts: list[ExampleIds] = []
    first = 0
    for c, (size, quota) in enumerate(zip(sizes, quotas, strict=True)):
        ids = np.arange(first, first + size, dtype=np.uint32)
        times, rest = divmod(quota, max(size, 1))
        parts += [ids] * times
        if rest:
            window = (epoch * rest + np.arange(rest)) % size
            parts.append(shuffled(ids, (seed, 0, _CORPUS + c))[window])
        first += size
    return np.concatenate(parts)


def shuffled(
    values: ExampleIds, stream: tuple[int, int, int], group_of: Buckets | None = None
) -> ExampleIds:
    """The values in random order, or ordered by group and at random within each group."""
    # One sort of words made of group (8 bits), random (24) and value (32). No two differing
    # words tie, and raw Philox output is fixed for good: same order on every machine.
    philox = np.random.Philox(np.random.SeedSequence(stream))
    words: npt.NDArray[np.uint64] = philox.random_raw(len(values))
    words >>= np.uint64(40)
    if group_of is not None:
        np.bitwise_or(words, np.left_shift(group_of, 24, dtype=np.uint32), out=words)
    words <<= np.uint64(32)
    np.bitwise_or(words, values, out=words)
    words.sort()
    return words.astype(np.uint32)


def _cut(counts: Int64s, rows_per_bucket: Int64s) -> Int64s:
    """Starts of the batches, and the end, over examples ordered by bucket.

    What is left of a bucket opens the first batch of the next; where not even that much fits into a
    batch of longer examples it stands alone. So only the last batch of an epoch is cut short.
    """
    starts: list[Int64s] = []
    begin = end = 0
    for bucket in np.flatnonzero(counts):
        rows = int(rows_per_bucket[bucket])
        if end - begin >= rows:
            starts.append(np.array([begin]))
            begin = end
        end += int(counts[bucket])
        full = (end - begin) // rows
        starts.append(begin + rows * np.arange(full))
        begin += rows * full
    starts.append(np.array([begin, end] if begin < end else [end]))
    return np.concatenate(starts)
