"""Commands for one's own start: init, recipes."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accord.cli.options import Quiet

if TYPE_CHECKING:
    from accord.data.new_experiment import Draft, Machine


def init(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATHS", help="Files or directories with text; else this one."),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The experiment file to write.")
    ] = Path("experiment.yaml"),
    pairs: Annotated[
        str | None, typer.Option(help="Train on these pairs only: en-de,en-fr.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was found and written as JSON.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Write an experiment file for your own text.

    Languages and formats are found, sizes chosen. Nothing is asked and nothing is overwritten.
    Corpora are files named alike but for the language (corpus.en, corpus.de), or files of both:
    .tsv .jsonl .tmx .parquet .arrow, zips of OPUS.

    Example: accord init texts/ --output mine.yaml
    """
    from accord.data.discover import discover
    from accord.data.new_experiment import draft
    from accord.files import atomic_write, check_writable
    from accord.progress import shown_progress

    _refuse_existing(output, "choose another name with --output, or move it away")
    if output.suffix not in (".yaml", ".yml"):
        raise typer.BadParameter(f"{output} should end in .yaml", param_hint="--output")
    check_writable(output)
    chosen = None if pairs is None else _pairs(pairs)
    with shown_progress(quiet) as progress:
        progress.start("looking for text")
        found = discover(paths or [Path()])
        made = draft(found, _machine(), name=output.stem, pairs=chosen, progress=progress)
    with atomic_write(output) as file:
        file.write(made.text)
    commands = _commands(made, output)
    if as_json:
        typer.echo(json.dumps(_facts(made, output, commands), indent=2, ensure_ascii=False))
    else:
        _show(made, output, commands)


def _refuse_existing(path: Path, fix: str) -> None:
    from accord.errors import AccordError

    if path.exists():
        what = "there is such a file already, and it stays as it is"
        raise AccordError(what, where=str(path), fix=fix)


def _pairs(text: str) -> list[tuple[str, str]]:
    from accord.graph import Direction

    directions = [Direction.parse(pair.strip()) for pair in text.split(",")]
    return [(direction.source, direction.target) for direction in directions]


def _machine() -> "Machine":
    import torch

    from accord.data.new_experiment import Machine
    from accord.machine import cores

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return Machine(gpu, cores())


def _commands(made: "Draft", output: Path) -> list[str]:
    from accord.config.load import run_directory

    language, sentence = made.example
    other = next(
        target
        for source, target in made.experiment.graph.supervised_directions
        if source == language
    )
    file, run = shlex.quote(str(output)), shlex.quote(str(run_directory(made.experiment)))
    return [
        f"accord prepare {file}",
        f"accord train {file}",
        f"echo {shlex.quote(sentence)} | accord translate {run} --to {other}",
    ]


def _facts(made: "Draft", output: Path, commands: list[str]) -> dict[str, object]:
    return {
        "experiment": str(output),
        "corpora": [
            {
                "pair": corpus.pair,
                "lines": made.lines[corpus.pair],
                "sources": [source.model_dump(mode="json") for source in corpus.train],
            }
            for corpus in made.experiment.corpora
        ],
        "dev": made.experiment.dev.model_dump(mode="json"),
        "test": made.experiment.test.model_dump(mode="json"),
        "graph": made.experiment.graph.facts(),
        "notes": list(made.notes),
        "next": commands,
    }


def _show(made: "Draft", output: Path, commands: list[str]) -> None:
    from rich.console import Console

    from accord import graph_drawing

    for corpus in made.experiment.corpora:
        sources = ", ".join(source.path for source in corpus.train)
        typer.echo(f"{corpus.pair}: {made.lines[corpus.pair]:,} lines in {sources}")
    for note in made.notes:
        typer.echo(f"accord: note: {note}", err=True)
    Console().print(graph_drawing.terminal(made.experiment.graph))
    typer.echo(f"\nWrote {output}. Next:\n")
    for command in commands:
        typer.echo(f"  {command}")


def recipes(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which one to print, or to copy.")
    ] = None,
    target: Annotated[
        Path | None, typer.Argument(metavar="PATH", help="With --copy: where to.")
    ] = None,
    copy: Annotated[
        bool, typer.Option("--copy", help="Copy it, to PATH or under its own name.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The list as JSON.")] = False,
) -> None:
    """List, print or copy the recipes and plans that come along.

    Example: accord recipes multi30k-transformer --copy mine.yaml
    """
    from accord.config.shipped import recipe, shipped_plan
    from accord.files import atomic_write

    if name is None:
        if copy:
            raise typer.BadParameter("--copy needs the NAME of a recipe")
        _list_recipes(as_json)
        return
    if target is not None and not copy:
        raise typer.BadParameter(f"{target}: did you mean --copy {target}?")
    bare = name.removesuffix(".yaml")
    source = (
        shipped_plan(bare.removeprefix("plans/")) if bare.startswith("plans/") else recipe(bare)
    )
    text = source.read_text(encoding="utf-8")
    if not copy:
        typer.echo(text, nl=False)
        return
    place = target or Path(source.name)
    place = place / source.name if place.is_dir() else place
    _refuse_existing(place, f"choose another name: accord recipes {name} --copy OTHER.yaml")
    with atomic_write(place) as file:
        file.write(text)
    typer.echo(f"wrote {place}", err=True)


def _list_recipes(as_json: bool) -> None:
    from accord.config.shipped import shipped

    listed = shipped()
    if as_json:
        facts = [{"name": i.name, "kind": i.kind, "title": i.title} for i in listed]
        typer.echo(json.dumps(facts, indent=2))
        return
    width = max(len(item.name) for item in listed)
    for item in listed:
        typer.echo(f"{item.name:<{width}}  {item.title}")
