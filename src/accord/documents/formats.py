"""Formats of documents by the endings of their names: the one list of them."""

import re
from collections.abc import Callable
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


def _members(pattern: str, reader: Reader) -> Callable[[bytes], Document]:
    """An archive whose members with such names are read so."""
    named = re.compile(pattern)
    return lambda data: Archive(data, lambda name: reader if named.fullmatch(name) else None)


_OPEN_DOCUMENT = _members(r"(?:content|styles)\.xml", partial(XmlPart, dialect=OpenDocument()))

FORMATS: dict[str, Callable[[bytes], Document]] = {
    ".docx": _members(
        r"word/(?:document|header|footer|footnotes|endnotes|comments)\d*\.xml",
        partial(XmlPart, dialect=WORD),
    ),
    ".pptx": _members(
        r"ppt/(?:slides/slide|notesSlides/notesSlide|diagrams/data|diagrams/drawing)\d+\.xml",
        partial(XmlPart, dialect=DRAWING),
    ),
    ".odt": _OPEN_DOCUMENT,
    ".odp": _OPEN_DOCUMENT,
    ".epub": _members(r"(?i:.*\.(?:xhtml|html|htm|ncx))", HtmlDocument),
    ".html": HtmlDocument,
    ".htm": HtmlDocument,
    ".md": MarkdownDocument,
    ".po": Catalogue,
    ".srt": Subtitles,
    ".txt": PlainText,
}
IN_TEXT = frozenset((".html", ".htm", ".md", ".po", ".srt", ".txt"))
"""Of these, what a terminal can show."""


def open_document(name: str, data: bytes) -> Document:
    """The document in the bytes of a file with such a name."""
    ending = PurePath(name).suffix.lower()
    if ending not in FORMATS:
        raise AccordError(
            f"files of the kind '{ending[:20]}' cannot be translated",
            where=name,
            fix=f"use one of {', '.join(FORMATS)}",
        )
    try:
        return FORMATS[ending](data)
    except AccordError as error:
        raise AccordError(error.what, where=name, fix=error.fix) from None
    except RecursionError:
        raise AccordError(
            "its elements are nested too deeply", where=name, fix="simplify the document"
        ) from None
