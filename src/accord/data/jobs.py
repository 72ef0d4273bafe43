"""Tasks that are done once: each leaves a note of its result, by which a later run knows it.

A task writes its files under their names only when they are whole, its note last. So whatever ends
a run, be it kill -9, what was finished is found by the next one, whoever carries out the rest.
"""

import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Generic, Protocol, TypeVar

from accord.data.workers import Engine
from accord.errors import AccordError
from accord.files import sealed, writing_errors
from accord.progress import Progress

Facts = dict[str, Any]
Report = Callable[[int], None]


class Named(Protocol):
    """A task: plain data with a name that no other task of its stage has."""

    @property
    def name(self) -> str:
        """For the note of its result."""


Task = TypeVar("Task", bound=Named)


@dataclass(frozen=True)
class Job(Generic[Task]):
    """A pure function and what it is to work on; its result is plain data."""

    folder: Path
    stage: str
    function: Callable[[Task, Report], Facts]
    task: Task
    spent: Path | None = None
    """A file that nobody needs once this is done."""

    @property
    def note(self) -> Path:
        """Where the result is written down."""
        return self.folder / "done" / self.stage / f"{self.task.name}.json"


def carry_out(job: Job[Task], report: Report) -> Facts:
    """Do a task, unless it was done before; its result either way."""
    found = _noted(job.note)
    if found is None:
        _refuse_elsewhere(job.folder)
        found = job.function(job.task, report)
        # A note that a power cut took is a task done again, no more; unless its input is gone.
        with written(job.note, sync=job.spent is not None) as file:
            file.write(json.dumps(sealed({"result": found})).encode())
    if job.spent is not None:
        job.spent.unlink(missing_ok=True)
    return found


@dataclass(frozen=True)
class Stages:
    """Where work is done, by whom, and who is told of it."""

    engine: Engine
    folder: Path
    progress: Progress

    def run(
        self,
        stage: str,
        function: Callable[[Task, Report], Facts],
        tasks: Sequence[Task],
        spent: Sequence[Path | None] | None = None,
    ) -> list[Facts]:
        """Carry out tasks, or find that they were; the results in their order."""
        jobs = [
            Job(self.folder, stage, function, task, file)
            for task, file in zip(tasks, spent or [None] * len(tasks), strict=True)
        ]
        return self.engine.run(carry_out, jobs, self.progress)


@contextmanager
def written(path: Path, *, sync: bool = True) -> Iterator[IO[bytes]]:
    """A file that gets its name when it is whole.

    Others may be writing the same one, such as what is left of a killed run: as the contents follow
    from the task alone, it does not matter who is the last to give his the name.
    """
    with writing_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}")
        try:
            with temporary.open("wb") as file:
                yield file
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def _noted(note: Path) -> Facts | None:
    try:
        data = json.loads(note.read_bytes())
        if data != sealed(data):
            return None
        result: Facts = data["result"]
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return None
    return result


def _refuse_elsewhere(folder: Path) -> None:
    if not folder.is_dir():
        raise AccordError(
            f"the machine {socket.gethostname()} does not see this directory",
            where=str(folder),
            fix="put `store` on a disk that all machines share, under the same path",
        )
