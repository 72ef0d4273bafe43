"""Sentences inside markup: TMX, the tagged training files of IWSLT, and NIST-like test sets."""

import html
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from lxml import etree

from accord.data.streams import MAX_LINE_BYTES, open_bytes, read_lines, read_text
from accord.errors import AccordError

_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_KEPT = ("seg", "title", "description")
_BARE_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_TAGGED = re.compile(r"<([A-Za-z][\w-]*)(?:\s[^<>]*)?>(.*)</\1\s*>", re.DOTALL)
_SGM_TAG = re.compile(r"<(/?)(seg|src|ref|hyp|doc)(?=[\s/>])([^<>]*)>", re.IGNORECASE)
_LANG = re.compile(r"""\blang\s*=\s*["']?([\w-]+)""", re.IGNORECASE)
_MOST_ELEMENTS = 100_000  # of a translation unit
# What follows an opening "<" without a ">" for so long is no tag.
_LONGEST_TAG = 10_000


def one_line(text: str) -> str:
    """The text without line breaks: each becomes a space, together with the indentation."""
    if "\n" not in text and "\r" not in text:
        return text.strip()
    pieces = (piece.strip() for piece in text.replace("\r", "\n").split("\n"))
    return " ".join(piece for piece in pieces if piece)


def _bounded(text: str) -> str | None:
    return text if len(text.encode()) <= MAX_LINE_BYTES else None


def _subtags(tag: str) -> list[str]:
    return tag.strip().lower().replace("_", "-").split("-")


def same_language(tag: str, language: str) -> bool:
    """Whether a tag such as EN-GB can stand for a language such as en, or pt for pt_BR.

    Regions and scripts are ignored where only one of the two has them: pt-PT is never pt_BR.
    """
    return all(a == b for a, b in zip(_subtags(tag), _subtags(language), strict=False))


def _is_exactly(tag: str, language: str) -> bool:
    return _subtags(tag) == _subtags(language)


def read_tmx(path: str, languages: tuple[str, str]) -> Iterator[tuple[str | None, str | None]]:
    """The translation units that have both languages; others are passed over."""
    seen: set[str] = set()
    found = False
    for unit in _units(path):
        segments = _segments(unit)
        choice = _choose([tag for tag, _ in segments], languages)
        if choice is None:
            seen.update(tag for tag, _ in segments if len(seen) < 20)
            continue
        found = True
        yield _bounded(segments[choice[0]][1]), _bounded(segments[choice[1]][1])
    if not found:
        listed = ", ".join(sorted(seen)) or "none"
        raise AccordError(
            f"no translation unit has both {languages[0]} and {languages[1]}",
            where=path,
            fix=f"the languages in the file are: {listed}",
        )


def tmx_languages(path: str, units: int = 1000) -> list[str]:
    """The language tags of the first translation units."""
    tags = (tag for unit in islice(_units(path), units) for tag, _ in _segments(unit))
    return list(dict.fromkeys(tags))


def _units(path: str) -> Iterator[Any]:
    """Every translation unit; no element is held longer than it is needed."""
    with open_bytes(path) as stream:
        events = etree.iterparse(
            stream,
            resolve_entities=False,
            load_dtd=False,
            no_network=True,
            remove_comments=True,
            remove_pis=True,
        )
        inside = 0
        try:
            for _, element in events:
                if _is_unit(element):
                    yield element
                    inside = 0
                    _free(element)
                elif _in_unit(element):
                    inside += 1
                    if inside > _MOST_ELEMENTS:
                        raise AccordError(
                            f"a translation unit of more than {_MOST_ELEMENTS:,} elements",
                            where=f"{path}, line {element.sourceline}",
                            fix="take it out: no sentence has so many",
                        )
                else:
                    _free(element)
        except etree.XMLSyntaxError as error:
            # What the error itself says is the last thing that went wrong, not the cause of it.
            cause = error.error_log[0] if len(error.error_log) else None
            raise AccordError(
                f"not well-formed XML: {cause.message if cause else error.msg}",
                where=f"{path}, line {cause.line if cause else error.lineno}",
                fix="mend the file, or fetch it again if it was cut short",
            ) from None


def _is_unit(element: Any) -> bool:
    tag = element.tag
    return tag == "tu" or (isinstance(tag, str) and tag.endswith("}tu"))


def _in_unit(element: Any) -> bool:
    parent = element.getparent()
    while parent is not None and not _is_unit(parent):
        parent = parent.getparent()
    return parent is not None


def _free(element: Any) -> None:
    """Empty an element; it would still pile up in its parent, so those before it are cut off."""
    element.clear(keep_tail=False)
    while element.getprevious() is not None:
        del element.getparent()[0]


def _segments(unit: Any) -> list[tuple[str, str]]:
    segments = []
    for variant in unit.iterchildren("{*}tuv"):
        segment = variant.find("{*}seg")
        if segment is not None:
            tag = variant.get(_XML_LANG) or variant.get("lang") or ""
            segments.append((tag, one_line(_plain_text(segment))))
    return segments


def _plain_text(element: Any) -> str:
    # The content of bpt, ept, ph, it and ut is codes of some editor; that of hi is text.
    parts = [element.text or ""]
    for child in element:
        if child.tag is etree.Entity:
            parts.append(html.unescape(child.text))
        elif isinstance(child.tag, str) and etree.QName(child).localname == "hi":
            parts.append(_plain_text(child))
        parts.append(child.tail or "")
    return "".join(parts)


def _choose(tags: Sequence[str], languages: tuple[str, str]) -> tuple[int, int] | None:
    found: dict[str, int] = {}
    for matches in (_is_exactly, same_language):
        for language in (name for name in languages if name not in found):
            for index, tag in enumerate(tags):
                if index not in found.values() and matches(tag, language):
                    found[language] = index
                    break
    return (found[languages[0]], found[languages[1]]) if len(found) == 2 else None


def read_iwslt(path: str) -> Iterator[str | None]:
    """The sentences of a `train.tags.*` file: plain lines, titles, descriptions and segments.

    These files are not XML: entities such as `&amp;` stay as they are, and so does a `<` that
    does not open a tag around the whole line. Lines of other tags (url, speaker, ...) are dropped.
    """
    for line in read_lines(path):
        if line is None or not line.startswith("<"):
            yield line
        elif tagged := _TAGGED.fullmatch(line):
            name, text = tagged[1].lower(), tagged[2].strip()
            if name in _KEPT:
                yield text
            elif f"</{tagged[1]}" in text:  # several short tags: a sentence with mark-up in it
                yield line
        elif not _BARE_TAG.fullmatch(line):
            yield line


def read_sgm(path: str, language: str, *, labelled: bool) -> Iterator[str | None]:
    """The text of each `<seg>` of a test set, whether or not the file is well-formed.

    Where segments lie in `<src lang=...>` or `<ref lang=...>`, only those of the language are
    taken, and of several references the first. With `labelled` no others are taken at all.
    """
    choice = _Choice(language, labelled)
    segment: _Segment | None = None
    count = 0
    for token in _tokens(read_text(path)):
        if isinstance(token, str):
            if segment is not None:
                segment.add(token)
            continue
        if segment is not None:  # Any tag of the frame ends it: its own end tag may be missing.
            yield segment.text()
            segment = None
        closing, name, attributes = token[1] == "/", token[2].lower(), token[3].rstrip()
        if name != "seg":
            choice.see(closing, name, attributes)
        elif choice.wanted and not closing:
            count += 1
            segment = _Segment()
            if attributes.endswith("/"):
                yield ""
                segment = None
    if segment is not None:
        yield segment.text()
    if count == 0:
        raise _no_segments(path, language, choice)


def _no_segments(path: str, language: str, choice: "_Choice") -> AccordError:
    if choice.seen:
        hint = f"its src and ref elements have the languages {', '.join(sorted(choice.seen))}"
    elif choice.labelled:
        hint = "without {lang} in the path the file must have src and ref elements with lang="
    else:
        hint = "check that this is the file meant, or set its format"
    return AccordError(f"the file has no <seg> for {language}", where=path, fix=hint)


class _Segment:
    """The text of one segment, of which no more than the limit is ever held."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        self._size += len(text.encode())
        if self._size <= MAX_LINE_BYTES:
            self._parts.append(text)

    def text(self) -> str | None:
        if self._size > MAX_LINE_BYTES:
            return None
        return one_line(html.unescape("".join(self._parts)))


class _Choice:
    """Which segments are wanted of a file that may hold several languages."""

    def __init__(self, language: str, labelled: bool) -> None:
        self.language = language
        self.labelled = labelled
        self.wanted = not labelled
        self.seen: set[str] = set()
        self._taken = False  # This document already gave its text in the language.

    def see(self, closing: bool, name: str, attributes: str) -> None:
        if name == "doc":
            self._taken, self.wanted = False, not self.labelled
        elif closing:
            self._taken = self._taken or self.wanted
            self.wanted = not self.labelled
        else:
            self.wanted = name != "hyp" and not self._taken and self._fits(attributes)

    def _fits(self, attributes: str) -> bool:
        tag = _LANG.search(attributes)
        if tag is None:
            return not self.labelled
        self.seen.add(tag[1])
        return same_language(tag[1], self.language)


def _tokens(pieces: Iterator[str]) -> Iterator[str | re.Match[str]]:
    """Text and tags in turn; a tag may be spread over several pieces."""
    rest = ""
    for piece in pieces:
        text, start = rest + piece, 0
        for tag in _SGM_TAG.finditer(text):
            yield text[start : tag.start()]
            yield tag
            start = tag.end()
        end = text.rfind("<", start)
        if end < 0 or ">" in text[end:] or len(text) - end > _LONGEST_TAG:
            end = len(text)
        yield text[start:end]
        rest = text[end:]
    yield rest
