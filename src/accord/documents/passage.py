"""Passages: text with marks inside it, and where the marks go when the text is translated.

A passage is what is translated as a whole, as a rule a paragraph. Its marks are what is not text: a
bold word, a link, a picture. Every word of a translation looks at a word of the source (see
`accord.inference.alignments`), and that places them:

- an element encloses the stretch of words in which those that look at a word inside it outnumber
  the others by most; where none does, as many words as it had, at the place in proportion;
- what stands between words (a picture, a footnote's number) goes behind the word that looks at the
  word before it, and such things keep their order;
- what has text of its own that must not change (code) stays whole wherever that text stands.

No mark is ever lost or torn, and none changes the text. In a passage with thousands of marks all of
them are placed in proportion.
"""

import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

_WIDE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
# A word, a character of a script that is written without spaces, or a single other sign.
_UNIT = re.compile(rf"[{_WIDE}]|[^\W{_WIDE}]+|[^\w\s]")
_FIXED = 1_000_000  # what a unit counts that must be inside
MOST_LEVELS = 50
"""Marks inside each other; readers leave alone, as an object, what lies deeper."""
_MOST_STEPS = 2_000_000  # marks times words; more would take seconds


@dataclass(frozen=True)
class Mark:
    """What is not text, around text[start:end] or, where that is empty, at a place.

    `payload` is what the format needs to write it again. A `fixed` one has text that stays as it
    is; `inner` are the marks inside it.
    """

    start: int
    end: int
    payload: Any = None
    fixed: bool = False
    inner: tuple["Mark", ...] = ()


@dataclass(frozen=True)
class Passage:
    """Text and its marks, none of which overlaps another, in the order of their places."""

    text: str
    marks: tuple[Mark, ...] = ()

    def fixed(self) -> list[Mark]:
        """All marks whose text must not change."""
        return [mark for mark in _all(self.marks) if _has_fixed_text(mark)]

    def written(
        self,
        words: Callable[[str], str],
        around: Callable[[Mark, str], str],
    ) -> str:
        """The passage as a string: `words` writes text, `around` a mark with what is inside it."""
        return self._written(0, len(self.text), self.marks, words, around)

    def _written(
        self,
        start: int,
        end: int,
        marks: Sequence[Mark],
        words: Callable[[str], str],
        around: Callable[[Mark, str], str],
    ) -> str:
        parts = []
        for piece in pieces(start, end, marks):
            if isinstance(piece, Mark):
                inside = self._written(piece.start, piece.end, piece.inner, words, around)
                parts.append(around(piece, inside))
            else:
                parts.append(words(self.text[slice(*piece)]))
        return "".join(parts)


def pieces(start: int, end: int, marks: Sequence[Mark]) -> Iterator[Mark | tuple[int, int]]:
    """Marks and the stretches of text between them, in order."""
    for mark in marks:
        if start < mark.start:
            yield start, mark.start
        yield mark
        start = mark.end
    if start < end:
        yield start, end


def _has_fixed_text(mark: Mark) -> bool:
    return mark.fixed and mark.start < mark.end


def _all(marks: Sequence[Mark]) -> Iterator[Mark]:
    for mark in marks:
        yield mark
        yield from _all(mark.inner)


@dataclass(frozen=True)
class _Unit:
    """A word or a sign of the translation, and the place in the source that it looks at, or -1."""

    start: int
    end: int
    source: int
    is_word: bool


def placed(
    passage: Passage,
    text: str,
    links: Sequence[int],
    fixed: Mapping[int, tuple[int, int]],
) -> Passage:
    """The translation `text` with the marks of the passage.

    `links` has for each of its characters one of the source, or -1; `fixed` has for the start of
    each fixed mark where its text now stands.
    """
    if not passage.marks:
        return Passage(text)
    units = _units(passage, text, links, fixed)
    if len(units) * sum(1 for _ in _all(passage.marks)) > _MOST_STEPS:
        return Passage(text, _scaled(passage, text, units, fixed))
    marks = _Placing(passage.text, text, units, fixed, sorted(fixed)).place(
        passage.marks, (0, len(units)), (0, len(passage.text)), (0, len(text))
    )
    return Passage(text, marks)


def _units(
    passage: Passage, text: str, links: Sequence[int], fixed: Mapping[int, tuple[int, int]]
) -> list[_Unit]:
    units: list[_Unit] = []
    ends = sorted({end for mark in _all(passage.marks) for end in (mark.start, mark.end)})
    at = 0
    for source, (start, end) in sorted(fixed.items(), key=lambda item: item[1]):
        for unit in _words(text, links, at, start):
            units += _parts(unit, text, passage.text, ends)
        units.append(_Unit(start, end, source, True))
        at = end
    for unit in _words(text, links, at, len(text)):
        units += _parts(unit, text, passage.text, ends)
    return units


def _words(text: str, links: Sequence[int], start: int, end: int) -> Iterator[_Unit]:
    for found in _UNIT.finditer(text, start, end):
        seen = [link for link in links[found.start() : found.end()] if link >= 0]
        source = seen[len(seen) // 2] if seen else -1
        yield _Unit(found.start(), found.end(), source, found[0][0].isalnum())


def _parts(unit: _Unit, text: str, source: str, ends: Sequence[int]) -> Iterator[_Unit]:
    """The unit; one that is the same in both texts and has marks inside (H₂O) is cut at them."""
    word = text[unit.start : unit.end]
    low = source.find(word, max(0, unit.source - len(word) + 1), unit.source + len(word))
    if unit.source < 0 or low < 0:
        yield unit
        return
    cuts = ends[bisect_right(ends, low) : bisect_left(ends, low + len(word))]
    for start, end in itertools.pairwise([low, *cuts, low + len(word)]):
        behind = unit.start - low
        yield _Unit(start + behind, end + behind, start if cuts else unit.source, unit.is_word)


Range = tuple[int, int]


@dataclass(frozen=True)
class _Placing:
    """Puts the marks of one passage into its translation."""

    source: str
    text: str
    units: Sequence[_Unit]
    fixed: Mapping[int, tuple[int, int]]
    pins: list[int]

    def place(
        self, marks: Sequence[Mark], window: Range, outer: Range, inside: Range
    ) -> tuple[Mark, ...]:
        """The marks of source[outer], among the units of the window, in text[inside]."""
        taken: dict[int, Range] = {}  # by the number of the mark, the units it has
        for number in sorted(range(len(marks)), key=lambda i: not self._pins(marks[i])):
            if self._is_around(marks[number]):
                found = self._window(marks[number], window, outer, taken.values())
                if found is not None:
                    taken[number] = found
        made: list[Mark] = []
        before = inside[0]
        for number, mark in enumerate(marks):
            if number in taken:
                made.append(self._around(mark, taken[number]))
            else:
                before = self._place_of(mark, window, outer, inside, taken.values(), before)
                made.append(replace(mark, start=before, end=before, inner=_emptied(mark, before)))
        return tuple(sorted(made, key=lambda mark: (mark.start, mark.end)))

    def _pins(self, mark: Mark) -> list[int]:
        """Where the fixed texts of a mark began in the source; with any, its place is not free."""
        low, high = (bisect_left(self.pins, end) for end in (mark.start, mark.end))
        return self.pins[low:high]

    def _is_around(self, mark: Mark) -> bool:
        if mark.fixed:
            return mark.start < mark.end
        said = _UNIT.search(self.source, mark.start, mark.end) is not None
        return said or bool(self._pins(mark))

    def _around(self, mark: Mark, window: Range) -> Mark:
        start, end = self.units[window[0]].start, self.units[window[1] - 1].end
        if mark.fixed:
            return replace(mark, start=start, end=end)
        inner = self.place(mark.inner, window, (mark.start, mark.end), (start, end))
        return replace(mark, start=start, end=end, inner=inner)

    def _window(
        self, mark: Mark, window: Range, outer: Range, taken: Collection[Range]
    ) -> Range | None:
        """The units that a mark is to enclose, of those that no other has; None: none is left."""
        if mark.fixed:
            start = self.fixed[mark.start][0]
            [place] = [i for i in range(*window) if self.units[i].start == start]
            return place, place + 1
        mine = {self.fixed[pin][0] for pin in self._pins(mark)}
        theirs = {start for start, _ in self.fixed.values()} - mine
        barred = {i for low, high in taken for i in range(low, high)}
        barred |= {i for i in range(*window) if self.units[i].start in theirs}
        if not barred and self._is_all(mark, outer):
            return window
        found = self._best(mark, window, barred, mine)
        if found is None:
            return self._in_proportion(mark, window, outer, barred)
        return self._with_signs(mark, found, window, barred)

    def _is_all(self, mark: Mark, outer: Range) -> bool:
        """Whether nothing is said outside of it."""
        return not (
            _UNIT.search(self.source, outer[0], mark.start)
            or _UNIT.search(self.source, mark.end, outer[1])
        )

    def _best(self, mark: Mark, window: Range, barred: set[int], mine: set[int]) -> Range | None:
        """The stretch with the greatest sum of 1 for words of the mark and -1 for others."""
        best, found = 0, None
        total, start = 0, window[0]
        for i in range(*window):
            unit = self.units[i]
            if i in barred:
                total, start = 0, i + 1
                continue
            total += self._counts(unit, mark, mine)
            if total <= 0:
                total, start = 0, i + 1
            elif total > best:
                best, found = total, (start, i + 1)
        return found

    def _counts(self, unit: _Unit, mark: Mark, mine: set[int]) -> int:
        if unit.start in mine:
            return _FIXED
        if not unit.is_word or unit.source < 0:
            return 0
        return 1 if mark.start <= unit.source < mark.end else -1

    def _with_signs(self, mark: Mark, found: Range, window: Range, barred: set[int]) -> Range:
        """Signs at its ends belong to a mark as they did in the source."""
        low, high = found
        said = self.source[mark.start : mark.end].strip()
        if said and not said[0].isalnum():
            while low > window[0] and self._is_sign(low - 1, barred):
                low -= 1
        if said and not said[-1].isalnum():
            while high < window[1] and self._is_sign(high, barred):
                high += 1
        return low, high

    def _is_sign(self, number: int, barred: set[int]) -> bool:
        return number not in barred and not self.units[number].is_word

    def _in_proportion(
        self, mark: Mark, window: Range, outer: Range, barred: set[int]
    ) -> Range | None:
        words = len(_UNIT.findall(self.source, mark.start, mark.end))
        share = (mark.start - outer[0]) / max(1, outer[1] - outer[0])
        at = window[0] + round(share * (window[1] - window[0]))
        free = [i for i in range(*window) if i not in barred and self.units[i].is_word]
        if not free:
            return None
        low = min(free, key=lambda i: abs(i - at))
        high = low + 1
        while high < window[1] and high not in barred and high - low < words:
            high += 1
        return low, high

    def _place_of(
        self,
        mark: Mark,
        window: Range,
        outer: Range,
        inside: Range,
        taken: Collection[Range],
        least: int,
    ) -> int:
        """Where something without text goes: never into a mark beside it, never before `least`."""
        at = self._behind(mark, window, outer, inside)
        if mark.start and self.source[mark.start - 1].isspace():  # its own space stays before it
            while at < inside[1] and self.text[at].isspace():
                at += 1
        at = max(at, least)
        for low, high in sorted(taken):
            if self.units[low].start < at < self.units[high - 1].end:
                at = self.units[high - 1].end
        return at

    def _behind(self, mark: Mark, window: Range, outer: Range, inside: Range) -> int:
        words = range(*window)
        if not _UNIT.search(self.source, outer[0], mark.start):
            return inside[0]
        if not _UNIT.search(self.source, mark.start, outer[1]):
            return inside[1]
        before = [i for i in words if 0 <= self.units[i].source < mark.start]
        if not before:
            return inside[0]
        nearest = max(self.units[i].source for i in before)
        return max(self.units[i].end for i in before if self.units[i].source == nearest)


def _emptied(mark: Mark, at: int) -> tuple[Mark, ...]:
    """The marks inside one that has no text left, all at its place."""
    return tuple(replace(one, start=at, end=at, inner=_emptied(one, at)) for one in mark.inner)


def _scaled(
    passage: Passage, text: str, units: Sequence[_Unit], fixed: Mapping[int, tuple[int, int]]
) -> tuple[Mark, ...]:
    """All marks in proportion, between the fixed ones: places that rise stay in order."""
    anchors = [(0, 0)]
    for mark in passage.fixed():
        anchors += zip((mark.start, mark.end), fixed[mark.start], strict=True)
    anchors.append((len(passage.text), len(text)))
    sources = [source for source, _ in anchors]
    starts = [unit.start for unit in units]

    def place(at: int) -> int:
        number = bisect_right(sources, at) - 1
        source, target = anchors[number]
        if at == source or number + 1 == len(anchors):
            return target
        following, limit = anchors[number + 1]
        exact = target + (at - source) * (limit - target) // (following - source)
        word = bisect_left(starts, exact)
        return min(limit, starts[word]) if word < len(starts) else limit

    def moved(mark: Mark) -> Mark:
        if _has_fixed_text(mark):
            start, end = fixed[mark.start]
            return replace(mark, start=start, end=end)
        inner = tuple(map(moved, mark.inner))
        return replace(mark, start=place(mark.start), end=place(mark.end), inner=inner)

    return tuple(map(moved, passage.marks))
