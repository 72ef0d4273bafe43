"""The translation of passages, apart from who computes it: a generator asks for sentences.

Text that must not change (code, a placeholder) is shown to the model in its sentence if it is a
single word. Where the translation has it again, unchanged and in order, it stays there. Where not,
the sentence is cut at it, and what is before and behind is translated on its own.
"""

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field

from accord.documents.passage import Mark, Passage, placed
from accord.documents.sentences import Piece, split, touching_space

_LONGEST_SHOWN = 40  # characters of fixed text that a model may be expected to repeat
_MOST_SHOWN = 20  # fixed texts in one sentence, the same


@dataclass(frozen=True)
class Sentence:
    """What is to be translated; `aligned`: which part looks at which is wanted, too."""

    text: str
    aligned: bool


@dataclass(frozen=True)
class Translated:
    """A translation; `links` has for each of its characters one of the sentence, or -1."""

    text: str
    links: Sequence[int] = ()


Asking = Generator[list[Sentence], Sequence[Translated], list[Passage | None]]
"""Asks for sentences until it has what it needs; returns the passages, None for unchanged ones."""


@dataclass
class _Stretch:
    """A sentence of a passage, its fixed marks, and its translation where it has one."""

    piece: Piece
    fixed: Sequence[Mark]
    found: Translated | None = None
    kept: dict[int, tuple[int, int]] = field(default_factory=dict)


def sentences_of(passages: Sequence[Passage]) -> int:
    """How many sentences will be asked for at first."""
    return sum(len(_sentences(passage)) for passage in passages)


def translating(passages: Sequence[Passage], target: str) -> Asking:
    """Translate passages into a language."""
    rows = [_sentences(passage) for passage in passages]
    yield from _ask(rows, passages)
    cut = [list(_cut_where_lost(row, passage)) for row, passage in zip(rows, passages, strict=True)]
    again = [[stretch for stretch in row if stretch.found is None] for row in cut]
    if any(again):
        yield from _ask(again, passages)
    return [
        _assembled(passage, row, target) if row else None
        for passage, row in zip(passages, cut, strict=True)
    ]


def translate_all(
    asking: Asking, answer: Callable[[list[Sentence]], Sequence[Translated]]
) -> list[Passage | None]:
    """Run a translation to its end, where `answer` can be waited for."""
    wanted = next(asking, None)
    try:
        while True:
            wanted = asking.send(answer(wanted or []))
    except StopIteration as end:
        found: list[Passage | None] = end.value
        return found


def _ask(
    rows: Sequence[Sequence[_Stretch]], passages: Sequence[Passage]
) -> Generator[list[Sentence], Sequence[Translated], None]:
    asked = [
        (stretch, Sentence(stretch.piece.text, bool(passage.marks)))
        for row, passage in zip(rows, passages, strict=True)
        for stretch in row
    ]
    answers = yield [sentence for _, sentence in asked]
    for (stretch, _), answer in zip(asked, answers, strict=True):
        stretch.found = answer


def _sentences(passage: Passage) -> list[_Stretch]:
    return _stretches(passage.text, passage.fixed(), 0, len(passage.text))


def _stretches(
    text: str, fixed: Sequence[Mark], start: int, end: int, shown: bool = True
) -> list[_Stretch]:
    """The sentences of text[start:end]; cut at fixed text that the model is not to be shown."""
    seen = [mark for mark in fixed if shown and _may_be_shown(text[mark.start : mark.end])]
    starts = [mark.start for mark in seen]
    known = set(starts)
    cuts = [(mark.start, mark.end) for mark in fixed if not shown or mark.start not in known]
    found: list[_Stretch] = []
    for stop, following in [*cuts, (end, end)]:
        for piece in split(text[start:stop]):
            moved = Piece(piece.text, start + piece.start, start + piece.end)
            own = seen[bisect_left(starts, moved.start) : bisect_left(starts, moved.end)]
            found.append(_Stretch(moved, own))
        start = following
    return found


def _may_be_shown(text: str) -> bool:
    return (
        (1 < len(text) <= _LONGEST_SHOWN or text.isdigit())
        and not re.search(r"[\s。！？｡]", text)
        and any(character.isalnum() for character in text)
    )


def _cut_where_lost(row: Sequence[_Stretch], passage: Passage) -> Iterator[_Stretch]:
    for stretch in row:
        kept = _kept(stretch, passage.text)
        if kept is None:
            ends = stretch.piece.start, stretch.piece.end
            yield from _stretches(passage.text, stretch.fixed, *ends, shown=False)
        else:
            stretch.kept = kept
            yield stretch


def _kept(stretch: _Stretch, text: str) -> dict[int, tuple[int, int]] | None:
    """Where the fixed texts stand in the translation; None where not all do, once and in order."""
    assert stretch.found is not None
    if len(stretch.fixed) > _MOST_SHOWN:
        return None
    at, kept = 0, {}
    wanted = [text[mark.start : mark.end] for mark in stretch.fixed]
    for mark, words in zip(stretch.fixed, wanted, strict=True):
        places = [match.span() for match in _whole(words).finditer(stretch.found.text)]
        following = [place for place in places if place[0] >= at]
        if len(places) != wanted.count(words) or not following:
            return None
        kept[mark.start] = following[0]
        at = following[0][1]
    return kept


def _whole(words: str) -> re.Pattern[str]:
    """The words, not as a part of others."""
    before = r"(?<!\w)" if words[0].isalnum() else ""
    behind = r"(?!\w)" if words[-1].isalnum() else ""
    return re.compile(before + re.escape(words) + behind)


def _assembled(passage: Passage, row: Sequence[_Stretch], target: str) -> Passage:
    """The passage with its sentences replaced, and all between them as it was."""
    made, links, at = "", list[int](), 0
    fixed: dict[int, tuple[int, int]] = {}
    shown = {mark.start for stretch in row for mark in stretch.fixed}
    waiting = deque(mark for mark in passage.fixed() if mark.start not in shown)

    def keep(end: int) -> None:
        """The source from `at` to `end` as it is, with the fixed texts in it."""
        nonlocal made
        while waiting and waiting[0].end <= end:
            mark = waiting.popleft()
            start = len(made) + mark.start - at
            fixed[mark.start] = (start, start + mark.end - mark.start)
        made += passage.text[at:end]
        links.extend(range(at, end))

    for stretch in row:
        piece, found = stretch.piece, stretch.found
        assert found is not None
        if at == piece.start and at > 0:
            glue = touching_space(target)
            made += glue
            links.extend([-1] * len(glue))
        else:
            keep(piece.start)
        for source, (start, end) in stretch.kept.items():
            fixed[source] = (len(made) + start, len(made) + end)
        made += found.text
        inside = list(found.links) or [-1] * len(found.text)
        links.extend(-1 if link < 0 else piece.start + link for link in inside)
        at = piece.end
    keep(len(passage.text))
    return placed(passage, made, links, fixed)
