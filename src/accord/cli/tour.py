"""The tour: `accord demo`."""

from pathlib import Path

import typer

from accord.cli.data import builtin, graph, prepare
from accord.cli.options import Overrides, Quiet
from accord.cli.training import train


def demo(overrides: Overrides = None, quiet: Quiet = False) -> None:
    """The tour: make a corpus in ./demo, show its graph, prepare it, train on it; two minutes."""
    from accord.recipes import recipe

    experiment = recipe("demo")
    typer.echo("1. Text: 6,000 lines each of en-de, en-es and en-fr, half of them in all three\n")
    builtin(Path("demo/text"))
    typer.echo("\n2. The translation graph: six directions have data, six are zero-shot\n")
    graph(experiment, overrides)
    typer.echo("\n3. Clean, disjoint and tokenised\n")
    prepare(experiment, overrides, quiet=quiet)
    typer.echo("\n4. One model for all of them, trained on the six directions with data\n")
    train(experiment, overrides, quiet=quiet)
