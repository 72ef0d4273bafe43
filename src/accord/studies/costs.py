"""The cost of a branch: how long a gold token takes it, over how long it takes another branch.

Runs that share a machine take as long as the others let them, so every branch is trained a little
further by itself, one after the other:

    costs/basic-1 …   the runs that were measured, without checkpoints
    costs.json        what came of it

Which updates count is said in counted_updates.py; training is told to stop when they are enough.
"""

import json
import math
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from accord.config.load import store_directory
from accord.config.schema import Experiment
from accord.data.store import read_manifest
from accord.errors import AccordError
from accord.evaluation.folder import write_json
from accord.files import expand, sealed
from accord.models.checkpoint import Checkpoints
from accord.report.figures import Grid, grid
from accord.report.numbers import NONE, count
from accord.run_directory import RunDirectory, log_errors, read_metrics
from accord.studies.branches import prepared
from accord.studies.commands import Command, Processes, assignment, set_options
from accord.studies.counted_updates import Counted, counted, pace
from accord.studies.estimates import FILLED
from accord.studies.journal import Journal
from accord.studies.plan import PlannedRun, PlannedStudy
from accord.studies.runner import is_trained, not_prepared

ROUND = 50
"""Updates that a round of synthetic pairs lasts, about."""
NEVER = 1_000_000
"""More updates than are ever made here: training is told to stop."""
_EXAMPLES = {"distillation": 1, "back-translation": 1, "latent": 2, "round-trip": 1}
"""What a translated pair gives, by the part of Complete."""


@dataclass(frozen=True)
class Cost:
    """What was measured of one branch."""

    variant: str
    """The seed or variant."""
    updates: int
    seconds: float
    target_tokens: float
    """Gold ones in these updates, learnt from or only read."""
    rounds: int
    """Of synthetic pairs that came into use in these updates."""
    pairs: int | None
    """`objective.complete.pairs` here, where the plan has more."""
    device: str
    commit: str | None
    date: str
    command: str

    @property
    def speed(self) -> float:
        """Gold target tokens a second."""
        return self.target_tokens / self.seconds


class Costs:
    """What is known so far, by branch: in costs.json."""

    def __init__(self, out: Path, against: str | None) -> None:
        self.file, self.against = out / "costs.json", against
        self.known: dict[str, Cost] = {}
        if self.file.is_file():
            try:
                found = json.loads(self.file.read_bytes())
                if found != sealed(found):
                    raise ValueError("it was altered since it was written")
                names = [field.name for field in fields(Cost)]
                self.known = {
                    branch: Cost(**{name: entry[name] for name in names})
                    for branch, entry in found["branches"].items()
                }
            except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
                raise AccordError(
                    f"the costs of the study cannot be read: {error}",
                    where=str(self.file),
                    fix="delete the file: `accord study PLAN --costs` measures them anew",
                ) from None

    def relative(self, branch: str) -> float | None:
        """Over the branch that others are tested against, if both were measured on one device."""
        mine, usual = self.known.get(branch), self.known.get(self.against or "")
        if mine is None or usual is None or mine.device != usual.device:
            return None
        return usual.speed / mine.speed

    def add(self, branch: str, cost: Cost) -> None:
        """One more is measured."""
        self.known[branch] = cost
        entries = {
            name: {
                **asdict(each),
                "tokens_per_second": round(each.speed, 1),
                "cost": None if (found := self.relative(name)) is None else round(found, 4),
            }
            for name, each in self.known.items()
        }
        said = {"format": 1, "against": self.against, "branches": entries}
        write_json(self.file, sealed(said))

    def table(self) -> Grid:
        """For a terminal."""
        head = ["branch", "updates", "gold tokens/s", "rounds", "cost"]
        rows = (
            [
                name,
                count(each.updates),
                count(each.speed),
                count(each.rounds) if each.rounds else NONE,
                times(self.relative(name)),
            ]
            for name, each in self.known.items()
        )
        return grid(f"Cost, of {self.against}" if self.against else "Cost", head, rows)

    @property
    def note(self) -> str:
        """How it was measured."""
        devices, dates = (
            ", ".join(dict.fromkeys(getattr(cost, key) for cost in self.known.values()))
            for key in ("device", "date")
        )
        return f"costs are of each branch by itself, on {devices}, {dates} ({self.file.name})"


def times(cost: float | None) -> str:
    """`×1.41`."""
    return NONE if cost is None else f"×{cost:.2f}"


# --- What is to be measured.


@dataclass(frozen=True, kw_only=True)
class Measurement(Command):
    """Training that is timed."""

    run: PlannedRun
    """The run whose cost it is."""
    directory: Path
    began: int
    """The last update of the run that it goes on from."""
    pairs: int | None

    def counted(self) -> Counted:
        """What the log of training says by now."""
        log = RunDirectory(self.directory).metrics
        with log_errors(log):
            return counted(read_metrics(log), self.began, pace(self.run.experiment))

    def has_enough(self) -> bool:
        """Whether training may stop."""
        return self.counted().are_enough(pace(self.run.experiment))


def unmeasured(run: PlannedRun) -> str:
    """Why a branch cannot be measured; nothing where it can."""
    if not run.experiment.model.is_network:
        return "it is no network, and makes no updates"
    first = pace(run.experiment).warm_up
    late = [key for key, start in _starts(run.experiment) if start >= first]
    if late and run.experiment.training.init_from is None:
        return f"it begins afresh, and {late[0]} counts only later"
    return ""


def measurements(study: PlannedStudy, journal: Journal, costs: Costs) -> list[Measurement]:
    """One for each branch, of the first seed or variant; what they go on from must be there."""
    runs = [
        run
        for run in study.runs
        if run.variant == study.variants[0] and (run in study.origins or not unmeasured(run))
    ]
    for run in runs:
        if run in study.origins and not is_trained(run, journal):
            raise AccordError(
                f"{run.name} is not trained, and branches go on from it or read it",
                where=str(run.directory),
                fix=f"run `accord study {study.file} --out {study.out}` first",
            )
        if not prepared(run.experiment):
            raise not_prepared(study, run)
    began = cache(_began)  # checkpoints are read as a whole
    return [
        _measurement(study, run, began(run.experiment.training.init_from), costs)
        for run in runs
        if run in study.branches
    ]


def _began(origin: str | None) -> int:
    if origin is None:
        return 0
    found = Checkpoints(RunDirectory(Path(expand(origin))).checkpoints).last()
    if found is None:
        raise AccordError(
            "there is no checkpoint to go on from",
            where=f"training.init_from, {origin}",
            fix="train that run first",
        )
    return found.step


def _measurement(study: PlannedStudy, run: PlannedRun, began: int, costs: Costs) -> Measurement:
    directory, pairs = study.out / "costs" / run.name, _round_pairs(run.experiment)
    settings = {"run": str(directory), **_settings(run.experiment, began)}
    if pairs is not None:
        settings["objective.complete.pairs"] = pairs
    changes = [
        *(change for change in run.changes if change.partition("=")[0] not in settings),
        *(assignment(key, value) for key, value in settings.items()),
    ]
    arguments = ("train", str(study.experiment), "-q", *set_options(changes))
    typed = Command(arguments=arguments, done=bool).command
    return Measurement(
        arguments=arguments,
        done=partial(_is_known, costs, run.branch, typed),
        run=run,
        directory=directory,
        began=began,
        pairs=pairs,
    )


def _is_known(costs: Costs, branch: str, command: str) -> bool:
    return branch in costs.known and costs.known[branch].command == command


def _settings(experiment: Experiment, began: int) -> dict[str, Any]:
    """Nothing but updates, with every objective from the first on; the rate follows them alone."""
    training = experiment.training
    clock = {
        "training.minutes": training.minutes,
        "training.branch_minutes": training.branch_minutes,
        "training.optimizer.decay_minutes": training.optimizer.decay_minutes,
    }
    return {
        "training.steps": began + NEVER,
        "training.log_every": pace(experiment).line,
        "training.save_every": began + NEVER,
        "training.keep": 1,
        "training.loggers": [],
        "training.validation": {"every": began + NEVER, "sentences": 0},
        **{key: None for key, minutes in clock.items() if minutes is not None},
        # A run that begins afresh keeps its own: a teacher must have learnt something.
        **{f"{key}.start": began for key, start in _starts(experiment) if 0 < began < start},
    }


def _starts(experiment: Experiment) -> Iterator[tuple[str, int]]:
    """The last update without an objective, for each that counts."""
    for name, section in experiment.objective:
        if section is not None and (section.weight or getattr(section, "encoder_weight", 0)):
            yield f"objective.{name}", section.start


def _round_pairs(experiment: Experiment) -> int | None:
    """Pairs of a round that is used up in about ROUND updates, where the plan has more.

    Synthetic batches are as large as gold ones, and their sentences about as long.
    """
    complete = experiment.objective.complete
    if complete is None or not complete.weight:
        return None
    corpora = read_manifest(store_directory(experiment))["corpora"]
    tokens = sum(n for corpus in corpora for n in corpus["tokens"].values())
    length = tokens / sum(2 * corpus["lines"] for corpus in corpora)
    rows = FILLED * experiment.training.batch_tokens / length
    examples = complete.uses * sum(_EXAMPLES[part] for part in complete.parts)
    pairs = math.ceil(ROUND / complete.every * rows / examples)
    return pairs if pairs < complete.pairs else None


# --- Measuring.


def measure(
    planned: Sequence[Measurement], costs: Costs, say: Callable[[str], None]
) -> Sequence[str]:
    """Train each by itself; the branches that failed. What is measured is kept at once."""
    processes = Processes()
    failed = []
    with ThreadPoolExecutor(1) as pool:
        try:
            for number, item in enumerate(planned, start=1):
                title = f"{number}/{len(planned)} {item.run.branch}"
                if not pool.submit(_measure, item, title, costs, say, processes).result():
                    failed.append(item.run.branch)
        except BaseException:  # Ctrl-C: what runs is told to stop, and begins anew next time
            processes.stop()
            raise
    return failed


def _measure(
    item: Measurement, title: str, costs: Costs, say: Callable[[str], None], processes: Processes
) -> bool:
    if item.done():
        say(f"{title}: measured already, {_said(costs, item.run.branch)}")
        return True
    # Begun anew: updates after a stop would be first ones again.
    shutil.rmtree(item.directory, ignore_errors=True)
    began = time.monotonic()
    try:
        processes.run(item.arguments, enough=item.has_enough)
        if not item.has_enough():  # somebody else told it to stop; what there is would be chance
            say(f"{title}: stopped before enough was measured")
            return False
        cost = _read(item)
    except subprocess.CalledProcessError as error:
        if not processes.stopped and error.returncode != 128 + signal.SIGINT:
            say(f"{title}: training failed\n{(error.stderr or '')[-2000:].strip()}")
        return False
    except AccordError as error:
        say(f"{title}: not measured\n{error}")
        return False
    costs.add(item.run.branch, cost)
    for name in ("checkpoints", "pool", "teacher"):
        shutil.rmtree(item.directory / name, ignore_errors=True)
    say(f"{title}: {_said(costs, item.run.branch)} ({time.monotonic() - began:.0f} s)")
    if item.run.experiment.objective.complete is not None and cost.rounds < 2:
        say(f"{title}: note: only {cost.rounds} rounds in {cost.updates} updates, a rough figure")
    return True


def _said(costs: Costs, branch: str) -> str:
    found, speed = costs.relative(branch), costs.known[branch].speed
    cost = "" if found is None else f", {times(found)} of {costs.against}"
    return f"{count(speed)} gold tokens a second{cost}"


def _read(item: Measurement) -> Cost:
    """From the log of training that has ended."""
    found = item.counted()
    run = RunDirectory(item.directory)
    if not found.seconds:
        raise AccordError(
            "training made too few updates or rounds of synthetic pairs to time any, or recorded "
            "CUDA graphs in all of them",
            where=str(run.metrics),
            fix="see what its log says about its end; `recordings` are of CUDA graphs",
        )
    known = run.environment()
    return Cost(
        variant=item.run.variant,
        updates=found.updates,
        seconds=round(found.seconds, 3),
        target_tokens=found.target_tokens,
        rounds=found.rounds,
        pairs=item.pairs,
        device=known["device"],
        commit=known.get("commit"),
        date=datetime.now(UTC).date().isoformat(),
        command=item.command,
    )
