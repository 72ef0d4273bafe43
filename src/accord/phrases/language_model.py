"""An n-gram language model with Jelinek-Mercer smoothing: counts, and weights fitted by EM.

    P(w | h) = λ c(h w) / c(h) + (1 - λ) P(w | h without its first word)

Below the unigrams all words are alike. Each order has a λ of its own for histories that are rare,
less rare and frequent (Jelinek and Mercer 1980). Words that stand only once in the training text
count as the unknown word, which so has a probability.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

ORDER = 3
_BUCKETS, _BUCKET = 3, 10  # histories seen up to 9, 19, and more times
_BEGIN, _END, _UNKNOWN = "<s>", "</s>", "<unk>"
_ITERATIONS = 50
_FIRST_WEIGHT = 0.5
_LEAST = 0.001  # no weight is 0 or 1: new text may need what dev text did not

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NgramCounts:
    """How often every sequence of one to ORDER words occurs."""

    counts: Counter[tuple[str, ...]]
    total: int

    @staticmethod
    def of(sentences: Sequence[Sequence[str]]) -> "NgramCounts":
        """Count sentences, with their begin and end."""
        often = Counter(word for words in sentences for word in words)
        counts: Counter[tuple[str, ...]] = Counter()
        for words in sentences:
            row = [_BEGIN, *(word if often[word] > 1 else _UNKNOWN for word in words), _END]
            for order in range(1, ORDER + 1):
                counts.update(zip(*(row[start:] for start in range(order)), strict=False))
        total = sum(count for ngram, count in counts.items() if len(ngram) == 1)
        return NgramCounts(counts, total)

    def history(self, words: tuple[str, ...]) -> int:
        """How often a history occurs; the empty one before every word."""
        return self.counts.get(words, 0) if words else self.total

    def fitted_weights(self, sentences: Iterable[Sequence[str]]) -> Values:
        """λ by order and frequency of the history, by EM on sentences that were not counted."""
        rows = [row for words in sentences for row in self._events(words)]
        weights = np.full(ORDER * _BUCKETS, _FIRST_WEIGHT)
        if not rows:
            return weights
        frequency = np.array([row[0] for row in rows])
        bucket = np.array([row[1] for row in rows])
        for _ in range(_ITERATIONS):
            weights = self._maximised(weights, frequency, bucket)
        return weights.clip(_LEAST, 1 - _LEAST)

    def _events(self, words: Sequence[str]) -> Iterable[tuple[list[float], list[int]]]:
        """For each word c(h w) / c(h) and the weight's place, by order; -1 where h is too long."""
        row = [_BEGIN, *(word if (word,) in self.counts else _UNKNOWN for word in words), _END]
        for place in range(1, len(row)):
            frequency, bucket = [-1.0] * ORDER, [0] * ORDER
            for order in range(min(ORDER, place + 1)):
                history = tuple(row[place - order : place])
                seen = self.history(history)
                frequency[order] = self.counts.get((*history, row[place]), 0) / max(seen, 1)
                bucket[order] = order * _BUCKETS + min(seen // _BUCKET, _BUCKETS - 1)
            yield frequency, bucket

    @property
    def _vocabulary(self) -> int:
        """The words that Thot knows: those here, begin, end, unknown, and one of its own."""
        own = {(_BEGIN,), (_END,), (_UNKNOWN,)}
        return sum(len(ngram) == 1 for ngram in self.counts.keys() - own) + len(own) + 1

    def _maximised(
        self, weights: Values, frequency: Values, bucket: npt.NDArray[np.int_]
    ) -> Values:
        """One iteration of EM: how far each order was to be thanked for the words of the text."""
        probability = [np.full(len(frequency), 1 / self._vocabulary)]
        used = np.where(frequency >= 0, weights[bucket], 0.0)
        for order in range(ORDER):
            lower = (1 - used[:, order]) * probability[-1]
            probability.append(used[:, order] * frequency[:, order] + lower)
        reached = np.ones(len(frequency))
        taken, asked = np.zeros_like(weights), np.zeros_like(weights)
        for order in reversed(range(ORDER)):
            share = used[:, order] * frequency[:, order] / probability[order + 1]
            known = frequency[:, order] >= 0
            np.add.at(taken, bucket[:, order], np.where(known, reached * share, 0.0))
            np.add.at(asked, bucket[:, order], np.where(known, reached, 0.0))
            reached = reached * np.where(known, 1 - share, 1.0)
        return np.where(asked > 0, taken / np.maximum(asked, 1e-12), weights)

    def write(self, prefix: Path, weights: Values) -> None:
        """The files that Thot reads: n-grams with counts of history and whole, and the weights."""
        with prefix.open("w", encoding="utf-8") as file:
            for ngram in sorted(self.counts, key=lambda ngram: (len(ngram), ngram)):
                seen = self.history(ngram[:-1])
                file.write(f"{' '.join(ngram)} {seen} {self.counts[ngram]}\n")
        shown = " ".join(f"{weight:.6f}" for weight in weights)
        settings = f"{ORDER} {_BUCKETS} {_BUCKET} {shown}\n"
        prefix.with_name(f"{prefix.name}.weights").write_text(settings, encoding="utf-8")
        # It asks for this one as well, but reads it only to predict what somebody is typing.
        prefix.with_name(f"{prefix.name}.wp").write_text("", encoding="utf-8")
