"""Which of the model's languages a text is in, and how sure that is."""

import copy
import functools
from collections.abc import Sequence
from typing import Any

_ENOUGH = 1000  # characters; more of a text make the guess slower, not better


@functools.cache
def _identifier() -> Any:
    """For all languages; reading it takes half a second."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


class Detector:
    """py3langid, restricted to the languages of the model that it knows."""

    def __init__(self, languages: Sequence[str]) -> None:
        self._identifier = copy.copy(_identifier())
        labels = set(self._identifier.labels)
        self._languages: dict[str, str] = {}
        for language in languages:
            # A script or region may follow the code (zh_Hant); the first of such languages is it.
            code = language.split("_")[0]
            if code in labels:
                self._languages.setdefault(code, language)
        if self._languages:
            self._identifier.set_languages(sorted(self._languages))

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that can be told apart; none where their codes are not known here."""
        return tuple(self._languages.values())

    def rank(self, text: str) -> list[tuple[str, float]]:
        """All these languages, the likeliest first, with percentages; 0 where there is no letter.

        There must be languages to choose from.
        """
        start = text[:_ENOUGH]
        if not any(character.isalpha() for character in start):
            return [(language, 0.0) for language in self._languages.values()]
        return [
            (self._languages[code], round(100 * probability, 1))
            for code, probability in self._identifier.rank(start)
        ]
