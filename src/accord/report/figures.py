"""The figures behind the pictures: per direction, over time, consistency, environment."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accord.evaluation.records import DirectionScores, Evaluation
from accord.evaluation.uses import counted
from accord.graph import KINDS
from accord.report.contents import Report, ReportedRun, Validation
from accord.report.numbers import NONE, count, nats, percent, score

# --- Plain tables of text: written once, shown as HTML and as Markdown.


@dataclass(frozen=True)
class Grid:
    """A table; its first column names the rows."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    prose: bool = False
    """Whether cells are words, which stand on the left; numbers stand on the right."""


def grid(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, prose: bool = False
) -> Grid:
    """A table of any rows."""
    return Grid(caption, tuple(head), tuple(tuple(row) for row in rows), prose)


_MOST_STEPS = 20


def all_figures(run: ReportedRun) -> Grid:
    """Everything that was measured in every direction."""
    scores = ["BLEU", "± 95 %", "BLEU lowercase", "chrF2", "± 95 %"]
    rates = [
        "off target",
        "mixed",
        "length ratio",
        "copied",
        "repetitive",
        "exact",
        "nats a subword",
    ]
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
        percent(row.mixed),
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
    for row in report.main.evaluation.by_direction:
        for each in (row.bleu, row.bleu_lowercase, row.chrf):
            found.setdefault((each.name, each.signature), []).append(row.direction)
    everywhere = len(report.main.evaluation.by_direction)
    rows = [
        [name, signature, "all" if len(held) == everywhere else ", ".join(held)]
        for (name, signature), held in found.items()
    ]
    return grid("Signatures of the scores", ["score", "signature", "directions"], rows, prose=True)


def scored(report: Report) -> Grid:
    """How often every run has scored which sentences; those of the test set should be few."""
    rows = [
        [
            run.label,
            f"{same.split}, {same.set}",
            f"{count(same.first)} to {count(same.last)}",
            count(len(uses)),
            count(len({(use.checkpoint, use.step) for use in uses})),
            uses[0].date[:10],
            uses[-1].date[:10],
            same.references[:12],
        ]
        for run in report.runs
        for same, uses in counted(run.uses).items()
    ]
    head = ["run", "set", "lines", "times", "checkpoints", "first", "last", "SHA-256 of references"]
    return grid("How often sentences were scored, as noted in scored.jsonl", head, rows)


def environments(report: Report) -> Grid:
    """What each run was trained and evaluated with, a column a run."""
    facts = [_facts(run) for run in report.runs]
    rows = [[key, *(_text(each.get(key)) for each in facts)] for key in facts[0]]
    head = ["", *(run.label for run in report.runs)]
    return grid("What was trained and evaluated with what", head, rows, prose=True)


def _facts(run: ReportedRun) -> dict[str, Any]:
    evaluation, origin = run.evaluation, run.evaluation.origin
    search = ", ".join(f"{key} {value}" for key, value in evaluation.search.items())
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
        "evaluation: search": search or "its own",
    }


def _text(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(map(str, value))
    return NONE if value is None else str(value)


# --- Where the training data went: lines of each corpus by step, and pivot sentences in common.


def accounts(report: Report) -> tuple[Grid, ...]:
    """The tables of every data set that a run of the report was trained on."""
    found: list[Grid] = []
    for fingerprint, labels in _by_data(report).items():
        manifest = next(
            run.manifest for run in report.runs if run.manifest["fingerprint"] == fingerprint
        )
        of = f" ({', '.join(labels)})" if len(labels) < len(report.runs) else ""
        found += [_corpora(manifest, of), _overlap(manifest, of), _held_out(manifest, of)]
    return tuple(item for item in found if item.rows)


def _by_data(report: Report) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for run in report.runs:
        found.setdefault(run.manifest["fingerprint"], []).append(run.label)
    return found


def _corpora(manifest: Mapping[str, Any], of: str) -> Grid:
    """Lines read, dropped by each step that dropped any, kept; and what they amount to."""
    corpora: Sequence[Mapping[str, Any]] = manifest["corpora"]
    dropped = [{s["step"]: s["dropped"] for s in corpus["steps"]} for corpus in corpora]
    steps = [step for step in dropped[0] if any(item.get(step) for item in dropped)]
    rows = [
        [
            corpus["pair"],
            count(corpus["read"]),
            *(f"−{count(item[step])}" if item.get(step) else NONE for step in steps),
            count(corpus["lines"]),
            count(sum(corpus["tokens"].values())),
        ]
        for corpus, item in zip(corpora, dropped, strict=True)
    ]
    if len(corpora) > 1:
        totals = [sum(item.get(step, 0) for item in dropped) for step in steps]
        rows.append(
            [
                "all",
                count(sum(corpus["read"] for corpus in corpora)),
                *(f"−{count(total)}" for total in totals),
                count(sum(corpus["lines"] for corpus in corpora)),
                count(sum(sum(corpus["tokens"].values()) for corpus in corpora)),
            ]
        )
    head = ["corpus", "read", *(step.replace("_", " ") for step in steps), "kept", "subwords"]
    return grid(f"Lines of the training corpora{of}", head, rows)


def _overlap(manifest: Mapping[str, Any], of: str) -> Grid:
    """Pivot sentences that two corpora share: a zero-shot pair's should be none afterwards."""
    before, after = manifest["overlap"]["before"], manifest["overlap"]["after"]
    rows = [
        [
            f"{one['first']} and {one['second']}",
            one["pivot"],
            "yes" if one["zero_shot"] else "no",
            count(one["strings"]),
            count(other["strings"]),
        ]
        for one, other in zip(before, after, strict=True)
    ]
    mode = manifest["settings"]["overlap"]["mode"]
    head = ["corpora", "pivot", "zero-shot pair", "before", "after"]
    return grid(f"Pivot sentences in common, overlap {mode}{of}", head, rows)


def _held_out(manifest: Mapping[str, Any], of: str) -> Grid:
    rows = [
        [f"{split}, {item['name']}", ", ".join(item["languages"]), count(item["lines"])]
        for split, items in manifest["held_out"].items()
        for item in items
    ]
    return grid(f"Held-out sets{of}", ["set", "languages", "lines"], rows)
