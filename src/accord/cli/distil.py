"""Commands about synthetic text: distil-data."""

import os
from pathlib import Path
from typing import Annotated

import typer

from accord.cli.options import ModelOptions, ModelPath, Quiet, grouped
from accord.inference.results import SearchSettings


@grouped
def distil_data(
    run: ModelPath,
    source: Annotated[str, typer.Option("--from", help="Language of the text.")],
    to: Annotated[str, typer.Option("--to", help="Language to translate into.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the pairs go.")],
    pair_with: Annotated[
        str | None,
        typer.Option(
            metavar="LANGUAGE",
            help="Pair translations with the other side of the corpus; else with the text itself.",
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Text files as in an experiment: train.{lang}.xz."),
    ] = None,
    store: Annotated[
        Path | None, typer.Option(metavar="STORE", help="Prepared data instead; needs --corpus.")
    ] = None,
    corpus: Annotated[
        str | None, typer.Option(metavar="PAIR", help="With --store: which corpus, e.g. en-de.")
    ] = None,
    via: Annotated[
        str | None, typer.Option(help="Pivot language to translate through; else directly.")
    ] = None,
    distinct_bigrams: Annotated[
        float,
        typer.Option(min=0, max=1, help="Least share of different neighbours: loops are dropped."),
    ] = 0.8,
    shard_lines: Annotated[
        int, typer.Option(min=1, help="Lines that are translated and saved together.")
    ] = 65_536,
    *,
    search: SearchSettings,
    model: ModelOptions,
    quiet: Quiet = False,
) -> None:
    """Translate a corpus into parallel text to train on.

    Run it again to resume. The example makes the German–French corpus demo/distilled/de-fr.{lang}.

    Example: accord distil-data demo/run --store demo/store --corpus en-de --from en --to fr
    --pair-with de --out demo/distilled

    On several GPUs: torchrun --nproc-per-node 8 -m accord distil-data RUN …
    """
    from accord.inference.backends.base import LoadSettings
    from accord.objectives.distillation.offline import distil
    from accord.objectives.distillation.offline_job import Job
    from accord.progress import shown_progress

    job = Job(
        run,
        out,
        source,
        to,
        pair_with or source,
        text,
        store,
        corpus,
        via,
        search,
        LoadSettings(**vars(model)),
        shard_lines,
        distinct_bigrams,
    )
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    with shown_progress(quiet or rank > 0) as progress:
        account = distil(job, rank=rank, size=size, progress=progress)
    if account is None:
        return  # one of many processes; the first one speaks
    kept, lines = account.pop("kept"), account.pop("lines")
    shards = account.pop("shards")
    reasons = ", ".join(f"{name} {count:,}" for name, count in account.items())
    dropped = f" (dropped: {reasons})" if reasons else ""
    typer.echo(f"{kept:,} of {lines:,} pairs kept{dropped}, from {shards:,} shards", err=True)
    typer.echo(f"{out}/{job.beside}-{job.to}.{{lang}}")
