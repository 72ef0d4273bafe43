"""Runs compared, as JSON: small, and enough to tell where every figure is from."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import accord
from accord.evaluation.records import DirectionScores
from accord.evaluation.uses import counted, uses_of
from accord.machine import commit
from accord.report.contents import History, ReportedRun
from accord.studies.compare import AVERAGES, ComparedRuns

DIGITS = 4
"""Of figures in JSON."""
_ROUND = ("pairs", "kept", "seconds")  # what JSON says of a round of synthetic pairs


def figures(found: ComparedRuns, command: Sequence[str]) -> dict[str, Any]:
    """All figures as plain data; `command` is the one that compared them."""
    return {
        "evaluation": found.evaluation,
        "how": found.how,
        "command": shlex.join(command),
        "accord": accord.__version__,
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "runs": [_run_figures(run, _speed_of(found)) for run in found.runs],
        "against": found.against,
        "differences": [
            {
                "run": gain.run,
                "what": gain.what,
                **_rounded(asdict(gain.test)),
                "directions": {
                    name: _rounded(asdict(test)) for name, test in gain.directions.items()
                },
            }
            for gain in found.gains
        ],
        "notes": list(found.notes),
    }


def _speed_of(found: ComparedRuns) -> float | None:
    """Gold tokens per second of the run that costs are measured by."""
    return next((run.history.gold_speed for run in found.runs if run.label == found.against), None)


def _run_figures(run: ReportedRun, usual: float | None) -> dict[str, Any]:
    origin, known = run.evaluation.origin, run.environment
    means = {
        column: mean
        for column, group in AVERAGES.items()
        if (mean := run.evaluation.averages.get(group))
    }
    return {
        "run": run.label,
        "checkpoint": origin.checkpoint,
        "updates": origin.step,
        "seconds": run.history.seconds,
        **_course_figures(run.history, usual),
        "data": run.manifest["fingerprint"],
        "times scored": _times(run),
        "command": shlex.join(["accord", *map(str, (known.get("command") or [])[1:])]),
        "commit": known.get("commit"),
        "trained on": known.get("device"),
        "evaluated on": f"{origin.device}, {origin.precision}",
        "date": run.evaluation.date[:10],
        "bleu": {
            column: _rounded({"mean": mean.bleu, "half_width": mean.bleu_confidence})
            for column, mean in means.items()
        },
        "off_target": _rounded({column: mean.off_target for column, mean in means.items()}),
        "exact_match": _rounded({column: mean.exact_match for column, mean in means.items()}),
        "directions": {row.name: _direction_figures(row) for row in run.evaluation.rows},
    }


def _course_figures(history: History, usual: float | None) -> dict[str, Any]:
    """How training went: speed, cost per gold token against the `usual` speed, rounds, validations.

    All of the run's own updates: those before a branch are in the log of another run.
    """
    speed = history.gold_speed
    kinds = [(k, w) for k in ("supervised", "zero-shot") for w in ("cross_entropy", "bleu")]
    return {
        "gold tokens per second": None if speed is None else round(speed),
        "cost": round(usual / speed, DIGITS) if usual and speed else None,
        "rounds": [{key: line.get(key) for key in _ROUND} for line in history.rounds],
        "validations": {
            str(item.step): _rounded(
                {"seconds": item.seconds}
                | {
                    f"{kind} {what.replace('_', '-')}": item.mean(kind, what)
                    for kind, what in kinds
                }
            )
            for item in history.validations
        },
    }


def _direction_figures(row: DirectionScores) -> dict[str, Any]:
    return _rounded(
        {
            "bleu": row.bleu.score,
            "half_width": row.bleu.confidence_var,
            "off_target": row.off_target,
            "exact_match": row.exact_match,
        }
    )


def _times(run: ReportedRun) -> dict[str, int]:
    """How often the run has scored the sentences of each set that the figures are of."""
    known = counted(run.uses)
    own = counted(uses_of(run.evaluated))
    return {same.set: len(known.get(same, ())) for same in own}


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {key: None if value is None else round(value, DIGITS) for key, value in values.items()}
