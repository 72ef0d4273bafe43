"""Unigram models of the training text: how like it a sentence is, and which words are foreign.

For each language, P(subword) = (n + 1/2) / (N + V/2): the subword occurs n times among the N of the
language's training text, and V are known. That is crude as language models go, but it is there for
runs and exports alike, costs a sum per sentence, and tells what a model has never seen: words that
are not in the training text fall apart into many small subwords, which takes many bits.

The bits of a sentence grow with its length, and so does their spread, by the square root. So
sentences of all lengths are compared by a standard score: bits beyond the mean, over the spread.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from accord.inference.text import starts_word

Counts = npt.NDArray[np.int64]
Places = npt.NDArray[np.intp]

ALLOWED = 0.01
"""Share of dev sentences that lie above the limit: so many false alarms are accepted."""
ENOUGH = 50
"""Dev sentences of a language from which a limit can be told; fewer give none."""
MOST_BYTES = 0.25
"""Subwords of a sentence that may spell single bytes: characters that training text lacks."""
FOREIGN = math.log2(100)
"""Bits by which another language says a word more easily: a hundred times as likely there."""

_ROUNDING = 1e-9  # sentences with the score of the limit itself must not fall on either side


@dataclass(frozen=True)
class Usual:
    """What sentences of a language usually take, measured on the dev set."""

    bits: float
    """Per character, the mean."""
    spread: float
    """Standard deviation of a sentence's bits, over the square root of its characters."""
    limit: float
    """The standard score that ALLOWED of the sentences exceed."""

    def surprise(self, bits: float, characters: int) -> float:
        """The standard score of a sentence."""
        return (bits - self.bits * characters) / (self.spread * math.sqrt(characters))


def measure_usual(sentences: Iterable[tuple[float, int]]) -> Usual | None:
    """What is usual, from the bits and characters of dev sentences; None where they are too few."""
    rows = np.array([row for row in sentences if row[1]], dtype=np.float64).reshape(-1, 2)
    if len(rows) < ENOUGH:
        return None
    bits, characters = rows.T
    mean = bits.sum() / characters.sum()
    beyond = (bits - mean * characters) / np.sqrt(characters)
    spread = float(np.sqrt(np.mean(beyond**2)))
    if not spread:  # the same sentence over and over
        return None
    limit = float(np.quantile(beyond / spread, 1 - ALLOWED, method="higher"))
    return Usual(float(mean), spread, limit + _ROUNDING)


@dataclass(frozen=True)
class Familiarity:
    """How like the training text a sentence is."""

    byte_share: float
    """Share of its subwords that spell single bytes."""
    bits_per_character: float
    surprise: float | None
    """Its standard score; None where nothing is known of what is usual."""
    limit: float | None
    """The standard score up to which a sentence counts as usual."""

    @property
    def unlike(self) -> bool | None:
        """Whether the sentence is unlike the training text; None where that is not known."""
        if self.byte_share > MOST_BYTES:
            return True
        if self.surprise is None or self.limit is None:
            return None
        return self.surprise > self.limit


class TrainingText:
    """What is remembered of the text a model was trained on; `usual` is by language."""

    def __init__(
        self,
        counts: Mapping[str, Counts],
        pieces: Sequence[str],
        usual: Mapping[str, Usual] | None = None,
    ) -> None:
        self._row = {language: row for row, language in enumerate(counts)}
        self._bits_LV = np.stack([_bits(found) for found in counts.values()])
        self._begins = np.array([starts_word(piece) for piece in pieces])
        self._is_byte = np.array([is_byte(piece) for piece in pieces])
        self.usual = dict(usual or {})

    def bits(self, ids: Sequence[int], language: str) -> float:
        """What a sentence takes: -log2 of its probability."""
        return float(self._bits_LV[self._row[language], list(ids)].sum())

    def familiarity(self, ids: Sequence[int], characters: int, language: str) -> Familiarity:
        """How like the training text of its language a sentence is."""
        if not len(ids) or not characters:
            return Familiarity(0.0, 0.0, None, None)
        bits, usual = self.bits(ids, language), self.usual.get(language)
        return Familiarity(
            float(self._is_byte[list(ids)].mean()),
            bits / characters,
            None if usual is None else usual.surprise(bits, characters),
            None if usual is None else usual.limit,
        )

    def has_foreign_words(self, ids: Sequence[int], language: str, given: Sequence[int]) -> bool:
        """Whether a word is another language's, beyond FOREIGN; those in `given` are not asked.

        Names, numbers and words that several languages have are as likely in some as in others.
        """
        if not len(ids) or len(self._row) < 2:
            return False
        starts_W = self._starts(ids)
        taken_LW = np.add.reduceat(self._bits_LV[:, list(ids)], starts_W, axis=1)
        here_W = taken_LW[self._row[language]].copy()
        taken_LW[self._row[language]] = np.inf
        foreign_W = here_W - taken_LW.min(axis=0) > FOREIGN
        if not foreign_W.any():
            return False
        words, known = self._words(ids, starts_W), self._words(given, self._starts(given))
        return any(words[i] not in known for i in np.flatnonzero(foreign_W))

    def _starts(self, ids: Sequence[int]) -> Places:
        """Where words begin; the first subword always does."""
        begins = self._begins[list(ids)]
        begins[:1] = True
        return np.flatnonzero(begins)

    def _words(self, ids: Sequence[int], starts: Places) -> list[tuple[int, ...]]:
        return [tuple(ids[a:b]) for a, b in pairwise([*starts.tolist(), len(ids)])]


def is_byte(piece: str) -> bool:
    """Whether a subword is one byte of a character that has no subword, such as <0x41>."""
    return len(piece) == 6 and piece.startswith("<0x")


def _bits(counts: Counts) -> npt.NDArray[np.float64]:
    found = counts.astype(np.float64) + 0.5
    bits: npt.NDArray[np.float64] = np.log2(found.sum()) - np.log2(found)
    return bits
