"""Commands that put a model to use elsewhere: export, serve."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accord.cli.options import (
    CheckpointName,
    ModelOptions,
    ModelPath,
    Quiet,
    RunPath,
    Threads,
    grouped,
)
from accord.errors import AccordError
from accord.export.exporters import EXPORTERS
from accord.serving.settings import ServeSettings

if TYPE_CHECKING:
    from accord.inference.backends.manifest import Check


def export(
    run: RunPath,
    to: Annotated[str, typer.Option("--format", help=f"Format: {', '.join(EXPORTERS)}.")] = "onnx",
    output: Annotated[
        Path | None,
        typer.Option("--output", help="Directory; else RUN/FORMAT, such as RUN/onnx-int8."),
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
    """Write a model that translates without PyTorch.

    It is one directory, and is compared with the run on test sentences.

    Example: accord export demo/agree --format onnx --int8
    """
    from accord.export.export_run import export_run
    from accord.progress import shown_progress

    with shown_progress(quiet) as progress:
        found = export_run(
            run,
            output,
            to=to,
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


# --- The command that serves a model over HTTP: serve.


@grouped
def serve(
    run: ModelPath,
    *,
    settings: ServeSettings,
    api_key_file: Annotated[
        Path | None, typer.Option(help="Who may translate: one key a line. Else everybody.")
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Web pages that may use the API; may be repeated."),
    ] = None,
    model: ModelOptions,
) -> None:
    """Serve a model: a page, and the API of LibreTranslate.

    Prints its address when it is ready. Ctrl-C finishes what was begun; twice ends at once.

    Example: accord serve demo/agree --port 8080
    """
    # Read when the OpenMP library is loaded: waiting threads are to sleep, not to spin.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from dataclasses import replace
    from functools import partial

    from accord.inference.backends.base import LoadSettings
    from accord.machine import cores

    try:
        from accord.serving.admission import read_keys
        from accord.serving.file_folder import temporary_folder
        from accord.serving.model_process import open_in_process
        from accord.serving.opened_model import modules_to_open, open_translator
        from accord.serving.server import address, listening_socket
        from accord.serving.server import serve as serve_here
        from accord.serving.supervisor import Supervisor
    except ModuleNotFoundError as error:
        raise AccordError(
            f"serving needs the package {error.name}", fix="pip install 'accord[serve]'"
        ) from None
    settings = replace(
        settings,
        api_keys=read_keys(api_key_file) if api_key_file else (),
        cors=tuple(cors or ()),
    )
    if settings.workers > 1 and model.threads is None:
        model = replace(model, threads=max(1, cores() // settings.workers))
    here = partial(open_translator, run, LoadSettings(**vars(model)))
    open_model = partial(open_in_process, here)
    with temporary_folder() as folder, listening_socket(settings) as sock:
        settings = replace(settings, file_folder=str(folder))
        # Flushed at once: whoever started the server may wait for this line.
        ready = partial(print, f"listening on {address(sock)}", flush=True)
        if settings.workers > 1:
            Supervisor(settings, open_model, sock, modules_to_open(run)).run(ready)
        else:
            serve_here(settings, open_model, sock, ready=ready)
