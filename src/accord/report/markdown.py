"""The report as Markdown, for a repository or an issue: the same figures, without pictures."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from accord.files import atomic_write
from accord.graph import language_name
from accord.report import figures
from accord.report.answer import LOWER_BOUND, QUESTION
from accord.report.contents import Report
from accord.report.examples import DirectionExamples, examples
from accord.report.figures import Grid, accounts
from accord.report.heatmap import HeatCell, HeatMap, bleu_maps, off_target_maps
from accord.report.numbers import NONE, score
from accord.report.paper_table import MARK, MEANING, NAMES, Cell, Table, table

_EXAMPLES = 3
_SPECIAL = re.compile(r"([\\`*_\[\]#|~])")


def write_markdown(report: Report, path: Path) -> None:
    """Write the report; an earlier one is replaced only when all of the new one is on disk."""
    text = markdown(report)
    with atomic_write(path) as file:
        file.write(text)


def markdown(report: Report) -> str:
    """The whole document."""
    return "\n".join(_lines(report)).rstrip() + "\n"


def escape(text: str) -> str:
    """Plain text that Markdown leaves as it is, also inside a table."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", " ".join(safe.split()))


def _lines(report: Report) -> Iterator[str]:
    yield f"# {escape(', '.join(run.label for run in report.runs))}: Accord report\n"
    yield f"**{QUESTION}**\n"
    yield f"**{escape(report.answer.headline)}**\n"
    if report.advice:
        yield f"**Next:** {escape(report.advice)}\n"
    for label, method in report.methods:
        yield f"- Method of {escape(label)}: {escape(method)}"
    yield from (f"- {escape(line)}" for line in report.answer.details)
    yield f"\n{escape(report.answer.measured)}\n"
    yield from (f"> Note: {escape(note)}\n" for note in report.notes)

    yield "## Scores\n"
    for metric in NAMES:
        yield from _paper_table(table(report.systems, metric))
    yield "## All directions\n"
    yield "Sources down, targets across; ● supervised, ○ zero-shot, in brackets through a pivot.\n"
    languages = report.main.evaluation.languages
    yield escape(", ".join(f"{code} {language_name(code)}" for code in languages)) + ".\n"
    for heat in (*bleu_maps(report), *off_target_maps(report)):
        yield from _matrix(heat)

    if any(row.off_target is not None for row in report.main.evaluation.by_direction):
        sure = f" {report.identification.words}" if report.identification else ""
        yield f"{LOWER_BOUND}{escape(sure)}\n"

    yield "## Consistency\n"
    yield from _grid(figures.consistency(report))
    for run in report.runs:
        if run.history.validations:
            yield from _grid(figures.validations(run))
    yield "## Data\n"
    for account in accounts(report):
        yield from _grid(account)
    yield "## Examples\n"
    for some in examples(report):
        yield from _examples(some)
    yield "## All figures\n"
    for run in report.runs:
        yield from _grid(figures.all_figures(run))
    yield "## Environment\n"
    if (scored := figures.scored(report)).rows:
        yield from _grid(scored)
    yield from _grid(figures.environments(report))
    yield from _grid(figures.signatures(report))


def _paper_table(made: Table) -> Iterator[str]:
    head = [NAMES[made.metric], *(system.label for system in made.systems)]
    rows = []
    for row in made.rows:
        label = f"*{escape(row.label)}*" if row.average else escape(row.label)
        rows.append([label, *map(_cell, row.cells)])
    yield from _rows([escape(name) for name in head], rows, prose=False)
    yield f"In bold the best of a row.{marks_explained(made)}\n"


def marks_explained(made: Table) -> str:
    """What the marks of a table mean; nothing where there are none."""
    if not made.marked:
        return ""
    return f" {MARK} different from {escape(made.systems[0].label)} {MEANING}."


def _cell(cell: Cell) -> str:
    text = score(cell.value)
    return (f"**{text}**" if cell.best else text) + cell.mark


def _matrix(heat: HeatMap) -> Iterator[str]:
    rows = [[f"**{source}**", *map(_heat, cells)] for source, cells in heat.rows]
    if heat.footer:
        rows.append(["references", *heat.footer])
    yield from _rows([escape(heat.title), *heat.languages], rows, prose=False)


def _heat(cell: HeatCell | None) -> str:
    if cell is None:
        return ""
    pivot = f" ({cell.pivot})" if cell.pivot else ""
    return f"{'●' if cell.kind == 'supervised' else '○'} {cell.text}{pivot}"


def _examples(some: DirectionExamples) -> Iterator[str]:
    yield f"### {some.direction}, {some.kind}\n"
    for example in some.examples[:_EXAMPLES]:
        rows = [["source", example.source], ["reference", example.reference]]
        rows += [[output.system, output.text] for output in example.outputs]
        cells = [[escape(what), escape(text) or NONE] for what, text in rows]
        yield from _rows([f"line {example.line}", ""], cells, prose=True)


def _grid(made: Grid) -> Iterator[str]:
    yield f"{escape(made.caption)}:\n"
    rows = [[escape(cell) for cell in row] for row in made.rows]
    yield from _rows([escape(cell) for cell in made.head], rows, prose=made.prose)


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]], *, prose: bool) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|---|{('---|' if prose else '---:|') * (len(head) - 1)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""
