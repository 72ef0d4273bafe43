"""Commands about training: train, average."""

import os
import shlex
import signal
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from accord.cli.options import ExperimentFile, Overrides, Quiet, RunPath
from accord.errors import AccordError

if TYPE_CHECKING:
    from accord.config.schema import Experiment
    from accord.config.section import Naming
    from accord.progress import Progress
    from accord.training.stopping import Result


def train(
    experiment: ExperimentFile,
    overrides: Overrides = None,
    accept_changes: Annotated[
        bool,
        typer.Option("--accept-changes", help="Continue a run although the experiment changed."),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Train a model; run it again to go on where it stopped.

    Ctrl-C saves and ends with status 130, SIGTERM saves and ends with 0; the same command resumes.
    A phrase-based run keeps the stages that are done.

    Example: accord train recipes/demo.yaml --set training.minutes=5

    On several GPUs: torchrun --nproc-per-node 8 -m accord train EXPERIMENT
    """
    # Read when the OpenMP library is loaded: waiting threads are to sleep, not to spin.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from accord.config.load import load_with_places
    from accord.progress import shown_progress

    settings, named = load_with_places(experiment, overrides or ())
    one_of_many = os.environ.get("RANK", "0") != "0"  # the first process speaks
    with shown_progress(quiet or one_of_many) as progress:
        progress.start("setting up", keep=False)  # before PyTorch, whose import takes seconds
        result = _run(settings, named, accept_changes, progress, quiet)
    if one_of_many:
        return
    saved = f", step {result.step:,} saved" if result.step else ""
    typer.echo(f"{result.run}: {result.reason}{saved}", err=True)
    if not result.finished:
        launcher = "torchrun … -m " if "RANK" in os.environ else ""
        typer.echo(f"resume with: {launcher}accord {shlex.join(sys.argv[1:])}", err=True)
    # Whoever called us is to see that Ctrl-C was pressed, and stop as well. Not under torchrun,
    # which would take it for a failure and start the processes again.
    if result.signal == signal.SIGINT and "RANK" not in os.environ:
        raise typer.Exit(128 + signal.SIGINT)


def _run(
    settings: "Experiment",
    named: "Naming",
    accept_changes: bool,
    progress: "Progress",
    quiet: bool,
) -> "Result":
    """Train by what the kind of model asks for."""
    if not settings.model.is_network:
        from accord.training.phrase_based import train_phrase_based

        return train_phrase_based(settings, accept_changes=accept_changes, progress=progress)
    from accord.training.trainer import train

    return train(
        settings,
        accept_changes=accept_changes,
        progress=progress,
        estimate=not quiet,
        named=named,
    )


def average(
    run: RunPath,
    last: Annotated[int, typer.Option(min=2, help="How many of the newest checkpoints.")] = 3,
) -> None:
    """Average the weights of the newest checkpoints.

    The result is RUN/checkpoints/average; use it by --checkpoint average.

    Example: accord average demo/run --last 2
    """
    from accord.models.checkpoint import Checkpoints, refuse_combined, refuse_phrase_based
    from accord.models.checkpoint import average as mean
    from accord.run_directory import RunDirectory

    directory = RunDirectory(run)
    directory.experiment()
    refuse_phrase_based(run)
    refuse_combined(run)
    paths = Checkpoints(directory.checkpoints).paths()[-last:]
    if len(paths) < last:
        raise AccordError(
            f"the run has {len(paths)} checkpoints, not {last}",
            where=str(run),
            fix="ask for fewer, or train with a larger training.keep",
        )
    target = directory.path / "checkpoints" / "average"
    mean(paths, target)
    typer.echo(f"{target}: mean of {', '.join(path.name for path in paths)}", err=True)
