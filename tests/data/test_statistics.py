"""The account as a table, for few corpora and for many."""

import pytest
from rich.console import Console

from accord.data.statistics import _accounting


def entry(pair, dropped):
    steps = [("read", 0), ("empty", 0), ("duplicates", dropped)]
    return {
        "pair": pair,
        "read": 1000,
        "mended": {"nfc": 7},
        "steps": [{"step": step, "dropped": n, "left": 0} for step, n in steps],
        "lines": 1000 - dropped,
    }


def shown(count, **changes):
    console = Console(width=80)
    with console.capture() as captured:
        corpora = [entry(f"en-x{i}", 10 * i) | changes for i in range(count)]
        console.print(*_accounting({"corpora": corpora}))
    return captured.get().splitlines()


def test_few_corpora_stand_side_by_side_with_every_step():
    text = "\n".join(shown(5))
    assert "− empty" in text
    assert any(line.split()[:2] == ["en-x0", "en-x1"] for line in shown(5))


def test_many_corpora_have_several_tables_with_only_steps_that_dropped():
    text = shown(12)
    heads = [line.split() for line in text if line.lstrip().startswith("en-x")]
    assert len(heads) > 1
    assert [pair for head in heads for pair in head] == [f"en-x{i}" for i in range(12)]
    dropped = [line.split()[2:] for line in text if "− duplicates" in line]
    assert [n for row in dropped for n in row] == ["·", *(str(10 * i) for i in range(1, 12))]
    assert "empty" not in "\n".join(text)


@pytest.mark.parametrize("lines", [1, 12_345, 123_456_789])
def test_nothing_is_cut_off_in_a_terminal_of_80_columns(lines):
    text = "\n".join(shown(6, read=lines, mended={"control_characters": lines}))
    assert "…" not in text
    assert text.count(f"{lines:,}") >= 12
    assert "mended: control_characters" in text
