"""The command reproduce: an experiment of the paper, from its data to verdicts on its claims."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accord.cli.options import Overrides, Quiet

if TYPE_CHECKING:
    from accord.studies.reproduction import Plan, Stage


def reproduce(
    setting: Annotated[
        str,
        typer.Argument(
            metavar="SETTING",
            help="europarl, un1, un2, iwslt17, iwslt17-star or small-data.",
        ),
    ],
    scale: Annotated[
        str, typer.Option(help="full: as the paper. small: an hour on one GPU.")
    ] = "full",
    complete: Annotated[
        bool, typer.Option("--complete", help="Train Complete as well, from the same checkpoint.")
    ] = False,
    beam: Annotated[int, typer.Option("--beam", min=1, help="Beam size of the evaluation.")] = 10,
    checkpoint: Annotated[
        str,
        typer.Option(help="Which is evaluated: last (matched in updates) or best (on dev)."),
    ] = "last",
    sizes: Annotated[
        str | None,
        typer.Option(help="For small-data: lines a corpus, separated by commas."),
    ] = None,
    data: Annotated[Path, typer.Option(help="Where fetched data lies or goes.")] = Path("data"),
    to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where all results go; default reproduce/SETTING."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="Take the data from here, not from the net."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="The licence of the data is read and accepted.")
    ] = False,
    overrides: Overrides = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print stages, commands, hours and disk; do nothing.")
    ] = False,
    speed: Annotated[
        float | None,
        typer.Option(min=1.0, help="Target tokens a second of Basic, for the estimate of hours."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Reproduce a setting of the paper: fetch, prepare, train, evaluate, compare with its numbers.

    Basic is trained up to where agreement begins; from that checkpoint on, more Basic and Agree get
    the same number of updates. Run again, it goes on where it stopped.
    """
    # As `accord train` does, before anything loads the OpenMP library.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from accord.studies.branches import Options
    from accord.studies.estimates import overview
    from accord.studies.paper import find_setting
    from accord.studies.reproduction import make_plan

    found = find_setting(setting)
    if scale not in ("full", "small"):
        raise typer.BadParameter(f"{scale!r} is neither full nor small", param_hint="--scale")
    if checkpoint not in ("best", "last"):
        raise typer.BadParameter(f"{checkpoint!r} is neither best nor last")
    plan = make_plan(
        found,
        scale=scale,  # type: ignore[arg-type]  # checked above
        data=data,
        to=to,
        source=source,
        accepted=yes,
        overrides=overrides or (),
        sizes=_sizes(sizes, found.by_size),
        options=Options(found.split, beam, checkpoint, complete),
    )
    if dry_run:
        typer.echo(overview(plan, speed), nl=False)
        return
    _follow(plan, quiet)


def _sizes(given: str | None, wanted: bool) -> tuple[int, ...]:
    from accord.studies.paper import SIZES

    if not wanted:
        if given is not None:
            raise typer.BadParameter("only small-data has sizes", param_hint="--sizes")
        return ()
    if given is None:
        return SIZES
    try:
        found = tuple(sorted({int(size) for size in given.split(",")}))
    except ValueError:
        found = (0,)
    if found[0] < 1:
        raise typer.BadParameter("give whole numbers, as 50000,150000", param_hint="--sizes")
    return found


def _follow(plan: "Plan", quiet: bool) -> None:
    """Every stage that is not done, then the page."""
    from accord.files import check_writable, exclusive

    for study in plan.studies:
        study.check_unchanged()
    check_writable(plan.page)
    with exclusive(plan.directory, "accord reproduce"):
        for number, stage in enumerate(plan.stages, start=1):
            done = stage.done()
            title = f"{number}/{len(plan.stages)} {plan.title(stage)}"
            typer.echo(f"\n{title}{', done already' if done else ''}", err=True)
            if not done and not _carried_out(stage, quiet):
                raise typer.Exit(1)  # the command itself has said why, and how to go on
        _conclude(plan)


def _carried_out(stage: "Stage", quiet: bool) -> bool:
    """Run the stage's own command; whether it came to its end."""
    from accord.cli import app
    from accord.config.load import dump
    from accord.files import atomic_write

    if stage.output is not None and stage.study is not None:
        with atomic_write(stage.output) as file:
            file.write(dump(stage.study.experiment))
        return True
    typer.echo(stage.command, err=True)
    silent = ("-q",) if quiet and stage.kind != "report" else ()
    refused = app([*stage.arguments, *silent], standalone_mode=False)
    _free_the_device()
    # Training that is told to stop saves, and returns like one that has finished.
    return not refused and (stage.kind == "report" or stage.done())


def _free_the_device() -> None:
    """Give back what the stage before held, graphs included: the next one measures what is free."""
    import gc

    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()


def _conclude(plan: "Plan") -> None:
    from accord.errors import AccordError
    from accord.studies.outcome import read_outcome
    from accord.studies.page import verdicts, write_page
    from accord.studies.sizes_figure import draw_sizes

    outcomes = [read_outcome(study, plan.options) for study in plan.studies]
    figures: tuple[Path, ...] = ()
    if plan.sizes:
        try:
            by_size = list(zip(plan.sizes, outcomes, strict=True))
            figures = draw_sizes(by_size, plan.directory, plan.setting.name)
        except AccordError as error:  # the figures themselves are worth having without it
            typer.echo(f"accord: note: {error}", err=True)
    write_page(plan, outcomes, figures)
    typer.echo()
    for item in verdicts(plan, outcomes):
        typer.echo(f"{item.claim.number}. {item.claim.text}: {item.verdict}\n   {item.because}")
    typer.echo(f"wrote {plan.page}", err=True)


# --- The command report.


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Evaluated runs; the first is the main one."),
    ],
    name: Annotated[
        str | None, typer.Option(help="Which evaluation; by default the best one all runs share.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="HTML file; by default report.html in the first run.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Markdown file; by default report.md in the first run.")
    ] = None,
    latex: Annotated[
        Path | None, typer.Option(help="Write the paper's table as LaTeX as well.")
    ] = None,
) -> None:
    """Write one page about a run, or comparing several: HTML without any outside parts."""
    from accord.files import atomic_write, check_writable
    from accord.report.contents import build
    from accord.report.html import write_html
    from accord.report.latex import latex as table
    from accord.report.markdown import write_markdown

    page = html or runs[0] / "report.html"
    text = markdown or runs[0] / "report.md"
    for path in (page, text, latex):
        if path is not None:
            check_writable(path)
    found = build(runs, name=name)
    write_html(found, page)
    write_markdown(found, text)
    if latex is not None:
        with atomic_write(latex) as out:
            out.write(table(found))
    typer.echo(found.answer.headline)
    typer.echo(f"wrote {page} and {text}", err=True)
