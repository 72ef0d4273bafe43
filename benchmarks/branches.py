"""Branches of one Basic run, compared: a plan says what they are, this trains and scores them.

    python benchmarks/branches.py PLAN OUT [--seeds 1 2 3] [--parallel 4] [--only NAME ...]

For every seed (`training.seed`: the prepared data are the same) Basic is trained first; every
branch continues its checkpoint. OUT gets the runs, and in OUT/results what is worth keeping: for
each run NAME.json (evaluation), NAME.metrics.jsonl, NAME.yaml, and table.md. On a GPU several runs
at a time need CUDA's multi-process service to be of use.

A plan is YAML: `experiment` (a file whose data are prepared), `basic` and `branches` (settings as
for --set; a branch is named by its key), `evaluate` (further options of `accord evaluate`).
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from where import where

COLUMNS = {
    "supervised": ("directions", "supervised"),
    "zero-shot": ("directions", "zero-shot"),
    "via pivot": ("via_pivot", "zero-shot"),
    "ensemble": ("by_ensemble", "zero-shot"),
}


@dataclass(frozen=True)
class Plan:
    experiment: str
    basic: dict[str, Any]
    branches: dict[str, dict[str, Any]]
    evaluate: list[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plan", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--parallel", type=int, default=1, help="runs at the same time")
    parser.add_argument("--only", nargs="+", help="branches to make; default: all of the plan")
    parser.add_argument("--experiment", help="instead of the plan's")
    options = parser.parse_args()
    given = yaml.safe_load(options.plan.read_text(encoding="utf-8"))
    if options.experiment:
        given["experiment"] = options.experiment
    plan = Plan(**{"basic": {}, "evaluate": [], **given})
    names = options.only or list(plan.branches)
    if unknown := set(names) - set(plan.branches):
        raise SystemExit(f"no such branch in {options.plan}: {', '.join(sorted(unknown))}")
    results = options.out / "results"
    results.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.parallel) as pool:
        list(pool.map(lambda seed: basic(plan, seed, options.out), options.seeds))
        jobs = [(name, seed) for name in names for seed in options.seeds]
        failures = list(
            pool.map(lambda job: branch(plan, job[0], job[1], options.out, results), jobs)
        )
    text = table(names, options.seeds, results)
    (results / "table.md").write_text(text, encoding="utf-8")
    print(text)
    if any(failures):
        raise SystemExit(f"{sum(failures)} of {len(jobs)} runs failed")


def basic(plan: Plan, seed: int, out: Path) -> None:
    train(plan.experiment, f"basic-{seed}", {"training.seed": seed, **plan.basic}, out)


def branch(plan: Plan, name: str, seed: int, out: Path, results: Path) -> bool:
    """Train and evaluate one branch; whether that failed. The others go on all the same."""
    run, began = f"{slug(name)}-{seed}", time.monotonic()
    settings = {"training.seed": seed, "training.init_from": str(out / f"basic-{seed}")}
    try:
        train(plan.experiment, run, {**settings, **plan.branches[name]}, out)
        trained = time.monotonic()
        accord("evaluate", str(out / run), *plan.evaluate)
    except subprocess.CalledProcessError as error:
        print(f"{run}: failed\n{error.stderr[-2000:]}", file=sys.stderr, flush=True)
        return True
    (found,) = (out / run).glob("evaluation/*/evaluation.json")
    for source, ending in (
        (found, ".json"),
        (out / run / "metrics.jsonl", ".metrics.jsonl"),
        (out / run / "experiment.yaml", ".yaml"),
    ):
        (results / f"{run}{ending}").write_bytes(source.read_bytes())
    seconds = f"{trained - began:.0f} s + {time.monotonic() - trained:.0f} s"
    shown = {column: f"{bleu(found, column):.1f}" for column in COLUMNS if means(found, column)}
    print(f"{run}: {shown} ({seconds})", file=sys.stderr, flush=True)
    return False


def train(experiment: str, run: str, settings: dict[str, Any], out: Path) -> None:
    pairs = {"run": str(out / run), **settings}.items()
    sets = [part for key, value in pairs for part in ("--set", f"{key}={json.dumps(value)}")]
    accord("train", experiment, *sets)


def accord(command: str, *arguments: str) -> None:
    line = [sys.executable, "-m", "accord", command, *arguments, "-q"]
    subprocess.run(line, check=True, capture_output=True, text=True)


def slug(name: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())


def means(evaluation: Path, column: str) -> list[float]:
    """BLEU of the directions that make up a column; none where it was not evaluated."""
    key, kind = COLUMNS[column]
    rows = json.loads(evaluation.read_text(encoding="utf-8")).get(key) or []
    return [row["bleu"]["score"] for row in rows if row["kind"] == kind]


def bleu(evaluation: Path, column: str) -> float:
    return statistics.mean(means(evaluation, column))


def table(names: list[str], seeds: list[int], results: Path) -> str:
    """Mean BLEU over directions, every seed; then the mean over seeds."""
    lines = [where(), "", f"| seeds {', '.join(map(str, seeds))} | updates | seconds |"]
    lines[-1] += "".join(f" {column} |" for column in COLUMNS)
    lines.append("|--|--:|--:|" + "--|" * len(COLUMNS))
    for name in names:
        files = [results / f"{slug(name)}-{seed}.json" for seed in seeds]
        files = [file for file in files if file.exists()]
        if not files:
            continue
        last = [last_line(file.with_suffix(".metrics.jsonl")) for file in files]
        cells = [
            " / ".join(f"{line['step']:,}" for line in last),
            " / ".join(f"{line['training_seconds']:.0f}" for line in last),
        ]
        for column in COLUMNS:
            values = [bleu(file, column) for file in files if means(file, column)]
            each = ", ".join(f"{value:.1f}" for value in values)
            mean = f"**{statistics.mean(values):.1f}** ({each})" if values else ""
            cells.append(mean)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def last_line(metrics: Path) -> dict[str, Any]:
    lines = map(json.loads, metrics.read_text(encoding="utf-8").splitlines())
    found: dict[str, Any] = [line for line in lines if line["kind"] == "train"][-1]
    return found


if __name__ == "__main__":
    main()
