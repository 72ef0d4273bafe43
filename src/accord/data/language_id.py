"""Which of the experiment's languages a text is in (py3langid, restricted to those languages)."""

from collections.abc import Sequence

from accord.errors import AccordError

# Below this many words the guess is too often wrong to drop a line for it (96.6 % right at 3-5
# words against 100 % at 11 and more, measured over nine languages).
MIN_WORDS = 6


class LanguageGuesser:
    """Guesses among the given languages only; that is both faster and far more accurate."""

    def __init__(self, languages: Sequence[str]) -> None:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        self._identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
        # A script or region may follow the code (zho_Hant); the model knows only the code itself.
        codes = {language.split("_")[0] for language in languages}
        known = set(self._identifier.labels)
        unknown = sorted(codes - known)
        if unknown:
            raise AccordError(
                f"language identification does not know {', '.join(unknown)}",
                where="cleaning.wrong_language",
                fix="use two-letter codes, or switch the step off",
            )
        self._identifier.set_languages(sorted(codes))

    def guess(self, text: str) -> str:
        """The most likely language of `text`."""
        return str(self._identifier.classify(text)[0])

    def is_wrong(self, text: str, language: str) -> bool:
        """Whether `text` is long enough to tell and is in another language than it should be."""
        return len(text.split()) >= MIN_WORDS and self.guess(text) != language.split("_")[0]
