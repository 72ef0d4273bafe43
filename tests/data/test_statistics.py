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


def shown(count, pair="en-x{}", **changes):
    console = Console(width=80)
    with console.capture() as captured:
        corpora = [entry(pair.format(i), 10 * i) | changes for i in range(count)]
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


@pytest.mark.parametrize("pair", ["en-x{}", "eng_Latn-x{:03}_Latn"])
@pytest.mark.parametrize("lines", [1, 12_345, 123_456_789])
@pytest.mark.parametrize("count", [1, 6, 12])
def test_nothing_is_cut_off_in_a_terminal_of_80_columns(count, lines, pair):
    mended = {"control_characters": lines}
    text = shown(count, pair, read=lines, lines=lines, mended=mended)
    assert "…" not in "\n".join(text)
    words = [word for line in text for word in line.split()]
    assert [word for word in words if word.startswith(pair[:4])] == [
        pair.format(i) for i in range(count)
    ]
    for name in ("lines read", "= training lines", "mended: control_characters"):
        rows = (line.partition(name)[2] for line in text if name in line)
        assert " ".join(rows).split() == count * [f"{lines:,}"]
