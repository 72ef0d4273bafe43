"""Simple rates that show what BLEU hides: length, exact matches, copies, repetition.

Texts are lists of equal length with at least one sentence. Rates are shares from 0 to 1.
"""

from collections.abc import Iterable, Sequence

from accord.metrics.bleu import tokens

_LONGEST_REPEATED = 4


def length_ratio(hypotheses: Sequence[str], references: Sequence[str], language: str) -> float:
    """Tokens of all hypotheses over tokens of all references, BLEU's tokens."""
    found = sum(len(tokens(text, language)) for text in hypotheses)
    return found / max(sum(len(tokens(text, language)) for text in references), 1)


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Share of hypotheses equal to their reference, white space at the ends aside."""
    pairs = zip(hypotheses, references, strict=True)
    return _share(hypothesis.strip() == reference.strip() for hypothesis, reference in pairs)


def copy_rate(sources: Sequence[str], hypotheses: Sequence[str]) -> float:
    """Share of hypotheses equal to their source, case and white space at the ends aside.

    Numbers and names rightly stay as they are, so that zero is not always to be had.
    """
    pairs = zip(sources, hypotheses, strict=True)
    return _share(
        source.strip().casefold() == hypothesis.strip().casefold() for source, hypothesis in pairs
    )


def repetition_rate(hypotheses: Sequence[str], language: str) -> float:
    """Share of hypotheses with one to four tokens said three times or more in a row.

    What is repeated must hold a letter: rows of dots and groups of digits are normal text.
    """
    return _share(is_repetitive(tokens(text, language)) for text in hypotheses)


def is_repetitive(words: Sequence[str]) -> bool:
    """Whether an n-gram (n up to 4) with a letter occurs three times in a row, in any case."""
    words = [word.casefold() for word in words]
    for size in range(1, _LONGEST_REPEATED + 1):
        run = 0  # so many words in a row are the same as `size` places before
        for place in range(size, len(words)):
            run = run + 1 if words[place] == words[place - size] else 0
            if run >= 2 * size and any(map(_has_letter, words[place - size : place])):
                return True
    return False


def _has_letter(word: str) -> bool:
    return any(character.isalpha() for character in word)


def _share(marks: Iterable[bool]) -> float:
    seen = list(marks)
    return sum(seen) / len(seen)
