"""Words of a text: tokenising, joining words to text again, truecasing.

A phrase-based system works on words, not on subwords. Punctuation and other symbols become words of
their own, and carry the joiner on each side where they touched what stands there: "don't (ever)!"
is `don ￭'￭ t (￭ ever ￭) ￭!`. So no rules of a language are needed to put the words together again,
and a word is the same whether or not a comma follows. Characters of scripts that put no spaces
between words count as symbols, too: each is a word.

The first word of a sentence is written as it would be in the middle of one (truecasing, Koehn's
"Statistical Machine Translation", 2010, section 4.1), and the first word of a translation is given
its capital back.
"""

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

JOINER = "￭"
_NO_JOINER = "■"  # what a joiner in the text itself is written as

# Thot reads a word of this name as "no word at all".
_TAKEN = "NULL"
# Han, kana, Thai, Lao, Burmese, Khmer: no spaces between words.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
)
_SENTENCE_ENDS = tuple(f"{JOINER}{mark}" for mark in ".!?")


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    """A word: letters, digits and the marks on them, also with a hyphen inside, or a dot or comma
    between digits; or any other single character."""
    marks = "".join(
        chr(code) for code in range(sys.maxunicode) if unicodedata.category(chr(code))[0] == "M"
    )
    letter = f"(?:(?![{_UNSPACED}])(?:[^\\W_]|[{marks}]))"
    return re.compile(rf"({letter}+(?:(?:-|(?<=\d)[.,](?=\d)){letter}+)*)|(.)", re.DOTALL)


def tokenise(text: str) -> list[str]:
    """The words of a text; `join` makes the text of them again, but for kinds of spaces."""
    return [word for part in text.replace(JOINER, _NO_JOINER).split() for word in _words(part)]


def _words(part: str) -> Iterable[str]:
    """The words of a text without spaces: symbols are marked where they touch others."""
    found = [(match[0], match[1] is not None) for match in _pattern().finditer(part)]
    for place, (word, is_word) in enumerate(found):
        if is_word:
            yield from (word[:1] + JOINER, word[1:]) if word == _TAKEN else (word,)
            continue
        # Of two symbols that touch, the second one says so.
        before = JOINER if place else ""
        after = JOINER if place + 1 < len(found) and found[place + 1][1] else ""
        yield f"{before}{word}{after}"


def join(words: Sequence[str]) -> str:
    """The text that words make."""
    text, touches = "", True
    for word in words:
        left, right = word.startswith(JOINER), word.endswith(JOINER)
        text += ("" if touches or left else " ") + word.strip(JOINER)
        touches = right
    return text


# --- Truecasing.


def _first(words: Sequence[str]) -> int | None:
    """The place of the first word with a letter."""
    return next((place for place, word in enumerate(words) if word[:1].isalpha()), None)


@dataclass(frozen=True)
class Truecaser:
    """How words of a language are written where no sentence begins."""

    forms: Mapping[str, str]
    """By the word in lower case: its most frequent form."""

    @staticmethod
    def learn(sentences: Iterable[Sequence[str]]) -> "Truecaser":
        """Count the words that begin no sentence; of forms as frequent the first in order."""
        counts: Counter[str] = Counter()
        for words in sentences:
            begins = True
            for word in words:
                if word[:1].isalpha():
                    counts.update(() if begins else (word,))
                    begins = False
                elif word in _SENTENCE_ENDS:
                    begins = True
        best: dict[str, str] = {}
        for word in sorted(counts, key=lambda word: (-counts[word], word)):
            best.setdefault(word.lower(), word)
        return Truecaser(best)

    def truecase(self, words: Sequence[str]) -> list[str]:
        """The first word as it is written elsewhere; one that was never seen there stays."""
        changed, place = list(words), _first(words)
        if place is not None and words[place] == words[place].capitalize():
            changed[place] = self.forms.get(words[place].lower(), words[place])
        return changed


def recase(words: Sequence[str], source: Sequence[str]) -> list[str]:
    """A translation that begins with a capital, unless its source begins with a small letter."""
    changed, place, theirs = list(words), _first(words), _first(source)
    if place is not None and (theirs is None or not source[theirs][0].islower()):
        changed[place] = words[place][:1].upper() + words[place][1:]
    return changed
