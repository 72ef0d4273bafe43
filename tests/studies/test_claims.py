"""Verdicts on made numbers: clear cases, ties, and intervals that reach over the limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.evaluation.significance import Difference
from accord.report.numbers import signed
from accord.studies.claims import (
    CLAIMS,
    MARGIN,
    Compared,
    judge_better,
    judge_comparable,
    judge_keeps,
    judge_overlap,
    judge_robust,
)


def compared(difference, low, high, *, theirs=25.0, directions=(), paper=None):
    mean = Difference(theirs + difference, theirs, difference, low, high, 0.04)
    rows = {f"d{i}": Difference(0, 0, d, d, d, 1.0) for i, d in enumerate(directions)}
    return Compared("Agree − Basic", mean, rows, paper)


@pytest.mark.parametrize(
    ("difference", "low", "high", "verdict", "chance"),
    [
        (2.3, 1.9, 2.7, "holds", False),
        (0.2, -0.1, 0.5, "does not hold", True),  # better, but perhaps by chance
        (0.0, 0.0, 0.0, "does not hold", False),  # the same system twice is not better
        (-0.2, -0.5, 0.1, "does not hold", False),
        (-2.0, -2.4, -1.6, "does not hold", False),
        (0.2, 0.0, 0.4, "does not hold", True),  # the interval touches the limit
    ],
)
def test_a_gain_must_be_beyond_chance(difference, low, high, verdict, chance):
    judged = judge_better(compared(difference, low, high, directions=(1.0, -1.0, 0.0)))
    assert judged.verdict == verdict
    assert ("may be chance" in judged.because) == chance
    assert "better in 1 of 3 directions" in judged.because
    assert f"{signed(low)} to {signed(high)}" in judged.because


@pytest.mark.parametrize("judge", [judge_comparable, judge_keeps])
@pytest.mark.parametrize(
    ("difference", "low", "high", "verdict", "chance"),
    [
        (-0.5, -0.8, -0.2, "holds", False),  # worse beyond chance, and yet within the margin
        (-0.8, -1.1, -0.5, "does not hold", True),
        (-1.0, -1.0, -1.0, "holds", False),  # just within
        (-1.7, -2.0, -1.4, "does not hold", False),
        (1.0, -0.5, 2.5, "holds", False),
        (0.0, 0.0, 0.0, "holds", False),
    ],
)
def test_a_loss_must_keep_within_the_margin(judge, difference, low, high, verdict, chance):
    judged = judge(compared(difference, low, high, directions=(-1.3, 0.2), paper=-1.68))
    assert judged.verdict == verdict
    assert ("may be chance" in judged.because) == chance
    assert f"more than {MARGIN:g} behind in d0" in judged.because
    assert judged.paper == "Agree − Basic −1.68"


@pytest.mark.parametrize(
    ("difference", "low", "high", "verdict"),
    [
        (0.6, 0.1, 1.1, "holds"),
        (0.0, 0.0, 0.0, "holds"),  # at least as good: a tie will do
        (0.6, -0.1, 1.3, "does not hold"),
        (-0.6, -1.0, -0.2, "does not hold"),
    ],
)
def test_overlap_makes_basic_as_good_as_pivot(difference, low, high, verdict):
    assert judge_overlap(compared(difference, low, high)).verdict == verdict


@pytest.mark.parametrize("judge", [judge_better, judge_comparable, judge_keeps, judge_overlap])
def test_models_that_translate_nothing_test_nothing(judge):
    """They are always within one point of each other."""
    judged = judge(compared(0.1, 0.0, 0.2, theirs=0.3))
    assert judged.verdict == "not tested here"
    assert "0.40 against 0.30" in judged.because


def test_a_gain_over_a_basic_that_cannot_translate_counts():
    assert judge_better(compared(21.0, 20.0, 22.0, theirs=0.4)).verdict == "holds"


def test_small_data_needs_a_gain_at_every_size():
    gain, chance, weak = (
        compared(2, 1, 3),
        compared(0.5, -0.1, 1),
        compared(0.1, 0.05, 0.2, theirs=0.3),
    )
    assert judge_robust([("50k", gain), ("450k", gain)]).verdict == "holds"
    missed = judge_robust([("50k", gain), ("450k", chance)])
    assert missed.verdict == "does not hold"
    assert missed.because.endswith("no gain beyond chance at 450k")
    assert judge_robust([("50k", weak), ("450k", gain)]).verdict == "does not hold"
    assert judge_robust([("50k", weak)]).verdict == "not tested here"
    assert judge_robust(()).verdict == "not tested here"


@given(st.floats(-5, 5), st.floats(0, 3), st.floats(0, 3), st.floats(0.01, 2))
def test_a_better_outcome_never_turns_a_verdict_for_the_worse(difference, below, above, more):
    for judge in (judge_better, judge_comparable, judge_keeps, judge_overlap):
        before = judge(compared(difference, difference - below, difference + above))
        after = judge(compared(difference + more, difference + more - below, difference + more))
        assert (before.verdict, after.verdict) != ("holds", "does not hold")


def test_claims_are_numbered_and_say_where_they_come_from():
    assert [claim.number for claim in CLAIMS] == [1, 2, 3, 4, 5]
    assert all("“" in claim.words for claim in CLAIMS)
