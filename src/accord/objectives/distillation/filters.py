"""Which of a teacher's translations are good enough to be learnt from."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from accord.config.objectives import CompleteFilters
from accord.data.language_id import LanguageGuesser
from accord.data.store import ParallelCorpus
from accord.data.vocabulary import Vocabulary
from accord.graph import Direction

KEPT, LENGTH, TOO_LONG, REPETITION, LANGUAGE, ROUND_TRIP = FATES = (
    "kept",
    "length_ratio",
    "too_long",
    "distinct_bigrams",
    "language",
    "round_trip",
)


class Filters:
    """Asked one after the other: what drops a translation is the first that does not pass it.

    `usual` is how long translations are in the training text, by direction. `longest` is the
    longest row that training has room for, tags and ends of sentence included.
    """

    def __init__(
        self,
        settings: CompleteFilters,
        vocabulary: Vocabulary,
        languages: Sequence[str],
        usual: Mapping[Direction, float],
        longest: int,
    ) -> None:
        self.settings = settings
        self.usual = usual
        self.longest = longest
        self.least, self.most = settings.length_ratio
        self._vocabulary = vocabulary
        self._guesser = LanguageGuesser(languages) if settings.language else None

    def limit(self, source: int, direction: Direction) -> int:
        """Subwords after which a search may give up: one more than would be kept."""
        return min(int(self.most * self._expected(source, direction)), self.longest - 1)

    def fate(self, source: int, pupil: int, ids: Sequence[int], direction: Direction) -> str:
        """`kept`, or what drops a translation of a sentence of `source` subwords, to be used beside
        one of `pupil` subwords."""
        ratio = (len(ids) + 1) / self._expected(source, direction)
        if not ids or not self.least <= ratio <= self.most:
            return LENGTH
        if max(len(ids), pupil) + 2 > self.longest:
            return TOO_LONG
        if distinct_bigrams(ids) < self.settings.distinct_bigrams:
            return REPETITION
        if self._guesser is not None:
            text = self._vocabulary.decode([ids])[0]
            if self._guesser.is_wrong(text, direction.target):
                return LANGUAGE
        return KEPT

    def round_trip(self, log_probability: float, source: int) -> str:
        """The same by how likely the sentence is, given its translation."""
        least = self.settings.round_trip
        return KEPT if least is None or log_probability / (source + 1) >= least else ROUND_TRIP

    def _expected(self, source: int, direction: Direction) -> float:
        """Subwords of a usual translation; here and there, ends of sentence count."""
        return (source + 1) * self.usual[direction]


def usual_lengths(corpora: Sequence[ParallelCorpus]) -> dict[Direction, float]:
    """Subwords of the target over those of the source, in the training text of each direction."""
    found = {}
    for corpus in corpora:
        first, second = (len(side.ids) + len(side) for side in corpus.sides)
        ratio = second / first if first and second else 1.0
        found[Direction(*corpus.languages)] = ratio
        found[Direction(*reversed(corpus.languages))] = 1 / ratio
    return found


def distinct_bigrams(ids: Sequence[int]) -> float:
    """The share of different pairs of neighbours; 1 where there is none."""
    pairs = list(pairwise(ids))
    return len(set(pairs)) / len(pairs) if pairs else 1.0
