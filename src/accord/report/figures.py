"""The figures behind the pictures: per direction, over time, consistency, environment."""

from collections.abc import Sequence
from typing import Any

from accord.evaluation.result import DirectionScores, Evaluation
from accord.report.data import Report, ReportedRun
from accord.report.grid import Grid, grid
from accord.report.history import KINDS, Validation
from accord.report.numbers import NONE, count, nats, percent, score

_MOST_STEPS = 20


def all_figures(run: ReportedRun) -> Grid:
    """Everything that was measured in every direction."""
    scores = ["BLEU", "± 95 %", "BLEU lowercase", "chrF2", "± 95 %"]
    rates = ["off target", "length ratio", "copied", "repetitive", "exact", "nats a subword"]
    head = ["direction", "kind", "sentences", *scores, *rates]
    return grid(f"All figures of {run.label}", head, map(_figures, run.evaluation.rows))


def _figures(row: DirectionScores) -> list[str]:
    way = f" via {', '.join(row.via)}" if row.via else ""
    way += f" by {row.ensemble}" if row.ensemble else ""
    return [
        row.direction + way,
        row.kind,
        count(row.sentences),
        score(row.bleu.score),
        score(row.bleu.confidence_var),
        score(row.bleu_lowercase.score),
        score(row.chrf.score),
        score(row.chrf.confidence_var),
        percent(row.off_target),
        f"{row.length_ratio:.2f}",
        percent(row.copy_rate),
        percent(row.repetition_rate),
        percent(row.exact_match),
        nats(row.cross_entropy),
    ]


def consistency(report: Report) -> Grid:
    """The bounds of Definition 1, and how far parallel sentences are translated alike."""
    columns = [_consistency(run.evaluation) for run in report.runs]
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    head = ["", *(run.label for run in report.runs)]
    return grid(f"Consistency on the {report.main.evaluation.split} set", head, rows)


def _consistency(evaluation: Evaluation) -> dict[str, str]:
    bounds = evaluation.consistency.per_token if evaluation.consistency else None
    agreed = evaluation.agreement.bleu if evaluation.agreement else {}
    return {
        "ε, largest loss with data": nats(bounds.epsilon) if bounds else NONE,
        "direction of ε": bounds.epsilon_direction if bounds else NONE,
        "κ, largest loss without": nats(bounds.kappa) if bounds else NONE,
        "direction of κ": bounds.kappa_direction if bounds else NONE,
        "κ / ε": f"{bounds.ratio:.2f}" if bounds else NONE,
        "agreement, supervised": score(agreed.get("supervised")),
        "agreement, zero-shot": score(agreed.get("zero_shot")),
    }


def validations(run: ReportedRun) -> Grid:
    """Scores on the dev set over time; at most twenty steps, the last one among them."""
    found = run.history.validations
    stride = -(-len(found) // _MOST_STEPS) or 1
    chosen = found[::-1][::stride][::-1]
    head = ["step", *(f"{what}, {kind}" for what in ("nats", "BLEU") for kind in KINDS), "ε", "κ"]
    return grid(f"Dev set during the training of {run.label}", head, map(_validation, chosen))


def _validation(item: Validation) -> list[str]:
    return [
        count(item.step),
        *(nats(item.mean(kind, "cross_entropy")) for kind in KINDS),
        *(score(item.mean(kind, "bleu")) for kind in KINDS),
        *(nats(item.worst(kind)) for kind in KINDS),
    ]


def signatures(report: Report) -> Grid:
    """sacreBLEU's signatures with the directions they hold for."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in report.main.evaluation.directions:
        for each in (row.bleu, row.bleu_lowercase, row.chrf):
            found.setdefault((each.name, each.signature), []).append(row.direction)
    everywhere = len(report.main.evaluation.directions)
    rows = [
        [name, signature, "all" if len(held) == everywhere else ", ".join(held)]
        for (name, signature), held in found.items()
    ]
    return grid("Signatures of the scores", ["score", "signature", "directions"], rows, prose=True)


def environments(report: Report) -> Grid:
    """What each run was trained and evaluated with, a column a run."""
    facts = [_facts(run) for run in report.runs]
    rows = [[key, *(_text(each.get(key)) for each in facts)] for key in facts[0]]
    head = ["", *(run.label for run in report.runs)]
    return grid("What was trained and evaluated with what", head, rows, prose=True)


def _facts(run: ReportedRun) -> dict[str, Any]:
    evaluation, origin = run.evaluation, run.evaluation.origin
    trained = {f"training: {key}": value for key, value in run.environment.items()}
    return {
        "experiment": run.experiment.name,
        "seed": run.experiment.training_seed,
        "data": run.manifest["fingerprint"],
        **trained,
        "evaluation: name": evaluation.name,
        "evaluation: date": evaluation.date,
        "evaluation: accord": evaluation.accord,
        "evaluation: device": f"{origin.device}, {origin.precision}",
        "evaluation: seconds": f"{evaluation.seconds:.1f}",
        "evaluation: search": ", ".join(f"{k} {v}" for k, v in evaluation.search.items()),
    }


def _text(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(map(str, value))
    return NONE if value is None else str(value)
