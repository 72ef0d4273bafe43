"""HTML as tokens, by the rules of the HTML standard (section 13.2.5): joined they are the source.

A parser that builds a tree, such as lxml's, does not keep the source; this does, and takes time
in proportion to it, whatever it is.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass


def names(text: str) -> frozenset[str]:
    """A set of names, written one after the other."""
    return frozenset(text.split())


# Their content has no tags; of the first it is no text, either.
RAW = names("script style xmp iframe noembed noframes")
_TEXT_ONLY = frozenset(("title", "textarea"))

_MARKUP = re.compile(r"<(?:!--|[!?]|/|[A-Za-z])")
_COMMENT = re.compile(r"<!--(?:-?>|.*?--!?>)", re.DOTALL)
_TAG = re.compile(
    r"""</?([A-Za-z][^\s/>]*+)
        (?:[\s/]++ | [^\s/>][^\s/>=]*+ (?:\s*+=\s*+ (?:"[^"]*+" | '[^']*+' | [^\s>"'][^\s>]*+)?+ )?+
        )*+>""",
    re.VERBOSE,
)
_ATTRIBUTE = re.compile(
    r"""([^\s/>][^\s/>=]*+) (?:\s*+=\s*+ ("[^"]*+" | '[^']*+' | [^\s>"'][^\s>]*+)?+ )?+""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Token:
    """A piece of source; tags have a name, and text has none."""

    raw: str
    kind: str  # text, open, close, or other (comments, declarations, content that is no text)
    name: str = ""


def tokens(source: str, xml: bool = False) -> Iterator[Token]:
    """The source, cut into tokens; joined they are the source again.

    In XML (XHTML) a tag that ends with /> has no content, and CDATA may stand anywhere.
    """
    at = 0
    while at < len(source):
        found = _MARKUP.search(source, at)
        if found is None:
            yield Token(source[at:], "text")
            return
        if at < found.start():
            yield Token(source[at : found.start()], "text")
        token = _markup(source, found.start(), xml)
        yield token
        at = found.start() + len(token.raw)
        closed = xml and token.raw.endswith("/>")
        if token.kind == "open" and token.name in RAW | _TEXT_ONLY and not closed:
            end = re.compile(rf"</{token.name}(?=[\s/>])", re.IGNORECASE).search(source, at)
            stop = end.start() if end else len(source)
            if at < stop:
                yield Token(source[at:stop], "other" if token.name in RAW else "text")
            at = stop


def _markup(source: str, at: int, xml: bool) -> Token:
    """The token that begins at a <; one that never ends goes on to the end of the source."""
    if source.startswith("<!--", at):
        found = _COMMENT.match(source, at)
    elif xml and source.startswith("<![CDATA[", at):
        found = re.compile(r".*?\]\]>", re.DOTALL).match(source, at)
    elif found := _TAG.match(source, at):
        kind = "close" if source[at + 1] == "/" else "open"
        return Token(found[0], kind, found[1].lower())
    elif re.compile("</?[A-Za-z]").match(source, at):
        found = None  # a tag without end
    else:
        found = re.compile("[^>]*>").match(source, at)
    return Token(found[0] if found else source[at:], "other")


@dataclass(frozen=True)
class Attribute:
    """An attribute, and where its value stands in the tag."""

    name: str
    value: str
    start: int
    end: int


def attributes(tag: str) -> Iterator[Attribute]:
    """The attributes of a tag that opens an element."""
    name = re.compile(r"<[^\s/>]+").match(tag)
    if name is None:
        return
    for found in _ATTRIBUTE.finditer(tag, name.end(), len(tag) - 1):
        value = found[2] or ""
        quoted = value[:1] in ("'", '"')
        yield Attribute(
            found[1].lower(),
            html.unescape(value[1:-1] if quoted else value),
            found.start(2),
            found.end(2),
        )
