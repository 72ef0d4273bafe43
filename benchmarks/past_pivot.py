"""Does a run translate directly as well as Basic does through the pivot? Paired bootstrap tests.

    python benchmarks/past_pivot.py BASIC RUN... [--name EVALUATION]

For every RUN a row: supervised directions against BASIC's; zero-shot ones against BASIC's through
the pivot, and against the run's own; the run's ensemble, if it was evaluated, against BASIC's
pivot. Runs of several seeds: give each its own BASIC, in a call of its own.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from accord.errors import AccordError
from accord.evaluation.folder import evaluation_directory, read
from accord.evaluation.records import Evaluated
from accord.evaluation.significance import Comparison, Difference, compare
from accord.report.answer import direct, in_way
from branch_table import evaluations


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("basic", type=Path, metavar="BASIC")
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--name", help="of an evaluation; default: the one that BASIC has")
    options = parser.parse_args(arguments)
    try:
        name = options.name or only_evaluation(options.basic)
        print("\n".join(table(options.basic, options.runs, name)))
    except AccordError as error:
        sys.exit(f"past_pivot: {error}")


def only_evaluation(run: Path) -> str:
    found = [file.parent.name for file in evaluations(run)]
    if len(found) != 1:
        raise AccordError(
            f"{len(found)} evaluations: {', '.join(found) or 'none'}",
            where=str(run),
            fix="say which with --name, or make one with `accord evaluate`",
        )
    return found[0]


def table(basic: Path, runs: Sequence[Path], name: str) -> Iterator[str]:
    theirs = read(evaluation_directory(basic, name))
    yield f"{name}: BLEU less that of {basic.name}, 95 % interval, p (two-sided)\n"
    yield "| | supervised | zero-shot − its pivot | zero-shot − own pivot | ensemble − its pivot |"
    yield "|---|---|---|---|---|"
    for run in runs:
        ours = read(evaluation_directory(run, name))
        against = compare(direct(ours), through_pivot(theirs))  # direct where it has data
        own = compare(direct(ours), through_pivot(ours))
        cells = [said(against, "supervised"), said(against, "zero_shot"), said(own, "zero_shot")]
        if ensemble := ours.evaluation.by_ensemble:
            together = compare(in_way(ours, ensemble), through_pivot(theirs))
            cells.append(said(together, "zero_shot"))
        else:
            cells.append("")
        yield f"| {run.name} | {' | '.join(cells)} |"


def through_pivot(evaluated: Evaluated) -> Evaluated:
    return in_way(evaluated, evaluated.evaluation.via_pivot)


def said(found: Comparison, group: str) -> str:
    if group not in found.averages:
        return ""
    item: Difference = found.averages[group].bleu
    return f"{item.difference:+.2f} ({item.low:+.2f} to {item.high:+.2f}), p {item.p:.3f}"


if __name__ == "__main__":
    main()
