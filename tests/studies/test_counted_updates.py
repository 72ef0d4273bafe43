"""Which updates of a branch count for its cost."""

import pytest

from accord.studies.counted_updates import DECODING, ROUNDS, USUAL, counted


def line(step, seconds=2.0, kind="train"):
    return {"kind": kind, "step": step, "seconds": seconds, "target_tokens": 1e4}


def of(lines, began=0, pace=USUAL):
    found = counted(lines, began, pace)
    return found.updates, found.seconds, found.target_tokens, found.rounds


def test_the_first_updates_do_not_count():
    steps = (150, 200, 250, 300, 350, 400)
    lines = [line(step, seconds=step / 100) for step in steps]
    # From update 120 on: the first line that begins after 220 ends at 300.
    assert of(lines, began=120) == (150, 3 + 3.5 + 4, 3e4, 0)
    assert counted(lines, 120, USUAL).spent == pytest.approx(16.5)
    assert of(lines[:2], began=120) == (0, 0.0, 0.0, 0)
    assert of([], began=120) == (0, 0.0, 0.0, 0)
    assert of([line(step) for step in range(50, 351, 50)]) == (250, 10, 5e4, 0)
    assert of([line(step) for step in range(10, 41, 10)], pace=DECODING) == (
        20,
        4,
        2e4,
        0,
    )


def test_of_a_branch_whose_time_was_up_the_second_half_counts():
    slow = [line(step, seconds=float(step)) for step in range(25, 126, 25)]
    assert of(slow) == (50, 100 + 125, 2e4, 0)  # of 125 updates the last 50
    # Where it has made more than twice the first updates, only these are left out.
    late = [line(step, seconds=60.0) for step in range(50, 251, 50)]
    assert of(late)[0] == 150
    # What has time left is not slow.
    assert of([line(step) for step in range(25, 126, 25)])[0] == 25


def test_updates_with_a_recording_do_not_count():
    lines = [line(step, seconds=step / 10) for step in range(50, 351, 50)]
    lines[3]["recordings"] = 2  # up to 200
    assert of(lines) == (200, 15 + 25 + 30 + 35, 4e4, 0)
    for each in lines:
        each["recordings"] = 1
    assert of(lines) == (0, 0.0, 0.0, 0)


def test_of_rounds_whole_ones_count():
    lines = {step: line(step, seconds=0.1) for step in range(10, 301, 10)}
    lines[100]["recordings"] = 3  # the second round: lines up to 100, ... 140
    lines[160] |= {"seconds": 1.1, "recordings": 1}  # the third: 150, ... 200; the fourth: ... 260
    lines = [*lines.values(), *(line(step, kind="pool") for step in (42, 95, 150, 201, 262))]
    found = counted(lines, 0, ROUNDS)
    assert (found.updates, found.rounds, found.rounds_made) == (60 + 60, 2, 5)
    assert found.seconds == pytest.approx(5 * 0.1 + 1.1 + 6 * 0.1)  # the line waits: it counts
    assert found.target_tokens == 12e4
    assert of(lines[:4], pace=ROUNDS) == (0, 0.0, 0.0, 0)
    early = [each for each in lines if each["step"] < 150]  # the second is not yet whole
    assert of(early, pace=ROUNDS) == (0, 0.0, 0.0, 0)


def test_rounds_that_were_too_late_do_not_count_as_updates():
    """Until the first round, what makes rounds is Basic, and as fast."""
    lines = [line(step) for step in range(10, 201, 10)]
    assert of(lines, pace=ROUNDS)[0] == 0


def test_what_is_enough():
    few, many = ([line(step, 1.0) for step in range(10, end, 10)] for end in (251, 261))
    assert not counted(few[:-1], 0, USUAL).are_enough(USUAL)
    assert counted(few, 0, USUAL).are_enough(USUAL)  # 101 to 250
    assert not counted(many, 0, ROUNDS).are_enough(ROUNDS)
    pools = [line(step, kind="pool") for step in range(30, 211, 30)]
    assert counted(many + pools, 0, ROUNDS).are_enough(ROUNDS)
    assert not counted(many + pools[1:], 0, ROUNDS).are_enough(ROUNDS)
    slow = [line(10, 90.0), line(20, 89.0)]
    assert not counted(slow, 0, USUAL).are_enough(USUAL)
    assert counted([*slow, line(30, 1.0)], 0, USUAL).are_enough(USUAL)
