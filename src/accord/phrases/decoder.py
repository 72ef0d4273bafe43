"""Phrase-based search: a log-linear model over segmentations into phrases, by multi-stack decoding.

    ŷ = argmax over y and its segmentation a of Σ_k λ_k f_k(x, a, y)

The eight features f are those of Thot, in its order (`FEATURES`). Hypotheses are compared with an
estimate of what the rest of the sentence will cost, words and jumps (Koehn et al. 2003).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.config.model_settings import AlignmentSettings
from accord.errors import AccordError
from accord.phrases.alignment import MOST_WORDS, thot
from accord.phrases.phrase_table import TRANSLATION
from accord.phrases.words import Truecaser, join, recase, tokenise

if TYPE_CHECKING:
    from thot.translation import TranslationData

LANGUAGE_MODEL = "lm"
"""Prefix of all files of the language model."""
FEATURES = (
    "word_penalty",
    "language_model",
    "target_lengths",
    "jumps",
    "source_lengths",
    "phrases",
    "phrases_inverse",
    "sentence_length",
)
FIRST_WEIGHTS = (-1.0, 1.0, 0.5, 0.2, 0.0, 1.0, 1.0, 0.0)
"""Before tuning: sensible on image captions, German to English."""

# With fewer hypotheses a stack the search loses BLEU, with more it only takes longer.
_STACK = 3
_AT_ONCE = 64  # sentences between two chances for Ctrl-C: Thot hears nothing while it works
_COST_OF_WORDS_AND_JUMPS = 6  # what Thot calls the heuristic LOCAL_TD
_MODELS = {"hmm": "INCR_HMM", "fast-align": "FAST_ALIGN"}


@dataclass(frozen=True)
class Found:
    """A translation: its words, its text, and the score of the log-linear model."""

    words: tuple[str, ...]
    text: str
    score: float


class PhraseDecoder:
    """The system of one direction, loaded."""

    def __init__(
        self,
        directory: Path,
        alignment: AlignmentSettings,
        truecaser: Truecaser,
        *,
        longest: int,
        choices: int,
        reordering: int,
        weights: Sequence[float] = FIRST_WEIGHTS,
        threads: int = 1,
    ) -> None:
        self._threads = threads
        self._truecaser = truecaser
        kinds = thot("alignment").AlignmentModelType
        self._thot: Any = thot("translation")
        self._model = self._thot.SmtModel(getattr(kinds, _MODELS[alignment.model]))
        loaded = self._model.load_translation_model(str(directory / TRANSLATION))
        if not loaded or not self._model.load_language_model(str(directory / LANGUAGE_MODEL)):
            raise AccordError(
                "the system of this direction cannot be loaded",
                where=str(directory),
                fix="run `accord train` with the run's experiment again: it makes anew what is "
                "damaged",
            )
        self._model.a = longest
        self._model.w = float(max(choices, 2))  # up to 1 it would be a share of the best one's
        self._model.non_monotonicity = reordering
        self._model.heuristic = _COST_OF_WORDS_AND_JUMPS
        self.weigh(weights)

    def weigh(self, weights: Sequence[float]) -> None:
        """Search with these weights from now on."""
        self._model.weights = list(weights)

    def translate(self, texts: Sequence[str]) -> list[Found]:
        """The best translation of each text; one that is too long is translated in parts."""
        thot("translation", self._threads)
        sources = [tokenise(text) for text in texts]
        parts = [_parts(self._truecaser.truecase(words)) for words in sources]
        decoder = self._thot.SmtDecoder(self._model)
        decoder.s = _STACK
        decoder.is_breadth_first = True
        flat = [" ".join(part) for row in parts for part in row]
        found = (
            translation
            for start in range(0, len(flat), _AT_ONCE)
            for translation in decoder.translate_batch(flat[start : start + _AT_ONCE])
        )
        return [
            _joined([next(found) for _ in row], source)
            for row, source in zip(parts, sources, strict=True)
        ]


def _parts(words: Sequence[str]) -> list[Sequence[str]]:
    """Pieces that Thot can translate, of about the same length; nothing has none."""
    count = -(-len(words) // (MOST_WORDS // 2))
    bounds = [len(words) * place // count for place in range(count + 1)] if count else [0]
    return [words[start:end] for start, end in pairwise(bounds)]


def _joined(parts: Sequence["TranslationData"], source: Sequence[str]) -> Found:
    words = recase([word for part in parts for word in part.target], source)
    return Found(tuple(words), join(words), float(sum(part.score for part in parts)))
