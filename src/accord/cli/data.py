"""Commands about data: config, graph, prepare, builtin."""

import json
from pathlib import Path
from typing import Annotated

import typer

from accord.cli.options import ExperimentFile, Overrides, Quiet


def config(
    experiment: Annotated[
        Path | None, typer.Argument(metavar="[EXPERIMENT]", help="Experiment file to resolve.")
    ] = None,
    overrides: Overrides = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of experiment files.")
    ] = False,
) -> None:
    """Check an experiment file and print it with every key in force, or print the schema."""
    from accord.config import Experiment
    from accord.experiment_file import dump, load

    if schema:
        typer.echo(json.dumps(Experiment.model_json_schema(mode="validation"), indent=2))
    elif experiment is None:
        raise typer.BadParameter("give an experiment file, or --schema")
    else:
        typer.echo(dump(load(experiment, overrides or ())), nl=False)


def graph(
    experiment: ExperimentFile,
    overrides: Overrides = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the graph into an SVG file as well.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the graph as JSON.")] = False,
) -> None:
    """Draw the translation graph: what is supervised or zero-shot, which pivots connect it."""
    from rich.console import Console

    from accord import drawing
    from accord.experiment_file import load
    from accord.files import atomic_write, check_writable

    if svg is not None:
        if svg.suffix.lower() != ".svg":
            raise typer.BadParameter(f"{svg} should end in .svg", param_hint="--svg")
        check_writable(svg)
    found = load(experiment, overrides or ()).graph
    if as_json:
        typer.echo(json.dumps(found.facts(), indent=2))
    else:
        Console().print(drawing.terminal(found))
    if svg is not None:
        with atomic_write(svg) as file:
            file.write(drawing.svg(found))
        typer.echo(f"wrote {svg}", err=True)


def prepare(
    experiment: ExperimentFile,
    overrides: Overrides = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="Processes and threads; by default all cores."),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the statistics as JSON ('-': stdout)."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Turn text files into a clean, disjoint, tokenised store, and account for every line."""
    from rich.console import Console

    from accord.corpus.prepare import prepare as run
    from accord.corpus.statistics import statistics, tables
    from accord.experiment_file import load
    from accord.files import atomic_write, check_writable
    from accord.terminal import shown_progress

    if json_file is not None and str(json_file) != "-":
        check_writable(json_file)
    settings = load(experiment, overrides or ())
    with shown_progress(quiet) as progress:
        result = run(settings, workers=workers, progress=progress)
    facts = statistics(result.store, settings)
    text = json.dumps(facts, indent=2, ensure_ascii=False)
    if json_file is not None and str(json_file) == "-":
        typer.echo(text)
    else:
        Console().print(tables(facts))
        if json_file is not None:
            with atomic_write(json_file) as file:
                file.write(text + "\n")
    state = "written and checked" if result.built else "up to date, nothing to do"
    typer.echo(f"{result.store.directory}: {state}", err=True)


def builtin(
    directory: Annotated[Path, typer.Argument(help="Where to write the text files.")],
    pairs: Annotated[
        str, typer.Option(help="Corpora to make, separated by commas.")
    ] = "en-de,en-es,en-fr",
    lines: Annotated[int, typer.Option(min=1, help="Lines of each training corpus.")] = 6000,
    held_out: Annotated[int, typer.Option(min=1, help="Lines of dev and of test.")] = 300,
    overlap: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the lines that stands in all corpora.")
    ] = 0.5,
    largest: Annotated[int, typer.Option(min=10, help="Largest number that occurs.")] = 1000,
    kinds: Annotated[
        str | None, typer.Option(help="Kinds of phrases, separated by commas; all by default.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other lines.")] = 1,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite files that have other contents.")
    ] = False,
) -> None:
    """Write the built-in corpus: numbers, dates, times, money and measures in nine languages."""
    from accord.corpus import builtin as made
    from accord.corpus.builtin_phrases import KINDS
    from accord.graph import Direction

    wanted = [Direction.parse(pair.strip()) for pair in pairs.split(",")]
    languages = tuple(dict.fromkeys(language for pair in wanted for language in pair))
    corpus = made.make(
        languages,
        wanted,
        lines,
        seed=seed,
        overlap=overlap,
        largest=largest,
        held_out=held_out,
        kinds=[kind.strip() for kind in kinds.split(",")] if kinds else KINDS,
    )
    paths = made.write(corpus, directory, force=force)
    typer.echo(f"{directory}: {len(paths)} files, {lines:,} lines a corpus", err=True)
