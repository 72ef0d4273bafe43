"""Progress as a person sees it: a line that moves on a terminal, plain lines elsewhere."""

import io
import re
import time
from contextlib import contextmanager, redirect_stderr

import pytest

from accord.progress import Line, clock, shown_progress

_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def lines(self):
        """All that was ever drawn, without colours and cursor moves."""
        return [part.rstrip() for part in re.split(r"[\r\n]+", _CODES.sub("", self.getvalue()))]


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


@contextmanager
def shown(stream, quiet=False):
    with redirect_stderr(stream), shown_progress(quiet) as progress:
        yield progress


def test_a_line_of_its_own_is_drawn_whole_in_80_columns(terminal):
    with shown(terminal) as progress:
        progress.start("training", 500_000)
        text = "loss 14.123 123k tok/s left 123:45:06"
        progress.reach(123_456, line=Line("123,456/500,000", 0.25, text))
    drawn = [line for line in terminal.lines() if "loss" in line]
    assert drawn
    for line in drawn:
        assert len(line) <= 80
        assert line.startswith("training ━")
        assert line.endswith(f"123,456/500,000 {text}")


def test_work_with_a_total_shows_both_and_in_the_end_what_was_done(terminal):
    with shown(terminal) as progress:
        progress.start("scoring", 30)
        progress.reach(12, "into de")
    _, first, *_, last, _ = terminal.lines()
    assert first.endswith("━ 0/30 0:00")
    assert last.endswith("━ 12 0:00 into de")
    assert all(len(line) <= 80 for line in terminal.lines())


def test_the_table_has_one_head_and_its_rows_stand_under_it(terminal):
    with shown(terminal) as progress:
        progress.start("training", 40)
        progress.row({"step": "20", "dev loss": "6.543", "": "best"}, "step 20: …")
        progress.row({"step": "1,040", "dev loss": "16.543", "": ""}, "step 1,040: …")
    table = [line for line in terminal.lines() if re.search(r"step|\d\.543", line)]
    assert table == [
        "    step  dev loss",
        "      20     6.543    best",
        "   1,040    16.543",
    ]


def test_what_is_not_worth_keeping_leaves_no_line(terminal):
    with shown(terminal) as progress:
        progress.start("setting up", keep=False)
        progress.reach(0, "opening the store")
        progress.start("training", 3)
        before = len(terminal.getvalue())
        progress.reach(1)
    assert any(line.startswith("setting up") for line in terminal.lines())
    assert "setting up" not in terminal.getvalue()[before:]


def test_a_bar_that_was_not_filled_stays_so(terminal):
    with shown(terminal) as progress:
        progress.start("training", 40)
        progress.reach(10, line=Line("10/40", 0.25, "left 1:00"))
    assert terminal.lines()[-2].split()[2:] == ["10/40", "left", "1:00"]


def test_results_on_stdout_are_left_alone(terminal, capsys):
    with shown(terminal) as progress:
        progress.start("translating", 2)
        print("eine Zeile")
        progress.reach(1)
    assert capsys.readouterr().out == "eine Zeile\n"
    assert "eine Zeile" not in terminal.getvalue()


def test_plain_lines_come_at_most_every_ten_seconds(monkeypatch):
    now, log = 100.0, io.StringIO()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with shown(log) as progress:
        progress.start("training", 40)
        progress.reach(1, line=Line("1/40", 0.1, "loss 5 left 1:00"))
        now = 111.0
        progress.reach(2, line=Line("2/40", 0.1, "loss 4 left 1:00"))
        progress.reach(3, "loss 4.000 lr 1", Line("3/40", 0.1, "loss 4 left 1:00"))
        now = 122.0
        progress.reach(4, "loss 3.000 lr 1", Line("4/40", 0.1, "loss 3 left 1:00"))
        progress.row({"step": "4"}, "step 4: dev cross-entropy 3.100")
        now = 133.0
        progress.reach(0, "opening the store")
    assert log.getvalue().splitlines() == [
        "training (40)",
        "training (40): 2 loss 4 left 1:00",
        "training (40): 4 loss 3.000 lr 1",
        "step 4: dev cross-entropy 3.100",
        "training (40): opening the store",
    ]


def test_quiet_says_nothing(terminal):
    with shown(terminal, quiet=True) as progress:
        progress.start("training", 40)
        progress.reach(1, "detail", Line("1/40", 0.1, "text"))
        progress.note("note")
        progress.row({"step": "1"}, "row")
    assert terminal.getvalue() == ""


def test_time_as_people_write_it():
    assert [clock(s) for s in (-3, 7.9, 61, 3600, 90061)] == [
        "0:00", "0:07", "1:01", "1:00:00", "25:01:01",
    ]  # fmt: skip
