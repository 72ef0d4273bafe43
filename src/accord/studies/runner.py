"""Training and evaluating the runs of a plan, several at a time; stopped, it goes on from there.

The directory of a study:

    burn-in-1 basic-1 …   the runs, BRANCH-SEED or BRANCH-VARIANT
    study.json            of each run: the time that training has had, and whether it was alone
    costs costs.json      what each branch costs, measured alone: see costs.py
    table.md              what is known so far
"""

import hashlib
import io
import json
import math
import signal
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from accord.config.load import store_directory
from accord.errors import AccordError
from accord.evaluation.folder import evaluation_directory, read, write_comparison
from accord.evaluation.significance import compare
from accord.evaluation.uses import FILE
from accord.models.checkpoint import Checkpoints
from accord.run_directory import RunDirectory
from accord.studies import branches as state
from accord.studies.commands import Command, Processes, set_options
from accord.studies.journal import Journal
from accord.studies.plan import EvaluationOptions, PlannedRun, PlannedStudy


@dataclass(frozen=True, kw_only=True)
class StudyCommand(Command):
    """One command of a study, in the words of its plan."""

    run: PlannedRun
    evaluation: EvaluationOptions | None = None

    @property
    def kind(self) -> str:
        """train, average or evaluate."""
        return self.arguments[0]


def commands(study: PlannedStudy, journal: Journal) -> Iterator[StudyCommand]:
    """Everything that is to be done, in order."""
    for run in study.runs:
        yield from _commands(study, run, journal)


def _commands(study: PlannedStudy, run: PlannedRun, journal: Journal) -> Iterator[StudyCommand]:
    plan, place = study.plan, run.directory
    yield StudyCommand(
        arguments=("train", str(study.experiment), "-q", *set_options(run.changes)),
        done=partial(is_trained, run, journal),
        run=run,
    )
    if plan.average is not None:
        yield StudyCommand(
            arguments=("average", str(place), "--last", str(plan.average)),
            done=partial(_averaged, place),
            run=run,
        )
    if run in study.origins:
        return
    for options in plan.evaluate:
        yield StudyCommand(
            arguments=("evaluate", str(place), "--json", "-q", *options.arguments),
            done=partial(state.evaluated, place, options.name, options.checkpoint),
            run=run,
            evaluation=options,
        )


def is_trained(run: PlannedRun, journal: Journal) -> bool:
    """Whether a run has come to its end, or to that of its time."""
    if state.trained(run.directory, run.experiment):
        return True
    try:
        same = RunDirectory(run.directory).experiment() == run.experiment
        same = same and not state.of_other_data(run.directory, run.experiment)
    except AccordError:
        return False
    return same and journal.time_was_up(run.name)


def _averaged(run: Path) -> bool:
    """Whether the average is of the newest checkpoints."""
    checkpoints = RunDirectory(run).checkpoints
    made = checkpoints / "average" / "state.json"
    try:
        newest, _ = Checkpoints(checkpoints).newest()
    except AccordError:
        return False
    if newest is None or not made.is_file():
        return False
    return made.stat().st_mtime_ns >= (newest.path / "state.json").stat().st_mtime_ns


def check_prepared(study: PlannedStudy, journal: Journal) -> None:
    """Say which data are missing before any time is spent on those that are there."""
    for run in study.runs:
        if not state.prepared(run.experiment) and not is_trained(run, journal):
            raise not_prepared(study, run)


def not_prepared(study: PlannedStudy, run: PlannedRun) -> AccordError:
    """Which commands make the data that are missing."""
    sets = [item for item in run.changes if not item.startswith(("run=", "training.", "objec"))]
    typed = Command(
        arguments=("prepare", str(study.experiment), *set_options(sets)), done=bool
    ).command
    return AccordError(
        f"the data of {run.name} are not prepared",
        where=str(store_directory(run.experiment)),
        fix="\n       ".join(["run", *(study.plan.before or (typed,))]),
    )


@dataclass(eq=False)
class _AtWork:
    """A command that is being carried out, and how many others at most were so beside it."""

    command: StudyCommand
    others: int = 0


class _NoRoomError(Exception):
    """A command found no memory left on the GPU; so many others were at work beside it."""

    def __init__(self, others: int) -> None:
        super().__init__(others)
        self.others = others


class Runner:
    """Carries a study out; `say` is told what came of every command."""

    def __init__(
        self,
        study: PlannedStudy,
        journal: Journal,
        say: Callable[[str], None],
        processes: Processes | None = None,
    ) -> None:
        self.study, self._journal, self._say = study, journal, say
        self._processes = processes or Processes()
        minutes = study.plan.minutes
        self._end = None if minutes is None else time.monotonic() + 60 * minutes
        self._news: SimpleQueue[str] = SimpleQueue()
        self._total = sum(1 for _ in commands(study, journal))
        self._count, self._lock = 0, threading.Condition()
        self._busy: list[_AtWork] = []

    def make(self, keep: Callable[[], None]) -> int:
        """Train and evaluate everything; how many branches failed. `keep` saves what there is."""
        study = self.study
        with ThreadPoolExecutor(study.plan.parallel) as pool:
            try:
                # A pool works in order: no branch waits for a run that has not begun.
                origins = [(run, pool.submit(self._finish, run)) for run in study.origins]
                jobs = [
                    pool.submit(self._finish, run, [job for o, job in origins if run.reads(o)])
                    for run in study.branches
                ]
                for job in jobs:
                    job.add_done_callback(lambda _: self._news.put("done"))
                self._keep(jobs, keep)
            except BaseException:  # Ctrl-C too: what runs saves, the rest does not begin
                self._processes.stop()
                pool.shutdown(cancel_futures=True)
                raise
        return sum(not job.result() for job in jobs)

    def _keep(self, jobs: list["Future[bool]"], keep: Callable[[], None]) -> None:
        waiting = len(jobs)
        while waiting:
            if self._news.get() == "done":
                waiting -= 1
            else:
                self._compare()
                keep()

    def _finish(self, run: PlannedRun, origins: Sequence["Future[bool]"] = ()) -> bool:
        """All commands of a run; whether they went well. A branch waits for what it may read."""
        if not all(origin.result() for origin in origins):
            return False
        planned = list(_commands(self.study, run, self._journal))
        training = (item for item in planned if item.evaluation is None)
        if not all(self._carry_out(item) for item in training):
            return False
        # An evaluation that fails leaves the others their chance.
        scored = [self._carry_out(item) for item in planned if item.evaluation is not None]
        return all(scored)

    def _carry_out(self, item: StudyCommand) -> bool:
        with self._lock:
            self._count += 1
            title = f"{self._count}/{self._total} {item.run.name}"
        try:
            if item.done():
                self._say(f"{title}: {item.kind}, done already")
                return True
            return self._attempt(item, title)
        finally:
            if item.evaluation is not None:
                self._news.put("evaluated")

    def _attempt(self, item: StudyCommand, title: str) -> bool:
        """Run a command, say what came of it; whether it went well. Others go on all the same.

        One that finds no memory on a shared GPU is run again beside half as many others. Until then
        its place stays empty, so that there are fewer from now on.
        """
        others = self.study.plan.parallel
        while True:
            try:
                return self._try(item, title, others)
            except _NoRoomError as error:
                others = error.others // 2
                beside = f"with {others} beside it at most" if others else "alone"
                self._say(f"{title}: no memory left on the GPU; it is run again, {beside}")

    def _try(self, item: StudyCommand, title: str, others: int) -> bool:
        with self._at_work(item, others) as work:
            seconds = self._seconds(item)
            if self._processes.stopped:
                return False
            if seconds <= 0:
                self._say(f"{title}: no time left to {item.kind}")
                return False
            self._note_sharing()
            began = time.monotonic()
            try:
                printed = self._processes.run(item.arguments, seconds)
            except subprocess.CalledProcessError as error:
                self._ended_badly(work, title, error, time.monotonic() - began)
                return False
        taken = time.monotonic() - began
        up = taken > seconds
        if item.kind == "train":
            self._journal.add(item.run.name, taken, up)
        if self._processes.stopped:
            return False
        if item.kind == "train" and not up and not item.done():
            self._say(
                f"{title}: training ended after {taken:.0f} s, before it was done (told to stop "
                "from outside?); it is not evaluated, and the same command goes on with it"
            )
            return False
        said = _summary(printed) if item.evaluation else f"{item.kind.removesuffix('e')}ed"
        self._say(f"{title}: {said} ({taken:.0f} s{', told to stop' if up else ''})")
        return True

    def _ended_badly(
        self, work: _AtWork, title: str, error: subprocess.CalledProcessError, taken: float
    ) -> None:
        item, said = work.command, error.stderr or ""
        if item.kind == "train" and error.returncode == 128 + signal.SIGINT:
            # Ctrl-C goes to training as well: it has saved, and its time counts.
            self._journal.add(item.run.name, taken, False)
        elif not self._processes.stopped:
            if "out of memory" in said and work.others:
                raise _NoRoomError(work.others)
            self._say(f"{title}: {item.kind} failed\n{said[-2000:].strip()}")

    @contextmanager
    def _at_work(self, item: StudyCommand, others: int) -> Iterator[_AtWork]:
        """Wait until no more others than these are at work."""
        work = _AtWork(item)
        with self._lock:
            while not self._processes.stopped and len(self._busy) > others:
                self._lock.wait(1.0)
            self._busy.append(work)
        try:
            yield work
        finally:
            with self._lock:
                self._busy.remove(work)
                self._lock.notify_all()

    def _note_sharing(self) -> None:
        """How many others each has beside it, and that training shares the machine."""
        with self._lock:
            beside = len(self._busy) - 1
            for each in self._busy if beside else ():
                each.others = max(each.others, beside)
                if each.command.kind == "train":
                    self._journal.share(each.command.run.name)

    def _seconds(self, item: StudyCommand) -> float:
        """How long a command may take, with those that come after it in mind."""
        plan = self.study.plan
        most, after = plan.evaluate_seconds or math.inf, 0.0
        if item.kind == "train":
            most = (plan.train_seconds or math.inf) - self._journal.seconds(item.run.name)
            after = len(plan.evaluate) * (plan.evaluate_seconds or 0.0)
        return most if self._end is None else min(most, self._end - time.monotonic() - after)

    def _compare(self) -> None:
        """Make the paired tests that can be made by now."""
        plan = self.study.plan
        for run in self.study.branches:
            other = self.study.run(plan.against, run.variant) if plan.against else None
            if other is None or other == run:
                continue
            for options in plan.evaluate:
                folders = [evaluation_directory(x.directory, options.name) for x in (run, other)]
                if all(folder.is_dir() for folder in folders):
                    self._test(*folders)

    def _test(self, ours: Path, theirs: Path) -> None:
        file = ours / f"against-{theirs.parents[1].name}.json"
        made = [folder / "evaluation.json" for folder in (ours, theirs)]
        if file.exists() and all(
            file.stat().st_mtime_ns >= each.stat().st_mtime_ns for each in made
        ):
            return
        try:
            write_comparison(file, compare(read(ours), read(theirs)))
        except AccordError as error:
            self._say(f"{ours}: not compared\n{error}")


def _summary(printed: str) -> str:
    """An evaluation in a line."""
    found = json.loads(printed)
    means = ", ".join(
        f"{group.replace('_', ' ')} {mean['bleu']:.1f}" for group, mean in found["averages"].items()
    )
    return f"evaluated, {found['name']}, BLEU: {means}"


# Names with a dot in front are of evaluations that are being written.
KEPT = (
    "experiment.yaml",
    "environment.json",
    "manifest.json",
    "metrics.jsonl",
    FILE,
    "metrics.seal",
    "evaluation/[!.]*/*",
)


def pack(runs: Iterable[Path], others: Sequence[Path], to: Path, volume: int | None = None) -> None:
    """Write the archive; where a `volume` (bytes) is given, cut into TO.00, TO.01 and so on.

    An earlier one is replaced by renaming alone, since the process may be killed at any time.
    """
    files = [(f"{run.name}/{path.relative_to(run)}", path) for run in runs for path in _kept(run)]
    packed = _archive([*files, *((path.name, path) for path in others)])
    parts = {to: packed}
    if volume is not None:
        starts = enumerate(range(0, len(packed), volume))
        parts = {
            to.with_name(f"{to.name}.{number:02d}"): packed[start : start + volume]
            for number, start in starts
        }
    to.parent.mkdir(parents=True, exist_ok=True)
    for path, part in parts.items():
        _fresh(path).write_bytes(part)
    for path in parts:
        _fresh(path).replace(path)


def _kept(run: Path) -> list[Path]:
    return [path for pattern in KEPT for path in sorted(run.glob(pattern)) if path.is_file()]


def _archive(files: Iterable[tuple[str, Path]]) -> bytes:
    buffer, seen = io.BytesIO(), dict[str, str]()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as archive:
        for name, path in files:
            data = path.read_bytes()  # at once: a log may grow meanwhile
            info = tarfile.TarInfo(name)
            info.mtime = path.stat().st_mtime
            first = seen.setdefault(hashlib.sha256(data).hexdigest(), name)
            if first == name:
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
            else:
                info.type, info.linkname = tarfile.LNKTYPE, first
                archive.addfile(info)
    return buffer.getvalue()


def _fresh(path: Path) -> Path:
    return path.with_name(f".{path.name}")
