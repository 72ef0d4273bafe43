"""Commands about data: config, graph, builtin, fetch, prepare."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from accord.cli.options import ExperimentFile, Overrides, Quiet, grouped
from accord.data.builtin import BuiltinSettings

if TYPE_CHECKING:
    from accord.config.schema import Experiment
    from accord.fetching.catalogue import Dataset


def config(
    experiment: Annotated[
        Path | None, typer.Argument(metavar="EXPERIMENT", help="Experiment file to resolve.")
    ] = None,
    overrides: Overrides = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of experiment files.")
    ] = False,
) -> None:
    """Check an experiment file; print all keys in force.

    With --schema, print what an experiment file may hold, as JSON schema.

    Example: accord config recipes/demo.yaml --set seed=2
    """
    from accord.config.load import dump, load
    from accord.config.schema import Experiment

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
    """Draw which directions have data and which are zero-shot.

    It also names the pivots that connect languages without common data.

    Example: accord graph recipes/demo.yaml --svg graph.svg
    """
    from rich.console import Console

    from accord import graph_drawing as drawing
    from accord.config.load import load
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
        typer.Option(min=1, max=256, help="Processes; by default all cores."),
    ] = None,
    engine: Annotated[
        Literal["local", "ray"], typer.Option(help="Processes of this machine, or Ray.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="With --engine ray: a running cluster, or auto; else it starts one."),
    ] = None,
    estimate: Annotated[
        bool,
        typer.Option("--estimate", help="Only say what it will take, from a sample of the data."),
    ] = False,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the statistics as JSON ('-': stdout)."),
    ] = None,
    from_store: Annotated[
        Path | None,
        typer.Option(metavar="STORE", help="Cut a smaller store out of this one; needs --pairs."),
    ] = None,
    pairs: Annotated[
        int | None, typer.Option(help="With --from-store: most pairs of a corpus.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Turn text into a clean, disjoint, tokenised store.

    Every line that was read is accounted for. Interrupted, it goes on where it was when you run it
    again. --estimate says what it will take. On a cluster that is running: --engine ray --address
    auto. With --from-store no text is read: corpora keep --pairs pairs each, all else stays as it
    was.

    Example: accord prepare recipes/demo.yaml
    """
    from rich.console import Console

    from accord.config.load import load
    from accord.data.prepare import prepare as run
    from accord.data.statistics import statistics, tables
    from accord.files import check_writable
    from accord.progress import shown_progress

    if json_file is not None and str(json_file) != "-":
        check_writable(json_file)
    settings = load(experiment, overrides or ())
    if address is not None and engine != "ray":
        raise typer.BadParameter("--address goes with --engine ray")
    if from_store is not None or pairs is not None:
        _cut(settings, from_store, pairs, json_file)
        return
    if estimate:
        _estimate(settings, workers, json_file, quiet)
        return
    with shown_progress(quiet) as progress:
        result = run(settings, workers=workers, progress=progress, engine=engine, address=address)
    facts = statistics(result.store, settings)
    if str(json_file) != "-":
        Console().print(tables(facts))
    _write_json(facts, json_file)
    state = "written and checked" if result.built else "up to date, nothing to do"
    typer.echo(f"{result.store.directory}: {state}", err=True)


def _write_json(facts: dict[str, Any], to: Path | None) -> None:
    from accord.files import atomic_write

    text = json.dumps(facts, indent=2, ensure_ascii=False)
    if str(to) == "-":
        typer.echo(text)
    elif to is not None:
        with atomic_write(to) as file:
            file.write(text + "\n")


def _estimate(
    settings: "Experiment", workers: int | None, json_file: Path | None, quiet: bool
) -> None:
    from dataclasses import asdict

    from rich.console import Console

    from accord.data.estimate import estimate, table
    from accord.progress import shown_progress

    with shown_progress(quiet) as progress:
        found = estimate(settings, workers=workers, progress=progress)
    if str(json_file) != "-":
        Console().print(table(found))
    _write_json(asdict(found), json_file)


def _cut(
    settings: "Experiment", source: Path | None, pairs: int | None, json_file: Path | None
) -> None:
    from accord.config.load import store_directory
    from accord.data.statistics import statistics
    from accord.data.store import Store
    from accord.data.subset import check_same_data, cut, needed

    if source is None or pairs is None:
        raise typer.BadParameter("--from-store STORE and --pairs N go together")
    whole = Store(source)
    check_same_data(whole, settings)
    made = cut(whole, store_directory(settings), pairs)
    counts = ", ".join(f"{corpus.name} {len(corpus):,}" for corpus in made.corpora)
    typer.echo(f"{made.directory}: {counts}; to train on it, add", err=True)
    # stdout is for one thing: what to add, or the JSON.
    typer.echo(" ".join(f"--set {setting}" for setting in needed(made)), err=str(json_file) == "-")
    _write_json(statistics(made, settings), json_file)


@grouped
def builtin(
    directory: Annotated[Path, typer.Argument(help="Where to write the text files.")],
    pairs: Annotated[
        str, typer.Option(help="Corpora to make, separated by commas.")
    ] = "en-de,en-es,en-fr",
    kinds: Annotated[
        str | None, typer.Option(help="Kinds of phrases, separated by commas; all by default.")
    ] = None,
    *,
    settings: BuiltinSettings,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite files that have other contents.")
    ] = False,
) -> None:
    """Write the built-in corpus: text to try everything on.

    Numbers, dates, times, money and measures, in up to nine languages.

    Example: accord builtin demo/text --pairs en-de,en-fr
    """
    from accord.data import builtin as made
    from accord.data.builtin_phrases import KINDS
    from accord.graph import Direction

    wanted = [Direction.parse(pair.strip()) for pair in pairs.split(",")]
    languages = tuple(dict.fromkeys(language for pair in wanted for language in pair))
    corpus = made.make(
        languages,
        wanted,
        kinds=[kind.strip() for kind in kinds.split(",")] if kinds else KINDS,
        **vars(settings),
    )
    paths = made.write(corpus, directory, force=force)
    typer.echo(f"{directory}: {len(paths)} files, {settings.lines:,} lines a corpus", err=True)


# --- The command fetch.


def fetch(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="DATASET", help="Which one, or hf:OWNER/NAME; without it, all are listed."
        ),
    ] = None,
    to: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="Where its folder goes.")
    ] = Path("data"),
    source: Annotated[
        Path | None,
        typer.Option(
            "--files", metavar="DIR", help="Take archives or files that lie here instead."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="The licence is read and accepted.")] = False,
    quiet: Quiet = False,
) -> None:
    """Fetch a corpus of the paper, or one of the Hugging Face hub.

    Those of the paper: europarl, un, iwslt17, multi30k. Of the hub: hf:OWNER/NAME or, of several
    configurations one, hf:OWNER/NAME:CONFIG. Run again, it goes on where it stopped. Files are
    compared with published checksums. Where nobody has published one, the first download is
    recorded in fetched.json and later ones are compared with it.

    Example: accord fetch multi30k --yes
    """
    from accord.fetching.catalogue import DATASETS, dataset
    from accord.fetching.fetch import fetch as run
    from accord.fetching.fetch import missing
    from accord.fetching.hub import PREFIX, hub_dataset
    from accord.progress import shown_progress

    if name is None:
        for item in DATASETS.values():
            typer.echo(f"{item.name:<10} {item.title}\n{'':<10} {item.size}; {item.homepage}")
        return
    wanted = hub_dataset(name) if name.startswith(PREFIX) else dataset(name)
    if missing(wanted, to):
        _agree(wanted, to, yes)
    with shown_progress(quiet) as progress:
        result = run(wanted, to, source=source, progress=progress)
    if result.unconfirmed:
        names = ", ".join(result.unconfirmed)
        typer.echo(f"no checksum is published for {names}; recorded in fetched.json", err=True)
    count = len(result.new)
    state = f"{count} file{'s' * (count != 1)} fetched" if count else "up to date, nothing to do"
    typer.echo(f"{result.directory}: {state}", err=True)


def _agree(wanted: "Dataset", to: Path, yes: bool) -> None:
    """Say what is coming and under which terms; where these ask for it, wait for a yes."""
    from accord.errors import AccordError

    typer.echo(
        f"{wanted.title}\n  licence: {wanted.licence}\n  home: {wanted.homepage}\n"
        f"  size: {wanted.size}\n  goes to: {to / wanted.name}",
        err=True,
    )
    if not wanted.ask or yes:
        return
    if not _at_a_terminal():
        raise AccordError(
            "these terms must be accepted first", where=wanted.name, fix="add --yes if you do"
        )
    if not typer.confirm("Do you accept these terms?", err=True):
        raise typer.Exit(1)


def _at_a_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
