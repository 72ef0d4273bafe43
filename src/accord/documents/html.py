"""HTML: its text and the attributes that people read, translated; all else as it was.

Every token that is not translated is written again exactly as it came: pages and fragments, also
unbalanced ones. A parser that builds a tree would close, quote and move what it likes.

Text is gathered up to the next tag that is not inline, and is a passage. Elements that are code,
`translate="no"` and the class `notranslate` are left alone.
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from accord.documents.encoding import decoded
from accord.documents.html_tokens import RAW, Attribute, Token, names, tokens
from accord.documents.html_tokens import attributes as attributes_of
from accord.documents.passage import MOST_LEVELS, Mark, Passage

_SPACES = re.compile(r"[ \t\n\r\f]+")
_INLINE = names(
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark q s small span strike "
    "strong sub sup time tt u"
)
_OBJECTS = frozenset(("img", "wbr"))
_FOREIGN = frozenset(("math", "svg"))
_CODE = _FOREIGN | names("code kbd samp var")
_VOID = names("area base br col embed hr img input link meta param source track wbr")
# A tag of these ends one of the same name that is still open.
_CLOSES_ITSELF = names("dd dt li option p td th tr")

_EVERYWHERE = names(
    "title aria-label aria-description aria-placeholder aria-roledescription aria-valuetext"
)
_ATTRIBUTES = {
    "area": {"alt"},
    "img": {"alt"},
    "input": {"alt", "placeholder"},
    "optgroup": {"label"},
    "option": {"label"},
    "textarea": {"placeholder"},
    "th": {"abbr"},
    "track": {"label"},
}
_BUTTONS = frozenset(("button", "reset", "submit"))
_META = names(
    "description keywords author application-name og:title og:description og:site_name "
    "og:image:alt twitter:title twitter:description twitter:image:alt"
)

_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)


@dataclass(frozen=True)
class _Tag:
    """A tag as it is written; where an attribute is translated, its number and how it came."""

    parts: tuple[str | tuple[int, str], ...]


Raw = str | _Tag


@dataclass(frozen=True)
class Atom:
    """A part of a passage: text, an open or close tag (`said` is its name), or an object."""

    kind: str
    raw: Raw
    said: str = ""


class HtmlText:
    """HTML, taken apart; `passages` are what is to be translated."""

    def __init__(self, source: str, xml: bool = False) -> None:
        self.passages: list[Passage] = []
        self._raws: dict[int, list[Raw]] = {}
        self._parts: list[Raw | int] = []
        _Reader(self, xml or source[:100].lstrip().startswith("<?xml")).read(source)

    def written(self, translated: Sequence[Passage | None]) -> str:
        """The source with its passages replaced by their translations, where there are any."""

        def tag(raw: Raw) -> str:
            if isinstance(raw, str):
                return raw
            return "".join(part if isinstance(part, str) else value(*part) for part in raw.parts)

        def value(number: int, came: str) -> str:
            found = translated[number]
            return (
                came if found is None else '"' + _escaped(found.text).replace('"', "&quot;") + '"'
            )

        def around(mark: Mark, inside: str) -> str:
            if mark.fixed:
                return "".join(map(tag, mark.payload))
            before, behind = mark.payload
            return tag(before) + inside + tag(behind)

        made = []
        for part in self._parts:
            if not isinstance(part, int):
                made.append(tag(part))
            elif (passage := translated[part]) is None:
                made += map(tag, self._raws[part])
            else:
                made.append(passage.written(_escaped, around))
        return "".join(made)

    def add(self, raw: Raw) -> None:
        """What stays as it is."""
        self._parts.append(raw)

    def add_passage(self, passage: Passage, raws: list[Raw]) -> None:
        """What is translated here; `raws` is how it came."""
        self._parts.append(len(self.passages))
        self._raws[len(self.passages)] = raws
        self.passages.append(passage)

    def add_attribute(self, text: str) -> int:
        """What is translated inside a tag; returns its number."""
        self.passages.append(Passage(text))
        return len(self.passages) - 1


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)


@dataclass(frozen=True)
class _Open:
    """An element that is open, and whether what is in it is translated."""

    name: str
    translated: bool


class _Reader:
    """Goes through the tokens and tells passages from the rest."""

    def __init__(self, made: HtmlText, xml: bool) -> None:
        self._made = made
        self._xml = xml
        self._open: list[_Open] = []
        self._names: Counter[str] = Counter()
        self._atoms: list[Atom] = []
        self._verbatim = False  # spaces and line breaks count
        # An inline element that is left alone, since it was opened at so many elements.
        self._left: list[Token] = []
        self._left_at = 0

    def read(self, source: str) -> None:
        """All of it."""
        for token in tokens(source, self._xml):
            self._see(token)
        self._end_left()
        self._flush()

    def _see(self, token: Token) -> None:
        if token.kind == "open":
            self._begin(token)
        elif token.kind == "close":
            self._end(token)
        elif self._left:
            self._left.append(token)
        elif token.kind == "text" and self._is_translated():
            self._atoms.append(Atom("text", token.raw, html.unescape(token.raw)))
        elif token.raw.startswith("<!--"):
            self._atoms.append(Atom("object", token.raw))
        else:
            self._keep(token.raw)

    def _is_translated(self) -> bool:
        return self._open[-1].translated if self._open else True

    def _keep(self, raw: Raw) -> None:
        self._flush()
        self._made.add(raw)

    def _begin(self, token: Token) -> None:
        attributes = list(attributes_of(token.raw))
        if token.name in _CLOSES_ITSELF and self._open and self._open[-1].name == token.name:
            self._pop(len(self._open) - 1)
        outer = self._is_translated()
        translated = _translated(token.name, attributes, outer)
        depth = len(self._open)
        closed = token.raw.endswith("/>") and (self._xml or token.name in _FOREIGN)
        if token.name not in _VOID and not closed:
            self._open.append(_Open(token.name, translated))
            self._names[token.name] += 1
        if self._left:
            self._left.append(token)
        elif outer and not translated and token.name in _INLINE | _CODE:
            self._left, self._left_at = [token], depth
            if len(self._open) == depth:
                self._end_left()
        else:
            self._tag(token, self._rewritten(token, attributes) if translated else token.raw)

    def _tag(self, token: Token, raw: Raw) -> None:
        if token.name in _OBJECTS:
            self._atoms.append(Atom("object", raw))
        elif token.name in _INLINE:
            self._atoms.append(Atom(token.kind, raw, token.name))
        else:
            self._keep(raw)
            self._verbatim = self._names["pre"] > 0 or self._names["textarea"] > 0

    def _end(self, token: Token) -> None:
        if self._names[token.name] > 0:
            depth = len(self._open) - 1
            while self._open[depth].name != token.name:
                depth -= 1
            if self._left and depth < self._left_at:
                self._end_left()  # its own end was forgotten
            self._pop(depth)
        if not self._left:
            self._tag(token, token.raw)
            return
        self._left.append(token)
        if len(self._open) <= self._left_at:
            self._end_left()

    def _pop(self, depth: int) -> None:
        for element in self._open[depth:]:
            self._names[element.name] -= 1
        del self._open[depth:]

    def _end_left(self) -> None:
        left, self._left = self._left, []
        raw = "".join(token.raw for token in left)
        if left and left[0].name in _FOREIGN:
            self._atoms.append(Atom("object", raw))
        elif all(map(_is_inline, left)):
            said = "".join(html.unescape(token.raw) for token in left if token.kind == "text")
            self._atoms.append(Atom("object", raw, _SPACES.sub(" ", said) if said.strip() else ""))
        else:
            self._keep(raw)

    def _rewritten(self, token: Token, attributes: Sequence[Attribute]) -> Raw:
        """The tag, with a number for each attribute that is translated."""
        parts: list[str | tuple[int, str]] = []
        at = 0
        for attribute in attributes:
            if _is_for_people(token.name, attribute.name, attributes) and any(
                character.isalpha() for character in attribute.value
            ):
                number = self._made.add_attribute(_SPACES.sub(" ", attribute.value))
                came = token.raw[attribute.start : attribute.end]
                parts += [token.raw[at : attribute.start], (number, came)]
                at = attribute.end
        return _Tag((*parts, token.raw[at:])) if parts else token.raw

    def _flush(self) -> None:
        """The passage is over; spaces at its ends are no part of it."""
        atoms, self._atoms = self._atoms, []
        if not any(atom.kind == "text" and _has_words(atom.said) for atom in atoms):
            for atom in atoms:
                self._made.add(atom.raw)
            return
        before, atoms[0] = _without_spaces(atoms[0], str.lstrip)
        behind, atoms[-1] = _without_spaces(atoms[-1], str.rstrip)
        self._made.add(before)
        passage = passage_of(atoms, self._verbatim)
        self._made.add_passage(passage, [atom.raw for atom in atoms])
        self._made.add(behind)


def _has_words(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _without_spaces(atom: Atom, strip: Callable[[str, str], str]) -> tuple[str, Atom]:
    """The spaces at one end of a text, and the text without them."""
    if atom.kind != "text" or not isinstance(atom.raw, str):
        return "", atom
    spaces = " \t\n\r\f"
    rest = strip(atom.raw, spaces)
    return atom.raw.replace(rest, "", 1) if rest else atom.raw, Atom(
        "text", rest, html.unescape(rest)
    )


def _is_inline(token: Token) -> bool:
    return token.kind in ("text", "other") or token.name in _INLINE | _OBJECTS | _CODE


# --- From a row of tags and texts to a passage.


def passage_of(atoms: Sequence[Atom], verbatim: bool = False) -> Passage:
    """A passage of text, tags and objects; tags without their other end are objects, too."""
    ends = _pairs(atoms)
    text = ""
    # Of every element that is open: where it began, its tag, and the marks inside it.
    levels: list[tuple[int, Raw, list[Mark]]] = [(0, "", [])]
    for number, atom in enumerate(atoms):
        if atom.kind == "text":
            said = atom.said if verbatim else _SPACES.sub(" ", atom.said)
            if not verbatim and text.endswith(" ") and said.startswith(" "):
                said = said[1:]
                marks = levels[-1][2]
                if marks and marks[-1].fixed and marks[-1].end == len(text):
                    # On either side of an object was a space: it keeps its own.
                    marks[-1] = replace(marks[-1], payload=(*marks[-1].payload, " "))
            text += said
        elif atom.kind == "open" and number in ends:
            levels.append((len(text), atom.raw, []))
        elif atom.kind == "close" and number in ends:
            start, raw, inner = levels.pop()
            mark = Mark(start, len(text), (raw, atom.raw), inner=tuple(inner))
            levels[-1][2].append(mark)
        else:
            said = atom.said if atom.kind == "object" else ""
            levels[-1][2].append(Mark(len(text), len(text) + len(said), (atom.raw,), fixed=True))
            text += said
    return Passage(text, tuple(levels[0][2]))


def _pairs(atoms: Sequence[Atom]) -> set[int]:
    """Numbers of the tags whose other end is there, in the right order."""
    paired: set[int] = set()
    waiting: list[int] = []
    names: Counter[str] = Counter()
    for number, atom in enumerate(atoms):
        if atom.kind == "open" and len(waiting) < MOST_LEVELS:
            waiting.append(number)
            names[atom.said] += 1
        elif atom.kind == "close" and names[atom.said]:
            while atoms[waiting[-1]].said != atom.said:
                names[atoms[waiting.pop()].said] -= 1
            names[atom.said] -= 1
            paired |= {waiting.pop(), number}
    return paired


def _translated(name: str, attributes: Sequence[Attribute], outer: bool) -> bool:
    """Whether what is in an element is translated."""
    for attribute in attributes:
        if attribute.name == "translate":
            return attribute.value.lower() != "no"
        if attribute.name == "class" and "notranslate" in attribute.value.split():
            return False
    return outer and name not in _CODE | RAW


def _is_for_people(element: str, name: str, attributes: Sequence[Attribute]) -> bool:
    """Whether the value is text, by the HTML standard (3.2.6.3) and ARIA."""
    if name in _EVERYWHERE or name in _ATTRIBUTES.get(element, ()):
        return True
    values = {attribute.name: attribute.value.lower() for attribute in attributes}
    if element == "input" and name == "value":
        return values.get("type") in _BUTTONS
    if element == "meta" and name == "content":
        return values.get("name", values.get("property")) in _META
    return False


# --- Files.


class HtmlDocument:
    """An HTML file; it keeps its encoding."""

    def __init__(self, data: bytes, xml: bool = False) -> None:
        self._encoding, text = decoded(data, _declared(data))
        self._html = HtmlText(text, xml)
        self.passages = self._html.passages

    def written(self, translated: Sequence[Passage | None], target: str) -> bytes:
        """The file with its passages replaced."""
        return self._html.written(translated).encode(self._encoding, "xmlcharrefreplace")


def _declared(data: bytes) -> str:
    found = _CHARSET.search(data[:4096])
    return found[1].decode("ascii") if found else "utf-8"
