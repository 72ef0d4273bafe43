"""Which claims a setting can speak to, and what it says about them."""

from collections.abc import Sequence

from accord.reproducing.claims import (
    BETTER,
    COMPARABLE,
    KEEPS,
    OVERLAP,
    Judged,
    judge_better,
    judge_comparable,
    judge_keeps,
    judge_overlap,
    judge_robust,
    not_tested,
)
from accord.reproducing.outcome import Outcome
from accord.reproducing.paper import TABLES

_LARGE = "the whole corpora: any setting but small-data"


def judge(setting: str, outcome: Outcome) -> tuple[Judged, ...]:
    """All claims of the paper, by one study of one setting."""
    paper = TABLES[setting]

    return (
        judge_better(outcome.compared("agree", "basic", "zero-shot", paper)),
        judge_comparable(outcome.compared("agree", "pivot", "zero-shot", paper)),
        judge_keeps(outcome.compared("agree", "basic", "supervised", paper)),
        judge_robust(()),
        judge_overlap(outcome.compared("basic", "pivot", "zero-shot", paper))
        if setting == "iwslt17"
        else not_tested(OVERLAP, "the setting iwslt17"),
    )


def judge_sizes(outcomes: Sequence[tuple[str, Outcome]]) -> tuple[Judged, ...]:
    """All claims of the paper, by the small-data study."""
    gains = [(size, outcome.compared("agree", "basic", "zero-shot")) for size, outcome in outcomes]
    return (
        *(not_tested(claim, _LARGE) for claim in (BETTER, COMPARABLE, KEEPS)),
        judge_robust(gains),
        not_tested(OVERLAP, "the setting iwslt17"),
    )
