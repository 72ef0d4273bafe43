"""Commands about training: train, average."""

import os
import shlex
import sys
from typing import Annotated

import typer

from accord.cli.options import ExperimentFile, Overrides, Quiet, RunPath
from accord.errors import AccordError


def train(
    experiment: ExperimentFile,
    overrides: Overrides = None,
    accept_changes: Annotated[
        bool,
        typer.Option("--accept-changes", help="Continue a run although the experiment changed."),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Train the experiment's model, or continue where it stopped; run it again to resume.

    On several GPUs: torchrun --nproc-per-node 8 -m accord train EXPERIMENT
    """
    # Read when the OpenMP library is loaded: waiting threads are to sleep, not to spin.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from accord.config.load import load
    from accord.progress import shown_progress
    from accord.training.trainer import train as run

    settings = load(experiment, overrides or ())
    with shown_progress(quiet) as progress:
        result = run(settings, accept_changes=accept_changes, progress=progress)
    if os.environ.get("RANK", "0") != "0":
        return  # one of many processes; the first one speaks
    typer.echo(f"{result.run}: {result.reason}, step {result.step:,} saved", err=True)
    if not result.finished:
        launcher = "torchrun … -m " if "RANK" in os.environ else ""
        typer.echo(f"resume with: {launcher}accord {shlex.join(sys.argv[1:])}", err=True)


def average(
    run: RunPath,
    last: Annotated[int, typer.Option(min=2, help="How many of the newest checkpoints.")] = 3,
) -> None:
    """Average the weights of the newest checkpoints into checkpoints/average."""
    from accord.models.checkpoint import Checkpoints
    from accord.models.checkpoint import average as mean
    from accord.run_directory import RunDirectory

    directory = RunDirectory(run)
    directory.experiment()
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
