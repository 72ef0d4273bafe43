"""What the paper claims, and whether our figures bear it out.

A claim is a limit on the difference of two systems, and it *holds* only where the whole 95 %
interval of that difference keeps to it: a gain must lie above 0 with its interval, a loss that is
allowed must not exceed its margin within its interval. Everything else *does not hold*; it is said
when only the interval, not the difference itself, is beyond the limit. The intervals speak of the
choice of test sentences, not of another seed of training. Systems that have not learnt to translate
test nothing: they are never far from each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from accord.evaluation.significance import Difference
from accord.report.answer import LEAST_BLEU
from accord.report.numbers import NONE, p_value, signed

Verdict = Literal["holds", "does not hold", "not tested here"]

MARGIN = 1.0
"""BLEU. The paper names one margin, "within 1 BLEU point", of Agree against Basic where there is
data. For "comparably to Pivot" it names none; the same is taken."""


@dataclass(frozen=True)
class Claim:
    """One claim in our words, and the words of the paper that it is taken from."""

    number: int
    text: str
    words: str


BETTER = Claim(
    1,
    "Agree is better than Basic on zero-shot directions",
    "“consistently outperforms Basic” (UN, Europarl)",
)
COMPARABLE = Claim(
    2,
    f"Agree is comparable to Pivot on zero-shot directions: at most {MARGIN:g} BLEU behind",
    "“perform comparably to Pivot” (UN); “lags a bit behind” (Europarl); “slightly worse” "
    "(IWSLT17*). No limit is named; this is the one of claim 3",
)
KEEPS = Claim(
    3,
    f"Agree loses at most {MARGIN:g} BLEU against Basic on supervised directions",
    "“within 1 BLEU point compared to Basic” (UN)",
)
ROBUST = Claim(
    4,
    "Agree is robust in small data, in a weak form: better than Basic on zero-shot directions at "
    "every size",
    "“Basic tends to perform extremely poorly while Agree is the most robust”; how it compares "
    "with Pivot is not judged",
)
OVERLAP = Claim(
    5,
    "On the official IWSLT17, where corpora overlap, Basic is at least as good as Pivot",
    "“achieves very high zero shot performance, even outperforming Pivot”",
)
CLAIMS = (BETTER, COMPARABLE, KEEPS, ROBUST, OVERLAP)


@dataclass(frozen=True)
class Judged:
    """A claim, the verdict, the numbers that it rests on, and what the paper's own numbers say."""

    claim: Claim
    verdict: Verdict
    because: str
    paper: str = NONE


@dataclass(frozen=True)
class Compared:
    """The same mean of two systems: their paired test, its directions, the paper's difference."""

    what: str
    """For example `Agree − Basic`."""
    mean: Difference
    directions: Mapping[str, Difference]
    paper: float | None = None


def not_tested(claim: Claim, where: str) -> Judged:
    """A claim that needs another setting."""
    return Judged(claim, "not tested here", f"needs {where}")


def judge_better(found: Compared) -> Judged:
    """Claim 1: a gain, beyond chance."""
    if max(found.mean.ours, found.mean.theirs) < LEAST_BLEU:
        return _too_weak(BETTER, found)
    better = sum(item.difference > 0 for item in found.directions.values())
    counted = f"; better in {better} of {len(found.directions)} directions"
    return _judged(BETTER, found, found.mean.low > 0, found.mean.difference > 0, 0.0, counted)


def judge_comparable(found: Compared) -> Judged:
    """Claim 2: no more than the margin behind Pivot, beyond chance."""
    return _judged_within(COMPARABLE, found)


def judge_keeps(found: Compared) -> Judged:
    """Claim 3: no more than the margin behind Basic where there is data, beyond chance."""
    return _judged_within(KEEPS, found)


def judge_overlap(found: Compared) -> Judged:
    """Claim 5: not behind at all; a tie will do."""
    if found.mean.theirs < LEAST_BLEU:
        return _too_weak(OVERLAP, found)
    return _judged(OVERLAP, found, found.mean.low >= 0, found.mean.difference >= 0, 0.0)


def judge_robust(found: Sequence[tuple[str, Compared]]) -> Judged:
    """Claim 4: a gain beyond chance at each of the sizes."""
    if not found:
        return not_tested(ROBUST, "the setting small-data")
    each = [(size, judge_better(item)) for size, item in found]
    listed = "; ".join(f"{size}: {item.because}" for size, item in each)
    missed = [size for size, item in each if item.verdict != "holds"]
    if all(item.verdict == "not tested here" for _, item in each):
        return Judged(ROBUST, "not tested here", listed, "a figure only")
    verdict: Verdict = "does not hold" if missed else "holds"
    said = f"; no gain beyond chance at {', '.join(missed)}" if missed else ""
    return Judged(ROBUST, verdict, listed + said, "a figure only")


def _judged_within(claim: Claim, found: Compared) -> Judged:
    mean = found.mean
    if mean.theirs < LEAST_BLEU:
        return _too_weak(claim, found)
    over = [name for name, item in found.directions.items() if item.difference < -MARGIN]
    said = f"; more than {MARGIN:g} behind in {', '.join(over)}" if over else ""
    kept, seen = mean.low >= -MARGIN, mean.difference >= -MARGIN
    return _judged(claim, found, kept, seen, -MARGIN, said)


def _too_weak(claim: Claim, found: Compared) -> Judged:
    said = f"{_numbers(found)}: below {LEAST_BLEU:g} BLEU nothing can be told"
    return Judged(claim, "not tested here", said, _printed(found))


def _judged(
    claim: Claim, found: Compared, kept: bool, seen: bool, limit: float, more: str = ""
) -> Judged:
    """`kept` says whether the interval keeps to the limit, `seen` whether the difference does."""
    said = f"{_numbers(found)}{more}"
    if seen and not kept:
        said += f"; the interval reaches beyond {signed(limit)}, so this may be chance"
    return Judged(claim, "holds" if kept else "does not hold", said, _printed(found))


def _printed(found: Compared) -> str:
    return NONE if found.paper is None else f"{found.what} {signed(found.paper)}"


def _numbers(found: Compared) -> str:
    mean = found.mean
    return (
        f"{found.what} {signed(mean.difference)} BLEU ({mean.ours:.2f} against "
        f"{mean.theirs:.2f}; 95 % interval {signed(mean.low)} to {signed(mean.high)}, "
        f"{p_value(mean.p)})"
    )
