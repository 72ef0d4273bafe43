"""The built-in corpus: dates, times, amounts and numbers in nine languages, made on the spot."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from accord.data.builtin_phrases import (
    CURRENCIES,
    DURATIONS,
    KINDS,
    LANGUAGES,
    LARGEST,
    MEASURES,
    Kind,
    Meaning,
    Numbers,
    render,
)
from accord.errors import AccordError
from accord.files import atomic_write, reading_errors
from accord.settings_fields import setting

Pair = tuple[str, str]
Row = tuple[str, ...]

_NOUNS: dict[Kind, tuple[str, ...]] = {
    "duration": DURATIONS,
    "money": CURRENCIES,
    "measure": MEASURES,
}
_LISTABLE: tuple[tuple[Kind, str], ...] = tuple(
    (kind, name) for kind, names in _NOUNS.items() for name in names
)
_FIRST_DAY = date(1900, 1, 1).toordinal()
_DAYS = date(2100, 1, 1).toordinal() - _FIRST_DAY


@dataclass(frozen=True)
class BuiltinCorpus:
    """Training corpora by pair, and development and test sets with the same lines in each language.

    No meaning, and no sentence of any language, stands in more than one of train, dev and test.
    """

    train: dict[Pair, list[tuple[str, str]]]
    dev: dict[str, list[str]]
    test: dict[str, list[str]]


@dataclass(frozen=True)
class BuiltinSettings:
    """How much text to make, and of what."""

    lines: int = setting(6000, "Lines of each training corpus.", least=1)
    held_out: int = setting(300, "Lines of dev and of test.", least=1)
    overlap: float = setting(0.5, "Share of the lines that stands in all corpora.", least=0, most=1)
    largest: int = setting(1000, "Largest number that occurs.", least=10, most=LARGEST)
    seed: int = setting(1, "Another seed, other lines.", least=0)


def make(
    languages: Sequence[str],
    pairs: Sequence[Pair],
    lines: int,
    *,
    seed: int,
    overlap: float = BuiltinSettings.overlap,
    kinds: Sequence[str] = KINDS,
    largest: int = BuiltinSettings.largest,
    numbers: Numbers = "digits",
    held_out: int = BuiltinSettings.held_out,
) -> BuiltinCorpus:
    """Make one corpus of `lines` lines for each pair, and multi-parallel dev and test sets.

    The share `overlap` of each corpus's meanings stands in all corpora, the rest in no other.
    Amounts go up to `largest` and are written as `numbers` says. The test and dev sets do not
    depend on pairs, lines and overlap, so that corpora of several sizes can be compared.
    """
    _check_names(languages, pairs, kinds)
    _check_sizes(lines, held_out, overlap, largest)
    shared = round(overlap * lines)
    own = lines - shared
    needed = 2 * held_out + shared + own * len(pairs)
    rng = random.Random(seed)
    meanings = _meanings([kind for kind in KINDS if kind in kinds], largest, rng)
    rows = _rows(meanings, needed, languages, numbers)
    if len(rows) < needed:
        raise AccordError(
            f"{needed:,} different lines are needed, but there are only {len(rows):,} "
            f"(kinds: {', '.join(kinds)}; largest: {largest})",
            fix="raise `largest`, add kinds or ask for fewer lines",
        )
    test, dev, rest = rows[:held_out], rows[held_out : 2 * held_out], rows[2 * held_out :]
    # Small kinds run out early; mixed, they do not all end up in the first corpora.
    rng.shuffle(rest)
    train = {}
    for index, pair in enumerate(pairs):
        start = shared + index * own
        corpus = rest[:shared] + rest[start : start + own]
        rng.shuffle(corpus)
        left, right = (languages.index(language) for language in pair)
        train[pair] = [(row[left], row[right]) for row in corpus]
    return BuiltinCorpus(train, _by_language(dev, languages), _by_language(test, languages))


def write(corpus: BuiltinCorpus, directory: Path, *, force: bool = False) -> list[Path]:
    """Write `train.en-de.en`, `train.en-de.de`, `dev.en`, `test.en` and so on; return the paths.

    A file that is there with other contents is an error before anything is written, unless `force`.
    """
    texts: dict[Path, list[str]] = {}
    for pair, lines in corpus.train.items():
        for side, language in enumerate(pair):
            texts[directory / f"train.{'-'.join(pair)}.{language}"] = [line[side] for line in lines]
    for split, sides in (("dev", corpus.dev), ("test", corpus.test)):
        texts |= {directory / f"{split}.{language}": lines for language, lines in sides.items()}
    contents = {path: "".join(f"{line}\n" for line in text) for path, text in texts.items()}
    for path, content in contents.items():
        if not force and _holds_other(path, content.encode()):
            raise AccordError(
                "there is a file of this name with other contents",
                where=str(path),
                fix="choose another directory, or overwrite it with --force",
            )
    for path, content in contents.items():
        with atomic_write(path) as file:
            file.write(content)
    return list(contents)


def _holds_other(path: Path, content: bytes) -> bool:
    with reading_errors(path):
        try:
            return path.read_bytes() != content
        except (FileNotFoundError, NotADirectoryError):
            return False  # a directory that cannot be made is the writer's to complain about


def _check_names(languages: Sequence[str], pairs: Sequence[Pair], kinds: Sequence[str]) -> None:
    for what, values, known in (("language", languages, LANGUAGES), ("kind", kinds, KINDS)):
        for value in values:
            if value not in known:
                raise AccordError(
                    f"the built-in corpus has no {what} {value!r}",
                    fix=f"choose among {', '.join(known)}",
                )
    for pair in pairs:
        if len({*pair} & {*languages}) != 2 or pairs.count(pair) > 1:
            raise AccordError(
                f"the pair {'-'.join(pair)} is named twice, or does not name two of the languages "
                f"{', '.join(languages)}",
                fix="name each pair once, and its languages among the languages",
            )


def _check_sizes(lines: int, held_out: int, overlap: float, largest: int) -> None:
    for what, value, least, most in (
        ("number of lines", lines, 1, math.inf),
        ("number of held-out lines", held_out, 0, math.inf),
        ("overlap", overlap, 0, 1),
        ("largest number", largest, 1, LARGEST),
    ):
        if not least <= value <= most:
            raise AccordError(
                f"the {what} of the built-in corpus cannot be {value}",
                fix=f"choose {least} or more" + (f", up to {most:,}" if most < math.inf else ""),
            )


def _rows(
    meanings: Iterator[Meaning], count: int, languages: Sequence[str], numbers: Numbers
) -> list[Row]:
    """The first `count` meanings in all languages; none shares a sentence with an earlier one."""
    seen: list[set[str]] = [set() for _ in languages]
    rows: list[Row] = []
    while len(rows) < count and (meaning := next(meanings, None)):
        row = tuple(render(meaning, language, numbers) for language in languages)
        if any(text in known for text, known in zip(row, seen, strict=True)):
            continue
        for text, known in zip(row, seen, strict=True):
            known.add(text)
        rows.append(row)
    return rows


def _meanings(kinds: Sequence[Kind], largest: int, rng: random.Random) -> Iterator[Meaning]:
    """All meanings of the kinds, each once, in random order."""
    return _in_turn([_of_kind(kind, largest, rng) for kind in kinds])


def _in_turn(streams: list[Iterator[Meaning]]) -> Iterator[Meaning]:
    """One meaning of each stream after the other; a stream that has run dry drops out."""
    while streams:
        for stream in tuple(streams):
            if meaning := next(stream, None):
                yield meaning
            else:
                streams.remove(stream)


def _of_kind(kind: Kind, largest: int, rng: random.Random) -> Iterator[Meaning]:
    match kind:
        case "number":
            return (Meaning(kind, values=(number,)) for number in _shuffled(largest + 1, rng))
        case "date":
            return (_date(index) for index in _shuffled(2 * _DAYS, rng))
        case "time":
            return (_time(index) for index in _shuffled(7 * 24 * 60, rng))
        case "list":
            return _in_turn([_lists(length, largest, rng) for length in (2, 3)])
        case _:
            nouns = [(kind, name) for name in _NOUNS[kind]]
            return (_amount(i, nouns, largest) for i in _shuffled(len(nouns) * largest, rng))


def _date(index: int) -> Meaning:
    day = date.fromordinal(_FIRST_DAY + index // 2)
    return Meaning("date", ("full", "long")[index % 2], (day.year, day.month, day.day))


def _time(index: int) -> Meaning:
    minutes, weekday = divmod(index, 7)
    return Meaning("time", values=(weekday, *divmod(minutes, 60)))


def _amount(index: int, nouns: Sequence[tuple[Kind, str]], largest: int) -> Meaning:
    noun, amount = divmod(index, largest)
    return Meaning(*nouns[noun], values=(amount + 1,))


def _lists(length: int, largest: int, rng: random.Random) -> Iterator[Meaning]:
    """Lists of different amounts."""
    items = len(_LISTABLE) * largest
    for index in _shuffled(math.perm(items, length), rng):
        parts = (_amount(i, _LISTABLE, largest) for i in _arrangement(index, items, length))
        yield Meaning("list", parts=tuple(parts))


def _arrangement(index: int, items: int, length: int) -> list[int]:
    """The index-th way to put `length` different ones of the items in a row."""
    chosen: list[int] = []
    for left in range(items, items - length, -1):
        index, choice = divmod(index, left)
        for earlier in sorted(chosen):
            choice += earlier <= choice
        chosen.append(choice)
    return chosen


def _shuffled(size: int, rng: random.Random) -> Iterator[int]:
    """0 to size - 1 in random order, at a cost that grows only with what is taken from it."""
    moved: dict[int, int] = {}
    for last in range(size - 1, -1, -1):
        choice = rng.randint(0, last)
        yield moved.get(choice, choice)
        moved[choice] = moved.get(last, last)


def _by_language(rows: list[Row], languages: Sequence[str]) -> dict[str, list[str]]:
    return {language: [row[index] for row in rows] for index, language in enumerate(languages)}
