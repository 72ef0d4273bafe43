"""The tables of a reproduction: the paper's numbers beside ours, and systems against each other.

What the paper has from others stands on the right, as printed, and is compared with nothing.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import pstdev

from accord.config.load import load
from accord.config.schema import Experiment
from accord.config.shipped import recipe
from accord.errors import AccordError
from accord.evaluation.significance import Difference
from accord.graph import KINDS, Kind
from accord.report.contents import ReportedRun
from accord.report.figures import Grid, grid
from accord.report.numbers import NONE, signed
from accord.report.paper_table import Published, published_explained
from accord.studies.outcome import Outcome
from accord.studies.paper import NAMES, SYSTEMS, TABLES, PaperTable, Scores

ABOVE, BELOW = "▲", "▼"
MARKS_EXPLAINED = (
    f"{ABOVE} and {BELOW}: ours is above or below the paper's by more than half the width of our "
    "95 % interval (sentences resampled; not another seed of training)."
)
OTHER_DATA = (
    "Not the paper's text, or not all of its test set: its BLEU cannot be set beside ours, only "
    "differences between systems can."
)
_EXTRA = {"iwslt_4": "IWSLT 2017, 4 directions"}


def on_paper_data(experiment: Experiment, setting: str) -> bool:
    """Whether a run has the text of the setting's own recipe, wherever these files lie.

    Elsewhere BLEU says as much about the text as about the system.
    """
    return _text(experiment) == _text(load(recipe(setting)))


def same_data(runs: Sequence[ReportedRun], setting: str) -> bool:
    """Whether all of these were also evaluated on the whole of the setting's test set."""
    return all(
        run.evaluation.split == "test"
        and run.evaluation.limit is None
        and run.evaluation.lines is None
        and on_paper_data(run.experiment, setting)
        for run in runs
    )


def published(runs: Sequence[ReportedRun], setting: str) -> tuple[Published, ...]:
    """All columns of the setting's table, for a report on runs with its text."""
    if not same_data(runs, setting):
        raise AccordError(
            f"these runs do not have the text of {setting}, or not all of its test set: BLEU that "
            "was published cannot stand beside theirs",
            where=", ".join(run.label for run in runs),
            fix="leave --paper out; `accord compare --paper` sets differences beside the paper's",
        )
    return TABLES[setting].published


def explained(paper: PaperTable, *, same_data: bool) -> str:
    """What has to be said below the table."""
    if not same_data:
        return OTHER_DATA
    return f"{MARKS_EXPLAINED} {published_explained(_others(paper))}".rstrip()


def _others(paper: PaperTable) -> tuple[Published, ...]:
    return paper.published[: len(paper.others)]


def _text(experiment: Experiment) -> tuple[list[str], ...]:
    corpora = [
        f"{corpus.pair} {Path(file.path).name} {corpus.limit}"
        for corpus in experiment.corpora
        for file in corpus.train
    ]
    held_out = [
        f"{split} {Path(path).name}"
        for split, sets in experiment.held_out.items()
        for path in (sets.path, *(item.path for item in sets.sets))
        if path
    ]
    return sorted(corpora), sorted(held_out)


def beside_paper(outcome: Outcome, paper: PaperTable, *, same_data: bool) -> Grid:
    """Every direction and average: the paper's BLEU, ours with its interval, the difference.

    Then Complete, which the paper does not have, and what it has from others. Of another text than
    the paper's, ours alone.
    """
    others = _others(paper) if same_data else ()
    head = ["direction"]
    for system in SYSTEMS:
        name = NAMES[system]
        head += [f"{name}, paper", "here", "difference"] if same_data else [name]
    if "complete" in outcome.systems:
        head.append("Complete")
    head += [column.label for column in others]
    rows: list[list[str]] = []
    for kind in KINDS:
        some = _ordered(outcome, kind, paper)
        rows += [
            [*_direction(outcome, name, paper, same_data), *_printed(others, name)] for name in some
        ]
        group = kind.replace("-", "_")
        label = f"{kind} average ({len(some)})"
        cells = _average(outcome, label, group, paper.averages[kind], same_data)
        rows.append([*cells, *_printed(others, kind)])
    for group, label in _EXTRA.items():
        found = outcome.average("basic", group)
        if found and len(found.directions) < len(_zero_shot(outcome)):
            cells = _average(outcome, label, group, paper.averages["zero-shot"], same_data)
            rows.append([*cells, *_printed(others, "zero-shot")])
    return grid("BLEU, cased", head, rows)


def _printed(others: Sequence[Published], key: str) -> list[str]:
    return [column.shown(key) for column in others]


def _ordered(outcome: Outcome, kind: Kind, paper: PaperTable) -> list[str]:
    """The directions of a kind, in the paper's order as far as it has one."""
    order = {name: place for place, name in enumerate(paper.rows)}
    some = [row.direction for row in outcome.directions if row.kind == kind]
    return sorted(some, key=lambda name: order.get(name, 0))


def _zero_shot(outcome: Outcome) -> list[str]:
    return [row.direction for row in outcome.directions if row.kind == "zero-shot"]


def _direction(outcome: Outcome, name: str, paper: PaperTable, same_data: bool) -> list[str]:
    printed = paper.rows.get(name)
    cells = [name]
    for system in SYSTEMS:
        score = outcome.row(system, name).bleu
        theirs = printed.of(system) if printed else None
        cells += _cells(theirs, score.score, score.confidence_var, same_data)
    if "complete" in outcome.systems:
        score = outcome.row("complete", name).bleu
        cells.append(_with_interval(score.score, score.confidence_var))
    return cells


def _average(
    outcome: Outcome, label: str, group: str, printed: Scores, same_data: bool
) -> list[str]:
    cells = [label]
    for system in SYSTEMS:
        mean = outcome.average(system, group)
        theirs = printed.of(system)
        if mean is None:
            cells += [f"{theirs:.2f}", NONE, NONE] if same_data else [NONE]
        else:
            cells += _cells(theirs, mean.bleu, mean.bleu_confidence, same_data)
    if "complete" in outcome.systems:
        mean = outcome.average("complete", group)
        cells.append(_with_interval(mean.bleu, mean.bleu_confidence) if mean else NONE)
    return cells


def _cells(theirs: float | None, ours: float, half: float, same_data: bool) -> list[str]:
    here = _with_interval(ours, half)
    if not same_data:
        return [here]
    if theirs is None:
        return [NONE, here, NONE]
    off = ours - theirs
    mark = "" if abs(off) <= half else f" {ABOVE if off > 0 else BELOW}"
    return [f"{theirs:.2f}", here, f"{signed(off)}{mark}"]


def _with_interval(value: float, half: float) -> str:
    return f"{value:.2f} ±{half:.2f}"


def tests(outcome: Outcome, paper: PaperTable) -> Grid:
    """Systems against each other: difference, 95 % interval and p, and the paper's difference."""
    pairs = [("agree", "basic"), ("agree", "pivot")]
    if "complete" in outcome.systems:
        pairs += [("complete", "basic"), ("complete", "pivot"), ("complete", "agree")]
    head = ["direction"]
    for ours, theirs in pairs:
        head += [f"{NAMES[ours]} − {NAMES[theirs]}", "95 %", "p"]
        head += ["in the paper"] if ours != "complete" else []
    rows = []
    for kind in KINDS:
        some = _ordered(outcome, kind, paper)
        for name in some:
            found = [_tested(outcome, pair, name) for pair in pairs]
            rows.append([name, *_test_cells(pairs, found, paper.rows.get(name))])
        group = kind.replace("-", "_")
        means = [outcome.tests[pair].averages[group].bleu for pair in pairs]
        cells = _test_cells(pairs, means, paper.averages[kind])
        rows.append([f"{kind} average ({len(some)})", *cells])
    return grid("Differences in BLEU, paired bootstrap, two-sided", head, rows)


def _tested(outcome: Outcome, pair: tuple[str, str], name: str) -> Difference:
    return next(row.bleu for row in outcome.tests[pair].directions if row.name == name)


def _test_cells(
    pairs: Sequence[tuple[str, str]], found: Sequence[Difference], printed: Scores | None
) -> list[str]:
    cells: list[str] = []
    for (ours, theirs), item in zip(pairs, found, strict=True):
        cells += [signed(item.difference), f"{signed(item.low)} to {signed(item.high)}"]
        cells.append(f"{item.p:.3f}")
        if ours == "complete":
            continue
        scores = vars(printed) if printed else {}
        cells.append(signed(scores[ours] - scores[theirs]) if scores else NONE)
    return cells


def lowercased(outcome: Outcome) -> Grid:
    """The averages without case, since the paper does not say which its are."""
    rows = []
    for name in outcome.systems:
        means = [outcome.average(name, kind.replace("-", "_")) for kind in KINDS]
        rows.append([NAMES[name], *(f"{m.bleu_lowercase:.2f}" if m else NONE for m in means)])
    return grid("Averages of lowercased BLEU", ["", *KINDS], rows)


def by_size(outcomes: Sequence[tuple[str, Outcome]]) -> Grid:
    """The small-data study: averages, their gains, and how far directions lie apart."""
    complete = all("complete" in outcome.systems for _, outcome in outcomes)
    systems = (*SYSTEMS, "complete") if complete else SYSTEMS
    trained = [system for system in systems if system != "pivot"]
    pairs = [(ours, theirs) for ours in systems[2:] for theirs in ("basic", "pivot")]
    head = ["lines a corpus"]
    head += [f"{NAMES[system]}, zero-shot" for system in systems]
    for ours, theirs in pairs:
        head += [f"{NAMES[ours]} − {NAMES[theirs]}", "95 %"]
    head += [f"{NAMES[system]}, spread" for system in systems]
    head += [f"{NAMES[system]}, supervised" for system in trained]
    rows = []
    for size, outcome in outcomes:
        cells = [size]
        for system in systems:
            mean = outcome.average(system, "zero_shot")
            cells.append(_with_interval(mean.bleu, mean.bleu_confidence) if mean else NONE)
        for pair in pairs:
            item = outcome.tests[pair].averages["zero_shot"].bleu
            cells += [signed(item.difference), f"{signed(item.low)} to {signed(item.high)}"]
        cells += [f"{_spread(outcome, system):.2f}" for system in systems]
        for system in trained:
            mean = outcome.average(system, "supervised")
            cells.append(f"{mean.bleu:.2f}" if mean else NONE)
        rows.append(cells)
    return grid("BLEU, cased; spread: standard deviation over zero-shot directions", head, rows)


def _spread(outcome: Outcome, system: str) -> float:
    return pstdev(outcome.row(system, name).bleu.score for name in _zero_shot(outcome))
