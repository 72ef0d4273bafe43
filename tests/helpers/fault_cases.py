"""Damage to files and deaths of processes: what every command must make of them.

A command that meets a damaged file gives the same result as before, or a clear error: nothing else.
"""

import contextlib
import hashlib
import io
import json
import os
import random
import shutil
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import typer

from accord.cli import app
from accord.errors import AccordError
from toy_training import overrides

OUTCOMES = ("same result", "clear error", "silent difference", "traceback")
STEPS = 10


# --- what is damaged, and how ----------------------------------------------------------------


def flip(data: bytes, choose: random.Random) -> bytes:
    place = choose.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << choose.randrange(8)]) + data[place + 1 :]


def truncate(data: bytes, choose: random.Random) -> bytes:
    return data[: choose.randrange(len(data))]


def zero(data: bytes, choose: random.Random) -> bytes:
    place = choose.randrange(len(data))
    size = min(choose.choice([1, 16, 512, 4096]), len(data) - place)
    return data[:place] + bytes(size) + data[place + size :]


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes] | None] = {
    "flip": flip,
    "truncate": truncate,
    "zero": zero,
    "empty": lambda data, choose: b"",
    "delete": None,
}


def damage(file: Path, choose: random.Random) -> str:
    """Damage a file in some way that changes it; which way it was."""
    data = file.read_bytes()
    while True:
        name, change = choose.choice(list(DAMAGES.items()))
        if change is None:
            file.unlink()
            return name
        if data and (changed := change(data, choose)) != data:
            file.write_bytes(changed)
            return name
        if not data:
            file.unlink()
            return "delete"


def leftovers(place: Path) -> set[str]:
    """What looks like the work of somebody who has gone."""
    found = {path for path in place.rglob(".*") if path.name != ".lock"}
    return {str(path.relative_to(place)) for path in found if not path.name.endswith(".damaged")}


# --- what the commands give ------------------------------------------------------------------


def digest(place: Path, skip: tuple[str, ...] = ()) -> dict[str, str]:
    return {
        str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(place.rglob("*"))
        if path.is_file() and path.name not in (".lock", "stamps.json", *skip)
    }


def figures(text: str) -> dict[str, object]:
    """An evaluation without its times."""
    return {k: v for k, v in json.loads(text).items() if k not in ("date",) and "seconds" not in k}


@dataclass(frozen=True)
class Place:
    """An experiment with its store, two evaluated runs and an export, all in one folder."""

    toy: Path
    root: Path

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def other(self) -> Path:
        return self.root / "other"

    @property
    def export(self) -> Path:
        return self.root / "export"

    @property
    def store(self) -> Path:
        return self.toy.parent / "store"

    def out(self, name: str) -> Path:
        path = self.root / "out" / name
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)
        path.parent.mkdir(exist_ok=True)
        return path

    def training(self, run: Path, steps: int) -> list[str]:
        changes = overrides(run, training__steps=steps, training__save_every=4)
        return ["train", str(self.toy), "-q", *(x for item in changes for x in ("--set", item))]

    def make(self) -> None:
        for run, steps in ((self.run, STEPS), (self.other, STEPS - 3)):
            call(*self.training(run, steps))
            call(*self.evaluating(run))
        call("export", str(self.run), "--output", str(self.export), "--no-check", "-q")

    def evaluating(self, run: Path) -> list[str]:
        return ["evaluate", str(run), "--split", "dev", "--beam", "1", "--json", "-q", *CPU]

    # Each gives something that can be compared.

    def translates(self) -> object:
        return self._translation(self.run, *CPU)

    def translates_restricted(self) -> object:
        return self._translation(self.run, "--vocabulary", "target", "--checkpoint", "last", *CPU)

    def translates_exported(self) -> object:
        return self._translation(self.export, "--vocabulary", "target", "--threads", "1")

    def _translation(self, model: Path, *options: str) -> bytes:
        text, out = self.toy.parent / "dev.de", self.out("translation")
        command = ["translate", str(model), "--to", "fr", "--input", str(text)]
        call(*command, "--output", str(out), *options)
        return out.read_bytes()

    def evaluates(self) -> object:
        return figures(call(*self.evaluating(self.run), "--limit", "2"))

    def compares(self) -> object:
        found = figures(call(*self.evaluating(self.run), "--against", str(self.other)))
        file = self.run / "evaluation" / "dev-beam1" / "against-other.json"
        kept = json.loads(file.read_text())
        return found, kept["averages"], kept["directions"]

    def reports(self) -> object:
        pages = [self.out(name) for name in ("report.html", "report.md")]
        options = [
            x for n, p in zip(("--html", "--markdown"), pages, strict=True) for x in (n, str(p))
        ]
        said = call("report", str(self.run), str(self.other), *options)
        return said, [page.read_bytes() for page in pages]

    def averages(self) -> object:
        call("average", str(self.run), "--last", "2")
        return digest(self.run / "checkpoints" / "average", skip=("state.json",))

    def trains_on(self) -> object:
        call(*self.training(self.run, STEPS + 2), "--accept-changes")
        newest = self.run / "checkpoints" / f"step-{STEPS + 2:08d}"
        return digest(newest, skip=("state.json",)), self.translates()

    def exports(self) -> object:
        out = self.out("export")
        call("export", str(self.run), "--output", str(out), "--no-check", "-q")
        return digest(out)

    def prepares(self) -> object:
        call("prepare", str(self.toy), "--workers", "1", "-q")
        return digest(self.store)

    def trains_anew(self) -> object:
        run = self.out("fresh")
        call(*self.training(run, 2))
        return digest(run / "checkpoints" / "step-00000002", skip=("state.json",))


CPU = ("--device", "cpu", "--threads", "1")


def call(*arguments: str) -> str:
    """What a command prints, in this process; its errors are those of the command line."""
    printed = io.StringIO()
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        ended = app(list(arguments), standalone_mode=False)
    if ended:
        raise typer.Exit(ended)
    return printed.getvalue()


# --- the table -------------------------------------------------------------------------------


@dataclass
class Table:
    """Outcomes by what was damaged, and the story of those that must not be."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    stories: list[str] = field(default_factory=list)

    def add(self, part: str, outcome: str, story: str) -> None:
        row = self.counts.setdefault(part, Counter())
        row["tries"] += outcome != "leftovers"
        row[outcome] += 1
        if outcome not in OUTCOMES[:2]:
            self.stories.append(f"{outcome}: {story}")

    def text(self) -> str:
        columns = ("tries", *OUTCOMES, "leftovers")
        lines = [f"{'':<28}" + "".join(f"{name:>19}" for name in columns)]
        for part, row in self.counts.items():
            lines.append(f"{part:<28}" + "".join(f"{row[name]:>19}" for name in columns))
        total = sum(self.counts.values(), Counter())
        lines.append(f"{'all':<28}" + "".join(f"{total[name]:>19}" for name in columns))
        return "\n".join([*lines, *self.stories])


def attempted(command: Callable[[], object], expected: object) -> tuple[str, str]:
    """What came of a command, and more about it."""
    try:
        found = command()
    except AccordError as error:
        return (
            ("clear error", str(error)) if error.fix or error.where else ("traceback", str(error))
        )
    except BaseException:  # noqa: BLE001 (whatever escapes is what is looked for)
        return "traceback", traceback.format_exc()
    return ("same result", "") if found == expected else ("silent difference", repr(found)[:300])


class Restored:
    """Puts folders back as they were, with the times of their files."""

    def __init__(self, places: list[Path], kept: Path) -> None:
        self._copies = [(place, kept / str(number)) for number, place in enumerate(places)]
        for place, copy in self._copies:
            shutil.copytree(place, copy)

    def __call__(self) -> None:
        for place, copy in self._copies:
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(copy, place)


def limits(name: str, seconds: float) -> Callable[[int], bool]:
    """Whether to go on: so many times as the environment says, else for some seconds."""
    wanted, end = int(os.environ.get(name, 0)), time.monotonic() + seconds
    return lambda done: done < wanted if wanted else time.monotonic() < end
