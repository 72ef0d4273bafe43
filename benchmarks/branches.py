"""Branches of one Basic run, compared: a plan says what they are, this trains and scores them.

    python benchmarks/branches.py PLAN OUT [--seeds 1 2 3] [--parallel 4] [--only NAME ...]

For every seed (`training.seed`: the prepared data are the same) Basic is trained first; every
branch continues its checkpoint. OUT gets the runs, called BRANCH-SEED, table.md, and an archive of
all that is worth keeping (see packing.py); both are written anew after every evaluation. On a GPU
several runs at a time need CUDA's multi-process service to be of use.

A plan is YAML:

    experiment  a file whose data are prepared
    basic       settings, as for --set, of the run that all branches continue; without it each of
                them begins afresh
    branches    their settings, by name
    variants    instead of seeds: settings by name for all runs, below `basic` for the common one
    average     how many of its newest checkpoints `accord average` takes when a run is trained;
                without it there is no average
    evaluate    options of `accord evaluate`, or several lists of them
    against     the branch that all others are tested against, by paired bootstrap
    train_seconds, evaluate_seconds
                the most that a command may take. Training that takes longer is told to save and
                stop, and evaluated as it is; an evaluation is given up. With --minutes so is
                all, but training ends early enough for its evaluations to take their time
"""

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import yaml

from accord.errors import AccordError
from accord.evaluation.folder import read, write_json
from accord.evaluation.significance import compare
from branch_table import evaluations, table
from packing import pack

GRACE = 60
"""Seconds that a command has to end when it is told to; it may be in the middle of a validation."""
MIB = 1 << 20


@dataclass(frozen=True)
class Plan:
    experiment: str
    branches: dict[str, dict[str, Any]]
    basic: dict[str, Any] | None = None
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)
    average: int | None = None
    evaluate: list[Any] = field(default_factory=list)
    against: str | None = None
    train_seconds: float = math.inf
    evaluate_seconds: float = math.inf

    @property
    def evaluations(self) -> list[list[str]]:
        several = self.evaluate and all(isinstance(some, list) for some in self.evaluate)
        return [list(map(str, some)) for some in (self.evaluate if several else [self.evaluate])]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("plan", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", help="default: 1 2 3")
    parser.add_argument("--parallel", type=int, default=1, help="runs at the same time")
    parser.add_argument("--only", nargs="+", help="branches to make; default: all of the plan")
    parser.add_argument("--experiment", help="instead of the plan's")
    parser.add_argument("--minutes", type=float, help="when everything ends")
    parser.add_argument("--pack", type=Path, help="the archive; default: OUT/results.tar.gz")
    parser.add_argument("--volume", type=int, metavar="MIB", help="cut the archive into volumes")
    options = parser.parse_args(arguments)
    plan = read_plan(options.plan, options.experiment)
    names = options.only or list(plan.branches)
    if unknown := {*names, plan.against or names[0]} - set(plan.branches):
        raise SystemExit(f"no such branch in {options.plan}: {', '.join(sorted(unknown))}")
    if plan.variants and options.seeds:
        raise SystemExit(f"{options.plan} has variants: give their seeds there")
    if options.minutes and math.isinf(plan.evaluate_seconds):
        raise SystemExit(f"--minutes asks for evaluate_seconds in {options.plan}")
    options.out.mkdir(parents=True, exist_ok=True)
    study = Study(plan, names, options.out, options.seeds or [1, 2, 3], options.minutes)
    archive = options.pack or options.out / "results.tar.gz"
    volume = options.volume and options.volume * MIB
    pack((), (), archive, volume)  # a place that cannot be written to shows before the work
    failed = study.make(options.parallel, lambda: keep(study, archive, volume))
    print(table(study.rows, plan.against))
    if failed:
        raise SystemExit(f"{failed} of {len(names) * len(study.variants)} runs failed")


def read_plan(path: Path, experiment: str | None) -> Plan:
    try:
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Plan(**given | ({"experiment": experiment} if experiment else {}))
    except (OSError, TypeError, yaml.YAMLError) as error:  # no file, an unknown key, no YAML
        raise SystemExit(f"{path} is no plan: {error}") from None


class Study:
    """The runs of a plan, and how they depend on each other."""

    def __init__(
        self,
        plan: Plan,
        names: Sequence[str],
        out: Path,
        seeds: Sequence[int],
        minutes: float | None = None,
    ) -> None:
        self.plan, self.out = plan, out
        self._end = None if minutes is None else time.monotonic() + 60 * minutes
        self.names = sorted(names, key=lambda name: name != plan.against)  # others need it
        self.variants = plan.variants or {str(seed): {"training.seed": seed} for seed in seeds}
        self._news: SimpleQueue[str] = SimpleQueue()

    def run(self, name: str, variant: str) -> Path:
        return self.out / f"{slug(name)}-{slug(variant)}"

    def common(self, variant: str) -> Path:
        return self.run("burn-in", variant)

    @property
    def directories(self) -> list[Path]:
        """Of all runs that there are so far."""
        runs = [self.common(variant) for variant in self.variants]
        runs += [self.run(name, variant) for name in self.names for variant in self.variants]
        return [run for run in runs if run.is_dir()]

    @property
    def rows(self) -> dict[str, list[Path]]:
        """The rows of the table: seeds of a branch stand in one, variants in one each."""
        if self.plan.variants:
            found = ((f"{n}, {v}", [self.run(n, v)]) for n in self.names for v in self.variants)
            return dict(found)
        return {name: [self.run(name, v) for v in self.variants] for name in self.names}

    def make(self, parallel: int, keep: Callable[[], None]) -> int:
        """Train and evaluate everything; how many branches failed."""
        with ThreadPoolExecutor(parallel) as pool:
            # A pool works in order: no branch waits for a run that has not begun.
            origins: dict[str, Future[bool]] = {}
            if self.plan.basic is not None:
                origins = {v: pool.submit(self._train_common, v) for v in self.variants}
            jobs = [
                pool.submit(self._branch, name, variant, origins.get(variant))
                for name in self.names
                for variant in self.variants
            ]
            for job in jobs:
                job.add_done_callback(lambda _: self._news.put("done"))
            waiting = len(jobs)
            while waiting:
                if self._news.get() == "done":
                    waiting -= 1
                else:
                    keep()
                    self._compare()
                    keep()
        return sum(not job.result() for job in jobs)

    def _train_common(self, variant: str) -> bool:
        settings = {**(self.plan.basic or {}), **self.variants[variant]}
        settings |= settings.pop("basic", {})
        return self._finish(self.common(variant), settings)

    def _branch(self, name: str, variant: str, origin: Future[bool] | None) -> bool:
        settings = {**self.plan.branches[name], **self.variants[variant]}
        settings.pop("basic", None)
        if origin is not None:
            settings["training.init_from"] = str(self.common(variant))
        run = self.run(name, variant)
        if (origin is not None and not origin.result()) or not self._finish(run, settings):
            return False
        scored = [self._evaluate(run, options) for options in self.plan.evaluations]
        return all(scored)

    def _finish(self, run: Path, settings: Mapping[str, Any]) -> bool:
        """Train a run, and average what it saved last if the plan says so."""
        trained = self._train(run, settings)
        return trained and (self.plan.average is None or self._average(run))

    def _train(self, run: Path, settings: Mapping[str, Any]) -> bool:
        pairs = {"run": str(run), **settings}.items()
        sets = [part for key, value in pairs for part in ("--set", f"{key}={json.dumps(value)}")]
        line = ("train", self.plan.experiment, "-q", *sets)
        after = len(self.plan.evaluations) * self.plan.evaluate_seconds
        seconds = self._seconds(self.plan.train_seconds, after)
        return attempt(run, line, seconds, lambda _: "trained")

    def _average(self, run: Path) -> bool:
        line = ("average", str(run), "--last", str(self.plan.average))
        return attempt(run, line, self._seconds(self.plan.evaluate_seconds), lambda _: "averaged")

    def _evaluate(self, run: Path, options: Sequence[str]) -> bool:
        line = ("evaluate", str(run), "--json", "-q", *options)
        scored = attempt(run, line, self._seconds(self.plan.evaluate_seconds), summary)
        self._news.put("evaluated")
        return scored

    def _seconds(self, most: float, after: float = 0) -> float:
        """How long a command may take that others come `after`."""
        return most if self._end is None else min(most, self._end - time.monotonic() - after)

    def _compare(self) -> None:
        """Make the paired tests that can be made by now."""
        pairs = [
            (file.parent, self.run(self.plan.against, variant) / "evaluation" / file.parent.name)
            for variant in self.variants
            for name in self.names
            if self.plan.against and name != self.plan.against
            for file in evaluations(self.run(name, variant))
        ]
        new = [
            (ours, theirs)
            for ours, theirs in pairs
            if theirs.is_dir() and not (ours / f"against-{theirs.parents[1].name}.json").exists()
        ]
        for ours, theirs in new:
            try:
                found = compare(read(ours), read(theirs))
                write_json(ours / f"against-{found.theirs.run}.json", found.as_dict())
            except AccordError as error:
                print(f"{ours}: not compared\n{error}", file=sys.stderr, flush=True)


def attempt(run: Path, line: Sequence[str], seconds: float, describe: Callable[[str], str]) -> bool:
    """Run a command and say what came of it; whether it went well. Others go on all the same."""
    began = time.monotonic()
    if seconds <= 0:
        print(f"{run.name}: no time left to {line[0]}", file=sys.stderr, flush=True)
        return False
    try:
        said = describe(accord(*line, seconds=seconds))
    except subprocess.CalledProcessError as error:
        print(f"{run.name}: {line[0]} failed\n{error.stderr[-2000:]}", file=sys.stderr, flush=True)
        return False
    taken = time.monotonic() - began
    stopped = ", told to stop" if taken > seconds else ""
    print(f"{run.name}: {said} ({taken:.0f} s{stopped})", file=sys.stderr, flush=True)
    return True


def accord(*arguments: str, seconds: float = math.inf) -> str:
    """Run a command; after so many seconds it is told to stop, which training does in order."""
    line = [sys.executable, "-m", "accord", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            out, said = process.communicate(timeout=seconds if math.isfinite(seconds) else None)
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                out, said = process.communicate(timeout=GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                out, said = process.communicate()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, line, out, said)
    return out


def summary(printed: str) -> str:
    """An evaluation in a line."""
    found = json.loads(printed)
    groups = {group: f"{mean['bleu']:.1f}" for group, mean in found["averages"].items()}
    return f"{found['name']}, BLEU: {groups}"


def slug(name: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())


def keep(study: Study, archive: Path, volume: int | None) -> None:
    """Write the table and the archive of what there is so far; runs go on where that fails."""
    page = study.out / "table.md"
    try:
        page.write_text(table(study.rows, study.plan.against), encoding="utf-8")
        pack(study.directories, [page], archive, volume)
    except OSError as error:
        print(f"{archive}: not written: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
