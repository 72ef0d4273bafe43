"""Commands that use trained models: translate, combine, evaluate."""

import json
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accord.cli.documents import is_document, translate_document
from accord.cli.options import EnsembleMembers, ModelOptions, ModelPath, Quiet, RunPath, grouped
from accord.errors import AccordError, AccordWarning
from accord.inference.results import SearchSettings
from accord.settings_fields import flag

if TYPE_CHECKING:
    from accord.inference.translator import Translator


@grouped
def translate(
    run: ModelPath,
    to: Annotated[
        str | None, typer.Option("--to", help="Language to translate into; only a prompt can ask.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", help="Language of the text; --via auto and some models need it."),
    ] = None,
    via: Annotated[
        str | None,
        typer.Option(help="Pivot language(s), separated by commas, or auto: the graph's path."),
    ] = None,
    ensemble: EnsembleMembers = None,
    input_file: Annotated[
        Path | None,
        typer.Option("--input", help="Text, one sentence a line, or a document; else stdin."),
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
    quiet: Quiet = False,
) -> None:
    """Translate text: one line in, one line out, in order.

    At a terminal it asks for text: `:to de` changes the language, `:quit` or Ctrl-D ends.

    Example: accord translate demo/agree --to fr --input text.de --output text.fr
    """
    from contextlib import ExitStack
    from dataclasses import replace

    from accord.cli.prompt import Direction, converse
    from accord.files import atomic_write
    from accord.inference.ensemble import Ensemble
    from accord.progress import shown_progress

    if nbest > 1 and not as_json:
        raise typer.BadParameter(
            f"only the best translation fits on a line: add --json to see {nbest}",
            param_hint="--nbest",
        )
    typed = input_file is None and _is_terminal(sys.stdin)
    prompts = typed and output_file is None and _is_terminal(sys.stdout)
    if to is None and not prompts:
        raise typer.BadParameter("say which language to translate into", param_hint="--to")
    options: dict[str, Any] = {
        "via": via if via in (None, "auto") else via.split(","),
        "ensemble": Ensemble.parse(ensemble) if ensemble is not None else None,
        "settings": replace(search, nbest=nbest),
    }
    if input_file is not None and to is not None and is_document(input_file):
        if as_json:
            raise AccordError("a document has one translation", where="--json", fix="leave it out")
        translate_document(
            input_file,
            output_file,
            to,
            lambda: _opened(run, model, options["settings"]),
            lambda translator, texts: translator.translate(texts, to, source=source, **options),
        )
        return
    translator = _opened(run, model, options["settings"])
    with ExitStack() as stack:
        stack.callback(translator.close)
        lines = stack.enter_context(_lines(input_file))
        show = _describer(translator) if as_json else attrgetter("text")
        if prompts or to is None:
            sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
            converse(translator, Direction(to, source), show, options)
            return
        out = stack.enter_context(atomic_write(output_file)) if output_file else sys.stdout
        silent = quiet or typed or not _progress_helps(input_file, output_file)
        progress = stack.enter_context(shown_progress(silent))
        total = None if silent else _count(input_file)
        texts = _decoded(lines)
        # A person who types wants each answer at once. Of a file, the first few lines tell early
        # how fast it goes; what follows comes in large batches.
        first, size = (1, 1) if typed else (_FIRST_LINES, _lines_at_once(search))
        found = [
            translator.stream(some, to, source=source, at_once=at_once, **options)
            for some, at_once in ((islice(texts, first), first), (texts, size))
        ]
        progress.start("translating", total)
        begun = time.monotonic()
        for number, item in enumerate(chain.from_iterable(found), start=1):
            for warning in item.warnings:
                typer.echo(f"accord: line {number}: {warning}", err=True)
            print(show(item), file=out, flush=out is sys.stdout)
            progress.reach(number, _speed(number, time.monotonic() - begun, total))


_FIRST_LINES = 64
_USUAL = SearchSettings()


def _opened(run: Path, model: ModelOptions, search: SearchSettings) -> "Translator":
    """The model; a note says so where something is asked of a search that it does not have."""
    from accord.inference.translator import Translator

    translator = Translator(run, **vars(model))
    asked = [flag(key) for key, value in vars(search).items() if value != getattr(_USUAL, key)]
    if asked and not translator.reads_search_settings:
        said = f"the model has a search of its own, which does not read {', '.join(asked)}"
        typer.echo(f"accord: {said}", err=True)
    return translator


def _is_terminal(stream: Any) -> bool:
    return stream is not None and stream.isatty()  # None: closed by whoever started us


def _progress_helps(input_file: Path | None, output_file: Path | None) -> bool:
    """Not where translations come to the same screen, nor in the log of a pipeline."""
    if output_file is None and _is_terminal(sys.stdout):
        return False
    return input_file is not None or _is_terminal(sys.stderr)


def _count(path: Path | None) -> int | None:
    """The lines of a file; a pipe can be read only once."""
    if path is None or not path.is_file():
        return None
    count, last = 0, b"\n"
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            count, last = count + block.count(b"\n"), block[-1:]
    return count + (last != b"\n")


def _speed(done: int, seconds: float, total: int | None) -> str:
    from accord.progress import clock

    if not seconds:
        return ""
    left = "" if total is None else f" left {clock((total - done) * seconds / done)}"
    return f"{done / seconds:,.0f} lines/s{left}"


def _lines_at_once(search: SearchSettings) -> int:
    """A file wants large batches; wide searches take long, and are to be seen at work."""
    return max(1, min(2048, 2048 * 64 // search.beam))


def _lines(path: Path | None) -> Any:
    from contextlib import nullcontext

    if path is None and sys.stdin is None:  # closed by whoever started us
        raise AccordError("there is no standard input", fix="name a file with --input")
    if path is None:
        sys.stdin.reconfigure(encoding="utf-8", errors=_MARKED, newline="\n")  # type: ignore[union-attr]
        return nullcontext(sys.stdin)
    try:
        return path.open(encoding="utf-8", errors=_MARKED, newline="\n")
    except OSError as error:
        raise AccordError(
            f"cannot be read: {error.strerror}", where=str(path), fix="check the path"
        ) from None


_MARKED = "surrogateescape"  # so that bytes that are not UTF-8 can be told from a � in the text


def _decoded(lines: Iterable[str]) -> Iterator[str]:
    """Lines without their ends. Bytes that are not UTF-8 become �, and that is said."""
    damaged = 0
    for number, line in enumerate(lines, start=1):
        text = line.rstrip("\n")
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode(errors=_MARKED).decode(errors="replace")
            damaged += 1
            if damaged == 1:
                warnings.warn(
                    f"line {number} has bytes that are not UTF-8; � stands in their place\n"
                    "  fix: re-encode the text, for example: "
                    "iconv -f ISO-8859-1 -t UTF-8 OLD > NEW",
                    AccordWarning,
                    stacklevel=2,
                )
        yield text
    if damaged > 1:
        warnings.warn(f"{damaged:,} lines have such bytes", AccordWarning, stacklevel=2)


def _describer(translator: Any) -> Any:
    """A function from a translation to its JSON line, with the language it seems to be in."""
    from dataclasses import asdict

    from accord.data.language_id import LanguageGuesser

    guesser = LanguageGuesser(translator.languages)

    def describe(item: Any) -> str:
        facts = asdict(item) | {"text": item.text, "language": guesser.guess(item.text)}
        return json.dumps(facts, ensure_ascii=False)

    return describe


def combine(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Directory to write.")],
    models: Annotated[
        list[str],
        typer.Argument(metavar="DIRECTION=RUN", help="Which run translates what: en-de=RUN."),
    ],
) -> None:
    """Make one system of several runs, one for each direction.

    Translate, evaluate, report, compare and serve take OUT as they take a run. All runs must be of
    the same prepared data, and stay where they are.

    Example: accord combine runs/pairs en-de=runs/en-de de-en=runs/de-en
    """
    from accord.graph import Direction
    from accord.inference.backends.combined_backend import combine as write

    chosen: dict[Direction, Path] = {}
    for item in models:
        name, equals, path = item.partition("=")
        if not equals or not path:
            raise typer.BadParameter(
                f"{item!r} is not of the form en-de=RUN", param_hint="DIRECTION=RUN"
            )
        direction = Direction.parse(name)
        if direction in chosen:
            raise AccordError(f"{direction} is given twice", fix="name one run for each direction")
        chosen[direction] = Path(path)
    write(out, chosen)
    typer.echo(f"{out}: {', '.join(map(str, chosen))}", err=True)


@grouped
def evaluate(
    run: RunPath,
    split: Annotated[
        str,
        typer.Option(metavar="NAME", help="test, dev, or another set: news=news.{lang}.gz."),
    ] = "test",
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
    """Translate and score the test set in all directions.

    Zero-shot directions go directly and through their pivot. Settings are chosen on --split dev;
    each look at test sentences is noted in RUN/scored.jsonl.

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
        scored = found.evaluation
        if scored.split != "dev" and (same.split, uses[-1].date) == (scored.split, scored.date):
            times = "once" if len(uses) == 1 else f"{len(uses)} times"
            typer.echo(
                f"{same.split} set {same.set}, lines {same.first:,} to {same.last:,}: scored "
                f"{times} by this run; choose settings with --split dev",
                err=True,
            )
