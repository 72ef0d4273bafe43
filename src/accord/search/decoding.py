"""Texts in, translations out: mended, cut where too long, batched by length, back in order."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from accord.config import Cleaning
from accord.corpus.cleaning import mend
from accord.corpus.vocabulary import EOS, Vocabulary
from accord.model.protocol import Seq2Seq
from accord.search.beam import BeamSearch
from accord.search.history import Found, normalised
from accord.search.result import NOTHING, Hypothesis, SearchSettings, Translation
from accord.search.rows import batches, padded, starts_word, windows

TokenCounts = Callable[[str], npt.NDArray[np.int64]]
_CPU = torch.device("cpu")
_UNKNOWN = "<unk>"
_CLEANING = Cleaning()


@dataclass(frozen=True)
class _Part:
    """Subwords of one line, from `start` on: all of them, unless the line is too long."""

    line: int
    start: int
    ids: list[int]


class Decoder:
    """Translates texts directly, that is without a pivot.

    `token_counts` gives how often a language has each subword in training; the restriction to the
    target vocabulary needs it. The model is used as it is: put it into evaluation mode first.
    """

    def __init__(
        self,
        model: Seq2Seq,
        vocabulary: Vocabulary,
        device: torch.device,
        token_counts: TokenCounts | None = None,
    ) -> None:
        self.model = model
        self.vocabulary = vocabulary
        self.device = device
        self.pieces = vocabulary.pieces()
        self._token_counts = token_counts
        self._searches: dict[tuple[object, ...], BeamSearch] = {}

    def translate(
        self, texts: Sequence[str], target: str, settings: SearchSettings
    ) -> list[Translation]:
        """Translations in the order of the texts; an empty text stays empty."""
        rows = self.vocabulary.encode([mended(text) for text in texts])
        parts = [
            _Part(line, start, row[start:stop])
            for line, row in enumerate(rows)
            if row
            for start, stop in windows(row, self.pieces, settings.window)
        ]
        found: list[list[tuple[_Part, list[Hypothesis]]]] = [[] for _ in texts]
        for part, hypotheses in zip(parts, self._search(parts, target, settings), strict=True):
            found[part.line].append((part, hypotheses))
        return [
            self._translation(text, of_line, settings)
            for text, of_line in zip(texts, found, strict=True)
        ]

    def greedy(self, texts: Sequence[str], target: str) -> list[str]:
        """Greedy translations as plain texts, for a look at a model in training."""
        found = self.translate(texts, target, SearchSettings(beam=1))
        return [translation.text for translation in found]

    def _search(
        self, parts: Sequence[_Part], target: str, settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        tag = self.vocabulary.tags[target]
        inputs = [[tag, *part.ids, EOS] for part in parts]
        search = self._search_for(target, settings)
        found: list[list[Found]] = [[] for _ in parts]
        on_gpu = self.device.type == "cuda"
        lengths = [len(row) for row in inputs]
        for batch in batches(lengths, settings.batch_tokens, settings.beam, on_gpu):
            source_BS, lengths_B = padded([inputs[i] for i in batch], _CPU)
            for i, hypotheses in zip(batch, search(source_BS, lengths_B), strict=True):
                found[i] = hypotheses
        texts = iter(self.vocabulary.decode([item.ids for row in found for item in row]))
        return [[self._hypothesis(item, next(texts)) for item in row] for row in found]

    def _hypothesis(self, found: Found, text: str) -> Hypothesis:
        tokens = tuple(self.pieces[i] for i in found.ids)
        # Bytes may spell anything, even a line break, but a translation is one line.
        return Hypothesis(
            mended(text), tokens, found.ids, found.score, found.log_probability, found.alignment
        )

    def _search_for(self, target: str, settings: SearchSettings) -> BeamSearch:
        restricted = target if settings.vocabulary == "target" else None
        # What only concerns batches does not ask for another search, with graphs of its own.
        key = (replace(settings, batch_tokens=1, window=1, pivot_nbest=1), restricted)
        if key not in self._searches:
            forbidden_F = torch.tensor(self.forbidden(restricted), device=self.device)
            self._searches[key] = BeamSearch(self.model, settings, forbidden_F)
        return self._searches[key]

    def forbidden(self, language: str | None) -> list[int]:
        """Ids that are never generated; with a language, also all that its training text lacks."""
        never = set(self.vocabulary.tags.values())
        never.update(i for i, piece in enumerate(self.pieces) if piece == _UNKNOWN)
        if language is not None:
            if self._token_counts is None:
                raise ValueError("a restriction to the target vocabulary needs token counts")
            never.update(np.flatnonzero(self._token_counts(language) == 0).tolist())
        return sorted(never)

    def _translation(
        self, text: str, found: list[tuple[_Part, list[Hypothesis]]], settings: SearchSettings
    ) -> Translation:
        if not found:
            return Translation(text, (NOTHING,))
        joined = found[0][1] if len(found) == 1 else self._joined(found, settings)
        by_text = {item.text: item for item in reversed(joined)}  # the best of those alike
        best = tuple(item for item in joined if by_text[item.text] is item)[: settings.nbest]
        if not best:
            return Translation(text, (NOTHING,), warnings=("the model's weights are not finite",))
        cut = f"cut into {len(found)} parts of at most {settings.window} subwords"
        return Translation(text, best, warnings=(cut,) if len(found) > 1 else ())

    def _joined(
        self, found: list[tuple[_Part, list[Hypothesis]]], settings: SearchSettings
    ) -> list[Hypothesis]:
        """The best of all parts as one, the second best of all parts as one, and so on."""
        parts = [part for part, _ in found]
        ranks: Iterator[tuple[Hypothesis, ...]] = zip(*(rest for _, rest in found), strict=False)
        whole = [self._concatenated(parts, rank, settings.length_penalty) for rank in ranks]
        return sorted(whole, key=lambda item: -item.score)

    def _concatenated(
        self, parts: Sequence[_Part], hypotheses: Sequence[Hypothesis], alpha: float
    ) -> Hypothesis:
        text = ""
        for part, item in zip(parts, hypotheses, strict=True):
            space = " " if text and item.text and starts_word(self.pieces[part.ids[0]]) else ""
            text += space + item.text
        log_p = sum(item.log_probability for item in hypotheses)
        length = sum(len(item.ids) + 1 for item in hypotheses)
        return Hypothesis(
            text,
            tuple(token for item in hypotheses for token in item.tokens),
            tuple(i for item in hypotheses for i in item.ids),
            normalised(log_p, length, alpha),
            log_p,
            tuple(
                position + part.start if position else 0
                for part, item in zip(parts, hypotheses, strict=True)
                for position in item.alignment
            ),
        )


def mended(text: str) -> str:
    """Text as training text is stored: composed, without control characters, on one line."""
    return mend(text, _CLEANING, Counter())
