"""The command report."""

from pathlib import Path
from typing import Annotated

import typer


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
    from accord.report.data import build
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
