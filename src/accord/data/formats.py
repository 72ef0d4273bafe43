"""Parallel texts in the formats people have, read as streams of sentence pairs.

None in place of a sentence stands for one above MAX_LINE_BYTES whose content was skipped.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from pathlib import Path
from typing import Any

from accord.config.paths import (
    COLUMN_FORMATS,
    fill,
    format_of,
    format_of_side,
    input_files,
    named_columns,
    tsv_columns,
)
from accord.config.schema import Corpus, Format, Source
from accord.data.markup import one_line, read_iwslt, read_sgm, read_tmx
from accord.data.parquet import read_columns
from accord.data.streams import read_lines
from accord.errors import AccordError

# --- Two sides walked in step: line i of one belongs to line i of the other, or it is an error.


_WINDOW = 20  # lines looked at together
_FACTOR = 2.0  # how much wider than usual the lengths must scatter to be suspicious
_FLOOR = 0.3  # scatter below this (a natural logarithm) is never suspicious


class _End(Enum):
    MARK = "end"


@dataclass(frozen=True)
class Side:
    """One side of a corpus: its language, the path it is read from, and its lines."""

    language: str
    path: str
    lines: Iterable[str | None]


def aligned(
    first: Side, second: Side, *, unit: str = "line"
) -> Iterator[tuple[str | None, str | None]]:
    """The pairs of both sides; different numbers of lines raise an error with both counts."""
    drift = Drift()
    lines = iter(first.lines), iter(second.lines)
    for a, b in zip_longest(*lines, fillvalue=_End.MARK):
        if a is _End.MARK:
            counts = drift.lines, drift.lines + 1 + sum(1 for _ in lines[1])
            raise _unequal((first, second), counts, drift, unit)
        if b is _End.MARK:
            counts = drift.lines + 1 + sum(1 for _ in lines[0]), drift.lines
            raise _unequal((first, second), counts, drift, unit)
        drift.see(a, b)
        yield a, b


def _unequal(
    sides: tuple[Side, Side], counts: tuple[int, int], drift: "Drift", unit: str
) -> AccordError:
    listed = " but ".join(
        f"{side.language} has {count:,} {unit}s ({side.path})"
        for side, count in zip(sides, counts, strict=True)
    )
    return AccordError(
        f"the two sides do not go together: {listed}; {drift.report(unit)}",
        fix=f"both sides must have the same {unit}s in the same order: look at the {unit}s around "
        "the place named, or fetch both files again from one release",
    )


class Drift:
    """Watches, in constant memory, for the place where two sides stop being translations.

    It is a heuristic, for error messages only. A line is suspicious if it is empty on one side
    only. Two neighbouring windows of lines are suspicious if the ratios of the two lengths
    scatter far more in them than before: where a line was lost, sentences of unrelated lengths
    meet, although their average lengths stay the same.
    """

    def __init__(self) -> None:
        self.lines = 0
        self.lopsided: int | None = None
        self.drifted: int | None = None
        self._ratios, self._ratio_sum = 0, 0.0
        self._calm, self._calm_sum = 0, 0.0
        self._window, self._window_sum, self._window_start = 0, 0.0, 1
        self._suspect: int | None = None

    def see(self, first: str | None, second: str | None) -> None:
        """Takes notice of the next pair of lines; None is a line whose content is unknown."""
        self.lines += 1
        if self.drifted is not None or first is None or second is None:
            return
        if first and second:
            self._measure(math.log(len(first) / len(second)))
        elif (first or second) and self.lopsided is None:
            self.lopsided = self.lines

    def _measure(self, ratio: float) -> None:
        self._ratios += 1
        self._ratio_sum += ratio
        if self._window == 0:
            self._window_start = self.lines
        self._window += 1
        self._window_sum += abs(ratio - self._ratio_sum / self._ratios)
        if self._window == _WINDOW:
            self._judge(self._window_sum / _WINDOW)
            self._window, self._window_sum = 0, 0.0

    def _judge(self, scatter: float) -> None:
        if self._calm >= 2 and scatter > max(_FLOOR, _FACTOR * self._calm_sum / self._calm):
            self.drifted = self._suspect
            self._suspect = self._window_start
            return
        self._suspect = None
        self._calm += 1
        self._calm_sum += scatter

    def report(self, unit: str) -> str:
        """What was found, in words."""
        empty = f"{unit} {self.lopsided:,} is empty on one side only" if self.lopsided else ""
        if self.drifted is not None:
            also = f" ({empty})" if empty else ""
            return (
                f"first suspicious {unit} {self.drifted:,}: from about there on the lengths of "
                f"the two sides no longer agree{also}"
            )
        if empty:
            return f"first suspicious {unit} {self.lopsided:,}: it is empty on one side only"
        return f"no suspicious {unit} was found, so the difference may lie at the end"


__all__ = [
    "Format",
    "Pair",
    "read_corpus",
    "read_pair",
    "read_side",
    "read_sources",
    "source_files",
]

Pair = tuple[str | None, str | None]


def read_corpus(corpus: Corpus) -> Iterator[Pair]:
    """The sentence pairs of all sources of a corpus, one source after the other."""
    return read_sources(corpus.train, corpus.languages)


def read_sources(sources: Iterable[Source], languages: tuple[str, str]) -> Iterator[Pair]:
    """The sentence pairs of some of them."""
    for source in sources:
        yield from read_pair(source.path, languages, format=source.format, columns=source.columns)


def read_pair(
    path: str,
    languages: tuple[str, str],
    *,
    format: Format = "auto",  # noqa: A002
    columns: Mapping[str, int | str] | None = None,
) -> Iterator[Pair]:
    """The sentence pairs of a corpus; `{lang}` in the path stands for each of the languages.

    Wrong paths and formats fail at once, wrong contents when the reading comes to them.
    """
    kind = format_of(path, format)
    source_files(path, languages, format=kind)
    chosen = tsv_columns(path, languages, kind, columns)
    if kind in COLUMN_FORMATS:
        names = named_columns(path, languages, kind, columns)
        return ((first, second) for first, second in read_columns(path, languages, kind, names))
    if kind == "tsv":
        return _read_tsv(path, languages, chosen)
    if kind == "jsonl":
        return ((first, second) for first, second in _read_jsonl(path, languages))
    if kind == "tmx":
        return read_tmx(path, languages)
    sides = [Side(name, fill(path, name), _one_side(path, name, kind)) for name in languages]
    return aligned(sides[0], sides[1], unit="line" if kind == "text" else "segment")


def read_side(
    path: str,
    language: str,
    *,
    format: Format = "auto",  # noqa: A002
) -> Iterator[str | None]:
    """The sentences of one language, for sets that are parallel in more than two."""
    kind = format_of_side(path, format)
    source_files(path, [language], format=kind)
    return _one_side(path, language, kind)


def source_files(
    path: str,
    languages: Sequence[str],
    *,
    format: Format = "auto",  # noqa: A002
) -> list[Path]:
    """All physical files that are read for these languages, sorted; a missing one is an error."""
    format_of(path, format)
    return sorted({file for name in languages for file in input_files(fill(path, name))})


def _one_side(path: str, language: str, kind: Format) -> Iterator[str | None]:
    file = fill(path, language)
    if kind == "iwslt":
        return read_iwslt(file)
    if kind == "sgm":
        return read_sgm(file, language, labelled="{lang}" not in path)
    if kind == "jsonl":
        return (side for (side,) in _read_jsonl(file, [language]))
    if kind in COLUMN_FORMATS:
        return (side for (side,) in read_columns(file, [language], kind, None))
    if kind == "text":
        return read_lines(file)
    raise ValueError(f"one side of the format {kind} cannot be read: say so in config/paths.py")


def _read_tsv(path: str, languages: tuple[str, str], columns: tuple[int, int]) -> Iterator[Pair]:
    needed = max(columns) + 1
    for number, line in enumerate(read_lines(path, strip=False), 1):
        if line is None:
            yield None, None
            continue
        cells = line.split("\t")
        if len(cells) < needed:
            raise AccordError(
                f"the line has {len(cells)} columns, but {needed} are needed for "
                f"{languages[0]} and {languages[1]}",
                where=f"{path}, line {number}",
                fix="columns are separated by single tabs; mend the line or set columns",
            )
        yield cells[columns[0]].strip(), cells[columns[1]].strip()


def _read_jsonl(path: str, languages: Sequence[str]) -> Iterator[list[str | None]]:
    blank = None
    for number, line in enumerate(read_lines(path), 1):
        if line is None:
            yield [None for _ in languages]
        elif not line:
            blank = blank or number
        elif blank is not None:
            raise _bad_json(f"{path}, line {blank}", "a blank line amid the records")
        else:
            where = f"{path}, line {number}"
            record = _parse(line, where)
            yield [_value(record, language, where) for language in languages]


def _parse(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _bad_json(where, f"not valid JSON ({error})") from None
    inner = record.get("translation", record) if isinstance(record, dict) else record
    if not isinstance(inner, dict):
        raise _bad_json(where, "not a JSON object of languages")
    return inner


def _value(record: dict[str, Any], language: str, where: str) -> str:
    value = record.get(language)
    if language not in record:
        found = ", ".join(sorted(record)[:10]) or "nothing"
        raise _bad_json(where, f"no text for the language {language}; the keys are: {found}")
    if not isinstance(value, str):
        raise _bad_json(where, f"the {language} text is {json.dumps(value)[:40]}, which is no text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _bad_json(where, f"the {language} text has half of a surrogate pair") from None
    return one_line(value)


def _bad_json(where: str, what: str) -> AccordError:
    return AccordError(
        what, where=where, fix='each line must be like {"translation": {"en": "...", "de": "..."}}'
    )
