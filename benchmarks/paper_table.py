"""The paper's table beside runs of benchmarks/branches.py: directions, gains, claims.

    python benchmarks/paper_table.py RESULTS VARIANT [--agree agree-hard] [--to FILE]

RESULTS holds basic-VARIANT, agree-VARIANT and perhaps complete-VARIANT, or an archive of them,
unpacked. Every evaluation that they share, for example with beams of 4 and 10, gets its tables.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from accord.errors import AccordError
from accord.files import atomic_write
from accord.studies import beside_paper as tables
from accord.studies.outcome import judge
from accord.studies.page import markdown
from accord.studies.paper import TABLES
from branch_outcomes import AGREE, evaluations_of, outcome_of


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("variant", help="what follows basic- and agree- in the names of the runs")
    parser.add_argument("--agree", default=AGREE, help="the branch that stands for Agree")
    parser.add_argument("--paper", choices=TABLES, default="europarl")
    parser.add_argument("--to", type=Path, metavar="FILE", help="default: standard output")
    options = parser.parse_args(arguments)
    try:
        text = "\n".join(page(options.results, options.variant, options.agree, options.paper))
        if options.to is None:
            print(text)
        else:
            with atomic_write(options.to) as file:
                file.write(text)
    except AccordError as error:
        sys.exit(f"paper_table: {error}")


def page(results: Path, variant: str, agree: str, setting: str) -> Iterator[str]:
    """All tables, and what they say about the claims."""
    paper = TABLES[setting]
    for name in evaluations_of(results, [variant], agree):
        outcome = outcome_of(results, variant, name, agree)
        steps = {
            system: item.evaluation.origin.step
            for system, item in outcome.systems.items()
            if system != "pivot"
        }
        yield f"## {name}\n"
        yield f"{', '.join(f'{system} {step:,}' for system, step in steps.items())} updates.\n"
        yield from markdown(tables.beside_paper(outcome, paper))
        yield f"{tables.MARKS_EXPLAINED}\n"
        yield from markdown(tables.tests(outcome, paper))
        yield from markdown(tables.lowercased(outcome))
        for item in judge(setting, outcome):
            if item.verdict != "not tested here":
                yield f"- {item.claim.text}: **{item.verdict}**. {item.because}."
        yield ""


if __name__ == "__main__":
    main()
