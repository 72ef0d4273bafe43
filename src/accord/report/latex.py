"""The table of the paper for a LaTeX document (needs the package booktabs)."""

import re

from accord.report.contents import Report
from accord.report.numbers import NONE, score
from accord.report.paper_table import MARK, MEANING, NAMES, Cell, Metric, Row, table

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "−": "$-$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{character: f"${character}$" for character in "<>"},  # other signs in the old encoding
}


def latex(report: Report, metric: Metric = "bleu") -> str:
    """A table environment with all systems; the best of a row is bold, significance is marked."""
    made = table(report.systems, metric)
    heads = " & ".join(escape(system.label) for system in made.systems)
    lines = [
        "% \\usepackage{booktabs}",
        *(f"% {signature}" for signature in _signatures(report, metric)),
        "\\begin{table}",
        "  \\centering",
        f"  \\begin{{tabular}}{{l{'r' * len(made.systems)}}}",
        "    \\toprule",
        f"    direction & {heads} \\\\",
        *_body(made.rows),
        "    \\bottomrule",
        "  \\end{tabular}",
        f"  \\caption{{{escape(_caption(report, metric, made.marked))}}}",
        "\\end{table}",
    ]
    return "\n".join(_marked(line) for line in lines) + "\n"


def escape(text: str) -> str:
    """Plain text as LaTeX source."""
    return "".join(_SPECIAL.get(character, character) for character in " ".join(text.split()))


def _body(rows: tuple[Row, ...]) -> list[str]:
    """A rule before each kind of directions, and one before its averages."""
    lines = []
    before: tuple[str, bool] | None = None
    for row in rows:
        if (row.kind, row.average) != before:
            rule = "\\midrule" if not row.average else "\\cmidrule(lr){1-" + _last(row) + "}"
            lines.append(f"    {rule}")
        before = (row.kind, row.average)
        label = f"\\emph{{{escape(row.label)}}}" if row.average else escape(row.label)
        lines.append(f"    {label} & {' & '.join(map(_cell, row.cells))} \\\\")
    return lines


def _last(row: Row) -> str:
    return str(len(row.cells) + 1)


def _cell(cell: Cell) -> str:
    text = "--" if cell.value is None else score(cell.value)
    return (f"\\textbf{{{text}}}" if cell.best else text) + cell.mark


def _caption(report: Report, metric: Metric, marked: bool) -> str:
    said = [f"{NAMES[metric]} by direction; in bold the best of a row. {report.answer.measured}"]
    if marked:
        said.append(f"{MARK} different from {report.systems[0].label} {MEANING}.")
    return " ".join(said)


def _signatures(report: Report, metric: Metric) -> list[str]:
    rows = report.main.evaluation.by_direction
    found = {(row.bleu if metric == "bleu" else row.chrf).signature for row in rows}
    # A line break would end the comment.
    return [re.sub(r"\s+", " ", f"{NAMES[metric]} {signature}") for signature in sorted(found)]


def _marked(line: str) -> str:
    return line.replace(MARK, r"$^{\dagger}$").replace(NONE, "--")
