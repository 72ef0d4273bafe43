"""The account as a table, for few corpora and for many."""

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


def shown(count):
    console = Console(width=120)
    with console.capture() as captured:
        console.print(_accounting({"corpora": [entry(f"en-x{i}", 10 * i) for i in range(count)]}))
    return captured.get().splitlines()


def test_few_corpora_stand_side_by_side_with_every_step():
    text = "\n".join(shown(5))
    assert "− empty" in text
    assert any(line.split()[:2] == ["en-x0", "en-x1"] for line in shown(5))


def test_many_corpora_have_a_row_each_and_only_steps_that_dropped():
    rows = [line.split() for line in shown(40) if line.startswith(" en-x")]
    assert len(rows) == 40
    assert rows[0] == ["en-x0", "1,000", "·", "1,000", "7"]
    assert rows[3] == ["en-x3", "1,000", "30", "970", "7"]
    assert "empty" not in "\n".join(shown(40))
