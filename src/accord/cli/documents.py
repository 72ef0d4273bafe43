"""Documents on the command line: `accord translate --input report.docx`."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from accord.errors import AccordError

if TYPE_CHECKING:
    from accord.documents.translation import Sentence, Translated
    from accord.inference.results import Translation
    from accord.inference.translator import Translator

_AT_ONCE = 256  # sentences between two words about how far it is


def is_document(path: Path | None) -> bool:
    """Whether a file is translated as a document; text is translated line by line, as ever."""
    from accord.documents.formats import FORMATS

    return path is not None and path.suffix.lower() in FORMATS and path.suffix.lower() != ".txt"


def translate_document(
    path: Path,
    output: Path | None,
    to: str,
    open_model: Callable[[], "Translator"],
    translate: Callable[["Translator", Sequence[str]], "list[Translation]"],
) -> None:
    """Translate a document into another of the same format; nothing is written before the end."""
    from accord.documents.formats import open_document
    from accord.documents.translation import translate_all, translating
    from accord.files import atomic_write, check_writable, reading_errors
    from accord.progress import shown_progress

    _check_output(path, output)
    with reading_errors(path):
        data = path.read_bytes()
    document = open_document(str(path), data)
    if output is not None:
        check_writable(output)
    with closing(open_model()) as translator, shown_progress(False) as progress:

        def answer(wanted: "list[Sentence]") -> "list[Translated]":
            progress.start("sentences", len(wanted))
            made: list[Translated] = []
            for part in _translated(translator, translate, wanted):
                made += part
                progress.reach(len(made))
            return made

        found = translate_all(translating(document.passages, to), answer)
        if not any(found):
            progress.note(f"{path}: there is no text to translate in it")
    written = document.written(found, to)
    if output is None:
        sys.stdout.buffer.write(written)
        return
    with atomic_write(output, "wb") as file:
        file.write(written)


def _check_output(path: Path, output: Path | None) -> None:
    from accord.documents.formats import IN_TEXT

    ending = path.suffix.lower()
    wanted = f"{path.stem}.translated{ending}"
    if output is None and ending not in IN_TEXT:
        raise AccordError(
            "such a file cannot be written to a terminal or a pipe",
            where=str(path),
            fix=f"name the file to write: --output {wanted}",
        )
    if output is not None and output.suffix.lower() not in (ending, ""):
        raise AccordError(
            f"a document keeps its format, and {output.name} is not called {ending}",
            where="--output",
            fix=f"name it as the input is called: --output {wanted}",
        )


def _translated(
    translator: "Translator",
    translate: Callable[["Translator", Sequence[str]], "list[Translation]"],
    wanted: "list[Sentence]",
) -> "Iterator[list[Translated]]":
    from accord.documents.translation import Translated
    from accord.inference.alignments import Tracer

    tracer = Tracer(translator.vocabulary)
    for start in range(0, len(wanted), _AT_ONCE):
        part = wanted[start : start + _AT_ONCE]
        found = translate(translator, [sentence.text for sentence in part])
        for item in found:
            for warning in item.warnings:
                typer.echo(f"accord: '{item.source[:40]}': {warning}", err=True)
        yield [
            Translated(item.text, tracer.characters(item) if sentence.aligned else ())
            for sentence, item in zip(part, found, strict=True)
        ]
