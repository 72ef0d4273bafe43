"""The encoding of text files: what a byte-order mark says, else what is declared, else UTF-8."""

import codecs

from accord.errors import AccordError

_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Python has them, no file does, and some take a time that grows with the square.
_NOT_OF_FILES = {"idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf-7"}


def decoded(data: bytes, declared: str = "utf-8") -> tuple[str, str]:
    """The name of the encoding and the text, with its line ends as they are."""
    name = next((name for mark, name in _MARKS.items() if data.startswith(mark)), declared)
    try:
        if codecs.lookup(name).name in _NOT_OF_FILES:
            raise LookupError(name)
        text = data.decode(name)
        text.encode(name)
    except (LookupError, UnicodeError) as error:
        what = "unknown" if isinstance(error, LookupError) else f"not that of the text ({error})"
        raise AccordError(
            f"the encoding '{name[:40]}' is {what}", fix="save the file in UTF-8"
        ) from None
    if "\0" in text:
        raise AccordError("the file has NUL characters in it", fix="send a text file in UTF-8")
    return name, text
