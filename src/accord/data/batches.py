"""Training batches by token budget: padded rows of mixed directions, in the order of a plan.

A run can resume at any batch, on any machine and on another number of processes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from accord.data.epoch_plan import Int64s
from accord.data.store import Ids, ParallelCorpus, Sentences
from accord.data.vocabulary import EOS, PAD
from accord.data.windows import WINDOW, Examples, Window
from accord.errors import AccordError

_SAME = "resume with the corpora, seed and training.batch_tokens the run began with"

Int16s = npt.NDArray[np.int16]
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


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
    update_rows: int
    """Rows of the whole batch, over all processes: what losses are averaged over."""
    update_target_tokens: int
    """Target tokens of the whole batch, over all processes."""

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

    def part(self, index: int, count: int) -> "Batch":
        """The rows index, index + count, ...: one of `count` parts of equal size."""
        return self._rows(slice(index, None, count))

    def first(self, count: int) -> "Batch":
        """The first rows."""
        return self._rows(slice(count))

    def where(self, rows_B: Bools) -> "Batch":
        """The rows that are marked."""
        return self._rows(rows_B)

    def _rows(self, rows: slice | Bools) -> "Batch":
        return replace(
            self,
            source_BS=self.source_BS[rows],
            source_lengths_B=self.source_lengths_B[rows],
            target_BT=self.target_BT[rows],
            target_lengths_B=self.target_lengths_B[rows],
            source_language_B=self.source_language_B[rows],
            target_language_B=self.target_language_B[rows],
            corpus_B=self.corpus_B[rows],
            line_B=self.line_B[rows],
        )


@dataclass(frozen=True)
class Position:
    """Where a stream stands: the next batch to give is number `batch` of a window of `epoch`."""

    epoch: int = 0
    batch: int = 0
    window: int = 0
    """0 where an epoch has but one: and so in what was saved before there were windows."""

    @property
    def number(self) -> int:
        """No two batches of an epoch have the same; in the first window it is `batch`."""
        return self.window << 32 | self.batch


class BatchStream:
    """An endless stream of (position after the batch, batch); `seek` continues an earlier one.

    Process `rank` of `world_size` gets the rows rank, rank + world_size, ... of every batch: the
    batches themselves do not depend on the number of processes. With `one_direction` all rows of a
    batch are of one.
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
        window: int = WINDOW,
        one_direction: bool = False,
    ) -> None:
        self.languages = tuple(languages)
        self.rank = rank
        self.world_size = world_size
        self._examples = Examples(
            corpora,
            batch_tokens,
            seed=seed,
            temperature=temperature,
            window=window,
            one_direction=one_direction,
        )
        # Per direction: corpus, source language, target language, tag of the target language.
        self._facts = np.array(
            [
                (c, self.languages.index(source), self.languages.index(target), tags[target])
                for c, source, target in self._examples.directions
            ]
        )
        self._planned: tuple[tuple[int, int], Window] | None = None
        self._counts: dict[tuple[int, int], int] = {}
        self._position = Position()

    @property
    def position(self) -> Position:
        """The next batch to be made; behind a prefetcher, trust the positions it delivers."""
        return self._position

    @property
    def windows(self) -> int:
        """The parts of an epoch that are planned one after the other: 1 up to 2^25 examples."""
        return self._examples.windows

    def seek(self, position: Position) -> None:
        """Continue from this position; costs no more than the plan of its window."""
        if not 0 <= position.window < self.windows:
            raise AccordError(
                f"an epoch has {self.windows} windows, but the run stopped in number "
                f"{position.window}, counted from 0",
                fix=_SAME,
            )
        count = self.batches_per_window(position.epoch, position.window)
        if not 0 <= position.batch < count:
            window = f", window {position.window}," if self.windows > 1 else ""
            raise AccordError(
                f"epoch {position.epoch}{window} has {count} batches, "
                f"but the run stopped before batch {position.batch}",
                fix=_SAME,
            )
        self._position = position

    def batches_per_window(self, epoch: int, window: int) -> int:
        """The number of batches; costs a plan where the window was not planned yet."""
        if (epoch, window) not in self._counts:
            self._window(epoch, window)
        return self._counts[epoch, window]

    def batches_per_epoch(self, epoch: int) -> int:
        """The number of batches; with temperature 1 and one window it is the same for all epochs.

        Of several windows each has to be planned: `estimated_batches` is there at once.
        """
        return sum(self.batches_per_window(epoch, window) for window in range(self.windows))

    def estimated_batches(self) -> int:
        """About so many batches has an epoch, from the lengths of all examples."""
        return self._examples.estimated_batches()

    def epochs(self, position: Position) -> float:
        """Progress for display: 2.5 is the middle of the third epoch."""
        done = float(position.window)
        if position.batch:
            done += position.batch / self.batches_per_window(position.epoch, position.window)
        return position.epoch + done / self.windows

    def _window(self, epoch: int, window: int) -> Window:
        found = self._planned
        if found is None or found[0] != (epoch, window):
            # One at a time: plans are what takes memory here.
            found = self._planned = None
            found = (epoch, window), self._examples.window(epoch, window)
            self._counts[epoch, window] = len(found[1])
            self._planned = found
        return found[1]

    def largest_shapes(self) -> list[tuple[int, int]]:
        """The most rows at each padded length, as one process sees them, shortest length first."""
        rows = np.minimum(self._examples.rows_per_bucket, len(self._examples))
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
        window = self._window(position.epoch, position.window)
        return self._collate(*window[position.batch], rank, world_size)

    def __iter__(self) -> Iterator[tuple[Position, Batch]]:
        while True:
            here = self._position
            batch = self.batch_at(here)
            after = replace(here, batch=here.batch + 1)
            if after.batch == self.batches_per_window(here.epoch, here.window):
                after = Position(here.epoch, window=here.window + 1)
            if after.window == self.windows:
                after = Position(here.epoch + 1)
            self._position = after
            yield after, batch

    def _collate(
        self, all_directions: Int64s, all_lines: Int64s, rank: int, world_size: int
    ) -> Batch:
        direction_B, line_B = all_directions[rank::world_size], all_lines[rank::world_size]
        rows = np.argsort(direction_B, kind="stable")
        ends = np.searchsorted(direction_B[rows], np.arange(1, len(self._examples.directions)))
        lines = np.split(line_B[rows], ends)
        facts = self._facts[direction_B]
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
            update_rows=len(all_lines),
            update_target_tokens=self._examples.target_tokens(all_directions, all_lines),
        )

    def _pad(self, rows: Int64s, lines: list[Int64s], side: int) -> tuple[Int32s, Int64s]:
        """Sources (side 0, room for the tag) or targets of the lines of each direction, by row."""
        directions = zip(self._examples.directions, lines, strict=True)
        found = [
            gather(self._examples.corpora[c].side(pair[side]), wanted)
            for (c, *pair), wanted in directions
        ]
        room = 1 - side
        lengths = np.concatenate([lengths for _, lengths in found])
        width = int(lengths.max(initial=0)) + room + 1
        padded = np.full((len(rows), width), PAD, dtype=np.int32)
        flat = np.concatenate([flat for flat, _ in found])
        padded.reshape(-1)[ranges(rows * width + room, lengths)] = flat
        padded[rows, lengths + room] = EOS
        lengths_B = np.empty(len(rows), dtype=np.int64)
        lengths_B[rows] = lengths + room + 1
        return padded, lengths_B


def gather(sentences: Sentences, lines: Int64s) -> tuple[Ids, Int64s]:
    """The subwords of these lines, end to end, and how many each line has."""
    begins = sentences.offsets[lines]
    lengths = sentences.offsets[lines + 1] - begins
    return sentences.ids[ranges(begins, lengths)], lengths


def ranges(begins: Int64s, lengths: Int64s) -> Int64s:
    """For each i the numbers from begins[i] on, lengths[i] of them, end to end."""
    ends = np.cumsum(lengths)
    steps = np.arange(ends[-1] if len(ends) else 0)
    return np.repeat(begins - ends + lengths, lengths) + steps
