"""Where the training data went: lines of each corpus by step, and pivot sentences in common."""

from collections.abc import Mapping, Sequence
from typing import Any

from accord.report.data import Report
from accord.report.grid import Grid, grid
from accord.report.numbers import NONE, count


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
