"""The table of the paper for a LaTeX document (needs booktabs; for published columns xcolor)."""

import re

from accord.report.contents import Report
from accord.report.numbers import NONE, score
from accord.report.paper_table import (
    APART,
    MARK,
    MEANING,
    NAMES,
    SLIP,
    Cell,
    Metric,
    Row,
    Table,
    published_explained,
    table,
)

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "−": "$-$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{character: f"${character}$" for character in "<>"},  # other signs in the old encoding
}

_SIGNS = {
    MARK: r"$^{\dagger}$",
    SLIP: r"$^{\ddagger}$",
    APART: r"$^{\circ}$",
    NONE: "--",
}


def latex(report: Report, metric: Metric = "bleu") -> str:
    """A table environment with all systems; the best of a row is bold, significance is marked."""
    made = table(report.systems, metric, report.published)
    heads = " & ".join(map(escape, made.heads))
    columns = "r" * len(made.systems) + ("|" + "r" * len(made.published)) * bool(made.published)
    lines = [
        f"% \\usepackage{{booktabs{',xcolor' * bool(made.published)}}}",
        *(f"% {signature}" for signature in _signatures(report, metric)),
        "\\begin{table}",
        "  \\centering",
        f"  \\begin{{tabular}}{{l{columns}}}",
        "    \\toprule",
        f"    direction & {heads} \\\\",
        *_body(made),
        "    \\bottomrule",
        "  \\end{tabular}",
        f"  \\caption{{{escape(_caption(report, made))}}}",
        "\\end{table}",
    ]
    return "\n".join(_marked(line) for line in lines) + "\n"


def escape(text: str) -> str:
    """Plain text as LaTeX source."""
    return "".join(_SPECIAL.get(character, character) for character in " ".join(text.split()))


def _body(made: Table) -> list[str]:
    """A rule before each kind of directions, and one before its averages."""
    lines = []
    before: tuple[str, bool] | None = None
    for row in made.rows:
        if (row.kind, row.average) != before:
            rule = "\\midrule" if not row.average else "\\cmidrule(lr){1-" + _last(row) + "}"
            lines.append(f"    {rule}")
        before = (row.kind, row.average)
        label = f"\\emph{{{escape(row.label)}}}" if row.average else escape(row.label)
        cells = [*map(_cell, row.cells), *_published(row, made)]
        lines.append(f"    {label} & {' & '.join(cells)} \\\\")
    return lines


def _last(row: Row) -> str:
    return str(len(row.cells) + len(row.published) + 1)


def _published(row: Row, made: Table) -> list[str]:
    pairs = zip(row.published, made.published, strict=True)
    return [f"\\textcolor{{gray}}{{{text}}}" if of.apart else text for text, of in pairs]


def _cell(cell: Cell) -> str:
    text = "--" if cell.value is None else score(cell.value)
    return (f"\\textbf{{{text}}}" if cell.best else text) + cell.mark


def _caption(report: Report, made: Table) -> str:
    said = [
        f"{NAMES[made.metric]} by direction; in bold the best of a row. {report.answer.measured}"
    ]
    if made.marked:
        said.append(f"{MARK} different from {report.systems[0].label} {MEANING}.")
    if made.published:
        said.append(published_explained(made.published))
    return " ".join(said)


def _signatures(report: Report, metric: Metric) -> list[str]:
    rows = report.main.evaluation.by_direction
    found = {(row.bleu if metric == "bleu" else row.chrf).signature for row in rows}
    # A line break would end the comment.
    return [re.sub(r"\s+", " ", f"{NAMES[metric]} {signature}") for signature in sorted(found)]


def _marked(line: str) -> str:
    for mark, sign in _SIGNS.items():
        line = line.replace(mark, sign)
    return line
