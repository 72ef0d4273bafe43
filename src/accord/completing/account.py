"""What is said of a round that comes into use."""

from typing import Any

from accord.completing.filters import KEPT


def pool_line(facts: dict[str, Any], guard: dict[str, Any] | None) -> dict[str, Any]:
    """A round as a line of metrics.jsonl."""
    dropped = dict(facts["fates"])
    kept = dropped.pop(KEPT)
    line = {
        **{key: facts[key] for key in ("round", "teacher", "pairs", "seconds", "target_tokens")},
        "translations": kept + sum(dropped.values()),
        "kept": kept,
        "dropped": dropped,
        "length_ratio": facts["target_tokens"] / max(facts["source_tokens"], 1),
    }
    return line if guard is None else {**line, "guard": guard}


def pool_sentence(line: dict[str, Any]) -> str:
    """The same for people."""
    reasons = ", ".join(f"{name} {count:,}" for name, count in line["dropped"].items() if count)
    return (
        f"round {line['round']} by {line['teacher']}: {line['kept']:,} of "
        f"{line['translations']:,} translations kept{f' (dropped: {reasons})' if reasons else ''}, "
        f"length ratio {line['length_ratio']:.2f}, made in {line['seconds']:.0f} s"
    )
