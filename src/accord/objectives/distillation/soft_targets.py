"""The tokens that a teacher finds likeliest at every place of its translations.

Distillation can learn from these, with their probabilities, instead of from the token that was
chosen: how sure the teacher was, and between what.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accord.data.batches import Batch, ranges
from accord.data.epoch_plan import Int64s
from accord.data.store import Ids, Offsets, ParallelCorpus

Shares = npt.NDArray[np.float16]


@dataclass(frozen=True)
class LikelyTokens:
    """K different tokens a place, and their shares: of sentence after sentence, ends included."""

    token_MK: Ids
    share_MK: Shares

    @property
    def count(self) -> int:
        """K."""
        return int(self.token_MK.shape[1])

    @staticmethod
    def of(parts: Sequence["LikelyTokens"]) -> "LikelyTokens":
        """Those of several lists of sentences, end to end."""
        return LikelyTokens(
            np.concatenate([part.token_MK for part in parts]),
            np.concatenate([part.share_MK for part in parts]),
        )

    def places(self, offsets: Offsets, sentences: Int64s) -> Int64s:
        """Where the tokens of these sentences stand; `offsets` are without ends of sentence."""
        begins = offsets[sentences] + sentences
        return ranges(begins, offsets[sentences + 1] - offsets[sentences] + 1)

    def taken(self, offsets: Offsets, sentences: Int64s) -> "LikelyTokens":
        """Those of the given sentences, in that order."""
        places_M = self.places(offsets, sentences)
        return LikelyTokens(self.token_MK[places_M], self.share_MK[places_M])


@dataclass(frozen=True)
class MadePairs:
    """A synthetic corpus and, for each side, which translations of the round its lines are; None
    for a side that is gold."""

    corpus: ParallelCorpus
    translations: tuple[Int64s | None, Int64s | None]


@dataclass(frozen=True)
class LikelyTargets:
    """What is wanted at every place of a batch's targets: K tokens and their shares. Where the
    target is gold, that token has all."""

    token_BTK: npt.NDArray[np.int64]
    share_BTK: npt.NDArray[np.float32]


class Targets:
    """Finds what a teacher wants in batches of synthetic pairs; `size` is the vocabulary's."""

    def __init__(
        self,
        pairs: Sequence[MadePairs],
        languages: Sequence[str],
        likely: LikelyTokens,
        offsets: Offsets,
        size: int,
    ) -> None:
        self.likely = likely
        self.offsets = offsets
        self.size = size
        self.sides = [
            (c, languages.index(language), translations)
            for c, made in enumerate(pairs)
            for language, translations in zip(made.corpus.languages, made.translations, strict=True)
            if translations is not None
        ]

    def of(self, batch: Batch) -> LikelyTargets:
        """For a batch of these pairs."""
        rows, length = batch.target_BT.shape
        # Tokens that are not wanted fill up; a place may not have one twice.
        token_BTK = (batch.target_BT[..., None] + np.arange(self.likely.count)) % self.size
        share_BTK = np.zeros(token_BTK.shape, dtype=np.float32)
        share_BTK[..., 0] = 1
        for c, language, translations in self.sides:
            mine = np.flatnonzero((batch.corpus_B == c) & (batch.target_language_B == language))
            places_M = self.likely.places(self.offsets, translations[batch.line_B[mine]])
            here_M = ranges(mine * length, batch.target_lengths_B[mine])
            shares_MK = self.likely.share_MK[places_M].astype(np.float32)
            token_BTK.reshape(rows * length, -1)[here_M] = self.likely.token_MK[places_M]
            share_BTK.reshape(rows * length, -1)[here_M] = shares_MK / shares_MK.sum(
                axis=1, keepdims=True
            )
        return LikelyTargets(token_BTK, share_BTK)
