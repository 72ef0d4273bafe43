"""How long work tells what it is doing; the command line draws it, libraries stay silent."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID


class Progress(Protocol):
    """Told what is being done and how far it has come."""

    def start(self, what: str, total: int | None = None) -> None:
        """A new piece of work, of so many steps if that is known."""

    def reach(self, done: int, detail: str = "") -> None:
        """So many steps of it are done; `detail` says more about how it is going."""

    def note(self, text: str) -> None:
        """Something worth knowing, said once."""


class Silent:
    """Shows nothing."""

    def start(self, what: str, total: int | None = None) -> None:
        """Nothing to show."""

    def reach(self, done: int, detail: str = "") -> None:
        """Nothing to show."""

    def note(self, text: str) -> None:
        """Nothing to show."""


# --- Progress as a person sees it: a line on stderr that moves, or plain lines where nobody
# looks.


class _Moving:
    """A rich progress bar; each piece of work keeps its line when the next one starts."""

    def __init__(self, bars: "Bars") -> None:
        self._bars = bars
        self._task: TaskID | None = None
        self._done = 0

    def start(self, what: str, total: int | None = None) -> None:
        self.finish()
        self._done = 0
        self._task = self._bars.add_task(what, total=total, detail="")

    def reach(self, done: int, detail: str = "") -> None:
        self._done = done
        if self._task is not None:
            self._bars.update(self._task, completed=done, detail=detail)

    def note(self, text: str) -> None:
        self._bars.console.print(text, highlight=False, markup=False)

    def finish(self) -> None:
        """Show the current piece of work as done."""
        if self._task is not None:
            self._bars.update(self._task, total=max(self._done, 1), completed=max(self._done, 1))


class _Lines:
    """Plain lines, at most one in ten seconds: for log files."""

    def __init__(self) -> None:
        self._what = ""
        self._shown = 0.0

    def start(self, what: str, total: int | None = None) -> None:
        self._what = f"{what} ({total:,})" if total else what
        self._shown = time.monotonic()
        print(self._what, file=sys.stderr, flush=True)

    def reach(self, done: int, detail: str = "") -> None:
        if time.monotonic() - self._shown > 10:
            self._shown = time.monotonic()
            print(f"{self._what}: {done:,} {detail}".rstrip(), file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


@contextmanager
def shown_progress(quiet: bool) -> Iterator[Progress]:
    """Progress that fits where stderr goes."""
    if quiet:
        yield Silent()
    elif not sys.stderr.isatty():
        yield _Lines()
    else:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description:<24}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:>12,.0f}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}"),
        )
        with Progress(*columns, console=Console(stderr=True)) as bars:
            moving = _Moving(bars)
            yield moving
            moving.finish()
