"""How long work tells what it is doing; the command line draws it, libraries stay silent."""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import Task, TaskID


@dataclass(frozen=True)
class Line:
    """What a terminal's line shows of work that knows more of itself than a count."""

    count: str
    """How far it is, such as 120/800."""
    share: float
    """The same for the bar, 0 to 1."""
    text: str
    """How it is going, and how much time is left."""


class Progress(Protocol):
    """Told what is being done and how far it has come."""

    def start(self, what: str, total: int | None = None, keep: bool = True) -> None:
        """A new piece of work, of so many steps if that is known.

        Its line stays in sight when the next one starts, if it is worth to `keep`.
        """

    def reach(self, done: int, detail: str = "", line: Line | None = None) -> None:
        """So many steps of it are done; `detail` says more about how it is going.

        On a terminal `line` takes the place of both, where it is given.
        """

    def note(self, text: str) -> None:
        """Something worth knowing, said once."""

    def row(self, cells: Mapping[str, str], text: str) -> None:
        """A row of a table that grows while the work goes on, by column; `text` says the same."""


class Silent:
    """Shows nothing."""

    def start(self, what: str, total: int | None = None, keep: bool = True) -> None:
        """Nothing to show."""

    def reach(self, done: int, detail: str = "", line: Line | None = None) -> None:
        """Nothing to show."""

    def note(self, text: str) -> None:
        """Nothing to show."""

    def row(self, cells: Mapping[str, str], text: str) -> None:
        """Nothing to show."""


def clock(seconds: float) -> str:
    """A length of time as people write it."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


# --- Progress as a person sees it: a line on stderr that moves, or plain lines where nobody
# looks.


class _Moving:
    """A rich progress bar; each piece of work keeps its line when the next one starts."""

    def __init__(self, bars: "Bars") -> None:
        self._bars = bars
        self._task: TaskID | None = None
        self._done = 0
        self._columns: tuple[str, ...] = ()
        self._line: Line | None = None
        self._keep = True

    def start(self, what: str, total: int | None = None, keep: bool = True) -> None:
        self.finish()
        self._done, self._columns, self._line, self._keep = 0, (), None, keep
        self._task = self._bars.add_task(what, total=total, detail="", line=None)

    def reach(self, done: int, detail: str = "", line: Line | None = None) -> None:
        self._done, self._line = done, line
        if self._task is None:
            return
        if line is None:
            self._bars.update(self._task, completed=done, detail=detail)
        else:
            self._bars.update(self._task, total=1.0, completed=line.share, line=line)

    def note(self, text: str) -> None:
        self._bars.console.print(text, highlight=False, markup=False)

    def row(self, cells: Mapping[str, str], text: str) -> None:
        """Above the bar, under a head that is printed once."""
        widths = [max(8, len(name) + 2) for name in cells]
        if self._columns != tuple(cells):
            self._columns = tuple(cells)
            self.note(_aligned(cells.keys(), widths))
        self.note(_aligned(cells.values(), widths))

    def finish(self) -> None:
        """The current piece of work is over: all of it, unless its line knows better."""
        if self._task is None:
            return
        if not self._keep:
            self._bars.remove_task(self._task)
            self._task = None
            return
        if self._line is None:
            self._bars.update(self._task, total=max(self._done, 1), completed=max(self._done, 1))
        self._bars.stop_task(self._task)


def _aligned(words: Iterable[str], widths: Iterable[int]) -> str:
    return "".join(word.rjust(width) for word, width in zip(words, widths, strict=True)).rstrip()


class _Lines:
    """Plain lines, at most one in ten seconds: for log files."""

    def __init__(self) -> None:
        self._what = ""
        self._shown = 0.0

    def start(self, what: str, total: int | None = None, keep: bool = True) -> None:
        self._what = f"{what} ({total:,})" if total else what
        self._shown = time.monotonic()
        print(self._what, file=sys.stderr, flush=True)

    def reach(self, done: int, detail: str = "", line: Line | None = None) -> None:
        if time.monotonic() - self._shown > 10:
            self._shown = time.monotonic()
            said = detail or (line.text if line else "")
            count = f"{done:,} " if done or not said else ""
            print(f"{self._what}: {count}{said}".rstrip(), file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def row(self, cells: Mapping[str, str], text: str) -> None:
        self.note(text)


@contextmanager
def shown_progress(quiet: bool) -> Iterator[Progress]:
    """Progress that fits where stderr goes."""
    if quiet:
        yield Silent()
    elif not sys.stderr.isatty():
        yield _Lines()
    else:
        with _bars() as bars:
            moving = _Moving(bars)
            yield moving
            moving.finish()


def _bars() -> "Bars":
    """A line for each piece of work: what it is, a bar in the room that is left, how far it is."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
    from rich.table import Column
    from rich.text import Text

    class Count(ProgressColumn):
        def render(self, task: "Task") -> Text:
            line: Line | None = task.fields["line"]
            if line is not None:
                return Text(line.count)
            if task.total is None or task.finished:
                return Text(f"{task.completed:,.0f}" if task.completed else "")
            return Text(f"{task.completed:,.0f}/{task.total:,.0f}")

    class Rest(ProgressColumn):
        def render(self, task: "Task") -> Text:
            line: Line | None = task.fields["line"]
            shown = line.text if line else f"{clock(task.elapsed or 0)} {task.fields['detail']}"
            return Text(shown, overflow="ellipsis")

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        Count(Column(no_wrap=True, justify="right")),
        Rest(Column(no_wrap=True)),
        console=Console(stderr=True),
        expand=True,
        refresh_per_second=4,
        redirect_stdout=False,  # results on stdout are not to be drawn on stderr
    )
