"""What makes continuous agreement degenerate: one thing changed at a time, from one Basic run.

    python benchmarks/agreement_stability.py EXPERIMENT BASIC OUT [--steps 300] [--parallel 7]

EXPERIMENT is the file that the run BASIC was trained with. Every variant continues BASIC for
`--steps` updates; then all directions of the test set are translated greedily. Runs and the table
(variants.md) lie in OUT. Scores are means over directions: sacreBLEU, and the length of the
zero-shot translations over that of the references.
"""

import argparse
import json
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from branch_table import bleu, last_line
from branches import accord, slug
from where import where

# What is changed in the experiment, and (last) what is changed in the code, see `patched`.
FREE = {"start": 0, "decoding": "continuous", "feedback_gradient": True, "gradient_limit": None}
CE = {**FREE, "measure": "cross-entropy", "normalize": "token", "weight": 0.1}
KL = {**CE, "measure": "kl"}
QUIET = {"dropout": False}
CUT = {"feedback_gradient": False}
LIMIT = {"gradient_limit": 1.0}
SLOW = {"training.optimizer.learning_rate": 0.0003}
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "more Basic": ({}, {}, ""),
    "paper: CE, 0.01 a sentence": ({**FREE, "measure": "cross-entropy"}, {}, ""),
    "naive: CE 0.3, copying too": ({**CE, "weight": 0.3, "auxiliary": "all"}, {}, ""),
    "CE": (CE, {}, ""),
    "CE, no dropout": ({**CE, **QUIET}, {}, ""),
    "CE, lower rate": ({**CE, **QUIET}, SLOW, ""),
    "CE, no gradient through feedback": ({**CE, **QUIET, **CUT}, {}, ""),
    "CE, only scoring learns": ({**CE, **QUIET}, {}, "scoring"),
    "KL": (KL, {}, ""),
    "KL, no dropout": ({**KL, **QUIET}, {}, ""),
    "KL, copying too": ({**KL, **QUIET, "auxiliary": "all"}, {}, ""),
    "KL, no masks": ({**KL, **QUIET}, {}, "masks"),
    "KL, temperature 0.5": ({**KL, **QUIET, "temperature": 0.5}, {}, ""),
    "KL, no gradient through feedback": ({**KL, **QUIET, **CUT}, {}, ""),
    "KL, only scoring learns": ({**KL, **QUIET}, {}, "scoring"),
    "KL, weight 0.3": ({**KL, **QUIET, "weight": 0.3}, {}, ""),
    "KL, weight 0.03": ({**KL, **QUIET, "weight": 0.03}, {}, ""),
    "KL, weight 0.3, limited": ({**KL, **QUIET, **LIMIT, "weight": 0.3}, {}, ""),
    "KL, weight 0.3, no gradient through feedback": (
        {**KL, **QUIET, **CUT, **LIMIT, "weight": 0.3},
        {},
        "",
    ),
    "CE, weight 0.3, limited": ({**CE, **QUIET, **LIMIT, "weight": 0.3}, {}, ""),
    "hard": ({**CE, "decoding": "hard"}, {}, ""),
    "hard, weight 0.3": ({**CE, "decoding": "hard", "weight": 0.3}, {}, ""),
    "hard, weight 0.3, every third": (
        {**CE, "decoding": "hard", "weight": 0.3, "every": 3},
        {},
        "",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", type=Path)
    parser.add_argument("basic", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--parallel", type=int, default=1, help="runs at the same time")
    parser.add_argument("--limit", type=int, default=300, help="test sentences a direction")
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        train_one(options.child, options)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.parallel) as pool:
        rows = list(pool.map(lambda name: one(name, options), options.only))
    lines = [
        where(),
        "",
        "| variant | supervised | zero-shot | length | z: length | z: ended | z: entropy "
        "| z: right language | gradient ratio |",
        "|--|--|--|--|--|--|--|--|--|",
        *rows,
    ]
    (options.out / "variants.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def one(name: str, options: argparse.Namespace) -> str:
    """Train and evaluate one variant in processes of their own; a row of the table."""
    same = [str(options.experiment), str(options.basic), str(options.out)]
    child = [sys.executable, __file__, *same, "--steps", str(options.steps), "--child", name]
    run = options.out / slug(name)
    try:
        subprocess.run(child, check=True, capture_output=True, text=True)
        few = ("--no-agreement", "--beam", "1", "--limit", str(options.limit))
        accord("evaluate", str(run), *few)
    except subprocess.CalledProcessError as error:
        return f"| {name} | failed: {error.stderr[-300:]!r} |"
    (found,) = run.glob("evaluation/*/evaluation.json")
    directions = json.loads(found.read_text(encoding="utf-8"))["directions"]
    ratio = [d["length_ratio"] for d in directions if d["kind"] == "zero-shot"]
    last = last_line(run / "metrics.jsonl")
    dials = ("length_ratio", "ended", "entropy", "right_language", "gradient_ratio")
    shown = [last.get(f"agreement_{dial}") for dial in dials]
    row = f"| {name} | {bleu(found, 'supervised'):.1f} | {bleu(found, 'zero-shot'):.1f} | "
    row += f"{statistics.mean(ratio):.2f} | "
    return row + " | ".join("" if value is None else f"{value:.2f}" for value in shown) + " |"


def train_one(name: str, options: argparse.Namespace) -> None:
    from accord.config.load import load
    from accord.models.checkpoint import Checkpoints
    from accord.run_directory import RunDirectory
    from accord.training.trainer import train

    agreement, others, patch = VARIANTS[name]
    patched(patch)
    begin, _ = Checkpoints(RunDirectory(options.basic).checkpoints).newest()
    if begin is None:
        raise SystemExit(f"{options.basic} has no checkpoint")
    changes = {
        "run": str(options.out / slug(name)),
        "training.init_from": str(options.basic),
        "training.steps": begin.step + options.steps,
        "training.save_every": options.steps,
        **({"objective.agreement": agreement} if agreement else {}),
        **others,
    }
    train(
        load(options.experiment, [f"{key}={json.dumps(value)}" for key, value in changes.items()])
    )


def patched(patch: str) -> None:
    """Make the code do what no setting offers, since nobody should want it."""
    from accord.objectives.agreement import decoding as continuous
    from accord.objectives.agreement import loss as agreement

    if patch == "masks":  # translations go on after their end
        vars(continuous)["EOS"] = -1
    elif patch == "scoring":  # nothing asks translations to become more agreeable
        whole = agreement._one_sided
        vars(agreement)["_one_sided"] = lambda *args: whole(*args)[:1]


if __name__ == "__main__":
    main()
