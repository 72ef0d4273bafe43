"""The table of a comparison of branches, from the evaluations that their runs have so far."""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from where import where

COLUMNS = {
    "supervised": ("directions", "supervised"),
    "zero-shot": ("directions", "zero-shot"),
    "via pivot": ("via_pivot", "zero-shot"),
    "ensemble": ("by_ensemble", "zero-shot"),
}


def evaluations(run: Path) -> list[Path]:
    return sorted(run.glob("evaluation/[!.]*/evaluation.json"))


def means(evaluation: Path, column: str) -> list[float]:
    """BLEU of the directions that make up a column; none where it was not evaluated."""
    key, kind = COLUMNS[column]
    rows = loaded(evaluation).get(key) or []
    return [row["bleu"]["score"] for row in rows if row["kind"] == kind]


def bleu(evaluation: Path, column: str) -> float:
    return statistics.mean(means(evaluation, column))


def table(rows: Mapping[str, Sequence[Path]], against: str | None) -> str:
    """Mean BLEU over directions, every seed; then the mean over seeds. One table an evaluation."""
    found = [file for runs in rows.values() for run in runs for file in evaluations(run)]
    lines = [where()]
    for name in dict.fromkeys(file.parent.name for file in found):
        gain = [f"zero-shot − {against}"] if against else []
        head = [name, "updates", "seconds", *COLUMNS, *gain]
        lines += ["", f"| {' | '.join(head)} |", "|--|--:|--:|" + "--|" * (len(head) - 3)]
        for label, runs in rows.items():
            files = [file for run in runs for file in evaluations(run) if file.parent.name == name]
            if files:
                lines.append(f"| {label} | {' | '.join(cells(files, bool(against)))} |")
    return "\n".join(lines) + "\n"


def cells(files: Sequence[Path], tested: bool) -> Iterator[str]:
    last = [last_line(file.parents[2] / "metrics.jsonl") for file in files]
    seconds = [line.get("training_seconds") for line in last]
    yield " / ".join(f"{loaded(file)['origin']['step']:,}" for file in files)
    yield " / ".join("?" if some is None else f"{some:.0f}" for some in seconds)
    for column in COLUMNS:
        values = [bleu(file, column) for file in files if means(file, column)]
        each = ", ".join(f"{value:.1f}" for value in values)
        yield f"**{statistics.mean(values):.1f}** ({each})" if len(values) > 1 else each
    if tested:
        yield ", ".join(gain(path) for file in files for path in file.parent.glob("against-*.json"))


def gain(comparison: Path) -> str:
    """The difference of the zero-shot means, with its 95 % interval."""
    averages = loaded(comparison)["averages"]
    if "zero_shot" not in averages:
        return ""
    found = averages["zero_shot"]["bleu"]
    return f"{found['difference']:+.2f} ({found['low']:+.2f} to {found['high']:+.2f})"


def last_line(metrics: Path) -> dict[str, Any]:
    """The last that training logged; empty where it was stopped before."""
    found: dict[str, Any] = {}
    for line in metrics.read_text(encoding="utf-8").splitlines():
        with suppress(ValueError):  # being written, or cut off by a kill
            values = json.loads(line)
            found = values if values["kind"] == "train" else found
    return found


def loaded(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
