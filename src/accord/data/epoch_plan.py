"""The plan of an epoch: which examples it holds, in which order, and where batches begin.

An example is one line of one corpus in one direction. Everything follows from (seed, epoch) alone,
on any machine, and does not depend on the number of processes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from accord.data.store import ParallelCorpus
from accord.errors import AccordError

Int64s = npt.NDArray[np.int64]
ExampleIds = npt.NDArray[np.uint32]
Buckets = npt.NDArray[np.uint8]

# Random streams of a seed; corpus c walks through its own order in stream _CORPUS + c.
_EXAMPLES, _BATCHES, _CORPUS = 0, 1, 2


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


class Examples:
    """All examples of all corpora, numbered by corpus, direction and line, in length buckets."""

    def __init__(self, corpora: Sequence[ParallelCorpus], batch_tokens: int) -> None:
        self.corpora = tuple(corpora)
        self.blocks = [(c, *pair) for c, corpus in enumerate(corpora) for pair in corpus.directions]
        self.block_starts = _starts([len(corpora[c]) for c, _, _ in self.blocks])
        self.corpus_sizes = [len(corpus) * len(corpus.directions) for corpus in corpora]
        if len(self) == 0:
            raise AccordError(
                "the corpora hold no training examples",
                fix="check the files of the corpora and how many lines the cleaning dropped",
            )
        if len(self) >= 2**32:
            raise AccordError(
                f"{len(self):,} training examples are more than can be numbered (2^32)",
                fix="give the corpora a `limit`",
            )
        self.bucket_of = np.empty(len(self), dtype=np.uint8)
        self.longest = np.zeros(len(_LIMITS) + 1, dtype=np.int64)  # per bucket; 0: nothing in it
        self._fill_buckets(batch_tokens)

    def __len__(self) -> int:
        return int(self.block_starts[-1])

    def _fill_buckets(self, batch_tokens: int) -> None:
        bucket_of_length = np.searchsorted(_LIMITS, np.arange(batch_tokens + 1)).astype(np.uint8)
        for block, (c, source, target) in enumerate(self.blocks):
            corpus = self.corpora[c]
            length_N = np.maximum(
                corpus.side(source).lengths() + 2, corpus.side(target).lengths() + 1
            )
            _check_fit(length_N, corpus, batch_tokens)
            begin, end = self.block_starts[block : block + 2]
            self.bucket_of[begin:end] = bucket_of_length[length_N]
            present = np.flatnonzero(np.bincount(length_N))
            np.maximum.at(self.longest, bucket_of_length[present], present)

    def rows_per_bucket(self, batch_tokens: int) -> Int64s:
        """How many rows fit into a batch whose longest example lies in this bucket."""
        return batch_tokens // np.maximum(self.longest, 1)

    def locate(self, ids: ExampleIds) -> tuple[Int64s, Int64s]:
        """The block (corpus and direction) and the line of each example."""
        block_B = np.searchsorted(self.block_starts, ids, side="right") - 1
        return block_B, ids - self.block_starts[block_B]

    def target_tokens(self, block_B: Int64s, line_B: Int64s) -> int:
        """Target tokens of these examples, ends of sentence included."""
        total = len(line_B)
        for block in np.unique(block_B):
            c, _, target = self.blocks[block]
            offsets = self.corpora[c].side(target).offsets
            lines = line_B[block_B == block]
            total += int((offsets[lines + 1] - offsets[lines]).sum())
        return total


def _check_fit(length_N: Int64s, corpus: ParallelCorpus, batch_tokens: int) -> None:
    longest = int(length_N.max(initial=0))
    if longest > batch_tokens:
        raise AccordError(
            f"an example of {longest} tokens does not fit into a batch of {batch_tokens}",
            where=f"corpus {corpus.name}, line {int(length_N.argmax()) + 1}",
            fix=f"raise training.batch_tokens to {longest} or lower the cleaning's length limit",
        )


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
class EpochPlan:
    """The batches of an epoch: number i is `example_ids[starts[k]:starts[k + 1]]`, k = order[i]."""

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
        examples: Examples, epoch: int, *, batch_tokens: int, seed: int, temperature: float
    ) -> "EpochPlan":
        """Draw the examples, order them at random within length buckets, cut, shuffle batches."""
        chosen = _choose(examples, corpus_quotas(examples.corpus_sizes, temperature), seed, epoch)
        bucket_of = examples.bucket_of[chosen]
        counts = np.bincount(bucket_of, minlength=len(examples.longest))
        starts = _cut(counts, examples.rows_per_bucket(batch_tokens))
        example_ids = _shuffled(chosen, (seed, epoch, _EXAMPLES), bucket_of)
        batches = np.arange(len(starts) - 1, dtype=np.uint32)
        return EpochPlan(example_ids, starts, _shuffled(batches, (seed, epoch, _BATCHES)))


def _choose(examples: Examples, quotas: Sequence[int], seed: int, epoch: int) -> ExampleIds:
    """The examples of an epoch: each corpus in full as often as it fits, and part of it once more.

    That part is cut from one fixed random order of the corpus, each epoch where the last one
    stopped, so that a corpus that is sampled down still shows all its examples in time.
    """
    parts: list[ExampleIds] = []
    first = 0
    for c, (size, quota) in enumerate(zip(examples.corpus_sizes, quotas, strict=True)):
        ids = np.arange(first, first + size, dtype=np.uint32)
        times, rest = divmod(quota, max(size, 1))
        parts += [ids] * times
        if rest:
            window = (epoch * rest + np.arange(rest)) % size
            parts.append(_shuffled(ids, (seed, 0, _CORPUS + c))[window])
        first += size
    return np.concatenate(parts)


def _shuffled(
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


def _starts(sizes: Sequence[int]) -> Int64s:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
