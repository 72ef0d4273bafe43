"""Plain text, SubRip subtitles and gettext catalogues: text files with little or no markup.

Tags as in subtitles (`<i>`, `{\\an8}`) and placeholders as in catalogues (`%s`, `{name}`) are kept.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from accord.documents.encoding import decoded
from accord.documents.html import Atom, passage_of
from accord.documents.passage import Mark, Passage
from accord.errors import AccordError

# Tags, and the dash before what a speaker says.
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]*)[^<>]*>|\{\\[^{}]*\}|(?:^|(?<=\}))[-–—]\s*")
_PLACEHOLDER = re.compile(
    r"<(/?)([A-Za-z][\w-]*)[^<>]*>|%\(\w+\)[-+0#]*[\d.]*[a-zA-Z]|%(?:\d+\$)?[-+0#]*[\d.]*"
    r"(?:hh|h|ll|l|z)?[diouxXeEfFgGcsp@]|%%|\$?\{[^{}\s]*\}|%[A-Za-z_]\w*%"
)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_TIMES = re.compile(r"\s*\d+:\d+:\d+[,.]\d+\s*-->\s*\d+:\d+:\d+[,.]\d+")


def tagged(text: str, pattern: re.Pattern[str]) -> Passage:
    """A passage of text with tags and other things in it that the pattern finds."""
    atoms: list[Atom] = []
    at = 0
    for found in pattern.finditer(text):
        atoms.append(Atom("text", text[at : found.start()], text[at : found.start()]))
        if name := found[2]:
            kind = "close" if found[1] else "open"
            atoms.append(Atom(kind, found[0], name.lower()))
        else:
            said = "" if found[0].startswith(("{\\", "-", "–", "—")) else found[0]
            atoms.append(Atom("object", found[0], said))
        at = found.end()
    atoms.append(Atom("text", text[at:], text[at:]))
    return passage_of(atoms, verbatim=True)


def untagged(passage: Passage) -> str:
    """Such a passage as text."""

    def around(mark: Mark, inside: str) -> str:
        before, behind = (mark.payload[0], "") if mark.fixed else mark.payload
        return f"{before}{'' if mark.fixed else inside}{behind}"

    return passage.written(str, around)


class PlainText:
    """A text file: spaces and line breaks between sentences stay."""

    def __init__(self, data: bytes) -> None:
        self._encoding, text = decoded(data)
        self.passages = [Passage(text)]

    def written(self, translated: Sequence[Passage | None], target: str) -> bytes:
        """The file with its sentences replaced."""
        [found] = translated
        return (found or self.passages[0]).text.encode(self._encoding)


class Subtitles:
    """A SubRip file: numbers and times stay, the lines of a subtitle are one passage.

    Its translation is broken into as many lines; a line that begins with a dash is a speaker's.
    """

    def __init__(self, data: bytes) -> None:
        self._encoding, text = decoded(data)
        self._parts: list[str | list[str]] = []  # as it is, or the lines of a passage
        inside = False
        for line in _LINE.findall(text):
            bare = line.strip()
            last = self._parts[-1] if self._parts else ""
            if _TIMES.match(line) or not (inside and bare):
                inside = bool(bare) and (inside or _TIMES.match(line) is not None)
                self._parts.append(line)
            elif isinstance(last, str) or bare.startswith(("-", "–", "—")):
                self._parts.append([line])
            else:
                last.append(line)
        self.passages = [
            tagged(" ".join(line.strip() for line in part), _TAG)
            for part in self._parts
            if not isinstance(part, str)
        ]
        if not self.passages:
            raise AccordError("there is no subtitle in it", fix="send a SubRip file (.srt)")

    def written(self, translated: Sequence[Passage | None], target: str) -> bytes:
        """The file with its subtitles replaced."""
        made = []
        passages = iter(translated)
        for part in self._parts:
            if isinstance(part, str):
                made.append(part)
            elif (found := next(passages)) is None:
                made += part
            else:
                ends = [line[len(line.rstrip("\r\n")) :] for line in part]
                lines = _broken(untagged(found), len(ends))
                made += [line + end for line, end in zip(lines, ends[-len(lines) :], strict=True)]
        return "".join(made).encode(self._encoding, "replace")


def _broken(text: str, count: int) -> list[str]:
    """The text in so many lines of about one length, or fewer; a tag is never broken."""
    inside = {i for tag in _TAG.finditer(text) for i in range(*tag.span())}
    spaces = [i for i, character in enumerate(text) if character == " " and i not in inside]
    lines, start = [], 0
    for number in range(1, count):
        later = [i for i in spaces if i > start]
        if later:
            cut = min(later, key=lambda i: abs(i - number * len(text) / count))
            lines.append(text[start:cut])
            start = cut + 1
    return [*lines, text[start:]]


class Catalogue:
    """A gettext catalogue (.po): messages without a translation get one, marked as fuzzy.

    The translations that are there stay. Programs leave fuzzy messages out until somebody has
    looked at them.
    """

    def __init__(self, data: bytes) -> None:
        try:
            import polib
        except ModuleNotFoundError:
            raise AccordError(
                "catalogues need the package polib", fix="pip install 'accord[files]'"
            ) from None
        self._encoding, text = decoded(data, _po_charset(data))
        try:
            # A line break before it: polib would open a file that has the name of the text.
            self._file: Any = polib.pofile("\n" + text, encoding=self._encoding)
        except (OSError, UnicodeError, ValueError, IndexError) as error:
            reason = " ".join(str(error).split())[-200:]
            raise AccordError(
                f"this is no catalogue of messages ({reason})", fix="check it with msgfmt -c"
            ) from None
        self._entries = [entry for entry in self._file if _is_open(entry)]
        self.passages = [
            tagged(message, _PLACEHOLDER) for entry in self._entries for message in _said(entry)
        ]

    def written(self, translated: Sequence[Passage | None], target: str) -> bytes:
        """The catalogue with the messages that it lacked."""
        found = iter(translated)
        for entry in self._entries:
            messages = [(said, next(found)) for said in _said(entry)]
            texts = [said if passage is None else untagged(passage) for said, passage in messages]
            if all(passage is None for _, passage in messages):
                continue
            if entry.msgid_plural:
                forms = sorted(entry.msgstr_plural) or range(_plural_forms(self._file))
                entry.msgstr_plural = {form: texts[min(form, 1)] for form in forms}
            else:
                entry.msgstr = texts[0]
            entry.flags = [*dict.fromkeys(["fuzzy", *entry.flags])]
        self._file.metadata["Language"] = target
        return (str(self._file).rstrip("\n") + "\n").encode(self._encoding)


def _po_charset(data: bytes) -> str:
    found = re.search(rb"Content-Type:[^\n]*charset=([\w.:-]+)", data[:4096])
    name = found[1].decode("ascii") if found else "utf-8"
    return "utf-8" if name == "CHARSET" else name


def _is_open(entry: Any) -> bool:
    done = entry.msgstr or any(entry.msgstr_plural.values())
    return bool(entry.msgid) and not entry.obsolete and not done


def _said(entry: Any) -> Iterator[str]:
    yield entry.msgid
    if entry.msgid_plural:
        yield entry.msgid_plural


def _plural_forms(catalogue: Any) -> int:
    found = re.match(r"\s*nplurals\s*=\s*(\d)\b", catalogue.metadata.get("Plural-Forms", ""))
    return int(found[1]) if found else 2
