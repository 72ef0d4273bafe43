"""Which training pairs a round takes, and into which languages they are translated.

Rounds walk through all pairs in a random order, and then again in another one. Of more than 2^25
pairs not all are shuffled at once, for the sake of memory: their blocks are, and then the pairs of
eight blocks at a time. Everything follows from seed and number of the round; processes share a
round out among themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from accord.config.third_languages import Triads
from accord.data.epoch_plan import Int64s
from accord.data.store import ParallelCorpus
from accord.data.windows import BLOCK, shuffled_blocks

Words = npt.NDArray[np.uint64]

NONE = -1  # instead of a fourth language
_AT_ONCE = 2**25  # pairs that are shuffled as a whole
_BLOCKS = 8  # of pairs that are shuffled together where there are more
# Keep these random numbers apart from others of the same seed: picks, and tokens that are drawn.
_STREAM, _TOKENS = 0x504F4F4C, 0x544F4B53


@dataclass(frozen=True)
class Picks:
    """Training pairs, one an entry: where they stand, which side is translated (0 or 1), and the
    languages it is translated into. `place_N` is the place in the round, over all processes."""

    place_N: Int64s
    corpus_N: Int64s
    line_N: Int64s
    side_N: Int64s
    third_N: Int64s
    fourth_N: Int64s

    def __len__(self) -> int:
        return len(self.place_N)

    def share(self, rank: int, world_size: int) -> "Picks":
        """What one of several processes translates."""
        rows = slice(rank, None, world_size)
        return Picks(*(getattr(self, field.name)[rows] for field in fields(self)))


class Picker:
    """Draws the picks of each round; languages are indices into the graph's."""

    def __init__(
        self, corpora: Sequence[ParallelCorpus], triads: Triads, *, pairs: int, seed: int
    ) -> None:
        self.triads = triads
        self.seed = seed
        self.languages = [corpus.languages for corpus in corpora]
        useful = [bool(self._sides(c)) for c in range(len(corpora))]
        sizes = [len(corpus) if use else 0 for corpus, use in zip(corpora, useful, strict=True)]
        self.starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self.pairs = min(pairs, self.total)
        self._order = lru_cache(maxsize=2)(self._shuffled)
        self._blocks = lru_cache(maxsize=2)(self._shuffled_blocks)

    @property
    def total(self) -> int:
        """All training pairs that can be completed."""
        return int(self.starts[-1])

    def picks(self, number: int) -> Picks:
        """The picks of a round."""
        ids = self._ids(number)
        corpus_N = np.searchsorted(self.starts, ids, side="right") - 1
        side_N, third_N, fourth_N = (np.full(len(ids), NONE, dtype=np.int64) for _ in range(3))
        words_3N = self._words(1, number, 3 * len(ids)).reshape(3, -1)
        for c in np.unique(corpus_N):
            sides = self._sides(c)
            rows = np.flatnonzero(corpus_N == c)
            side_N[rows] = _drawn(sides, words_3N[0, rows])
            for side in sides:
                mine = rows[side_N[rows] == side]
                self._draw(c, side, mine, words_3N, third_N, fourth_N)
        return Picks(
            np.arange(len(ids)), corpus_N, ids - self.starts[corpus_N], side_N, third_N, fourth_N
        )

    def _draw(
        self, c: int, side: int, rows: Int64s, words_3N: Words, third_N: Int64s, fourth_N: Int64s
    ) -> None:
        teacher, pupil = self.languages[c][side], self.languages[c][1 - side]
        index = self.triads.graph.languages.index
        thirds = self.triads.thirds(teacher, pupil)
        third_N[rows] = _drawn([index(x) for x in thirds], words_3N[1, rows])
        for third in thirds:
            fourths = self.triads.fourths(teacher, pupil, third)
            if fourths:
                mine = rows[third_N[rows] == index(third)]
                fourth_N[mine] = _drawn([index(x) for x in fourths], words_3N[2, mine])

    def _sides(self, c: int) -> list[int]:
        """The sides of a corpus that can be the teacher's."""
        first, second = self.languages[c]
        both = (first, second), (second, first)
        return [side for side, pair in enumerate(both) if self.triads.thirds(*pair)]

    def _ids(self, number: int) -> Int64s:
        first, left = number * self.pairs, self.pairs
        parts = []
        while left:
            times, offset = divmod(first, self.total)
            starts = self._blocks(times)[1]
            window = int(np.searchsorted(starts, offset, side="right")) - 1
            begin = offset - int(starts[window])
            parts.append(self._order(times, window)[begin : begin + left])
            first += len(parts[-1])
            left -= len(parts[-1])
        return np.concatenate(parts)

    @property
    def in_blocks(self) -> bool:
        """Whether there are too many pairs to shuffle them as a whole."""
        return self.total > _AT_ONCE

    def _shuffled_blocks(self, times: int) -> tuple[list[Int64s], Int64s]:
        """Stretches of pairs that are shuffled together, and where each starts in the order."""
        if not self.in_blocks:
            return [], np.array([0, self.total])
        first_K, starts_K1 = shuffled_blocks(self.total, BLOCK, (self.seed, times, _STREAM))
        groups = [first_K[k : k + _BLOCKS] for k in range(0, len(first_K), _BLOCKS)]
        return groups, np.append(starts_K1[:-1:_BLOCKS], self.total)

    def _shuffled(self, times: int, window: int) -> Int64s:
        if not self.in_blocks:
            return np.argsort(self._words(0, times, self.total), kind="stable")
        firsts = self._blocks(times)[0][window].tolist()
        ids = np.concatenate([np.arange(k, min(k + BLOCK, self.total)) for k in firsts])
        return ids[np.argsort(self._words(0, times, len(ids), window), kind="stable")]

    def _words(self, kind: int, number: int, count: int, window: int = 0) -> Words:
        # Raw Philox output is fixed for good: the same draws on every machine.
        seeds = np.random.SeedSequence((self.seed, kind | window << 32, number, _STREAM))
        words: Words = np.random.Philox(seeds).random_raw(count)
        return words


class Draws:
    """Numbers from 0 to 1 that decide on the tokens of translations that are drawn at random.

    They follow from seed, round, place in it and language alone: not from what is translated
    together, nor by which process.
    """

    def __init__(self, seed: int, number: int) -> None:
        seeds = np.random.SeedSequence((seed, number, _TOKENS))
        self._key = seeds.generate_state(2, np.uint64)

    def __call__(self, place: int, language: int, count: int) -> npt.NDArray[np.float64]:
        """The first numbers for the translation of a place into a language."""
        words = np.random.Philox(key=self._key, counter=[0, 0, place, language]).random_raw(count)
        # 32 bits, and never 0 or 1.
        found: npt.NDArray[np.float64] = (words >> np.uint64(32)).astype(np.float64)
        return (found + 0.5) * 2.0**-32


def _drawn(choices: Sequence[int], words_N: Words) -> Int64s:
    picked_N = (words_N % np.uint64(len(choices))).astype(np.int64)
    return np.array(choices, dtype=np.int64)[picked_N]
