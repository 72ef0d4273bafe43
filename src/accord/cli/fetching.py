"""The command fetch."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accord.cli.options import Quiet

if TYPE_CHECKING:
    from accord.fetching.catalogue import Dataset


def fetch(
    name: Annotated[
        str | None,
        typer.Argument(metavar="DATASET", help="Which one; without it, all are listed."),
    ] = None,
    to: Annotated[Path, typer.Option(help="Where its folder goes.")] = Path("data"),
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="Take archives or files from here instead."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="The licence is read and accepted.")] = False,
    quiet: Quiet = False,
) -> None:
    """Fetch a corpus of the paper: europarl, un, iwslt17 or multi30k. Run again, it goes on.

    Files are compared with published checksums. Where nobody has published one, the first download
    is recorded in fetched.json and later ones are compared with it.
    """
    from accord.fetching.catalogue import DATASETS, dataset
    from accord.fetching.fetch import fetch as run
    from accord.fetching.fetch import missing
    from accord.terminal import shown_progress

    if name is None:
        for item in DATASETS.values():
            typer.echo(f"{item.name:<10} {item.title}\n{'':<10} {item.size}; {item.homepage}")
        return
    wanted = dataset(name)
    if missing(wanted, to):
        _agree(wanted, to, yes)
    with shown_progress(quiet) as progress:
        result = run(wanted, to, source=source, progress=progress)
    if result.unconfirmed:
        names = ", ".join(result.unconfirmed)
        typer.echo(f"no checksum is published for {names}; recorded in fetched.json", err=True)
    count = len(result.new)
    state = f"{count} file{'s' * (count != 1)} fetched" if count else "up to date, nothing to do"
    typer.echo(f"{result.directory}: {state}", err=True)


def _agree(wanted: "Dataset", to: Path, yes: bool) -> None:
    """Say what is coming and under which terms; where these ask for it, wait for a yes."""
    from accord.errors import AccordError

    typer.echo(
        f"{wanted.title}\n  licence: {wanted.licence}\n  home: {wanted.homepage}\n"
        f"  size: {wanted.size}\n  goes to: {to / wanted.name}",
        err=True,
    )
    if not wanted.ask or yes:
        return
    if not _at_a_terminal():
        raise AccordError(
            "these terms must be accepted first", where=wanted.name, fix="add --yes if you do"
        )
    if not typer.confirm("Do you accept these terms?", err=True):
        raise typer.Exit(1)


def _at_a_terminal() -> bool:
    return sys.stdin.isatty()
