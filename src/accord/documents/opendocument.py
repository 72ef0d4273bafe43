"""OpenDocument files (LibreOffice's .odt and .odp): paragraphs with spans, links and notes inside.

A line break or a tab ends a sentence. Fields are left as they are, and so is deleted text that is
still on record.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lxml import etree

from accord.documents.passage import MOST_LEVELS, Mark, Passage, pieces
from accord.documents.xml_parts import Element, local_name, xml_text

_TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
_PARAGRAPHS = (f"{{{_TEXT}}}p", f"{{{_TEXT}}}h")
_COUNT = f"{{{_TEXT}}}c"
_AROUND = {f"{{{_TEXT}}}{name}" for name in ("span", "a", "meta")}
_BREAKS = {f"{{{_TEXT}}}line-break": "\n", f"{{{_TEXT}}}tab": "\t"}
_SPACES = re.compile(r"[ \t\n\r]+")
_SEVERAL = re.compile(r"( {2,})")
_MOST_SPACES = 1000  # that one element may stand for


class OpenDocument:
    """The dialect of OpenDocument."""

    def paragraphs(self, root: Element) -> Iterator[Element]:
        """All paragraphs and headings but those that were deleted."""
        deleted = {
            paragraph
            for changes in root.iter(f"{{{_TEXT}}}tracked-changes")
            for paragraph in changes.iter(*_PARAGRAPHS)
        }
        yield from (paragraph for paragraph in root.iter(*_PARAGRAPHS) if paragraph not in deleted)

    def read(self, paragraph: Element) -> Passage:
        """The text and what is marked in it."""
        reading = _Reading()
        marks = reading.content(paragraph)
        return Passage(reading.text, tuple(marks))

    def write(self, paragraph: Element, passage: Passage) -> None:
        """Text, and elements where the marks say."""
        _emptied(paragraph)
        _fill(paragraph, passage.text, 0, len(passage.text), passage.marks)


@dataclass
class _Reading:
    """The text of a paragraph so far; white space counts as one space."""

    text: str = ""
    level: int = 0

    def content(self, element: Element) -> list[Mark]:
        """Read what is in an element; returns its marks."""
        marks: list[Mark] = []
        self._say(element.text)
        for child in element:
            self._child(child, marks)
            self._say(child.tail)
        return marks

    def _child(self, child: Element, marks: list[Mark]) -> None:
        start = len(self.text)
        if child.tag == f"{{{_TEXT}}}s":
            self.text += " " * _count(child)
        elif child.tag in _AROUND and self.level < MOST_LEVELS:
            self.level += 1
            inner = self.content(child)
            self.level -= 1
            marks.append(Mark(start, len(self.text), child, inner=tuple(inner)))
        else:
            self.text += _BREAKS.get(child.tag) or _said(child)
            marks.append(Mark(start, len(self.text), child, fixed=True))

    def _say(self, text: str | None) -> None:
        said = _SPACES.sub(" ", text or "")
        if self.text[-1:] in ("", " ", "\n") and said.startswith(" "):
            said = said[1:]
        self.text += said


def _count(spaces: Element) -> int:
    given = spaces.get(_COUNT, "1")
    return min(int(given), _MOST_SPACES) if given.isdecimal() and len(given) < 9 else 1


def _said(element: Element) -> str:
    """The text that a field shows; none of notes and frames, whose paragraphs are on their own."""
    if not isinstance(element.tag, str) or etree.QName(element).namespace != _TEXT:
        return ""
    if local_name(element) == "note" or next(element.iter(*_PARAGRAPHS), None) is not None:
        return ""
    return " ".join("".join(element.itertext()).split())


def _emptied(element: Element) -> None:
    element.text = None
    for child in list(element):
        element.remove(child)  # and its tail with it
        child.tail = None


def _fill(element: Element, text: str, start: int, end: int, marks: Sequence[Mark]) -> None:
    for piece in pieces(start, end, marks):
        if not isinstance(piece, Mark):
            _append_text(element, text[slice(*piece)])
            continue
        child = piece.payload
        if not piece.fixed:
            _emptied(child)
            _fill(child, text, piece.start, piece.end, piece.inner)
        child.tail = None
        element.append(child)


def _append_text(element: Element, text: str) -> None:
    """Text at the end of an element; of several spaces only the first is written as one."""
    for part in _SEVERAL.split(xml_text(text)):
        said = " " if part.startswith("  ") else part
        if len(element):
            element[-1].tail = (element[-1].tail or "") + said
        else:
            element.text = (element.text or "") + said
        if part.startswith("  "):
            etree.SubElement(element, f"{{{_TEXT}}}s").set(_COUNT, str(len(part) - 1))
