"""What came out of a study: the systems of the paper, and paired tests between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accord.errors import AccordError
from accord.evaluation.records import Average, DirectionScores, Evaluated
from accord.evaluation.significance import Comparison, compare
from accord.graph import Kind
from accord.report.answer import direct, in_way
from accord.report.contents import Report, build
from accord.studies.branches import Options, Study
from accord.studies.claims import (
    BETTER,
    COMPARABLE,
    KEEPS,
    OVERLAP,
    Compared,
    Judged,
    judge_better,
    judge_comparable,
    judge_keeps,
    judge_overlap,
    judge_robust,
    not_tested,
)
from accord.studies.paper import NAMES, TABLES, PaperTable, System

_GROUPS: dict[Kind, str] = {"supervised": "supervised", "zero-shot": "zero_shot"}
# Which tests are made: the first against the second.
_TESTS = (
    ("agree", "basic"),
    ("agree", "pivot"),
    ("basic", "pivot"),
    ("complete", "basic"),
    ("complete", "pivot"),
    ("complete", "agree"),
)


@dataclass(frozen=True)
class Outcome:
    """The figures of a study. Pivot is Basic by way of English where there is no data."""

    report: Report
    systems: Mapping[str, Evaluated]
    """By name: basic, pivot, agree and, where it was trained, complete."""
    tests: Mapping[tuple[str, str], Comparison]

    @property
    def directions(self) -> tuple[DirectionScores, ...]:
        """The directions of Basic, which all systems have."""
        return self.systems["basic"].evaluation.directions

    def row(self, system: str, direction: str) -> DirectionScores:
        """One direction of a system."""
        rows = self.systems[system].evaluation.directions
        return next(row for row in rows if row.direction == direction)

    def average(self, system: str, group: str) -> Average | None:
        """A mean as it was evaluated: `supervised`, `zero_shot`, `iwslt_4` and so on."""
        found = self.systems[system].evaluation.averages
        way = "_via_pivot" if system == "pivot" and group != "supervised" else ""
        return found.get(group + way)

    def compared(
        self, ours: System, theirs: System, kind: Kind, paper: PaperTable | None = None
    ) -> Compared:
        """How far one system is from another over all directions of a kind."""
        test = self.tests[ours, theirs]
        printed = paper.averages[kind] if paper else None
        return Compared(
            f"{NAMES[ours]} − {NAMES[theirs]}",
            test.averages[_GROUPS[kind]].bleu,
            {row.name: row.bleu for row in test.directions if row.kind == kind},
            printed.of(ours) - printed.of(theirs) if printed else None,
        )


def read_outcome(study: Study, options: Options) -> Outcome:
    """Read the evaluations of a study's branches, and test the systems against each other."""
    return outcome_of({name: study.run(name) for name in options.branches}, options.evaluation)


def outcome_of(runs: Mapping[str, Path], evaluation: str) -> Outcome:
    """The same of any runs: those of Basic and Agree, and perhaps Complete's."""
    order = [name for name in ("agree", "basic", "complete") if name in runs]
    report = build([runs[name] for name in order], name=evaluation)
    found = dict(zip(order, (run.evaluated for run in report.runs), strict=True))
    basic = found["basic"]
    systems = {"basic": direct(basic), "pivot": in_way(basic, basic.evaluation.via_pivot)}
    systems |= {name: direct(found[name]) for name in order if name != "basic"}
    tests = {
        (ours, theirs): compare(systems[ours], systems[theirs])
        for ours, theirs in _TESTS
        if ours in systems and theirs in systems
    }
    lacking = [
        f"{kind} directions of {NAMES[ours]} and {NAMES[theirs]}"
        for (ours, theirs), test in tests.items()
        for kind, group in _GROUPS.items()
        if group not in test.averages
    ]
    if lacking:
        raise AccordError(
            f"the evaluations have no mean over {lacking[0]}",
            where=str(runs["basic"].parent),
            fix=f"the {basic.evaluation.split} set must have every direction, and each zero-shot "
            "one a way through a pivot",
        )
    return Outcome(report, systems, tests)


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
