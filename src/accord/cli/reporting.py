"""Commands about finished runs: report, compare."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from accord.report.figures import Grid

EvaluatedRuns = Annotated[
    list[Path], typer.Argument(metavar="RUN", help="Evaluated runs; the first is the main one.")
]
EvaluationName = Annotated[
    str | None,
    typer.Option("--name", help="Which evaluation; by default the best one all runs share."),
]


def report(
    runs: EvaluatedRuns,
    name: EvaluationName = None,
    html: Annotated[
        Path | None, typer.Option(help="HTML file; by default report.html in the first run.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Markdown file; by default report.md in the first run.")
    ] = None,
    latex: Annotated[
        Path | None, typer.Option(help="Write the paper's table as LaTeX as well.")
    ] = None,
    paper: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="Published columns: europarl, un1, un2, iwslt17…"),
    ] = None,
) -> None:
    """Write one page about a run, or comparing several.

    The page is HTML without any outside parts; the same goes into a Markdown file.

    Example: accord report demo/agree demo/more
    """
    from accord.files import atomic_write, check_writable
    from accord.report.contents import build
    from accord.report.html import write_html
    from accord.report.latex import latex as table
    from accord.report.markdown import write_markdown

    _check_paper(paper)
    page = html or runs[0] / "report.html"
    text = markdown or runs[0] / "report.md"
    files = {"--html": page, "--markdown": text, "--latex": latex}
    _refuse_one_name(files)
    for path in files.values():
        if path is not None:
            check_writable(path)
    found = build(runs, name=name)
    if paper is not None:
        from accord.studies.beside_paper import published

        found = replace(found, published=published(found.runs, paper))
    write_html(found, page)
    write_markdown(found, text)
    if latex is not None:
        with atomic_write(latex) as out:
            out.write(table(found))
    typer.echo(found.answer.headline)
    typer.echo(f"wrote {page} and {text}", err=True)


def _refuse_one_name(files: Mapping[str, Path | None]) -> None:
    """Of two files in one place only the later would be left."""
    first: dict[Path, str] = {}
    for option, path in files.items():
        if path is not None and (other := first.setdefault(path.resolve(), option)) != option:
            raise typer.BadParameter(f"{other} has the same file: {path}", param_hint=option)


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Runs evaluated alike.")],
    against: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Test all against this run, and against its pivot."),
    ] = None,
    paper: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="Beside the paper: europarl, un1, un2, iwslt17…"),
    ] = None,
    by_size: Annotated[
        bool, typer.Option("--by-size", help="Basic and Agree against the size of the corpora.")
    ] = False,
    over_seeds: Annotated[
        bool,
        typer.Option(
            "--over-seeds", help="Runs are called SYSTEM-SEED: test seed by seed, and together."
        ),
    ] = False,
    name: EvaluationName = None,
    final: Annotated[
        bool, typer.Option("--final", help="On test sentences; else on dev, by which one chooses.")
    ] = False,
    selection: Annotated[
        str | None,
        typer.Option(
            metavar="POINTS",
            help="validations or evaluations: which score would choose the best of them?",
        ),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all figures as JSON.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all tables as Markdown.")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --by-size: draw the figure.")
    ] = None,
) -> None:
    """Compare runs: BLEU side by side, differences tested.

    Differences come with intervals and p by paired bootstrap. Zero-shot directions are tested
    against those of --against, its pivot, and the run's own pivot. Sentences are those of the dev
    set, unless --final or --name says otherwise.

    Example: accord compare studies/demo/agree-1 --against studies/demo/basic-1
    """
    from accord.files import check_writable

    asked = {"--json": json_file, "--markdown": markdown, "--svg": svg}
    if selection is not None:
        for option, path in asked.items():
            if path is not None:
                raise typer.BadParameter("--selection only prints", param_hint=option)
        _selection(runs, selection)
        return
    if svg is not None and not by_size:
        raise typer.BadParameter("it is a figure by size: add --by-size", param_hint="--svg")
    if final and name is not None:
        raise typer.BadParameter(
            "--name says which evaluation: leave one out", param_hint="--final"
        )
    _check_paper(paper)
    _refuse_one_name(asked)
    for path in asked.values():
        if path is not None:
            check_writable(path)
    files = {"json": json_file, "md": markdown, "svg": svg}
    how = {"name": name, "final": final, "over_seeds": over_seeds}
    _compare(runs, against, how, paper, by_size, files)


def _check_paper(paper: str | None) -> None:
    from accord.studies.paper import TABLES

    if paper is not None and paper not in TABLES:
        listed = ", ".join(TABLES)
        raise typer.BadParameter(f"{paper!r} is none of {listed}", param_hint="--paper")


def _compare(
    runs: Sequence[Path],
    against: Path | None,
    how: Mapping[str, Any],
    paper: str | None,
    by_size: bool,
    files: dict[str, Path | None],
) -> None:
    from accord.evaluation.folder import write_json
    from accord.studies import compare as comparison
    from accord.studies import systems
    from accord.studies.compare_figures import figures
    from accord.studies.page import markdown as lines
    from accord.studies.sizes_figure import draw_sizes

    found = comparison.compare_runs(runs, against, **how)
    data = figures(found, ["accord", *sys.argv[1:]])
    shown = comparison.tables(found)
    page = [line for made in shown for line in lines(made)]
    said: list[str] = []
    if paper is not None:
        items = systems.beside_paper(found, paper)
        shown += [systems.paper_summary(item, paper) for item in items]
        page += systems.paper_page(items, paper)
        data["paper"] = systems.paper_figures(items, paper)
        said += [f"{judged.claim.text}: {judged.verdict}" for i in items for judged in i.verdicts]
        said += [systems.several_complete(items[0])] if items[0].left_out else []
    if by_size:
        study = systems.by_size(found)
        judged = study.verdict
        page += [line for made in systems.size_tables(study) for line in lines(made)]
        page.append(f"{judged.claim.text}: **{judged.verdict}**. {judged.because}.\n")
        data["sizes"] = systems.size_figures(study)
        said.append(f"{judged.claim.text}: {judged.verdict}")
        if files["svg"] is not None:
            draw_sizes(study.outcomes, files["svg"])
    print_tables(shown)
    for line in (*said, *(f"note: {note}" for note in found.notes)):
        typer.echo(line)
    if files["md"] is not None:
        _write(files["md"], "\n".join(page).rstrip() + "\n")
    if files["json"] is not None:
        write_json(files["json"], data)
    if written := ", ".join(str(path) for path in files.values() if path):
        typer.echo(f"wrote {written}", err=True)


def _write(path: Path, text: str) -> None:
    from accord.files import atomic_write

    with atomic_write(path) as file:
        file.write(text)


def print_tables(grids: Sequence["Grid"], notes: Sequence[str] = ()) -> None:
    """Tables for a terminal, as wide as it is, and notes below them."""
    from rich.console import Console

    console = Console()
    for made in grids:
        console.print(_terminal(made))
    for note in notes:
        console.print(f"note: {note}", markup=False, highlight=False)


def _terminal(made: "Grid") -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        title=made.caption or None,
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for number, column in enumerate(made.head):
        words = number == 0 or column == "what"
        head = column if words else _narrow(column, [row[number] for row in made.rows])
        table.add_column(head, justify="left" if words else "right")
    for row in made.rows:
        table.add_row(*row)
    return table


def _narrow(head: str, cells: Sequence[str]) -> str:
    """Two words below each other where all cells are narrower: the names of rows need the room."""
    wider = len(head) > max(map(len, cells), default=0)
    return head.replace(" ", "\n") if wider and head.count(" ") == 1 else head


def _selection(runs: Sequence[Path], points: str) -> None:
    from accord.evaluation.selection import evaluations, table, validations

    if points not in ("validations", "evaluations"):
        raise typer.BadParameter(
            f"{points!r} is neither validations nor evaluations", param_hint="--selection"
        )
    if points == "evaluations":
        found = evaluations(runs)
    else:
        found = {run.name: validations(run) for run in runs}
        if len(found) > 1:
            found["all runs"] = [point for some in found.values() for point in some]
    for title, some in found.items():
        typer.echo("\n".join(table(title, some)))
