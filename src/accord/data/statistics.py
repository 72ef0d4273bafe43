"""What a store holds and how it came about, as data and as tables for the terminal."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from accord.config.schema import Experiment
from accord.data.encode import BUCKET
from accord.data.store import Store

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


_TERMINAL = 80  # columns


def statistics(store: Store, experiment: Experiment) -> dict[str, Any]:
    """The data table of the paper, tokens, lengths, accounting and overlap, ready for JSON."""
    manifest = store.manifest
    train = {
        tuple(direction): entry["lines"]
        for entry in manifest["corpora"]
        for direction in entry["directions"]
    }
    directions = [
        {
            "direction": str(direction),
            "kind": experiment.data_graph.kind(direction),
            "train": train.get(direction, 0),
            "dev": _held_out_lines(manifest, "dev", *direction),
            "test": _held_out_lines(manifest, "test", *direction),
        }
        for direction in experiment.data_graph.directions
    ]
    languages = {}
    for language in manifest["languages"]:
        entries = [entry for entry in manifest["corpora"] if language in entry["languages"]]
        lines = sum(entry["lines"] for entry in entries)
        tokens = sum(entry["tokens"][language] for entry in entries)
        languages[language] = {
            "lines": lines,
            "tokens": tokens,
            "tokens_per_line": tokens / lines if lines else 0.0,
            "histogram": _added([entry["histogram"][language] for entry in entries]),
        }
    return {
        "experiment": manifest["experiment"],
        "fingerprint": manifest["fingerprint"],
        "vocabulary": manifest["vocabulary"],
        "directions": directions,
        "languages": languages,
        "histogram_bucket": BUCKET,
        "corpora": [
            {key: entry[key] for key in ("pair", "read", "mended", "steps", "lines", "tokens")}
            for entry in manifest["corpora"]
        ],
        "held_out": manifest["held_out"],
        "overlap": manifest["overlap"],
    }


def _held_out_lines(manifest: dict[str, Any], split: str, source: str, target: str) -> int:
    for entry in manifest["held_out"].get(split, []):
        if source in entry["languages"] and target in entry["languages"]:
            return int(entry["lines"])
    return 0


def _added(histograms: list[list[int]]) -> list[int]:
    width = max(map(len, histograms), default=0)
    return [sum(h[i] for h in histograms if i < len(h)) for i in range(width)]


def tables(facts: dict[str, Any]) -> "Group":
    """The statistics for a person to read."""
    from rich.console import Group

    return Group(
        *_accounting(facts), _overlap(facts), _directions(facts), _languages(facts), _joined(facts)
    )


def _table(title: str | None, *columns: str) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        left = i == 0 or column in ("lengths", "how")
        table.add_column(column, justify="left" if left else "right", no_wrap=column != "how")
    return table


def _accounting(facts: dict[str, Any]) -> Iterator["Table"]:
    """A column for each corpus: as many in one table as a terminal has room for."""
    corpora = facts["corpora"]
    rows = {"lines read": [f"{entry['read']:,}" for entry in corpora]}
    for step in dict.fromkeys(step["step"] for entry in corpora for step in entry["steps"]):
        if step != "read":
            dropped = (_dropped(entry, step) for entry in corpora)
            rows[f"− {step}"] = [f"{n:,}" if n else "·" for n in dropped]
    rows["= training lines"] = [f"{entry['lines']:,}" for entry in corpora]
    for step in dict.fromkeys(step for entry in corpora for step in entry["mended"]):
        rows[f"mended: {step}"] = [f"{entry['mended'].get(step, 0):,}" for entry in corpora]
    columns = [entry["pair"] for entry in corpora], *rows.values()
    widest = max(len(cell) for cells in columns for cell in cells)
    beside = max(1, (_TERMINAL - max(map(len, rows)) - 2) // (widest + 3))
    if len(corpora) > beside:  # steps that dropped nothing would be repeated in every table
        rows = {name: figures for name, figures in rows.items() if set(figures) != {"·"}}
    for some in (slice(first, first + beside) for first in range(0, len(corpora), beside)):
        title = None if some.start else "Every line accounted for"
        table = _table(title, "", *(entry["pair"] for entry in corpora[some]))
        for name, figures in rows.items():
            bold, dim = name.startswith("="), name.startswith("mended")
            table.add_row(name, *figures[some], style="bold" if bold else "dim" if dim else None)
        yield table


def _dropped(entry: dict[str, Any], step: str) -> int:
    return next((s["dropped"] for s in entry["steps"] if s["step"] == step), 0)


def _overlap(facts: dict[str, Any]) -> "Table":
    table = _table("Pivot sentences in two corpora", "corpora", "pivot", "pair", "before", "after")
    for before, after in zip(facts["overlap"]["before"], facts["overlap"]["after"], strict=True):
        table.add_row(
            f"{before['first']} {before['second']}",
            before["pivot"],
            "zero-shot" if before["zero_shot"] else "supervised",
            f"{before['strings']:,}",
            f"{after['strings']:,}",
        )
    return table


def _directions(facts: dict[str, Any]) -> "Table":
    table = _table("Directions", "direction", "train", "dev", "test")
    for row in facts["directions"]:
        train = f"{row['train']:,}" if row["kind"] == "supervised" else "zero-shot"
        table.add_row(row["direction"], train, f"{row['dev']:,}", f"{row['test']:,}")
    return table


def _languages(facts: dict[str, Any]) -> "Table":
    table = _table(
        f"Languages ({facts['vocabulary']['size']:,} subwords)",
        "language", "lines", "tokens", "a line", "lengths",
    )  # fmt: skip
    for language, row in facts["languages"].items():
        table.add_row(
            language,
            f"{row['lines']:,}",
            f"{row['tokens']:,}",
            f"{row['tokens_per_line']:.1f}",
            _bars(row["histogram"]),
        )
    last = max(len(row["histogram"]) for row in facts["languages"].values())
    table.caption = f"lengths: a bar for each {facts['histogram_bucket']} subwords, up to {last}0"
    table.caption_justify = "left"
    return table


def _bars(histogram: list[int]) -> str:
    top = max(histogram, default=0)
    levels = " ▁▂▃▄▅▆▇█"
    return "".join(levels[-(-8 * n // top)] if n else " " for n in histogram) if top else ""


def _joined(facts: dict[str, Any]) -> "Table | str":
    joined = [
        (split, entry)
        for split, entries in facts["held_out"].items()
        for entry in entries
        if entry["origin"].startswith("joined")
    ]
    if not joined:
        return ""
    table = _table("Held-out sets made by joining", "set", "lines", "how")
    for split, entry in joined:
        table.add_row(f"{split} {entry['name']}", f"{entry['lines']:,}", entry["origin"])
    return table
