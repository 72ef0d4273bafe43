"""Markdown (CommonMark, with tables): paragraphs, headings, list items and cells are passages.

markdown-it finds the blocks and what is inside them; all that is not translated stays as it was,
byte for byte: code, HTML blocks, front matter, link targets. A paragraph becomes one line, and a
link by reference one with its target.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

from accord.documents.encoding import decoded
from accord.documents.html import Atom, passage_of
from accord.documents.passage import Mark, Passage

_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n.*?^(?:---|\.\.\.)[ \t]*\r?\n", re.DOTALL | re.MULTILINE)
_SPECIAL = re.compile(r"[\\`*\[\]<~|]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)")
_BLOCK_START = re.compile(r"(?=[-+#>=])|(?<=\d)(?=[.)])")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_HTML_TAG = re.compile(r"<(/?)([A-Za-z][\w-]*)[^>]*>")


@dataclass(frozen=True)
class _Edit:
    """A stretch of the source that a passage stands for, and how its lines go on."""

    start: int
    end: int
    is_paragraph: bool


class MarkdownDocument:
    """A Markdown file."""

    def __init__(self, data: bytes) -> None:
        self._encoding, self._text = decoded(data)
        front = _FRONT_MATTER.match(self._text)
        self._edits: list[_Edit] = []
        self.passages: list[Passage] = []
        for edit, passage in _passages(self._text, front.end() if front else 0):
            self._edits.append(edit)
            self.passages.append(passage)

    def written(self, translated: Sequence[Passage | None], target: str) -> bytes:
        """The file with its passages replaced."""
        made, at = [], 0
        for edit, passage in zip(self._edits, translated, strict=True):
            if passage is not None:
                said = passage.written(_escaped, _around)
                if edit.is_paragraph:
                    said = _not_a_block(said)
                made += [self._text[at : edit.start], said]
                at = edit.end
        return "".join([*made, self._text[at:]]).encode(self._encoding, "replace")


def _passages(text: str, begin: int) -> Iterator[tuple[_Edit, Passage]]:
    lines = _LINE.findall(text, begin)
    starts = [begin]
    for line in lines:
        starts.append(starts[-1] + len(line))
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = parser.parse("".join(line.rstrip("\r\n") + "\n" for line in lines))
    at = begin
    for before, token in itertools.pairwise(tokens):
        if token.type != "inline" or token.map is None or not token.content:
            continue
        first, *rest = token.content.split("\n")
        start = text.find(first, max(at, starts[token.map[0]]))
        end = start + len(first)
        if rest:
            last = rest[-1].strip()
            end = text.find(last, max(end, starts[token.map[1] - 1])) + len(last)
        # Where the content was changed on the way (an escaped | in a cell), it is left alone.
        if not starts[token.map[0]] <= start < end <= starts[token.map[1]]:
            continue
        at = end
        prefix = text[starts[token.map[0]] : start]
        going_on = "".join(">" if character == ">" else " " for character in prefix)
        atoms = list(_atoms(token.children or [], going_on))
        yield _Edit(start, end, before.type == "paragraph_open"), passage_of(atoms)


def _atoms(tokens: Sequence[Token], going_on: str) -> Iterator[Atom]:
    """What is inside a block; `going_on` begins a further line of it."""
    link: Token | None = None
    for token in tokens:
        if token.type == "text":
            fixed = link is not None and link.markup == "autolink"
            yield Atom("object" if fixed else "text", token.content, token.content)
        elif token.type == "softbreak":
            yield Atom("text", " ", " ")
        elif token.type == "hardbreak":
            yield Atom("object", f"\\\n{going_on}", "\n")
        elif token.type == "code_inline":
            yield Atom("object", _code(token), token.content)
        elif token.type == "image":
            yield Atom("object", f"![{_escaped(token.content)}{_target(token, 'src')}")
        elif token.type == "html_inline":
            yield _tag(token.content)
        elif token.type == "link_open":
            link = token
            yield Atom("open", "<" if token.markup == "autolink" else "[", "link")
        elif token.type == "link_close" and link is not None:
            raw = ">" if link.markup == "autolink" else _target(link, "href")
            link = None
            yield Atom("close", raw, "link")
        else:
            yield Atom("open" if token.nesting > 0 else "close", token.markup, token.tag)


def _code(token: Token) -> str:
    space = " " if token.content.startswith("`") or token.content.endswith("`") else ""
    return f"{token.markup}{space}{token.content}{space}{token.markup}"


def _target(token: Token, attribute: str) -> str:
    address = str(token.attrs.get(attribute, ""))
    if not address or re.search(r"[()\s<>]", address):
        address = f"<{address}>"
    title = str(token.attrs.get("title") or "")
    if title:
        title = ' "' + title.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"]({address}{title})"


def _tag(raw: str) -> Atom:
    found = _HTML_TAG.fullmatch(raw)
    if found is None or raw.endswith("/>") or found[2].lower() in ("img", "wbr", "input"):
        return Atom("object", raw)
    if found[2].lower() == "br":
        return Atom("object", raw, "\n")
    return Atom("close" if found[1] else "open", raw, found[2].lower())


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


def _around(mark: Mark, inside: str) -> str:
    if mark.fixed:
        return "".join(mark.payload)
    before, behind = mark.payload
    return f"{before}{inside}{behind}"


def _not_a_block(said: str) -> str:
    """A paragraph that begins like a list, a heading or a quotation is to stay one."""
    if re.match(r"[-+#>=]|\d{1,9}[.)]", said):
        return _BLOCK_START.sub(r"\\", said, count=1)
    return said
