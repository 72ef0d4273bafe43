"""benchmarks/past_pivot.py: direct translations against those through a pivot, of two runs."""

import pytest

from accord.inference.ensemble import Ensemble
from made_runs import make_run
from scripts import script

past_pivot = script("past_pivot")


def cells(printed, run):
    row = next(line for line in printed.splitlines() if line.startswith(f"| {run} |"))
    return [cell.strip() for cell in row.split("|")[2:-1]]


def test_both_pivots_are_met(tmp_path, capsys):
    make_run(tmp_path / "basic", lost=0.8)
    make_run(tmp_path / "ours", lost=0.1)
    past_pivot.main([str(tmp_path / name) for name in ("basic", "ours", "basic")])
    printed = capsys.readouterr().out
    better, worse = cells(printed, "ours"), cells(printed, "basic")
    assert worse[0].startswith("+0.00 (+0.00 to +0.00), p 1.000")  # against itself
    assert worse[1] == worse[2]
    assert worse[1].startswith("-")
    gain = [float(row[1].split()[0]) for row in (worse, better)]
    assert gain[0] < gain[1]


def test_an_ensemble_meets_the_pivot_of_basic_where_there_is_one(tmp_path, capsys):
    make_run(tmp_path / "basic", lost=0.8)
    make_run(tmp_path / "ours", lost=0.1, ensemble=Ensemble.parse("direct,via:en"))
    past_pivot.main([str(tmp_path / name) for name in ("basic", "ours", "basic")])
    printed = capsys.readouterr().out
    assert cells(printed, "basic")[3] == ""
    assert cells(printed, "ours")[3].startswith("+")


def test_what_was_not_evaluated_is_named(tmp_path):
    make_run(tmp_path / "basic", evaluated=False)
    with pytest.raises(SystemExit, match="0 evaluations: none"):
        past_pivot.main([str(tmp_path / "basic"), str(tmp_path / "basic")])
