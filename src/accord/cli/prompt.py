"""The prompt of `accord translate` at a terminal: a line in, its translation out, commands with a
colon."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import typer

from accord.errors import AccordError

if TYPE_CHECKING:
    from accord.inference.translator import Translator

_COMMAND = re.compile(r":([a-z]+)(?:\s+(\S+))?\s*")
_HELP = ":to LANGUAGE translates into it, :from LANGUAGE says what you write, :quit or Ctrl-D ends"


@dataclass(frozen=True)
class Direction:
    """From where to where; the model knows by itself what it reads."""

    to: str | None
    source: str | None = None

    @property
    def prompt(self) -> str:
        """What stands before the cursor, such as `de → fr> `."""
        return f"{self.source or ''} → {self.to or '?'}> ".lstrip()


def converse(
    translator: "Translator",
    direction: Direction,
    show: Callable[[Any], str],
    options: dict[str, Any],
) -> None:
    """Translate what is typed, line by line, until the end of input."""
    typer.echo(f"languages: {', '.join(translator.languages)}\n{_HELP}", err=True)
    with suppress(ImportError):  # arrow keys and history, where there is such a library
        import readline  # noqa: F401
    while (line := _typed(direction.prompt)) is not None:
        try:
            if found := _COMMAND.fullmatch(line):
                if found[1] in ("quit", "q"):
                    return
                direction = _changed(direction, found[1], found[2], translator.languages)
            elif direction.to is None:
                raise AccordError("into which language?", fix="type :to and one of the languages")
            elif line.strip():
                _answer(translator, line, direction, show, options)
        except AccordError as error:  # a slip is no reason to load the model again
            typer.echo(str(error), err=True)


def _typed(prompt: str) -> str | None:
    """A line, or None at the end of input."""
    try:
        return input(prompt)
    except EOFError:
        typer.echo()
        return None


def _changed(
    direction: Direction, command: str, value: str | None, languages: tuple[str, ...]
) -> Direction:
    if command == "help":
        typer.echo(f"languages: {', '.join(languages)}\n{_HELP}", err=True)
        return direction
    if command not in ("to", "from"):
        raise AccordError(f"there is no command :{command}", fix=_HELP)
    if value not in languages:
        what = f"the model does not know the language '{value}'" if value else "which language?"
        raise AccordError(what, where=f":{command}", fix=f"use one of {', '.join(languages)}")
    return replace(direction, **{"to" if command == "to" else "source": value})


def _answer(
    translator: "Translator",
    line: str,
    direction: Direction,
    show: Callable[[Any], str],
    options: dict[str, Any],
) -> None:
    (found,) = translator.translate([line], str(direction.to), source=direction.source, **options)
    for warning in found.warnings:
        typer.echo(f"accord: {warning}", err=True)
    typer.echo(show(found))
