"""An evaluation for the terminal: the matrix of directions, and the averages."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from accord.evaluation.records import Average, DirectionScores, Evaluation
from accord.evaluation.significance import Comparison

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

_NAMES = {
    "supervised": "supervised",
    "zero_shot": "zero-shot",
    "zero_shot_via_pivot": "… via pivot",
    "zero_shot_by_ensemble": "… ensemble",
    "iwslt_4": "IWSLT 4",
    "iwslt_4_via_pivot": "IWSLT 4 via pivot",
    "iwslt_4_by_ensemble": "IWSLT 4 ensemble",
    "iwslt_12": "IWSLT 12",
    "iwslt_12_via_pivot": "IWSLT 12 via pivot",
    "iwslt_12_by_ensemble": "IWSLT 12 ensemble",
}


def tables(evaluation: Evaluation, comparison: Comparison | None = None) -> "Group":
    """BLEU of every direction, averages of everything, and the bounds of Definition 1."""
    from rich.console import Group
    from rich.text import Text

    parts: list[object] = [_matrix(evaluation)]
    if evaluation.by_ensemble:
        parts.append(_ensemble(evaluation))
    parts.append(_averages(evaluation))
    told = [
        f"{_NAMES.get(name, name)} {mean.mixed:.1%}"
        for name, mean in evaluation.averages.items()
        if mean.mixed is not None
    ]
    if told:
        parts.append(Text(f"Mixed languages (off-target is a lower bound): {', '.join(told)}"))
    if evaluation.comet_signature:
        listed = ", ".join(
            f"{_NAMES.get(name, name)} {mean.comet:.4f}"
            for name, mean in evaluation.averages.items()
            if mean.comet is not None
        )
        parts.append(Text(f"COMET ({evaluation.comet_signature}): {listed}"))
    if evaluation.consistency is not None:
        bounds = evaluation.consistency.per_token
        parts.append(
            Text(
                f"Consistency: largest loss {bounds.epsilon:.3f} nats/token where there is "
                f"data ({bounds.epsilon_direction}), {bounds.kappa:.3f} where there is none "
                f"({bounds.kappa_direction}): {bounds.ratio:.1f} times"
            )
        )
    if evaluation.agreement is not None:
        means = evaluation.agreement.bleu
        listed = ", ".join(f"{name.replace('_', '-')} {value:.1f}" for name, value in means.items())
        parts.append(Text(f"Agreement of translations into a third language, BLEU: {listed}"))
    parts += [Text(f"note: {note}") for note in evaluation.notes]
    if comparison is not None:
        parts.append(_comparison(comparison))
    parts.append(Text(evaluation.by_direction[0].bleu.signature, style="dim"))
    return Group(*parts)  # type: ignore[arg-type]


def _matrix(evaluation: Evaluation) -> "Table":
    table = _table("BLEU (○ zero-shot; in brackets via pivot)", "from \\ to", *evaluation.languages)
    direct = {row.direction: row for row in evaluation.directions}
    pivot = {row.direction: row for row in evaluation.via_pivot}
    cells = {
        row.direction: _cell(row, direct.get(row.direction), pivot.get(row.direction))
        for row in evaluation.by_direction
    }
    _fill(table, evaluation.languages, cells)
    return table


def _ensemble(evaluation: Evaluation) -> "Table":
    title = f"BLEU of the ensemble {evaluation.by_ensemble[0].ensemble}"
    table = _table(title, "from \\ to", *evaluation.languages)
    cells = {row.direction: _cell(row, row) for row in evaluation.by_ensemble}
    _fill(table, evaluation.languages, cells)
    return table


def _fill(table: "Table", languages: Sequence[str], cells: Mapping[str, str]) -> None:
    for source in languages:
        table.add_row(source, *(cells.get(f"{source}-{target}", "") for target in languages))


def _cell(
    row: DirectionScores, direct: DirectionScores | None, pivot: DirectionScores | None = None
) -> str:
    mark = "○ " if row.kind == "zero-shot" else ""
    alone = f"{direct.bleu.score:.1f}" if direct is not None else "–"
    through = f" ({pivot.bleu.score:.1f})" if pivot is not None else ""
    return f"{mark}{alone}{through}"


def _averages(evaluation: Evaluation) -> "Table":
    table = _table(
        "Means over directions",
        "", "BLEU", "chrF", "off-tgt", "length", "copied", "loops", "exact", "nats",
    )  # fmt: skip
    for name, average in evaluation.averages.items():
        table.add_row(f"{_NAMES.get(name, name)} ({len(average.directions)})", *_figures(average))
    return table


def _figures(average: Average) -> list[str]:
    return [
        f"{average.bleu:.1f} ±{average.bleu_confidence:.1f}",
        f"{average.chrf:.1f}",
        "?" if average.off_target is None else f"{average.off_target:.1%}",
        f"{average.length_ratio:.2f}",
        f"{average.copy_rate:.1%}",
        f"{average.repetition_rate:.1%}",
        f"{average.exact_match:.1%}",
        "" if average.cross_entropy is None else f"{average.cross_entropy:.3f}",
    ]


def _comparison(comparison: Comparison) -> "Table":
    table = _table(
        f"Against {comparison.theirs.run}, BLEU", "", "ours", "theirs", "difference", "95 %", "p"
    )
    for name, row in comparison.averages.items():
        test = row.bleu
        table.add_row(
            _NAMES.get(name, name),
            f"{test.ours:.1f}",
            f"{test.theirs:.1f}",
            f"{test.difference:+.1f}",
            f"{test.low:+.1f} … {test.high:+.1f}",
            f"{test.p:.3f}",
        )
    return table


def _table(title: str, *columns: str) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=True)
    return table
