"""The figure and the table of the small-data study: BLEU against pairs of a corpus.

    python benchmarks/small_data.py RESULTS --to DIR [--evaluation test-beam4-last]

RESULTS holds runs of benchmarks/branches.py, or its archives unpacked: basic-N, agree-N and, for
some sizes, complete-N, N being the pairs of a corpus. DIR gets small-data.svg, .png and .md.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from accord.errors import AccordError
from accord.files import atomic_write
from accord.report.figures import Grid, grid
from accord.report.numbers import NONE, count, signed
from accord.studies.beside_paper import by_size
from accord.studies.claims import ROBUST
from accord.studies.outcome import NAMES, Outcome, judge_sizes
from accord.studies.page import markdown
from accord.studies.sizes_figure import draw_sizes, mean_bleu, zero_shot_pairs
from branch_outcomes import evaluations_of, outcome_of

NAME = "small-data"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("--to", type=Path, required=True, metavar="DIR")
    parser.add_argument("--evaluation", help="default: the one that all runs have")
    options = parser.parse_args(arguments)
    try:
        draw(options.results, options.to, options.evaluation)
    except AccordError as error:
        sys.exit(f"small_data: {error}")


def draw(results: Path, to: Path, evaluation: str | None) -> None:
    """Read all sizes, and write the figure and the page."""
    found = (run.name.removeprefix("basic-") for run in results.glob("basic-*"))
    sizes = sorted(int(size) for size in found if size.isdecimal())
    shared = [evaluation] if evaluation else evaluations_of(results, list(map(str, sizes)))
    if len(shared) > 1:
        raise AccordError(
            f"the runs have several evaluations: {', '.join(shared)}", fix="give --evaluation"
        )
    outcomes = [(size, outcome_of(results, str(size), shared[0])) for size in sizes]
    figures = draw_sizes(outcomes, to, NAME)
    with atomic_write(to / f"{NAME}.md") as page:
        page.writelines(f"{line}\n" for line in _page(outcomes, shared[0], figures))


def _page(
    outcomes: Sequence[tuple[int, Outcome]], evaluation: str, figures: Sequence[Path]
) -> Iterator[str]:
    yield f"![BLEU against pairs of a corpus]({figures[0].name})\n"
    named = [(count(size), outcome) for size, outcome in outcomes]
    yield from markdown(by_size(named))
    (robust,) = (item for item in judge_sizes(named) if item.claim is ROBUST)
    yield f"{robust.claim.text}: **{robust.verdict}**. {robust.because}.\n"
    yield from markdown(in_full(outcomes, evaluation))


def in_full(outcomes: Sequence[tuple[int, Outcome]], evaluation: str) -> Grid:
    """Every point of the figure, what it gains over Basic, and what it was trained for."""
    panels = zero_shot_pairs(outcomes[0][1])
    everything = [direction for pair in panels.values() for direction in pair]
    head = ["pairs, system", *panels, "all zero-shot", "− Basic", "95 %", "supervised", "updates"]
    rows = []
    for size, outcome in outcomes:
        for system, evaluated in outcome.systems.items():
            test = outcome.tests.get((system, "basic"))
            gain = test.averages["zero_shot"].bleu if test else None
            supervised = outcome.average(system, "supervised")
            rows.append(
                [
                    f"{count(size)}, {NAMES[system]}",
                    *(f"{mean_bleu(outcome, system, pair):.2f}" for pair in panels.values()),
                    f"{mean_bleu(outcome, system, everything):.2f}",
                    signed(gain.difference) if gain else NONE,
                    f"{signed(gain.low)} to {signed(gain.high)}" if gain else NONE,
                    f"{supervised.bleu:.2f}" if supervised else NONE,
                    count(evaluated.evaluation.origin.step),
                ]
            )
    return grid(f"BLEU, cased, {evaluation}; a pair is the mean of its directions", head, rows)


if __name__ == "__main__":
    main()
