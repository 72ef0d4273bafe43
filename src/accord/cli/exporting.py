"""The command that makes a model ready for use without PyTorch: export."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accord.cli.options import CheckpointName, Quiet, RunPath, Threads
from accord.errors import AccordError

if TYPE_CHECKING:
    from accord.exported.manifest import Check


def export(
    run: RunPath,
    to: Annotated[str, typer.Option("--to", help="Format: onnx.")] = "onnx",
    output: Annotated[
        Path | None, typer.Option("--output", help="Directory; else RUN/onnx or RUN/onnx-int8.")
    ] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="Weights in 8 bits: a quarter of the size, faster.")
    ] = False,
    check: Annotated[
        int, typer.Option("--check", min=1, help="Test sentences to compare both models on.")
    ] = 200,
    no_check: Annotated[bool, typer.Option("--no-check", help="Compare nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier export.")] = False,
    checkpoint: CheckpointName = "best",
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Write the model as one directory that translates without PyTorch, and compare the two."""
    if to != "onnx":
        raise AccordError(f"there is no export to {to!r}", where="--to", fix="use onnx")
    from accord.exporting.run import export_run
    from accord.terminal import shown_progress

    with shown_progress(quiet) as progress:
        found = export_run(
            run,
            output,
            checkpoint=checkpoint,
            precision="int8" if int8 else "fp32",
            compare=0 if no_check else check,
            force=force,
            threads=threads,
            progress=progress,
        )
    if found.check:
        typer.echo(_comparison(found.check))
    elif not no_check:
        typer.echo("the run has neither test nor dev sentences: nothing was compared", err=True)
    typer.echo(f"{found.directory}: {found.bytes / 1e6:,.1f} MB written", err=True)


def _comparison(check: "Check") -> str:
    """What was lost, kind by kind."""
    lines = [
        f"{check.sentences:,} {check.split} sentences, of which {check.same:,} are translated as "
        "by PyTorch, letter by letter"
    ]
    lines += [
        f"BLEU, {kind} ({scores.directions} directions): {scores.pytorch:.2f} in PyTorch, "
        f"{scores.exported:.2f} exported, {scores.change:+.2f}"
        for kind, scores in check.bleu.items()
    ]
    return "\n".join(lines)
