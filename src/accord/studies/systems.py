"""Which runs are Basic, Agree and Complete, and what they say beside the paper and about size."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from accord.config.schema import Experiment
from accord.errors import AccordError
from accord.graph import KINDS, Kind
from accord.report.contents import ReportedRun
from accord.report.figures import Grid, grid
from accord.report.numbers import NONE, count, signed
from accord.studies import beside_paper as tables
from accord.studies.claims import ROBUST, Judged
from accord.studies.compare import ComparedRuns, interval
from accord.studies.outcome import Outcome, judge, judge_sizes, outcome_of
from accord.studies.page import markdown
from accord.studies.paper import NAMES, SYSTEMS, TABLES, System
from accord.studies.sizes_figure import mean_bleu, zero_shot_pairs


def system_of(experiment: Experiment) -> str | None:
    """The paper's name for what a run was trained with; none for what the paper does not know."""
    objective, model = experiment.objective, experiment.model
    if not model.is_network or model.generator is not None:
        return None
    match objective.active:
        case ():
            return "basic"
        case ("agreement",) if objective.agreement and objective.agreement.weight:
            return "agree"
        case ("complete",) if objective.complete and objective.complete.preset == "accord":
            return "complete"
    return None


# --- Beside the paper.


@dataclass(frozen=True)
class PaperComparison:
    """One run with agreement beside the paper's Agree, with Basic and its pivot."""

    agree: str
    outcome: Outcome
    verdicts: tuple[Judged, ...]
    same_data: bool
    """Whether it is the paper's text, so that BLEU itself may stand beside the paper's."""
    left_out: tuple[str, ...]
    """The runs with Complete where there are several: the table has room for one."""


def beside_paper(found: ComparedRuns, paper: str) -> list[PaperComparison]:
    """Every run with agreement, each with the same Basic and, if there is one, Complete."""
    by_system = _by_system(found, range(len(found.runs)))
    basic = found.against or _only(found, by_system["basic"], "--against RUN says which is Basic")
    agreeing = [label for label in by_system["agree"] if label != basic]
    if not agreeing:
        raise AccordError(
            "no run was trained with agreement, but the paper's table is about it",
            fix="name one whose experiment has objective.agreement",
        )
    complete = by_system["complete"]
    left_out = tuple(complete) if len(complete) > 1 else ()
    place = dict(zip((run.label for run in found.runs), found.paths, strict=True))
    made = []
    for label in agreeing:
        runs = {"basic": place[basic], "agree": place[label]}
        if complete and not left_out:
            runs["complete"] = place[complete[0]]
        outcome = outcome_of(runs, found.evaluation)
        judged = [item for item in judge(paper, outcome) if item.verdict != "not tested here"]
        same = tables.same_data(outcome.report.runs, paper)
        made.append(PaperComparison(label, outcome, tuple(judged), same, left_out))
    return made


def _by_system(found: ComparedRuns, which: Sequence[int]) -> dict[str, list[str]]:
    by_system: dict[str, list[str]] = {name: [] for name in ("basic", "agree", "complete")}
    for number in which:
        run = found.runs[number]
        if (system := system_of(run.experiment)) is not None:
            by_system[system].append(run.label)
    return by_system


def _only(found: ComparedRuns, labels: Sequence[str], fix: str) -> str:
    if len(labels) != 1:
        raise AccordError(
            f"{len(labels)} runs are Basic (without an objective of their own): "
            f"{', '.join(labels) or 'none'}",
            where=", ".join(run.label for run in found.runs),
            fix=fix,
        )
    return labels[0]


def paper_page(items: Sequence[PaperComparison], paper: str) -> Iterator[str]:
    """All directions beside the paper's, tests, and what they say about its claims."""
    printed = TABLES[paper]
    for item in items:
        yield f"## {item.agree} beside the paper: {printed.title}\n"
        same = item.same_data
        yield from markdown(tables.beside_paper(item.outcome, printed, same_data=same))
        yield f"{tables.explained(printed, same_data=same)}\n"
        yield from markdown(tables.tests(item.outcome, printed))
        yield from markdown(tables.lowercased(item.outcome))
        if item.left_out:
            yield f"{several_complete(item)}\n"
        for judged in item.verdicts:
            yield f"- {judged.claim.text}: **{judged.verdict}**. {judged.because}."
        yield ""


def several_complete(item: PaperComparison) -> str:
    """Why there is no column of Complete, though there are runs with it."""
    names = ", ".join(item.left_out)
    return f"Complete has no column: several runs have it ({names}). Name only one of them."


def paper_summary(item: PaperComparison, paper: str) -> Grid:
    """The averages beside the paper's, for a terminal; of another text, their differences."""
    printed, outcome = TABLES[paper], item.outcome
    rows = []
    for kind in KINDS:
        if not item.same_data:
            rows += [_difference_row(item, paper, kind, other) for other in _OTHERS]
            continue
        for system in SYSTEMS:
            mean = outcome.average(system, kind.replace("-", "_"))
            theirs = printed.averages[kind].of(system)
            ours = f"{mean.bleu:.2f} ±{mean.bleu_confidence:.2f}" if mean else NONE
            off = signed(mean.bleu - theirs) if mean else NONE
            rows.append([f"{kind}, {NAMES[system]}", f"{theirs:.2f}", ours, off])
    head = ["average", "paper", "here", "difference" if item.same_data else "95 %"]
    return grid(f"{item.agree} beside the paper: {printed.title}", head, rows)


_OTHERS: tuple[System, ...] = ("basic", "pivot")


def _difference_row(item: PaperComparison, paper: str, kind: Kind, other: System) -> list[str]:
    found = item.outcome.compared("agree", other, kind, TABLES[paper])
    printed = NONE if found.paper is None else signed(found.paper)
    test = found.mean
    return [f"{kind}, {found.what}", printed, signed(test.difference), interval(test)]


def paper_figures(items: Sequence[PaperComparison], paper: str) -> dict[str, Any]:
    """As plain data: the paper's averages, and the verdicts on its claims."""
    averages = {kind: vars(scores) for kind, scores in TABLES[paper].averages.items()}
    verdicts = [
        {"run": item.agree, "claim": judged.claim.text, "verdict": judged.verdict}
        for item in items
        for judged in item.verdicts
    ]
    same = all(item.same_data for item in items)
    return {"name": paper, "averages": averages, "same data": same, "verdicts": verdicts}


# --- By size.


@dataclass(frozen=True)
class SizeStudy:
    """Outcomes by pairs of a corpus, smallest first."""

    evaluation: str
    outcomes: tuple[tuple[int, Outcome], ...]

    @property
    def named(self) -> list[tuple[str, Outcome]]:
        """With sizes as words."""
        return [(count(size), outcome) for size, outcome in self.outcomes]

    @property
    def verdict(self) -> Judged:
        """On the claim about small data."""
        return next(item for item in judge_sizes(self.named) if item.claim is ROBUST)


def by_size(found: ComparedRuns) -> SizeStudy:
    """Runs of the same data are one size: Basic, Agree and perhaps Complete."""
    groups: dict[str, list[int]] = {}
    for number, run in enumerate(found.runs):
        groups.setdefault(str(run.manifest["fingerprint"]), []).append(number)
    outcomes = []
    for numbers in groups.values():
        size = _pairs(found.runs[numbers[0]])
        systems = _by_system(found, numbers)
        place = {found.runs[number].label: found.paths[number] for number in numbers}
        runs: dict[str, Path] = {}
        for system, labels in systems.items():
            if len(labels) > 1 or (not labels and system != "complete"):
                raise AccordError(
                    f"{count(size)} pairs of a corpus: {len(labels)} runs are {NAMES[system]} "
                    f"({', '.join(labels) or 'none'})",
                    where=", ".join(place),
                    fix="give one run with Basic and one with Agree, evaluated alike, of each size",
                )
            if labels:
                runs[system] = place[labels[0]]
        outcomes.append((size, outcome_of(runs, found.evaluation)))
    return SizeStudy(found.evaluation, tuple(sorted(outcomes, key=lambda item: item[0])))


def _pairs(run: ReportedRun) -> int:
    return round(fmean(corpus["lines"] for corpus in run.manifest["corpora"]))


def size_tables(study: SizeStudy) -> list[Grid]:
    """Averages and their gains; then every point of the figure."""
    return [tables.by_size(study.named), _points(study)]


def _points(study: SizeStudy) -> Grid:
    """Every point of the figure, what it gains over Basic, and what it was trained for."""
    panels = zero_shot_pairs(study.outcomes[0][1])
    everything = [direction for pair in panels.values() for direction in pair]
    head = ["pairs, system", *panels, "all zero-shot", "− Basic", "95 %", "supervised", "updates"]
    rows = []
    for size, outcome in study.outcomes:
        for system, evaluated in outcome.systems.items():
            test = outcome.tests.get((system, "basic"))
            gain = test.averages["zero_shot"].bleu if test else None
            supervised = outcome.average(system, "supervised")
            rows.append(
                [
                    f"{count(size)}, {NAMES[system]}",
                    *(f"{mean_bleu(outcome, system, pair):.2f}" for pair in panels.values()),
                    f"{mean_bleu(outcome, system, everything):.2f}",
                    signed(gain.difference) if gain else NONE,
                    interval(gain) if gain else NONE,
                    f"{supervised.bleu:.2f}" if supervised else NONE,
                    count(evaluated.evaluation.origin.step),
                ]
            )
    caption = f"BLEU, cased, {study.evaluation}; a pair is the mean of its directions"
    return grid(caption, head, rows)


def size_figures(study: SizeStudy) -> Mapping[str, Any]:
    """As plain data: the verdict, and where each size's figures are."""
    judged = study.verdict
    return {
        "pairs": [size for size, _ in study.outcomes],
        "claim": judged.claim.text,
        "verdict": judged.verdict,
        "because": judged.because,
    }
