"""The command `accord`: parse, call, print. Results go to stdout, progress and logs to stderr.

Everything heavy is imported inside the commands, so that `accord --help` answers at once.
"""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from accord import __version__
from accord.errors import AccordError

app = typer.Typer(
    name="accord",
    help="One translation model for all directions, also those without data.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ExperimentFile = Annotated[Path, typer.Argument(metavar="EXPERIMENT", help="Experiment file.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key, e.g. vocabulary.size=8000."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]


def main() -> None:
    """Run the command line: 0 done, 1 failed, 2 wrong usage, 130 or 143 interrupted."""
    import signal
    import warnings

    from accord.errors import AccordWarning

    # Both are to clean up on their way out; KeyboardInterrupt would be taken over by typer.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    warnings.showwarning = _show_warning
    warnings.simplefilter("always", AccordWarning)
    try:
        app()
    except AccordError as error:
        typer.echo(f"accord: {error}", err=True)
        sys.exit(1)
    except _InterruptedError as interrupt:
        typer.echo("accord: interrupted; nothing was half-written", err=True)
        sys.exit(128 + interrupt.number)
    except BrokenPipeError:
        # The reader of our output (head, less) has gone; so do we, without a complaint at exit.
        sys.stdout = None
        sys.exit(141)


class _InterruptedError(BaseException):
    """Ctrl-C or SIGTERM."""

    def __init__(self, number: int) -> None:
        self.number = number


def _interrupt(number: int, _: Any) -> None:
    raise _InterruptedError(number)


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    typer.echo(f"accord: note: {message}", err=True)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"accord {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """One translation model for all directions, also those without data."""


@app.command()
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


@app.command()
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
    from accord.files import atomic_write

    found = load(experiment, overrides or ()).graph
    if as_json:
        typer.echo(json.dumps(found.facts(), indent=2))
    else:
        Console().print(drawing.terminal(found))
    if svg is not None:
        with atomic_write(svg) as file:
            file.write(drawing.svg(found))
        typer.echo(f"wrote {svg}", err=True)


@app.command()
def prepare(
    experiment: ExperimentFile,
    overrides: Overrides = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes and threads; by default all cores.")
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
    from accord.files import atomic_write
    from accord.terminal import shown_progress

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


@app.command()
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
    import os

    # Read when the OpenMP library is loaded: waiting threads are to sleep, not to spin.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from accord.experiment_file import load
    from accord.terminal import shown_progress
    from accord.training.trainer import train as run

    settings = load(experiment, overrides or ())
    with shown_progress(quiet) as progress:
        result = run(settings, accept_changes=accept_changes, progress=progress)
    typer.echo(f"{result.run}: {result.reason}, step {result.step:,} saved", err=True)
    if not result.finished:
        typer.echo(f"resume with: accord {' '.join(sys.argv[1:])}", err=True)


@app.command()
def average(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")],
    last: Annotated[int, typer.Option(min=2, help="How many of the newest checkpoints.")] = 3,
) -> None:
    """Average the weights of the newest checkpoints into checkpoints/average."""
    from accord.training.checkpoint import average as mean
    from accord.training.run import RunDirectory

    directory = RunDirectory(run)
    directory.experiment()
    paths = directory.checkpoints.paths()[-last:]
    if len(paths) < last:
        raise AccordError(
            f"the run has {len(paths)} checkpoints, not {last}",
            where=str(run),
            fix="ask for fewer, or train with a larger training.keep",
        )
    target = directory.path / "checkpoints" / "average"
    mean(paths, target)
    typer.echo(f"{target}: mean of {', '.join(path.name for path in paths)}", err=True)


@app.command()
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
    paths = made.write(corpus, directory)
    typer.echo(f"{directory}: {len(paths)} files, {lines:,} lines a corpus", err=True)


@app.command()
def demo(quiet: Quiet = False) -> None:
    """The tour: make the built-in corpus in ./demo, show its graph, prepare it."""
    from accord.recipes import recipe

    experiment = recipe("demo")
    typer.echo("1. Text: 6,000 lines each of en-de, en-es and en-fr, half of them in all three\n")
    builtin(Path("demo/text"))
    typer.echo("\n2. The translation graph: six directions have data, six are zero-shot\n")
    graph(experiment)
    typer.echo("\n3. Clean, disjoint and tokenised\n")
    prepare(experiment, quiet=quiet)
