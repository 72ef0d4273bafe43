"""Texts in, translations out: mended, cut where too long, batched by length, back in order."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from accord.config.schema import Cleaning
from accord.data.cleaning import mend
from accord.data.vocabulary import EOS, PAD, Vocabulary
from accord.errors import AccordError
from accord.inference.backtrace import Found
from accord.inference.results import (
    NOTHING,
    Hypothesis,
    SearchSettings,
    Translation,
    length_penalty,
)
from accord.machine import free_memory

# --- Texts as rows of ids that an encoder reads, whatever computes with them.


Ints = npt.NDArray[np.int64]

_COPIES = 4  # of numbers for all subwords that a step holds for each hypothesis
_HYPOTHESES_ON_CPU = 1024  # at once; more are no faster and take much memory


def source_rows(vocabulary: Vocabulary, texts: Sequence[str], target: str) -> list[list[int]]:
    """Encoder input of each text: the tag of the target language, subwords, end of sentence."""
    tag = vocabulary.tags[target]
    return [[tag, *row, EOS] for row in vocabulary.encode(texts)]


def padded_array(rows: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Rows of ids as one array [B, S], and their lengths."""
    lengths_B = np.array([len(row) for row in rows], dtype=np.int64)
    source_BS = np.full((len(rows), lengths_B.max()), PAD, dtype=np.int64)
    for places_S, row in zip(source_BS, rows, strict=True):
        places_S[: len(row)] = row
    return source_BS, lengths_B


def most_tokens(source_length: int) -> int:
    """The length of the longest translation, 2 n + 50; a source has tag and end besides its n."""
    return 2 * max(0, source_length - 2) + 50


def batches(lengths: Sequence[int], fitting: Callable[[int], int]) -> Iterator[list[int]]:
    """Which rows to search together: rows of like length, the longest first.

    `fitting` says how many rows of a given length may be searched at once.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        rows = fitting(lengths[order[start]])
        yield order[start : start + rows]
        start += rows


def fitting_on_cpu(
    longest: int, batch_tokens: int, beam: int, hypotheses: int = _HYPOTHESES_ON_CPU
) -> int:
    """How many rows of at most this length a CPU should search at once."""
    return max(1, min(batch_tokens // longest, hypotheses // beam))


def windows(ids: Sequence[int], pieces: Sequence[str], longest: int) -> list[tuple[int, int]]:
    """Where to cut a row into parts of at most `longest` subwords, as (start, stop).

    In the second half of a part the last end of a sentence is looked for, then the last end of a
    word; where there is neither, the cut goes through a word.
    """
    cuts = [0]
    while len(ids) - cuts[-1] > longest:
        first, last = cuts[-1] + longest // 2 + 1, cuts[-1] + longest
        words = [i for i in range(last, first - 1, -1) if starts_word(pieces[ids[i]])]
        sentences = (i for i in words if pieces[ids[i - 1]].endswith((".", "!", "?", ";", ":")))
        cuts.append(next(sentences, words[0] if words else last))
    return list(zip(cuts, [*cuts[1:], len(ids)], strict=True))


def starts_word(piece: str) -> bool:
    """Whether a subword stands at the beginning of a word."""
    return piece.startswith("\u2581")


TokenCounts = Callable[[str], npt.NDArray[np.int64]]
UNKNOWN = "<unk>"
_CLEANING = Cleaning()


class Search(Protocol):
    """A search with fixed settings."""

    def __call__(
        self, rows: Sequence[Sequence[int]], *, language: int | None = None
    ) -> list[list[Found]]:
        """From encoder inputs, tags and ends included, to the hypotheses of each, the best first.

        `language` numbers the one that all rows are in, as the vocabulary's `languages` do, for
        models that read it.
        """
        ...


class Engine(Protocol):
    """What computes: PyTorch, or a runtime for exported models."""

    def search(self, settings: SearchSettings, forbidden: Sequence[int]) -> Search:
        """A search that never generates the forbidden ids; it is used again and again."""
        ...

    def fitting(self, longest: int, settings: SearchSettings) -> int:
        """How many rows of at most this length to search at once."""
        ...


@dataclass(frozen=True)
class _Part:
    """Subwords of one line, from `start` on: all of them, unless the line is too long."""

    line: int
    start: int
    ids: list[int]


_Spelled = tuple[Found, str]
"""What a search found, and how it reads."""


class Decoder:
    """Translates texts directly, that is without a pivot.

    `token_counts` gives how often a language has each subword in training; the restriction to the
    target vocabulary needs it.
    """

    def __init__(
        self,
        engine: Engine,
        vocabulary: Vocabulary,
        token_counts: TokenCounts | None = None,
    ) -> None:
        self.engine = engine
        self.vocabulary = vocabulary
        self.pieces = vocabulary.pieces()
        self._token_counts = token_counts
        self._searches: dict[tuple[object, ...], Search] = {}

    def translate(
        self,
        texts: Sequence[str],
        target: str,
        settings: SearchSettings,
        source: str | None = None,
    ) -> list[Translation]:
        """Translations in the order of the texts, all in the language `source`; an empty text
        stays empty."""
        rows = self.vocabulary.encode([mended(text) for text in texts])
        parts = [
            _Part(line, start, row[start:stop])
            for line, row in enumerate(rows)
            if row
            for start, stop in windows(row, self.pieces, settings.window)
        ]
        found: list[list[tuple[_Part, list[_Spelled]]]] = [[] for _ in texts]
        searched = self._search(parts, target, settings, source)
        for part, of_part in zip(parts, searched, strict=True):
            found[part.line].append((part, of_part))
        return [
            self._translation(text, of_line, settings)
            for text, of_line in zip(texts, found, strict=True)
        ]

    def greedy(self, texts: Sequence[str], target: str, source: str | None = None) -> list[str]:
        """Greedy translations as plain texts, for a look at a model in training."""
        found = self.translate(texts, target, SearchSettings(beam=1), source)
        return [translation.text for translation in found]

    def _search(
        self, parts: Sequence[_Part], target: str, settings: SearchSettings, source: str | None
    ) -> list[list[_Spelled]]:
        tag = self.vocabulary.tags[target]
        inputs = [[tag, *part.ids, EOS] for part in parts]
        search = self._search_for(target, settings)
        language = None if source is None else self.vocabulary.languages.index(source)
        found: list[list[Found]] = [[] for _ in parts]
        lengths = [len(row) for row in inputs]
        for batch in batches(lengths, lambda longest: self.engine.fitting(longest, settings)):
            hypotheses = search([inputs[i] for i in batch], language=language)
            for i, of_row in zip(batch, hypotheses, strict=True):
                found[i] = of_row
        return self._spelled(found)

    def translations(
        self, texts: Sequence[str], found: Sequence[list[Found]], settings: SearchSettings
    ) -> list[Translation]:
        """What another search found for each text as a whole, put into words."""
        whole = _Part(0, 0, [])
        return [
            self._translation(text, [(whole, of_text)], settings)
            for text, of_text in zip(texts, self._spelled(found), strict=True)
        ]

    def _spelled(self, found: Sequence[list[Found]]) -> list[list[_Spelled]]:
        texts = iter(self.vocabulary.decode([item.ids for row in found for item in row]))
        # Bytes may spell anything, even a line break, but a translation is one line.
        return [[(item, mended(next(texts))) for item in row] for row in found]

    def _hypothesis(self, found: Found, text: str) -> Hypothesis:
        tokens = tuple(self.pieces[i] for i in found.ids)
        return Hypothesis(
            text, tokens, found.ids, found.score, found.log_probability, found.alignment
        )

    def _search_for(self, target: str, settings: SearchSettings) -> Search:
        restricted = target if settings.vocabulary == "target" else None
        # What only concerns batches does not ask for another search, with graphs of its own.
        key = (replace(settings, batch_tokens=1, window=1, pivot_nbest=1), restricted)
        if key not in self._searches:
            self._check_memory(settings)
            self._searches[key] = self.engine.search(settings, self.forbidden(restricted))
        return self._searches[key]

    def _check_memory(self, settings: SearchSettings) -> None:
        """Refuse a beam that this machine has no room for, before it begins to swap."""
        per_hypothesis = _COPIES * 4 * len(self.pieces)
        needed, free = settings.beam * per_hypothesis, free_memory()
        if free is not None and needed > free:
            raise AccordError(
                f"a beam of {settings.beam:,} over {len(self.pieces):,} subwords takes about "
                f"{needed / 1e9:.1f} GB for a single sentence, and {free / 1e9:.1f} GB are free",
                where="beam",
                fix=f"take a beam of {max(1, free // (2 * per_hypothesis)):,} or less",
            )

    def forbidden(self, language: str | None) -> list[int]:
        """Ids that are never generated; with a language, also all that its training text lacks."""
        never = set(self.vocabulary.tags.values())
        never.update(i for i, piece in enumerate(self.pieces) if piece == UNKNOWN)
        if language is not None:
            if self._token_counts is None:
                raise ValueError("a restriction to the target vocabulary needs token counts")
            never.update(np.flatnonzero(self._token_counts(language) == 0).tolist())
        return sorted(never)

    def _translation(
        self, text: str, found: list[tuple[_Part, list[_Spelled]]], settings: SearchSettings
    ) -> Translation:
        if not found:
            return Translation(text, (NOTHING,))
        whole = found[0][1] if len(found) == 1 else self._joined(found, settings)
        joined = [self._hypothesis(*item) for item in whole]
        by_text = {item.text: item for item in reversed(joined)}  # the best of those alike
        best = tuple(item for item in joined if by_text[item.text] is item)[: settings.nbest]
        if not best:
            return Translation(text, (NOTHING,), warnings=("the model's weights are not finite",))
        cut = f"cut into {len(found)} parts of at most {settings.window} subwords"
        return Translation(text, best, warnings=(cut,) if len(found) > 1 else ())

    def _joined(
        self, found: list[tuple[_Part, list[_Spelled]]], settings: SearchSettings
    ) -> list[_Spelled]:
        """The best of all parts as one, the second best of all parts as one, and so on."""
        parts = [part for part, _ in found]
        ranks: Iterator[tuple[_Spelled, ...]] = zip(*(rest for _, rest in found), strict=False)
        whole = [self._concatenated(parts, rank, settings.length_penalty) for rank in ranks]
        return sorted(whole, key=lambda item: -item[0].score)

    def _concatenated(
        self, parts: Sequence[_Part], spelled: Sequence[_Spelled], alpha: float
    ) -> _Spelled:
        whole = ""
        for part, (_, text) in zip(parts, spelled, strict=True):
            space = " " if whole and text and starts_word(self.pieces[part.ids[0]]) else ""
            whole += space + text
        log_p = sum(item.log_probability for item, _ in spelled)
        length = sum(len(item.ids) + 1 for item, _ in spelled)
        joined = Found(
            tuple(i for item, _ in spelled for i in item.ids),
            tuple(
                position + part.start if position else 0
                for part, (item, _) in zip(parts, spelled, strict=True)
                for position in item.alignment
            ),
            log_p,
            log_p / length_penalty(length, alpha),
        )
        return joined, whole


def mended(text: str) -> str:
    """Text as training text is stored: composed, without control characters, on one line."""
    return mend(text, _CLEANING, Counter())
