"""Commands that use a trained model: translate, evaluate."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.cli.options import EnsembleMembers, ModelOptions, ModelPath, Quiet, RunPath, grouped
from accord.inference.results import SearchSettings


@grouped
def translate(
    run: ModelPath,
    to: Annotated[str, typer.Option("--to", help="Language to translate into.")],
    source: Annotated[
        str | None, typer.Option("--from", help="Language of the text; needed for --via auto only.")
    ] = None,
    via: Annotated[
        str | None,
        typer.Option(help="Pivot language(s), separated by commas, or auto: the graph's path."),
    ] = None,
    ensemble: EnsembleMembers = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", help="Text, one sentence a line; else stdin.")
    ] = None,
    output_file: Annotated[
        Path | None, typer.Option("--output", help="Where to write; else stdout.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON lines: scores, tokens, alignment, language.")
    ] = False,
    nbest: Annotated[
        int, typer.Option(min=1, help="Translations per sentence, with --json.")
    ] = SearchSettings.nbest,
    *,
    search: SearchSettings,
    model: ModelOptions,
) -> None:
    """Translate text line by line: one line in, one line out, in order."""
    from contextlib import ExitStack
    from dataclasses import replace

    from accord.files import atomic_write
    from accord.inference.ensemble import Ensemble
    from accord.inference.translator import Translator

    members = Ensemble.parse(ensemble) if ensemble is not None else None
    settings = replace(search, nbest=nbest)
    translator = Translator(run, **vars(model))
    with ExitStack() as stack:
        stack.callback(translator.close)
        lines = stack.enter_context(_lines(input_file))
        out = stack.enter_context(atomic_write(output_file)) if output_file else sys.stdout
        describe = _describer(translator) if as_json else None
        found = translator.stream(
            (line.rstrip("\n") for line in lines),
            to,
            source=source,
            via=via if via in (None, "auto") else via.split(","),
            ensemble=members,
            settings=settings,
            # A person at a terminal wants each answer at once.
            at_once=1 if input_file is None and sys.stdin.isatty() else _lines_at_once(search),
        )
        for number, item in enumerate(found, start=1):
            for warning in item.warnings:
                typer.echo(f"accord: line {number}: {warning}", err=True)
            print(describe(item) if describe else item.text, file=out, flush=out is sys.stdout)


def _lines_at_once(search: SearchSettings) -> int:
    """A file wants large batches; wide searches take long, and are to be seen at work."""
    return max(1, min(2048, 2048 * 64 // search.beam))


def _lines(path: Path | None) -> Any:
    from contextlib import nullcontext

    from accord.errors import AccordError

    if path is None and sys.stdin is None:  # closed by whoever started us
        raise AccordError("there is no standard input", fix="name a file with --input")
    if path is None:
        sys.stdin.reconfigure(encoding="utf-8", errors="replace", newline="\n")  # type: ignore[union-attr]
        return nullcontext(sys.stdin)
    try:
        return path.open(encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        raise AccordError(
            f"cannot be read: {error.strerror}", where=str(path), fix="check the path"
        ) from None


def _describer(translator: Any) -> Any:
    """A function from a translation to its JSON line, with the language it seems to be in."""
    from dataclasses import asdict

    from accord.data.language_id import LanguageGuesser

    guesser = LanguageGuesser(translator.languages)

    def describe(item: Any) -> str:
        facts = asdict(item) | {"text": item.text, "language": guesser.guess(item.text)}
        return json.dumps(facts, ensure_ascii=False)

    return describe


@grouped
def evaluate(
    run: RunPath,
    split: Annotated[str, typer.Option(help="test or dev.")] = "test",
    against: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Paired tests against a run evaluated the same way."),
    ] = None,
    pivot: Annotated[
        bool, typer.Option(help="Zero-shot directions through their pivot as well.")
    ] = True,
    ensemble: EnsembleMembers = None,
    agreement: Annotated[
        bool, typer.Option(help="How far translations into a third language agree.")
    ] = True,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many sentences of each set.")
    ] = None,
    lines: Annotated[
        str | None,
        typer.Option(metavar="A-B", help="Only these lines of each set, from 1: 1001-2000."),
    ] = None,
    comet: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="COMET as well, by this checkpoint on your disk."),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    *,
    search: SearchSettings,
    model: ModelOptions,
    quiet: Quiet = False,
) -> None:
    """Translate the test set in all directions and score it, direct and through pivots.

    Settings are chosen on --split dev; each look at test sentences is noted in RUN/scored.jsonl.

    Example: accord evaluate demo/agree --split dev --lines 1-50
    """
    from rich.console import Console

    from accord.evaluation.evaluate import evaluate_run
    from accord.evaluation.records import parse_lines
    from accord.evaluation.tables import tables
    from accord.evaluation.uses import counted, read_uses
    from accord.inference.ensemble import Ensemble
    from accord.progress import shown_progress

    with shown_progress(quiet) as progress:
        found = evaluate_run(
            run,
            split=split,
            settings=search,
            pivot=pivot,
            ensemble=Ensemble.parse(ensemble) if ensemble is not None else None,
            agreement=agreement,
            limit=limit,
            lines=None if lines is None else parse_lines(lines),
            against=against,
            comet=comet,
            progress=progress,
            **vars(model),
        )
    if json_output:
        typer.echo(json.dumps(found.evaluation.as_dict(), ensure_ascii=False))
    else:
        Console().print(tables(found.evaluation, found.comparison))
    typer.echo(f"{found.directory}: figures and translations written", err=True)
    for same, uses in counted(read_uses(run)).items():
        if split == "test" and same.split == split and uses[-1].date == found.evaluation.date:
            times = "once" if len(uses) == 1 else f"{len(uses)} times"
            typer.echo(
                f"test set {same.set}, lines {same.first:,} to {same.last:,}: scored {times} by "
                "this run; choose settings with --split dev",
                err=True,
            )
