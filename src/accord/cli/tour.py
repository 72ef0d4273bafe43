"""The tour: `accord demo`."""

from pathlib import Path

import typer

from accord.cli.data import builtin, graph, prepare
from accord.cli.options import Overrides, Quiet
from accord.cli.reporting import report
from accord.cli.training import train
from accord.cli.translation import evaluate


def demo(overrides: Overrides = None, quiet: Quiet = False) -> None:
    """The tour: make a corpus in ./demo, prepare it, train Basic and Agree, evaluate, report.

    It takes about six minutes on one CPU core. Run again, it goes on where it stopped.
    """
    from accord.recipes import recipe

    basic, agree = recipe("demo"), recipe("demo-agree")
    more = ["training.init_from=demo/run", "training.steps=800", "run=demo/more"]
    typer.echo("1. Text: 6,000 lines each of en-de, en-es and en-fr, half of them in all three\n")
    builtin(Path("demo/text"), force=True)
    typer.echo("\n2. The translation graph: six directions have data, six are zero-shot\n")
    graph(basic, overrides)
    typer.echo("\n3. Clean, disjoint and tokenised\n")
    prepare(basic, overrides, quiet=quiet)
    typer.echo("\n4. Basic: one model, trained on the six directions with data\n")
    train(basic, overrides, quiet=quiet)
    typer.echo("\n5. From there on: more of the same, and the same with agreement\n")
    train(basic, [*more, *(overrides or [])], quiet=quiet)
    train(agree, overrides, quiet=quiet)
    typer.echo("\n6. All twelve directions: more Basic, then Agree against it\n")
    evaluate(Path("demo/more"), quiet=quiet)
    evaluate(Path("demo/agree"), against=Path("demo/more"), quiet=quiet)
    typer.echo("\n7. The report\n")
    report([Path("demo/agree"), Path("demo/more")])
