"""The question a run is made to answer, and the answer that its figures give.

"Does it translate directions it never saw?" is judged by zero-shot BLEU as a share of what the same
model reaches through pivots, over the same directions, and by the off-target rate:

* no        fewer than 5 BLEU, less than half of pivoting, or most translations off target
* partly    less than 90 % of pivoting, or more than a tenth off target
* yes       otherwise
* open      nothing to compare with: no zero-shot direction, no test set, or no pivot

In the paper's tables, 90 % separates agreement (94 % on Europarl) from plain training (85 %).
Below 5 BLEU translations hardly share words with the references, and a ratio means nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from accord.errors import AccordError
from accord.evaluation.records import DirectionScores, Evaluated, Evaluation
from accord.evaluation.significance import Comparison, Difference, compare
from accord.report.numbers import count, nats, p_value, percent, score, signed, span

# --- The columns of a comparison: every run, direct and in other ways, tested against the first.


@dataclass(frozen=True)
class System:
    """One column: a run's direct translations or, where it has no data, another `way` to go."""

    run: str
    way: str
    """`pivot` or `ensemble`; nothing for direct translations."""
    evaluated: Evaluated
    """Translations in another way stand here as if they were direct."""
    against_main: Comparison | None
    """This system (ours) against the first column (theirs)."""
    alone: bool = False
    """Whether its run has no column of direct translations, since there are none without data."""

    @property
    def label(self) -> str:
        """For example `agree` or `agree, pivot`."""
        return f"{self.run}, {self.way}" if self.way else self.run

    @property
    def repeats(self) -> bool:
        """Whether what has data stands in the column of direct translations already."""
        return bool(self.way) and not self.alone

    @property
    def rows(self) -> dict[str, DirectionScores]:
        """The figures by direction."""
        return {row.direction: row for row in self.evaluated.evaluation.directions}


def in_way(evaluated: Evaluated, rows: Sequence[DirectionScores]) -> Evaluated:
    """Supervised directions direct, the others by these rows: with pivots, the paper's Pivot."""
    evaluation = evaluated.evaluation
    kept = [row for row in evaluation.directions if row.kind == "supervised"]
    wanted = {row.name for row in (*kept, *rows)}
    lines = [item for item in evaluated.lines if item.name in wanted]
    return Evaluated(
        replace(
            evaluation,
            directions=(*kept, *(replace(row, via=(), ensemble="") for row in rows)),
            via_pivot=(),
            by_ensemble=(),
        ),
        tuple(replace(item, via=(), ensemble="") for item in lines),
        {str(item.direction): evaluated.statistics[item.name] for item in lines},
    )


def direct(evaluated: Evaluated) -> Evaluated:
    """The direct translations alone."""
    rows = [row for row in evaluated.evaluation.directions if row.kind != "supervised"]
    return in_way(evaluated, rows)


def only_by_pivots(evaluation: Evaluation) -> bool:
    """Whether no zero-shot direction was translated directly, but some through pivots."""
    direct_ones = any(row.kind == "zero-shot" for row in evaluation.directions)
    return bool(evaluation.via_pivot) and not direct_ones


def systems(runs: Sequence[tuple[str, Evaluated]]) -> tuple[System, ...]:
    """Every run direct and, where it was evaluated so, in other ways; all but the first tested."""
    found: list[System] = []
    for label, evaluated in runs:
        evaluation = evaluated.evaluation
        alone = only_by_pivots(evaluation)
        if not alone:
            found.append(System(label, "", direct(evaluated), None))
        ways = {"pivot": evaluation.via_pivot, "ensemble": evaluation.by_ensemble}
        found += [
            System(label, w, in_way(evaluated, rows), None, alone)
            for w, rows in ways.items()
            if rows
        ]
    shared = common(found)
    if not shared:
        raise AccordError(
            f"{' and '.join(label for label, _ in runs)} have no evaluated direction in common",
            fix="report on runs of the same languages",
        )
    first, *others = found
    return first, *(_tested(system, first, shared) for system in others)


def common(found: Sequence[System]) -> tuple[str, ...]:
    """The directions that all systems have, in the order of the first."""
    first, *others = (system.rows for system in found)
    return tuple(name for name in first if all(name in rows for rows in others))


def _tested(system: System, main: System, shared: Sequence[str]) -> System:
    """Averages are compared over the directions that all columns have, so that rows are fair."""
    ours = system.evaluated
    rows = tuple(row for row in ours.evaluation.directions if row.direction in shared)
    restricted = replace(ours, evaluation=replace(ours.evaluation, directions=rows))
    try:
        return replace(system, against_main=compare(restricted, main.evaluated))
    except AccordError as error:
        where = f"{main.run}, {system.run}"
        raise AccordError(error.what, where=where, fix=error.fix) from error


QUESTION = "Does it translate directions it never saw, and how close does it come to pivoting?"
CLOSE = 0.90
HALF = 0.50
LITTLE_OFF_TARGET = 0.10
MOST_OFF_TARGET = 0.50
LEAST_BLEU = 5.0
LOWER_BOUND = (
    "Off-target rates are lower bounds: a sentence that is half in another language mostly passes."
)

Verdict = Literal["yes", "partly", "no", "open"]
_WORDS: dict[Verdict, str] = {"yes": "Yes", "partly": "Partly", "no": "No", "open": "Open"}


@dataclass(frozen=True)
class Answer:
    """The verdict in words, what stands behind it, and what was measured."""

    verdict: Verdict
    headline: str
    details: tuple[str, ...]
    measured: str


def answer(evaluation: Evaluation, found: Sequence[System]) -> Answer:
    """Judge the first run; `found` are its systems and those it is compared with."""
    rows = [row for row in evaluation.directions if row.kind == "zero-shot"]
    said = measured(evaluation)
    if not rows:
        missing = f"; without a test set: {', '.join(evaluation.missing)}"
        reason = "no zero-shot direction was evaluated"
        if only_by_pivots(evaluation):
            reached = score(_bleu(evaluation.via_pivot))
            reason = f"it translates no zero-shot direction directly; BLEU {reached} by pivoting"
        reason += missing if evaluation.missing else ""
        return Answer("open", f"Open: {reason}.", (), said)
    pivots = {row.direction: row for row in evaluation.via_pivot}
    both = [row for row in rows if row.direction in pivots]
    bleu = _bleu(both or rows)
    pivot = _bleu([pivots[row.direction] for row in both]) if both else None
    off_target = _off_target(rows)
    verdict = judge(bleu, pivot, off_target)
    headline = f"{_WORDS[verdict]}: {_comparison(bleu, pivot)}{_off_target_words(off_target)}."
    return Answer(verdict, headline, tuple(_details(evaluation, rows, both, found)), said)


def judge(bleu: float, pivot: float | None, off_target: float | None) -> Verdict:
    """The verdict; an unknown off-target rate is not held against a model."""
    astray = off_target or 0.0
    if bleu < LEAST_BLEU or astray > MOST_OFF_TARGET:
        return "no"
    if pivot is None:
        return "open"
    if bleu < HALF * pivot:
        return "no"
    return "yes" if bleu >= CLOSE * pivot and astray <= LITTLE_OFF_TARGET else "partly"


def measured(evaluation: Evaluation) -> str:
    """Which sentences were translated, by what, and how.

    What has a search of its own is no network, and has no checkpoints either.
    """
    origin, search = evaluation.origin, evaluation.search
    lines = span([row.sentences for row in evaluation.by_direction])
    part = f" (the first {count(evaluation.limit)} of each set)" if evaluation.limit else ""
    if evaluation.lines:
        part = f" (lines {' to '.join(map(count, evaluation.lines))} of each set)"
    said = f"Measured on the {evaluation.split} set, {lines} sentences a direction{part}"
    if not search:
        return f"{said}, by the systems of run {origin.run}."
    return (
        f"{said}, with beam {search['beam']} and length penalty {search['length_penalty']:g}, "
        f"by checkpoint {origin.checkpoint} (step {count(origin.step)}) of run {origin.run}, "
        f"{origin.precision} on {origin.device}."
    )


def _comparison(bleu: float, pivot: float | None) -> str:
    said = f"zero-shot BLEU {score(bleu)}"
    if pivot is None:
        return f"{said}, and no translations through a pivot to compare with"
    share = f" ({percent(bleu / pivot, 0)})" if pivot >= LEAST_BLEU else ""
    return f"{said} against {score(pivot)} by pivoting{share}"


def _off_target_words(off_target: float | None) -> str:
    return "" if off_target is None else f"; off-target {percent(off_target)}"


def _details(
    evaluation: Evaluation,
    rows: Sequence[DirectionScores],
    both: Sequence[DirectionScores],
    found: Sequence[System],
) -> list[str]:
    said = []
    if both and len(both) < len(rows):
        said.append(
            f"BLEU is over the {len(both)} of {len(rows)} zero-shot directions with a pivot."
        )
    for system in found[1:]:
        average = system.against_main.averages.get("zero_shot") if system.against_main else None
        # How the others do in other ways is in the table; here it would be too much.
        if average and (system.run == found[0].run or not system.repeats):
            said.append(_difference(found[0], system, average.bleu))
    worst = min(rows, key=lambda row: row.bleu.score)
    said.append(
        f"The weakest zero-shot direction is {worst.direction}: BLEU {score(worst.bleu.score)}"
        f"{_off_target_words(worst.off_target)}."
    )
    known = [row.mixed for row in rows if row.mixed is not None]
    if known:
        said.append(f"{LOWER_BOUND} Mixed zero-shot translations: {percent(fmean(known))}.")
    if supervised := evaluation.averages.get("supervised"):
        count_of = len(supervised.directions)
        said.append(f"Supervised BLEU {score(supervised.bleu)} over {count_of} directions.")
    if evaluation.consistency:
        bounds = evaluation.consistency.per_token
        said.append(
            f"Consistency: the largest loss is {nats(bounds.epsilon)} nats a subword with data "
            f"(ε, {bounds.epsilon_direction}) and {nats(bounds.kappa)} without "
            f"(κ, {bounds.kappa_direction}), {bounds.ratio:.1f} times as much."
        )
    return said


def _difference(main: System, system: System, tested: Difference) -> str:
    """The test has the other system first; people ask how the main one does."""
    low, high = signed(-tested.high, 1), signed(-tested.low, 1)
    own = {"pivot": "pivoting", "ensemble": "its ensemble"}
    name = own[system.way] if system.run == main.run else system.run
    return (
        f"Zero-shot BLEU against {name}: {signed(-tested.difference, 1)} "
        f"(95 % interval {low} to {high}, {p_value(tested.p)})."
    )


def _bleu(rows: Sequence[DirectionScores]) -> float:
    return fmean(row.bleu.score for row in rows)


def _off_target(rows: Sequence[DirectionScores]) -> float | None:
    known = [row.off_target for row in rows if row.off_target is not None]
    return fmean(known) if known else None
