"""The verdict at the top of a report: what counts as yes, partly, no and open."""

import pytest

from accord.report.answer import judge
from accord.report.contents import build
from accord.report.figures import environments
from accord.report.numbers import signed
from made_runs import make_run


@pytest.mark.parametrize(
    ("bleu", "pivot", "off_target", "verdict"),
    [
        (24.6, 26.28, 0.01, "yes"),  # the paper's agreement on Europarl: 94 % of pivoting
        (22.25, 26.28, 0.01, "partly"),  # its plain training: 85 %
        (30.0, 26.0, None, "yes"),  # better than pivoting, languages unknown
        (26.0, 26.0, 0.10, "yes"),
        (26.0, 26.0, 0.11, "partly"),
        (26.0, 26.0, 0.51, "no"),
        (12.0, 26.0, 0.0, "no"),
        (4.9, 4.9, 0.0, "no"),  # as good as pivoting, and both are useless
        (26.0, None, 0.0, "open"),
        (3.0, None, 0.0, "no"),
        (26.0, None, 0.9, "no"),
    ],
)
def test_the_verdict(bleu, pivot, off_target, verdict):
    assert judge(bleu, pivot, off_target) == verdict


def test_the_sentence_of_a_good_run(tmp_path):
    answer = build([make_run(tmp_path / "good", lost=0.05, off_target=0.012)]).answer
    assert answer.verdict == "yes"
    assert answer.headline.startswith("Yes: zero-shot BLEU 9")
    assert "by pivoting (9" in answer.headline
    assert answer.headline.endswith("; off-target 1.2\u00a0%.")
    assert answer.measured == (
        "Measured on the test set, 40 sentences a direction, with beam 4 and length penalty 0.6, "
        "by checkpoint best (step 400) of run good, fp32 on cpu."
    )


@pytest.mark.parametrize("written_as", [2, 3])
def test_a_search_of_its_own_has_no_beam(tmp_path, written_as):
    """Format 2 has one all the same."""
    made = make_run(tmp_path / "phrases", reads_search_settings=False, written_as=written_as)
    found = build([made, make_run(tmp_path / "basic")])
    assert found.answer.measured == (
        "Measured on the test set, 40 sentences a direction, by the systems of run phrases."
    )
    rows = {row[0]: row[1:] for row in environments(found).rows}
    phrases, basic = rows["evaluation: search"]
    assert phrases == "its own"
    assert basic.startswith("beam 4, length_penalty 0.6, ")


def test_the_sentence_of_a_bad_run(tmp_path):
    answer = build([make_run(tmp_path / "bad", off_target=0.8)]).answer
    assert answer.headline.startswith("No: zero-shot BLEU ")
    assert "off-target 80.0\u00a0%" in answer.headline


def test_without_pivots_the_answer_is_open(tmp_path):
    answer = build([make_run(tmp_path / "run", pivot=False, off_target=None)]).answer
    assert answer.verdict == "open"
    assert "no translations through a pivot" in answer.headline
    assert "off-target" not in answer.headline


def test_without_zero_shot_directions_there_is_nothing_to_answer(tmp_path):
    answer = build([make_run(tmp_path / "run", languages=("en", "de"))]).answer
    assert answer.headline == "Open: no zero-shot direction was evaluated."


def test_a_limit_is_said(tmp_path):
    answer = build([make_run(tmp_path / "run", limit=10)]).answer
    assert "10 sentences a direction (the first 10 of each set)" in answer.measured


def test_the_weakest_direction_and_the_difference_to_pivoting_are_named(tmp_path):
    report = build([make_run(tmp_path / "run")])
    rows = [row for row in report.main.evaluation.directions if row.kind == "zero-shot"]
    worst = min(rows, key=lambda row: row.bleu.score)
    text = " ".join(report.answer.details)
    assert f"weakest zero-shot direction is {worst.direction}: BLEU {worst.bleu.score:.1f}" in text
    assert "Zero-shot BLEU against pivoting: −" in text
    assert "3.000 without (κ" in text


def test_other_runs_are_compared_by_their_direct_translations(tmp_path):
    runs = [make_run(tmp_path / "agree", lost=0.05), make_run(tmp_path / "basic", lost=0.9)]
    text = " ".join(build(runs).answer.details)
    assert "Zero-shot BLEU against basic: +" in text
    assert "basic, pivot" not in text
    assert "Zero-shot BLEU against agree: −" in " ".join(build(runs[::-1]).answer.details)


def test_signed_never_says_minus_zero():
    assert signed(-0.001) == signed(0.0) == "+0.00"
    assert signed(-1.234) == "−1.23"
    assert signed(-0.04, 1) == "+0.0"
    assert signed(-0.06, 1) == "−0.1"
