"""The report as one HTML file that needs nothing else: no network, no other files."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

import accord
from accord import graph_drawing as drawing
from accord.config.load import dump
from accord.files import atomic_write
from accord.graph import direction_name, language_name
from accord.report import figures
from accord.report.answer import QUESTION
from accord.report.charts import Chart, consistency_chart, learning_curves, svg, swatch
from accord.report.contents import Report
from accord.report.examples import examples
from accord.report.figures import accounts
from accord.report.heatmap import bleu_maps, off_target_maps
from accord.report.latex import latex
from accord.report.numbers import count, percent, score, span
from accord.report.paper_table import MARK, MEANING, NAMES, table

if TYPE_CHECKING:
    from collections.abc import Mapping


def write_html(report: Report, path: Path) -> None:
    """Write the page; an earlier one is replaced only when all of the new one is on disk."""
    page = html(report)
    with atomic_write(path) as file:
        file.write(page)


def html(report: Report) -> str:
    """The page."""
    return _environment().get_template("report.html.j2").render(_context(report))


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    # Sentences come from anywhere: everything is escaped unless we made it ourselves (Markup).
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("accord.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "score": score,
        "percent": percent,
        "count": count,
        "language": language_name,
        "direction": direction_name,
    }
    return environment


def _context(report: Report) -> "Mapping[str, Any]":
    consistent = consistency_chart(report)
    return {
        "report": report,
        "question": QUESTION,
        "version": accord.__version__,
        "graph": Markup(drawing.svg(report.main.experiment.graph)),
        "bleu_maps": bleu_maps(report),
        "off_target_maps": off_target_maps(report),
        "checked": span([row.off_target_checked for row in report.main.evaluation.by_direction]),
        "tables": [table(report.systems, metric) for metric in NAMES],
        "names": NAMES,
        "mark": f"{MARK} different from {report.systems[0].label} {MEANING}",
        "latex": latex(report),
        "curves": [_drawn(chart) for chart in learning_curves(report)],
        "consistent": _drawn(consistent) if consistent else None,
        "validated": any(run.history.bounds() for run in report.runs),
        "consistency": figures.consistency(report),
        "validations": [figures.validations(run) for run in report.runs if run.history.validations],
        "accounts": accounts(report),
        "examples": examples(report),
        "figures": [figures.all_figures(run) for run in report.runs],
        "signatures": figures.signatures(report),
        "environments": figures.environments(report),
        "scored": figures.scored(report),
        "experiments": [(run.label, dump(run.experiment)) for run in report.runs],
    }


@dataclass(frozen=True)
class _Drawn:
    """A chart ready for the page."""

    title: str
    svg: Markup
    legend: tuple[tuple[Markup, str], ...]


def _drawn(chart: Chart) -> _Drawn:
    legend = tuple((swatch(series), series.label) for series in chart.series)
    return _Drawn(chart.title, svg(chart), legend)
