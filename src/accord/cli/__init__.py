"""The command `accord`: parse, call, print. Results go to stdout, progress and logs to stderr.

Everything heavy is imported inside the commands, so that `accord --help` answers at once.
"""

import errno
import io
import signal
import sys
from typing import Annotated, Any

import typer

from accord.cli import (
    data,
    distil,
    doctor,
    publish,
    reporting,
    start,
    study,
    tour,
    train,
    translate,
)
from accord.cli.command import Command
from accord.errors import AccordError

app = typer.Typer(
    name="accord",
    help="One translation model for all directions, also those without data.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


def main() -> None:
    """Run the command line: 0 done, 1 failed, 2 wrong usage, 130 or 143 interrupted."""
    import warnings

    from accord.errors import AccordWarning

    # Both are to clean up on their way out; KeyboardInterrupt would be taken over by typer.
    for number in _INTERRUPTS:
        signal.signal(number, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows another one instead.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    warnings.showwarning = _show_warning
    warnings.simplefilter("always", AccordWarning)
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:  # closed by whoever started us
                sys.stdout.flush()
    except AccordError as error:
        _ignore_interrupts()
        typer.echo(f"accord: {error}", err=True)
        sys.exit(1)
    except _InterruptedError as interrupt:
        # Where one process of several fails, the others are told to stop while they say why.
        if isinstance(interrupt.__context__, AccordError):
            typer.echo(f"accord: {interrupt.__context__}", err=True)
            sys.exit(1)
        typer.echo("accord: interrupted; nothing was half-written", err=True)
        sys.exit(128 + interrupt.number)
    except BrokenPipeError:
        # The reader of our output (head, less) has gone; so do we, without a complaint at exit.
        sys.stdout = None
        sys.exit(141)
    except OSError as error:
        if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
            raise
        sys.stdout = None
        typer.echo(f"accord: the output cannot be written: {error.strerror}", err=True)
        sys.exit(1)


class _InterruptedError(BaseException):
    """Ctrl-C or SIGTERM."""

    def __init__(self, number: int) -> None:
        self.number = number


def _interrupt(number: int, _: Any) -> None:
    _ignore_interrupts()
    raise _InterruptedError(number)


def _ignore_interrupts() -> None:
    """From now on: none may break into clearing up, or into saying what is wrong."""
    for one in _INTERRUPTS:
        signal.signal(one, signal.SIG_IGN)


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    typer.echo(f"accord: note: {message}", err=True)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(doctor.versions())
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the versions.")
    ] = False,
) -> None:
    """One translation model for all directions, also those without data."""


# The order in which --help lists them: that of the work.
for _command in (
    tour.demo,
    start.init,
    start.recipes,
    data.config,
    data.graph,
    data.builtin,
    data.fetch,
    data.prepare,
    train.train,
    train.average,
    translate.translate,
    distil.distil_data,
    translate.combine,
    translate.evaluate,
    reporting.compare,
    reporting.report,
    study.study,
    study.reproduce,
    publish.export,
    publish.serve,
    doctor.doctor,
):
    app.command(cls=Command)(_command)
