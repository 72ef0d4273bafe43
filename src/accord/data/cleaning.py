"""Mending and dropping training pairs line by line; every step is switchable and counted."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable

from accord.config.schema import Cleaning
from accord.data.language_id import LanguageGuesser

# Control characters (C0, C1), every kind of line separator, the byte-order mark, zero-width and
# no-break spaces; and runs of white space that replacing them may leave.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00a0\u1680\u2000-\u200b\u2028\u2029\u202f\u205f\u2060\u3000\ufeff]"
)
_SPACES = re.compile(r" {2,}")
# sentencepiece writes a space as this character, so text that holds it could not be told apart.
_SUBWORD_SPACE = "\u2581"

Lines = tuple[str | None, str | None]


def mend(text: str, settings: Cleaning, counts: Counter[str]) -> str:
    """The text as it is stored: what may be repaired is repaired, and counted where it was."""
    mended = text.replace(_SUBWORD_SPACE, " ")
    if settings.control_characters and _CONTROL.search(mended):
        counts["control_characters"] += 1
        mended = _SPACES.sub(" ", _CONTROL.sub(" ", mended))
    if settings.nfc and not unicodedata.is_normalized("NFC", mended):
        counts["nfc"] += 1
        mended = unicodedata.normalize("NFC", mended)
    return mended.strip()


class Cleaner:
    """Cleans the pairs of one corpus; `mended` and `dropped` count what every step did.

    Subword length, duplicates and held-out lines need more than one line at a time and are dealt
    with, and counted, where the whole corpus is at hand.
    """

    def __init__(
        self,
        settings: Cleaning,
        languages: tuple[str, str],
        guesser: LanguageGuesser | None = None,
    ) -> None:
        self.mended: Counter[str] = Counter()
        self._settings = settings
        self._checks: list[tuple[str, Callable[[str, str], bool]]] = []
        if settings.empty:
            self._checks.append(("empty", lambda a, b: not a or not b))
        longest = settings.max_characters
        self._checks.append(("max_characters", lambda a, b: len(a) > longest or len(b) > longest))
        if (ratio := settings.max_ratio) is not None:
            self._checks.append(
                (
                    "max_ratio",
                    lambda a, b: max(len(a), len(b)) > ratio * (min(len(a), len(b)) or math.inf),
                )
            )
        if settings.identical:
            self._checks.append(("identical", lambda a, b: a == b != ""))
        if settings.wrong_language:
            if guesser is None:
                raise ValueError("the wrong_language step needs a LanguageGuesser")
            first, second = languages
            self._checks.append(
                (
                    "wrong_language",
                    lambda a, b: guesser.is_wrong(a, first) or guesser.is_wrong(b, second),
                )
            )
        # Steps that drop nothing are part of the account too.
        self.dropped: Counter[str] = Counter(
            dict.fromkeys(["line_over_1_mb", *(step for step, _ in self._checks)], 0)
        )

    def clean(self, lines: Lines) -> tuple[str, str] | None:
        """The mended pair, or None where a step dropped it; the first step that says no counts."""
        first, second = lines
        if first is None or second is None:
            self.dropped["line_over_1_mb"] += 1
            return None
        first = mend(first, self._settings, self.mended)
        second = mend(second, self._settings, self.mended)
        for step, says_no in self._checks:
            if says_no(first, second):
                self.dropped[step] += 1
                return None
        return first, second
