"""The charts of a report: learning curves, and consistency over time."""

from collections.abc import Callable

from accord.report.data import Report, ReportedRun
from accord.report.history import KINDS, History, Points
from accord.report.numbers import count
from accord.report.plots import Chart, Series, log_worthwhile

_WORST = {"supervised": "ε: largest loss with data, nats", "zero-shot": "κ: largest loss without"}


def learning_curves(report: Report) -> tuple[Chart, ...]:
    """Training loss, and loss and BLEU on the dev set by kind of direction; empty ones left out."""
    loss = _by_run(report, lambda history: history.training)
    entropy = _by_kind(report, "cross_entropy")
    bleu = _by_kind(report, "bleu")
    steps = "step"
    charts = (
        Chart("Training loss", steps, "nats a subword", loss, log_y=log_worthwhile(loss)),
        Chart("Loss on the dev set", steps, "nats a subword", entropy,
              log_y=log_worthwhile(entropy)),
        Chart("BLEU on the dev set (greedy)", steps, "BLEU", bleu),
    )  # fmt: skip
    return tuple(chart for chart in charts if chart.series)


def consistency_chart(report: Report) -> Chart | None:
    """Epsilon against kappa: the course on the dev set, and where the evaluated model stands."""
    series = []
    for i, run in enumerate(report.runs):
        series += [each for each in (_course(run, i), _evaluated(run, i)) if each]
    if not series:
        return None
    return Chart(
        "Consistency over time",
        _WORST["supervised"],
        _WORST["zero-shot"],
        tuple(series),
        log_x=True,
        log_y=True,
        square=True,
    )


def _course(run: ReportedRun, number: int) -> Series | None:
    found = run.history.bounds()
    if not found:
        return None
    points = tuple((epsilon, kappa) for _, epsilon, kappa in found)
    names = tuple(f"step {count(step)}" for step, _, _ in found)
    return Series(f"{run.label}, dev set during training", points, number, names=names)


def _evaluated(run: ReportedRun, number: int) -> Series | None:
    found = run.evaluation.consistency
    if found is None:
        return None
    name = f"{run.label}, {run.evaluation.split} set"
    return Series(name, ((found.per_token.epsilon, found.per_token.kappa),), number, dotted=True)


def _by_run(report: Report, points: Callable[[History], Points]) -> tuple[Series, ...]:
    return tuple(
        Series(run.label, found, i)
        for i, run in enumerate(report.runs)
        if (found := points(run.history))
    )


def _by_kind(report: Report, what: str) -> tuple[Series, ...]:
    """With one run the colour tells the kind, with several the run; dots always the kind."""
    several = len(report.runs) > 1
    return tuple(
        Series(
            f"{run.label}, {kind}" if several else kind,
            found,
            i if several else KINDS.index(kind),
            dotted=kind == "zero-shot",
        )
        for i, run in enumerate(report.runs)
        for kind in KINDS
        if (found := run.history.course(kind, what))
    )
