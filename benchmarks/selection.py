"""Can checkpoints be chosen without zero-shot references? Correlations with true zero-shot BLEU.

    python benchmarks/selection.py RUN... [--evaluations]

Without --evaluations, the points are the validations of each run, which must have watched all
directions (training.validation.watch: all); pooled over several runs as well. With it, they are the
evaluations of all runs (`accord evaluate`), those of the same sentences and search together.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from accord.evaluation.selection import Choice, Point, choices, evaluations, validations

_LEAST = 3  # points; two always lie on a line


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--evaluations", action="store_true")
    options = parser.parse_args()
    if options.evaluations:
        found = evaluations(options.runs)
    else:
        found = {run.name: validations(run) for run in options.runs}
        if len(found) > 1:
            found["all runs"] = [point for points in found.values() for point in points]
    for title, points in found.items():
        print("\n".join(table(title, points)))


def table(title: str, points: Sequence[Point]) -> list[str]:
    """A section of Markdown."""
    if len(points) < _LEAST:
        return [f"## {title}\n", f"{len(points)} points: too few.\n"]
    head = ["score", "Pearson", "Spearman", "Kendall", "would choose", "BLEU there", "best"]
    return [
        f"## {title}\n",
        f"{len(points)} points; BLEU is the true zero-shot mean.\n",
        f"| {' | '.join(head)} |",
        "|---|---:|---:|---:|---|---:|---:|",
        *(_row(choice) for choice in choices(points)),
        "",
    ]


def _row(choice: Choice) -> str:
    three = " | ".join(f"{x:+.3f}" for x in (choice.pearson, choice.spearman, choice.kendall))
    return f"| {choice.score} | {three} | {choice.chosen} | {choice.bleu:.2f} | {choice.best:.2f} |"


if __name__ == "__main__":
    main()
