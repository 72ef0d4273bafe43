"""The tour: `accord demo`."""

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.data import builtin, graph, prepare
from accord.cli.options import Quiet
from accord.cli.reporting import report
from accord.cli.train import train
from accord.cli.translate import evaluate


def demo(
    quick: Annotated[
        bool, typer.Option("--quick", help="A few steps only: tries the machinery, learns nothing.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Take the tour: make a corpus, train on it, report.

    Everything goes to ./demo: text, store, Basic and Agree, their evaluation, a report. It takes
    about five minutes on one CPU core. Run again, it goes on where it stopped.

    Example: accord demo --quick
    """
    from accord.config.shipped import recipe

    basic, agree = recipe("demo"), recipe("demo-agree")
    first, last = (4, 6) if quick else (500, 800)
    _refuse_other_tour(Path("demo/run/experiment.yaml"), first, quick)
    begin = [f"training.steps={first}"]
    more = [f"training.steps={last}", "training.init_from=demo/run", "run=demo/more"]
    agreeing = [f"training.steps={last}", f"objective.agreement.start={first}"]
    limit = 5 if quick else None
    typer.echo("1. Text: 6,000 lines each of en-de, en-es and en-fr, half of them in all three\n")
    builtin(Path("demo/text"), force=True)
    typer.echo("\n2. The translation graph: six directions have data, six are zero-shot\n")
    graph(basic)
    typer.echo("\n3. Clean, disjoint and tokenised\n")
    prepare(basic, quiet=quiet)
    typer.echo("\n4. Basic: one model, trained on the six directions with data\n")
    train(basic, begin, quiet=quiet)
    typer.echo("\n5. From there on: more of the same, and the same with agreement\n")
    train(basic, more, quiet=quiet)
    train(agree, agreeing, quiet=quiet)
    typer.echo("\n6. All twelve directions: more Basic, then Agree against it\n")
    evaluate(Path("demo/more"), limit=limit, quiet=quiet)
    evaluate(Path("demo/agree"), against=Path("demo/more"), limit=limit, quiet=quiet)
    typer.echo("\n7. The report\n")
    report([Path("demo/agree"), Path("demo/more")])


def _refuse_other_tour(file: Path, steps: int, quick: bool) -> None:
    """A tour goes on where it stopped; one of another length cannot."""
    from accord.config.load import load
    from accord.errors import AccordError

    if file.is_file() and load(file).training.steps != steps:
        raise AccordError(
            f"the folder demo holds a tour {'without' if quick else 'with'} --quick",
            where=str(file),
            fix=f"delete the folder demo, or run `accord demo{'' if quick else ' --quick'}`",
        )
