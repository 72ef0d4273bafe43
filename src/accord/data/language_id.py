"""Language identification: which of some languages a text is in (py3langid, restricted to them)."""

import copy
import functools
from collections.abc import Sequence
from typing import Any

from accord.errors import AccordError

# Below this many words the guess is too often wrong to drop a line for it.
MIN_WORDS = 6
_ENOUGH = 1000  # characters; more of a text make percentages slower, not better


@functools.cache
def _identifier(percentages: bool) -> Any:
    """For all languages that py3langid knows; reading it takes half a second."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=percentages)


def identifiable() -> frozenset[str]:
    """The codes of all languages that can be told apart."""
    return frozenset(_identifier(False).labels) - {"zxx"}  # zxx: no language at all


class LanguageGuesser:
    """Guesses among the given languages only; that is both faster and far more accurate.

    A language that py3langid does not know is an error, or left out with `known_only`. `rank` needs
    `percentages`, for which the library counts in another way.
    """

    def __init__(
        self, languages: Sequence[str], *, known_only: bool = False, percentages: bool = False
    ) -> None:
        self._identifier = copy.copy(_identifier(percentages))
        known = set(self._identifier.labels)
        # A script or region may follow the code (zho_Hant); the model knows only the code itself.
        codes = {language: language.split("_")[0] for language in languages}
        unknown = sorted(set(codes.values()) - known)
        if unknown and not known_only:
            raise AccordError(
                f"language identification does not know {', '.join(unknown)}",
                where="cleaning.wrong_language",
                fix="use two-letter codes, or switch the step off",
            )
        self._languages: dict[str, str] = {}
        for language, code in codes.items():
            if code in known:
                self._languages.setdefault(code, language)
        if self._languages:
            self._identifier.set_languages(sorted(self._languages))

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that can be told apart: of those with one code the first."""
        return tuple(self._languages.values())

    def guess(self, text: str) -> str:
        """The code of the most likely language of `text`."""
        return str(self._identifier.classify(text)[0])

    def is_wrong(self, text: str, language: str) -> bool:
        """Whether `text` is long enough to tell and is in another language than it should be."""
        return len(text.split()) >= MIN_WORDS and self.guess(text) != language.split("_")[0]

    def rank(self, text: str) -> list[tuple[str, float]]:
        """All languages, the likeliest first, with percentages; 0 where there is no letter.

        There must be languages to choose from.
        """
        start = text[:_ENOUGH]
        if not any(character.isalpha() for character in start):
            return [(language, 0.0) for language in self.languages]
        return [
            (self._languages[code], round(100 * probability, 1))
            for code, probability in self._identifier.rank(start)
        ]
