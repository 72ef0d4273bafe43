"""reproduction.md: verdicts, the paper's numbers beside ours, commands, environment."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from accord.config.model_settings import ModelSettings
from accord.config.schema import Experiment
from accord.files import atomic_write
from accord.machine import commit
from accord.report.figures import Grid, grid
from accord.report.markdown import escape
from accord.report.numbers import count
from accord.studies import beside_paper as tables
from accord.studies.claims import Judged
from accord.studies.outcome import Outcome, judge, judge_sizes
from accord.studies.paper import TABLES, size_name
from accord.studies.reproduction import Plan

_MEANING = (
    "A claim holds only where the whole 95 % interval of the difference keeps to its limit. "
    "Intervals are by paired bootstrap over the sentences; they say nothing about other seeds."
)
_SMALL = (
    "**Small scale: this is not the training of the paper.** Same data, same model but for input "
    "feeding, other optimiser, larger batches, far fewer updates, agreement by tokens. BLEU is not "
    "to be compared with the paper's point by point; the claims may be."
)


def write_page(plan: Plan, outcomes: Sequence[Outcome]) -> None:
    """Write the page; an earlier one is replaced only when all of the new one is on disk."""
    text = page(plan, outcomes)
    with atomic_write(plan.page) as file:
        file.write(text)


def page(plan: Plan, outcomes: Sequence[Outcome]) -> str:
    """The whole document; there is one outcome a study."""
    lines = _by_size(plan, outcomes) if plan.sizes else _by_table(plan, outcomes[0])
    return "\n".join([*lines, *_appendix(plan, outcomes)]).rstrip() + "\n"


def verdicts(plan: Plan, outcomes: Sequence[Outcome]) -> tuple[Judged, ...]:
    """What this reproduction says about all claims of the paper."""
    return (
        judge_sizes(_named(plan, outcomes)) if plan.sizes else judge(plan.setting.name, *outcomes)
    )


def _named(plan: Plan, outcomes: Sequence[Outcome]) -> list[tuple[str, Outcome]]:
    return list(zip(map(size_name, plan.sizes), outcomes, strict=True))


def _by_table(plan: Plan, outcome: Outcome) -> Iterator[str]:
    paper = TABLES[plan.setting.name]
    yield from _head(paper.title, plan, (outcome,))
    same = tables.on_paper_data(plan.studies[0].experiment, plan.setting.name)
    yield "## The paper's table\n"
    yield from markdown(tables.beside_paper(outcome, paper, same_data=same))
    yield f"{tables.MARKS_EXPLAINED if same else tables.OTHER_DATA}\n"
    if len(paper.counts["zero-shot"]) > 1:
        yield (
            "Over which zero-shot directions the paper's average is, it does not say: "
            f"{' or '.join(map(str, paper.counts['zero-shot']))}.\n"
        )
    yield from markdown(tables.lowercased(outcome))
    yield "## Tests\n"
    yield from markdown(tables.tests(outcome, paper))
    yield "All figures: [report.html](report.html), [report.md](report.md).\n"


def _by_size(plan: Plan, outcomes: Sequence[Outcome]) -> Iterator[str]:
    named = _named(plan, outcomes)
    yield from _head("Small data", plan, outcomes)
    yield "## BLEU against size\n"
    yield f"![BLEU of Basic, Pivot and Agree against lines of the corpora]({plan.figure.name})\n"
    yield from markdown(tables.by_size(named))
    listed = ", ".join(f"[{size}]({size}/report.html)" for size, _ in named)
    yield f"All figures of each size: {listed}.\n"


def _head(title: str, plan: Plan, outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield f"# {escape(title)}: the paper and this reproduction\n"
    if plan.scale == "small":
        yield f"{_SMALL}\n"
    yield from (f"> Note: {escape(note)}\n" for note in _unmatched(plan, outcomes))
    yield "## Verdicts\n"
    rows = [
        [
            f"{item.claim.number}. {item.claim.text}",
            f"**{item.verdict}**",
            item.because,
            item.claim.words,
            item.paper,
        ]
        for item in verdicts(plan, outcomes)
    ]
    head = ["claim", "verdict", "here", "in the paper's words", "by its numbers"]
    yield from markdown(grid("", head, rows, prose=True))
    yield f"{_MEANING}\n"


def _unmatched(plan: Plan, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Branches that were not evaluated after the same number of updates."""
    for study, outcome in zip(plan.studies, outcomes, strict=True):
        steps = {run.label: run.evaluation.origin.step for run in outcome.report.runs}
        if len(set(steps.values())) > 1:
            listed = ", ".join(f"{name} {count(step)}" for name, step in steps.items())
            yield f"{study.directory}: not matched in updates: {listed}"


def _appendix(plan: Plan, outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield "## How it was trained and evaluated\n"
    yield from markdown(_settings(plan, outcomes[0]))
    yield "## Commands\n"
    yield "```"
    yield from (stage.command for stage in plan.stages)
    yield "```\n"
    yield "## Environment\n"
    yield from markdown(_environment(outcomes))


def _model(model: ModelSettings) -> str:
    found = f"{model.preset}, {model.units} units, dropout {model.dropout:g}"
    if model.input_feeding is None:  # no GNMT
        return found
    return f"{found}, input feeding {'on' if model.input_feeding else 'off'}"


def _settings(plan: Plan, outcome: Outcome) -> Grid:
    study = plan.studies[0]
    experiment, agreement = study.experiment, study.experiment.objective.agreement
    training, model = experiment.training, experiment.model
    evaluation = outcome.systems["agree"].evaluation
    sizes = ", ".join(map(count, plan.sizes))
    facts: dict[str, object] = {
        **({"sizes": f"{sizes} lines a corpus; below, the first"} if sizes else {}),
        "recipe": f"{study.recipe.name}, changed by: {', '.join(study.overrides)}",
        "data": f"{_data(experiment)}; fingerprint {evaluation.origin.fingerprint}",
        "model": _model(model),
        "optimiser": f"{training.optimizer.kind}, {training.precision}, "
        f"{count(training.batch_tokens)} tokens an update",
        "updates": f"{count(study.start)} Basic, then {count(training.steps - study.start)} more "
        "in each branch",
        "seed": experiment.training_seed,
        "evaluated": f"{plan.options.split} set, beam {plan.options.beam}, checkpoint "
        f"{plan.options.checkpoint}: "
        + ", ".join(
            f"{run.label} step {count(run.evaluation.origin.step)}" for run in outcome.report.runs
        ),
        "BLEU": evaluation.by_direction[0].bleu.signature,
    }
    if agreement is not None:
        facts["agreement"] = (
            f"weight {agreement.weight:g} by {agreement.normalize}, {agreement.decoding}, "
            f"{agreement.measure}, third language {agreement.auxiliary}"
        )
    return grid("", ["", ""], ([key, str(value)] for key, value in facts.items()), prose=True)


def _data(experiment: Experiment) -> str:
    limits = [corpus.limit for corpus in experiment.corpora if corpus.limit is not None]
    most = f", at most {count(max(limits))} lines a corpus" if limits else ""
    return f"overlap {experiment.overlap.mode}{most}, {count(experiment.vocabulary.size)} subwords"


def _environment(outcomes: Sequence[Outcome]) -> Grid:
    """Of every run, where they differ; a run that was trained elsewhere says so itself."""
    found: dict[str, list[str]] = {"page": [f"commit {commit()}, {_today()}"]}
    for outcome in outcomes:
        for run in outcome.report.runs:
            for key, value in _facts(run.environment, run.evaluation.date).items():
                if value not in found.setdefault(key, []):
                    found[key].append(value)
    return grid("", ["", ""], ([key, "; ".join(said)] for key, said in found.items()), prose=True)


def _facts(environment: Mapping[str, Any], date: str) -> dict[str, str]:
    keys = ("accord", "commit", "device", "host", "python", "torch", "cudnn")
    known = {key: str(environment[key]) for key in keys if environment.get(key) is not None}
    return known | {"evaluated": date}


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def markdown(made: Grid) -> Iterator[str]:
    """A grid as lines of Markdown."""
    if made.caption:
        yield f"{escape(made.caption)}:\n"
    yield f"| {' | '.join(escape(cell) for cell in made.head)} |"
    yield f"|---|{('---|' if made.prose else '---:|') * (len(made.head) - 1)}"
    for row in made.rows:
        yield f"| {' | '.join(_cell(cell) for cell in row)} |"
    yield ""


def _cell(text: str) -> str:
    bold = text.startswith("**") and text.endswith("**")
    return f"**{escape(text[2:-2])}**" if bold else escape(text)
