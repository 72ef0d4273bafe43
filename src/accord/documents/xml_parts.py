"""XML members of office files: their paragraphs are passages; lxml keeps the rest."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from lxml import etree

from accord.documents.passage import Passage
from accord.errors import AccordError

Element = Any
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Dialect(Protocol):
    """What a format calls its paragraphs, and what is in them."""

    def paragraphs(self, root: Element) -> Iterator[Element]:
        """All paragraphs that are translated."""

    def read(self, paragraph: Element) -> Passage:
        """The text of a paragraph and what is marked in it."""

    def write(self, paragraph: Element, passage: Passage) -> None:
        """Put a passage that was made from `read` into its paragraph."""


class XmlPart:
    """One XML member."""

    def __init__(self, data: bytes, dialect: Dialect) -> None:
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
        try:
            self._root = etree.fromstring(data, parser)
        except etree.XMLSyntaxError as error:
            raise AccordError(
                f"a part of the file is not well-formed XML ({error.msg})",
                fix="open it in the program it comes from and save it again",
            ) from None
        self._dialect = dialect
        self._paragraphs = list(dialect.paragraphs(self._root))
        self.passages = [dialect.read(paragraph) for paragraph in self._paragraphs]

    def written(self, translated: Sequence[Passage | None], target: str) -> bytes:
        """The member with its passages replaced; None leaves one as it was."""
        for paragraph, passage in zip(self._paragraphs, translated, strict=True):
            if passage is not None:
                self._dialect.write(paragraph, passage)
        tree = self._root.getroottree()
        written: bytes = etree.tostring(
            tree, encoding="UTF-8", xml_declaration=True, standalone=tree.docinfo.standalone
        )
        return written


def xml_text(text: str) -> str:
    """The text without what XML cannot hold."""
    return _NOT_XML.sub("", text)


def local_name(element: Element) -> str:
    """The name of an element without its namespace; nothing for comments and the like."""
    return str(etree.QName(element).localname) if isinstance(element.tag, str) else ""
