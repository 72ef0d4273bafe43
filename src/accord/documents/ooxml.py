"""Word and PowerPoint files (Office Open XML): paragraphs of runs, each with its formatting.

The formatting that most of a paragraph has is its own; a run with another is a mark. A line break
or a tab ends a sentence. Fields (page numbers, cross-references) are left as they are, and so is
deleted text that is still on record.
"""

import copy
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from lxml import etree

from accord.documents.passage import MOST_LEVELS, Mark, Passage, pieces
from accord.documents.xml_parts import Element, local_name, xml_text

_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_CONTAINERS = {"hyperlink", "ins", "moveTo", "smartTag", "customXml", "sdt", "dir", "bdo"}
_PROPERTIES = {"sdtPr", "sdtEndPr", "smartTagPr", "customXmlPr"}
_BREAKS = {"br": "\n", "cr": "\n", "tab": "\t", "ptab": "\t"}
_DROPPED = {"proofErr", "lastRenderedPageBreak", "softHyphen"}  # every program makes its own
_SHOWN = {"fldSimple", "fld", *_CONTAINERS}  # of what is left alone, what has text in the line
# What a spelling checker notes is no formatting.
_NOTES = {"lang", "altLang", "dirty", "err", "smtClean", "noProof"}
_TABS = re.compile(r"(\t)")


@dataclass(frozen=True)
class _Format:
    """The properties of a run, or None, and what they are known by."""

    properties: Element | None
    key: bytes


@dataclass(frozen=True)
class _Container:
    """An element around runs, such as a link."""

    element: Element


@dataclass(frozen=True)
class _Objects:
    """Elements that stay as they are; those from inside a run are put into one again."""

    elements: Sequence[Element]
    run: Element | None = None


class Runs:
    """The dialect of Word or of PowerPoint, by the namespaces of their paragraphs."""

    def __init__(self, *namespaces: str) -> None:
        self._names = [f"{{{namespace}}}p" for namespace in namespaces]

    def paragraphs(self, root: Element) -> Iterator[Element]:
        """All paragraphs, also those in tables, text boxes and notes."""
        yield from root.iter(*self._names)

    def read(self, paragraph: Element) -> Passage:
        """The text; one mark with the formatting that most of it has, and the others in that."""
        reading = _Reading()
        marks = reading.children(list(paragraph))
        sizes = reading.sizes
        own = max(sizes, key=lambda key: sizes[key], default=b"")
        whole = _Format(reading.properties.get(own), own)
        text = reading.text
        return Passage(text, (Mark(0, len(text), whole, inner=tuple(_without(marks, own))),))

    def write(self, paragraph: Element, passage: Passage) -> None:
        """Runs for the text, in the formatting that their marks say."""
        last = None
        for child in list(paragraph):
            if local_name(child) == "endParaRPr":
                last = child
            elif local_name(child) != "pPr":
                paragraph.remove(child)
        writing = _Writing(etree.QName(paragraph).namespace, passage.text)
        for element in writing.elements(0, len(passage.text), passage.marks, None):
            if last is None:
                paragraph.append(element)
            else:
                last.addprevious(element)


WORD = Runs(
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
DRAWING = Runs(
    "http://schemas.openxmlformats.org/drawingml/2006/main",
    "http://purl.oclc.org/ooxml/drawingml/main",
)


# --- Reading: elements to text and marks.


@dataclass
class _Reading:
    """The text of a paragraph so far, and how many characters have which formatting."""

    text: str = ""
    level: int = 0
    sizes: Counter[bytes] = field(default_factory=Counter)
    properties: dict[bytes, Element | None] = field(default_factory=dict)

    def children(self, elements: Sequence[Element]) -> list[Mark]:
        """Read elements that follow each other; returns their marks."""
        marks: list[Mark] = []
        rows = zip(elements, _in_fields(elements), strict=True)
        for is_field, group in itertools.groupby(rows, key=lambda row: row[1]):
            if is_field:
                field_elements = [element for element, _ in group]
                self._object(marks, _Objects(field_elements), _said(field_elements))
                continue
            for element, _ in group:
                self._element(element, marks)
        return marks

    def _element(self, element: Element, marks: list[Mark]) -> None:
        name = local_name(element)
        if name in ("pPr", "endParaRPr") or name in _DROPPED:
            return
        if name == "r":
            self._run(element, marks)
        elif name in _CONTAINERS and self.level < MOST_LEVELS and _inside(element) is not None:
            start = len(self.text)
            self.level += 1
            inner = self.children([x for x in _inside(element) if local_name(x) not in _PROPERTIES])
            self.level -= 1
            marks.append(Mark(start, len(self.text), _Container(element), inner=tuple(inner)))
        else:
            said = _BREAKS.get(name) or (_said([element]) if name in _SHOWN else "")
            self._object(marks, _Objects([element]), said)

    def _run(self, run: Element, marks: list[Mark]) -> None:
        for child in run:
            name = local_name(child)
            if name == "t":
                self._say(child.text or "", run, marks)
            elif name == "noBreakHyphen":
                self._say("\u2011", run, marks)
            elif name != "rPr" and name not in _DROPPED:
                self._object(marks, _Objects([child], run), _BREAKS.get(name, ""))

    def _say(self, text: str, run: Element, marks: list[Mark]) -> None:
        form = _format(run)
        for part in _TABS.split(text.replace("\n", " ").replace("\r", " ")):
            if part == "\t":
                self._object(marks, _Objects([_run(run.tag, form.properties, part)]), part)
            elif part:
                start, self.text = len(self.text), self.text + part
                self.sizes[form.key] += len(part.strip())
                self.properties.setdefault(form.key, form.properties)
                before = marks[-1] if marks else None
                if before and before.end == start and _key(before) == form.key:
                    marks[-1] = replace(before, end=len(self.text))
                else:
                    marks.append(Mark(start, len(self.text), form))

    def _object(self, marks: list[Mark], objects: _Objects, said: str) -> None:
        start, self.text = len(self.text), self.text + said
        marks.append(Mark(start, len(self.text), objects, fixed=True))


def _inside(element: Element) -> Element:
    """What holds the runs of a container; None where it has no such thing."""
    if local_name(element) != "sdt":
        return element
    return next((child for child in element if local_name(child) == "sdtContent"), None)


def _in_fields(elements: Sequence[Element]) -> list[bool]:
    """Which elements belong to a field; one that begins or ends elsewhere goes to the edge."""
    inside = [False] * len(elements)
    depth = 0
    for number, element in enumerate(elements):
        kinds = Counter(_field_characters(element))
        before, depth = depth, depth + kinds["begin"] - kinds["end"]
        if depth < 0:
            inside[: number + 1] = [True] * (number + 1)
            depth = 0
        elif before or depth or (kinds and local_name(element) == "r"):
            inside[number] = True
    return inside


def _field_characters(element: Element) -> Iterator[str]:
    for child in element.iter("{*}fldChar"):
        yield from (value for name, value in child.items() if name.endswith("}fldCharType"))


def _said(elements: Sequence[Element]) -> str:
    """The text that elements show."""
    texts = (t.text or "" for element in elements for t in element.iter("{*}t"))
    return " ".join("".join(texts).split())


def _format(run: Element) -> _Format:
    properties = next((child for child in run if local_name(child) == "rPr"), None)
    if properties is None:
        return _Format(None, b"")
    bare = copy.deepcopy(properties)
    for name in set(bare.attrib) & _NOTES:
        del bare.attrib[name]
    for child in list(bare):
        if local_name(child) in _NOTES:
            bare.remove(child)
    if not len(bare) and not bare.attrib:
        return _Format(properties, b"")
    return _Format(properties, etree.tostring(bare, method="c14n"))


def _key(mark: Mark) -> bytes | None:
    return mark.payload.key if isinstance(mark.payload, _Format) else None


def _without(marks: Sequence[Mark], own: bytes) -> Iterator[Mark]:
    """The marks but for those of the formatting that is everywhere else."""
    for mark in marks:
        if _key(mark) != own:
            yield replace(mark, inner=tuple(_without(mark.inner, own)))


# --- Writing: text and marks to elements. Each is used once, so that none needs to be copied.


@dataclass(frozen=True)
class _Writing:
    """The namespace of a paragraph, and its text."""

    namespace: str
    text: str

    def elements(
        self, start: int, end: int, marks: Sequence[Mark], properties: Element | None
    ) -> Iterator[Element]:
        """What stands for text[start:end]."""
        for piece in pieces(start, end, marks):
            if not isinstance(piece, Mark):
                said = self.text[slice(*piece)]
                yield _run(f"{{{self.namespace}}}r", properties, said)
                continue
            payload, inside = piece.payload, (piece.start, piece.end, piece.inner)
            if isinstance(payload, _Format):
                yield from self.elements(*inside, payload.properties)
            elif isinstance(payload, _Container):
                holder = _inside(payload.element)
                for child in list(holder):
                    if local_name(child) not in _PROPERTIES:
                        holder.remove(child)
                holder.extend(list(self.elements(*inside, properties)))
                yield payload.element
            elif payload.run is None:
                yield from payload.elements
            else:
                run = _run(payload.run.tag, _format(payload.run).properties)
                run.extend(payload.elements)
                yield run


def _run(tag: str, properties: Element | None, text: str | None = None) -> Element:
    run = etree.Element(tag)
    if properties is not None:
        run.append(copy.deepcopy(properties))
    if text is not None:
        said = etree.SubElement(run, f"{{{etree.QName(tag).namespace}}}t")
        said.text = xml_text(text)
        if "wordprocessingml" in tag:
            said.set(_SPACE, "preserve")
    return run
