"""How often text like a store's is called unlike it, how often other text is, and foreign words.

    python benchmarks/training_text.py STORE ['other.{lang}.xz']

Limits are set on the dev set and measured on the test set; the other text has a file for some of
the languages. For foreign words, each test sentence is asked as it is, and with one word (of four
letters or more) of its translation into another language behind it.
"""

import sys
from pathlib import Path

from accord.data.store import Store
from accord.data.streams import read_lines
from accord.inference.training_text import TrainingText, measure_usual
from where import where


def main(directory: str, other: str = "") -> None:
    """Print the table."""
    store = Store(Path(directory))
    text = TrainingText(store.token_counts(), store.vocabulary.pieces())
    [dev], [test] = store.held_out.sets("dev"), store.held_out.sets("test")
    print(f"{directory} {other}: {where()}\n")
    print("| language | test: unlike | other text: unlike | test: foreign | one word: foreign |")
    print("|---|--:|--:|--:|--:|")
    for language in store.languages:
        lines = [line for line in dev.lines(language) if line]
        bits = (text.bits(ids, language) for ids in store.vocabulary.encode(lines))
        if usual := measure_usual(zip(bits, map(len, lines), strict=True)):
            text.usual[language] = usual
    for language in store.languages:
        lines = test.lines(language)
        file = Path(other.replace("{lang}", language))
        foreign = [line or "" for line in read_lines(str(file))] if file.is_file() else []
        shares = [_unlike(store, text, language, some) for some in (lines, foreign)]
        theirs = [test.lines(each) for each in store.languages if each != language]
        shares += _foreign(store, text, language, lines, theirs)
        print(f"| {language} | {' | '.join(shares)} |", flush=True)


def _unlike(store: Store, text: TrainingText, language: str, lines: list[str]) -> str:
    rows = zip(store.vocabulary.encode(lines), lines, strict=True)
    seen = [text.familiarity(ids, len(line), language).unlike is True for ids, line in rows if line]
    return _share(sum(seen), len(seen))


def _foreign(
    store: Store, text: TrainingText, language: str, lines: list[str], theirs: list[list[str]]
) -> list[str]:
    alarms = found = asked = 0
    for number, line in enumerate(lines):
        [own] = store.vocabulary.encode([line])
        alarms += text.has_foreign_words(own, language, [])
        for others in theirs:
            words = [w for w in others[number].split() if len(w) > 3 and w.isalpha()]
            if words:
                word = words[number % len(words)]
                [ids] = store.vocabulary.encode([f"{line} {word}"])
                asked += 1
                found += text.has_foreign_words(ids, language, own)
    return [_share(alarms, len(lines)), _share(found, asked)]


def _share(some: int, of: int) -> str:
    return f"{some:,} of {of:,} ({some / of:.1%})" if of else ""


if __name__ == "__main__":
    main(*sys.argv[1:])
