"""Formats of documents by the endings of their names: the one list of them."""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath

from accord.documents.archive import Archive, Part, Reader
from accord.documents.html import HtmlDocument
from accord.documents.markdown import MarkdownDocument
from accord.documents.ooxml import DRAWING, WORD
from accord.documents.opendocument import OpenDocument
from accord.documents.plain import Catalogue, PlainText, Subtitles
from accord.documents.xml_parts import XmlPart
from accord.errors import AccordError

Document = Part
"""What is read of a file: passages, and the file written with their translations."""


@dataclass(frozen=True)
class _Format:
    """How a file is read or, of an archive, the members with such names."""

    reader: Reader
    members: re.Pattern[str] | None = None

    def read(self, data: bytes, most_tags: int | None) -> Document:
        """The document in some bytes."""
        reader = partial(_read, self.reader, most_tags)
        if self.members is None:
            return reader(data)
        named = self.members.fullmatch
        return Archive(data, lambda name: reader if named(name) else None)


def _read(reader: Reader, most_tags: int | None, data: bytes) -> Document:
    if most_tags is not None and data.count(b"<") > most_tags:
        raise AccordError(f"it has more than {most_tags:,} tags", fix="send it in parts")
    return reader(data)


_OPEN_DOCUMENT = _Format(
    partial(XmlPart, dialect=OpenDocument()), re.compile(r"(?:content|styles)\.xml")
)
FORMATS = {
    ".docx": _Format(
        partial(XmlPart, dialect=WORD),
        re.compile(r"word/(?:document|header|footer|footnotes|endnotes|comments)\d*\.xml"),
    ),
    ".pptx": _Format(
        partial(XmlPart, dialect=DRAWING),
        re.compile(r"ppt/(?:slides/slide|notesSlides/notesSlide|diagrams/\w+?)\d+\.xml"),
    ),
    ".odt": _OPEN_DOCUMENT,
    ".odp": _OPEN_DOCUMENT,
    ".epub": _Format(
        partial(HtmlDocument, xml=True), re.compile(r".*\.(?:xhtml|html|htm|ncx)", re.IGNORECASE)
    ),
    ".html": _Format(HtmlDocument),
    ".htm": _Format(HtmlDocument),
    ".md": _Format(MarkdownDocument),
    ".po": _Format(Catalogue),
    ".srt": _Format(Subtitles),
    ".txt": _Format(PlainText),
}
IN_TEXT = frozenset((".html", ".htm", ".md", ".po", ".srt", ".txt"))
"""Of these, what a terminal can show."""


def open_document(name: str, data: bytes, most_tags: int | None = None) -> Document:
    """The document in the bytes of a file with such a name; one of too many tags is refused."""
    ending = PurePath(name).suffix.lower()
    if ending not in FORMATS:
        raise AccordError(
            f"files of the kind '{ending[:20]}' cannot be translated",
            where=name,
            fix=f"use one of {', '.join(FORMATS)}",
        )
    try:
        return FORMATS[ending].read(data, most_tags)
    except AccordError as error:
        raise AccordError(error.what, where=name, fix=error.fix) from None
    except RecursionError:
        raise AccordError(
            "its elements are nested too deeply", where=name, fix="simplify the document"
        ) from None
