"""Training batches by token budget: the plan of an epoch, and the stream that follows it.

An example is one line of one corpus in one direction. Everything follows from (seed, epoch) alone,
so that a run can resume at any batch, on any machine and on another number of processes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from accord.corpus.sentences import Ids, ParallelCorpus, Sentences
from accord.errors import AccordError

PAD = 0
EOS = 1

Int16s = npt.NDArray[np.int16]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
ExampleIds = npt.NDArray[np.uint32]
Buckets = npt.NDArray[np.uint8]

# Random streams of a seed; corpus c walks through its own order in stream _CORPUS + c.
_EXAMPLES, _BATCHES, _CORPUS = 0, 1, 2


@dataclass(frozen=True)
class Batch:
    """Padded rows of mixed directions: B rows, S source length, T target length.

    A source row is [tag of the target language, subwords, EOS], a target row [subwords, EOS]; both
    are filled up with PAD. Languages are indices into the stream's `languages`. A batch of 0 rows
    is valid: the share of one of many processes in the small last batch of an epoch.
    """

    source_BS: Int32s
    source_lengths_B: Int64s
    target_BT: Int32s
    target_lengths_B: Int64s
    source_language_B: Int16s
    target_language_B: Int16s
    corpus_B: Int16s
    line_B: Int64s

    @property
    def rows(self) -> int:
        """The number of examples."""
        return len(self.line_B)

    @property
    def source_tokens(self) -> int:
        """Source tokens without padding, tags and ends of sentence included."""
        return int(self.source_lengths_B.sum())

    @property
    def target_tokens(self) -> int:
        """Target tokens without padding, ends of sentence included."""
        return int(self.target_lengths_B.sum())


@dataclass(frozen=True, order=True)
class Position:
    """Where a stream stands: the next batch to give is number `batch` of `epoch`."""

    epoch: int = 0
    batch: int = 0


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


class BatchStream:
    """An endless stream of (position after the batch, batch); `seek` continues an earlier one.

    Process `rank` of `world_size` gets the rows rank, rank + world_size, ... of every batch: the
    batches themselves do not depend on the number of processes.
    """

    def __init__(
        self,
        corpora: Sequence[ParallelCorpus],
        languages: Sequence[str],
        tags: Mapping[str, int],
        *,
        batch_tokens: int,
        seed: int,
        temperature: float = 1.0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.languages = tuple(languages)
        self.rank = rank
        self.world_size = world_size
        self._batch_tokens = batch_tokens
        self._examples = Examples(corpora, batch_tokens)
        # Per block: corpus, source language, target language, tag of the target language.
        self._facts = np.array(
            [
                (c, self.languages.index(source), self.languages.index(target), tags[target])
                for c, source, target in self._examples.blocks
            ]
        )
        # Two plans: a prefetching thread may be an epoch ahead of the one that shows progress.
        self._plan = lru_cache(maxsize=2)(
            partial(
                EpochPlan.build,
                self._examples,
                batch_tokens=batch_tokens,
                seed=seed,
                temperature=temperature,
            )
        )
        self._position = Position()

    @property
    def position(self) -> Position:
        """The next batch to be made; behind a prefetcher, trust the positions it delivers."""
        return self._position

    def seek(self, position: Position) -> None:
        """Continue from this position; costs no more than the plan of its epoch."""
        if not 0 <= position.batch < self.batches_per_epoch(position.epoch):
            raise AccordError(
                f"epoch {position.epoch} has {self.batches_per_epoch(position.epoch)} batches, "
                f"but the run stopped before batch {position.batch}",
                fix="resume with the corpora, seed and training.batch_tokens the run began with",
            )
        self._position = position

    def batches_per_epoch(self, epoch: int) -> int:
        """The number of batches; with temperature 1 it is the same for all epochs."""
        return len(self._plan(epoch))

    def epochs(self, position: Position) -> float:
        """Progress for display: 2.5 is the middle of the third epoch."""
        if position.batch == 0:
            return float(position.epoch)
        return position.epoch + position.batch / self.batches_per_epoch(position.epoch)

    def largest_shapes(self) -> list[tuple[int, int]]:
        """The most rows at each padded length, as one process sees them, shortest length first."""
        rows = np.minimum(self._examples.rows_per_bucket(self._batch_tokens), len(self._examples))
        longest = self._examples.longest
        return [
            (-(-int(rows[bucket]) // self.world_size), int(longest[bucket]))
            for bucket in np.flatnonzero(longest)
        ]

    def batch_at(
        self, position: Position, rank: int | None = None, world_size: int | None = None
    ) -> Batch:
        """The batch at a position: this process's rows, or those of another one."""
        rank = self.rank if rank is None else rank
        world_size = self.world_size if world_size is None else world_size
        return self._collate(self._plan(position.epoch)[position.batch][rank::world_size])

    def __iter__(self) -> Iterator[tuple[Position, Batch]]:
        while True:
            here = self._position
            batch = self.batch_at(here)
            last = here.batch + 1 == self.batches_per_epoch(here.epoch)
            after = Position(here.epoch + 1) if last else Position(here.epoch, here.batch + 1)
            self._position = after
            yield after, batch

    def _collate(self, ids: ExampleIds) -> Batch:
        block_B, line_B = self._examples.locate(ids)
        rows = np.argsort(block_B, kind="stable")
        ends = np.searchsorted(block_B[rows], np.arange(1, len(self._examples.blocks)))
        lines = np.split(line_B[rows], ends)
        facts = self._facts[block_B]
        source_BS, source_lengths_B = self._pad(rows, lines, side=0)
        target_BT, target_lengths_B = self._pad(rows, lines, side=1)
        source_BS[:, 0] = facts[:, 3]
        return Batch(
            source_BS,
            source_lengths_B,
            target_BT,
            target_lengths_B,
            source_language_B=facts[:, 1].astype(np.int16),
            target_language_B=facts[:, 2].astype(np.int16),
            corpus_B=facts[:, 0].astype(np.int16),
            line_B=line_B,
        )

    def _pad(self, rows: Int64s, lines: list[Int64s], side: int) -> tuple[Int32s, Int64s]:
        """Sources (side 0, room for the tag) or targets of the lines of each block, by row."""
        blocks = zip(self._examples.blocks, lines, strict=True)
        found = [
            _gather(self._examples.corpora[c].side(pair[side]), wanted)
            for (c, *pair), wanted in blocks
        ]
        room = 1 - side
        lengths = np.concatenate([lengths for _, lengths in found])
        width = int(lengths.max(initial=0)) + room + 1
        padded = np.full((len(rows), width), PAD, dtype=np.int32)
        flat = np.concatenate([flat for flat, _ in found])
        padded.reshape(-1)[_ranges(rows * width + room, lengths)] = flat
        padded[rows, lengths + room] = EOS
        lengths_B = np.empty(len(rows), dtype=np.int64)
        lengths_B[rows] = lengths + room + 1
        return padded, lengths_B


def _gather(sentences: Sentences, lines: Int64s) -> tuple[Ids, Int64s]:
    """The subwords of these lines, end to end, and how many each line has."""
    begins = sentences.offsets[lines]
    lengths = sentences.offsets[lines + 1] - begins
    return sentences.ids[_ranges(begins, lengths)], lengths


def _ranges(begins: Int64s, lengths: Int64s) -> Int64s:
    """For each i the numbers from begins[i] on, lengths[i] of them, end to end."""
    ends = np.cumsum(lengths)
    steps = np.arange(ends[-1] if len(ends) else 0)
    return np.repeat(begins - ends + lengths, lengths) + steps


def _starts(sizes: Sequence[int]) -> Int64s:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
