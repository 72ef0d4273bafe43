"""Translations that are easy to see through, and small documents of every format."""

import io
import re
import zipfile

from accord.documents.formats import open_document
from accord.documents.translation import Translated, translate_all, translating


def shouted(sentences):
    """The same in capitals; every character looks at its own."""
    return [
        Translated(x.text.upper(), range(len(x.text)) if x.aligned else ())
        if len(x.text.upper()) == len(x.text)
        else Translated(x.text, range(len(x.text)))
        for x in sentences
    ]


def turned(sentences):
    """The words in the opposite order, the last sign at its place."""
    return [_turned(sentence.text) for sentence in sentences]


def _turned(text):
    words = [(found[0], found.start()) for found in re.finditer(r"[^\s.!?]+", text)]
    made, links = "", []
    for word, start in reversed(words):
        made += (" " if made else "") + word
        links += ([-1] if links else []) + list(range(start, start + len(word)))
    sign = text[-1] if text[-1] in ".!?" else ""
    return Translated(made + sign, [*links, *[len(text) - 1] * len(sign)])


def translated(document, answer=shouted, target="fr"):
    """The bytes or the text of a document, translated."""
    found = translate_all(translating(document.passages, target), answer)
    try:
        return document.written(found, target)
    except TypeError:  # HTML as text
        return document.written(found)


def file_translated(name, data, answer=shouted):
    data = data.encode() if isinstance(data, str) else data
    return translated(open_document(name, data), answer)


def zipped(**members):
    """An archive; the names of members have __ for / and _x for ."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_x", "."), content)
    return made.getvalue()


def unzipped(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"


def docx(body):
    document = f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>'
    return zipped(word__document_xxml=document, word__media__a_xpng=b"\x89PNG\0\1")


def pptx(body):
    slide = f'<p:sld xmlns:p="urn:p" xmlns:a="{A}"><p:txBody>{body}</p:txBody></p:sld>'
    return zipped(ppt__slides__slide1_xxml=slide, ppt__presentation_xxml="<x/>")


ODF = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
)


def odt(body):
    content = f"<office:document-content {ODF}>{body}</office:document-content>"
    return zipped(mimetype="application/vnd.oasis.opendocument.text", content_xxml=content)


def run(text, properties=""):
    """A run of Word's."""
    inside = f"<w:rPr>{properties}</w:rPr>" if properties else ""
    return f'<w:r>{inside}<w:t xml:space="preserve">{text}</w:t></w:r>'
