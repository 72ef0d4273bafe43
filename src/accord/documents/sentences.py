"""Texts taken apart into sentences, and put together again around their translations.

Models translate sentences. What lies between two of them (spaces, line breaks, lines of dashes)
is kept as it is. Where the rules are in doubt they do not cut: a model bears two sentences in one
better than half a sentence.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

_BREAKS = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
# “ closes a quotation in German and opens one in English; right after a full stop it closes.
_CLOSERS = "\"'”’“‘»«›‹)\\]}"
_OPENERS = "\"'“‘„‚«»‹›([{¿¡—–-"
_WIDE_CLOSERS = "」』）】》〉”’\"')"
_WIDE_OPENERS = "「『（【《〈“‘"
# A run of marks that may end a sentence, with the quotes and brackets that close after it. The
# wide marks end one even where no space follows.
_END = re.compile(f"(?P<marks>[.!?…‼⁇⁈⁉؟۔।॥]+)[{_CLOSERS}]*|(?P<wide>[。！？｡]+)[{_WIDE_CLOSERS}]*")
_LAST_WORD = re.compile(r"\S{1,24}$")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
_ROMAN = re.compile(r"[IVXLC]{2,7}")
# Followed by more of the same sentence, even where that begins with a capital.
_ABBREVIATIONS = (
    "mr mrs ms dr prof st sen gov gen col lt sgt capt rev hr frl hl mme mlle sr sra srta dña dipl "
    "vs bzw ca cf vgl evtl ggf inkl approx resp sog av avda ctra núm nr abs aufl vol"
)
# The same, but words of their own unless a number follows.
_BEFORE_NUMBERS = (
    "no nos num art bd bl fig abb tab pp pag pág pos tel eq sec ch kap max min "
    "jan feb mar apr jun jul aug sep sept oct okt nov dec dez"
)
_ALWAYS_ON, _ON_TO_NUMBERS = set(_ABBREVIATIONS.split()), set(_BEFORE_NUMBERS.split())
_WITHOUT_SPACES = frozenset(("zh", "zho", "cmn", "yue", "ja", "jpn", "th", "tha", "lo", "km", "my"))


@dataclass(frozen=True)
class Piece:
    """A sentence of a text: `text` is text[start:end] of it, without white space at its ends."""

    text: str
    start: int
    end: int


def split(text: str) -> list[Piece]:
    """The sentences of a text, in order; what has neither letter nor digit belongs to none."""
    cuts = [0]
    for line in _lines(text):
        cuts += [line[0], *_ends(text, *line), line[1]]
    cuts.append(len(text))
    pieces = []
    for start, end in itertools.pairwise(cuts):
        inside = text[start:end]
        if any(character.isalnum() for character in inside):
            start += len(inside) - len(inside.lstrip())
            inside = inside.strip()
            pieces.append(Piece(inside, start, start + len(inside)))
    return pieces


def join(
    text: str, pieces: Sequence[Piece], translations: Sequence[str], target: str | None = None
) -> str:
    """The text with each sentence replaced, and all between them as it was.

    Sentences of Chinese or Japanese touch; a `target` language that writes spaces gets one there.
    """
    glue = touching_space(target) if target else ""
    parts, at = list[str](), 0
    for piece, translation in zip(pieces, translations, strict=True):
        touching = at == piece.start and at > 0
        parts += [glue if touching else text[at : piece.start], translation]
        at = piece.end
    return "".join([*parts, text[at:]])


def touching_space(target: str) -> str:
    """What a language writes between two sentences."""
    return "" if target.split("_")[0] in _WITHOUT_SPACES else " "


def _lines(text: str) -> list[tuple[int, int]]:
    starts, ends = [0], list[int]()
    for found in _BREAKS.finditer(text):
        ends.append(found.start())
        starts.append(found.end())
    return list(zip(starts, [*ends, len(text)], strict=True))


def _ends(text: str, start: int, end: int) -> list[int]:
    """Where sentences end inside the line text[start:end]."""
    found: list[int] = []
    for mark in _END.finditer(text, start, end):
        after = mark.end()
        if after == end:
            break
        if mark["wide"]:
            # After a closing quote the sentence often goes on: 「何？」と言った。
            ends = (
                after == mark.end("wide") or text[after].isspace() or text[after] in _WIDE_OPENERS
            )
        else:
            ends = text[after].isspace() and _is_end(text, found[-1] if found else start, mark)
        if ends:
            found.append(after)
    return found


def _is_end(text: str, start: int, mark: re.Match[str]) -> bool:
    # Looking ahead and back a little is enough, and keeps the time linear in the text.
    following = text[mark.end() : mark.end() + 16].lstrip().lstrip(_OPENERS).lstrip()
    if following[:1].islower():
        return False
    if mark["marks"] != ".":
        return True
    before = _LAST_WORD.search(text[max(start, mark.start() - 24) : mark.start()])
    return before is None or not _goes_on(before[0].lstrip(_OPENERS), following)


def _goes_on(word: str, following: str) -> bool:
    """Whether a full stop after this word is likely no end: abbreviations, ordinals, initials."""
    return (
        word.lower() in _ALWAYS_ON
        or (word.lower() in _ON_TO_NUMBERS and following[:1].isdigit())
        or _INITIALS.fullmatch(word) is not None
        or (word.isdigit() and len(word) <= 2)
        or _ROMAN.fullmatch(word) is not None
    )
