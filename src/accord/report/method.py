"""By which method a run was trained, and which key to set next where zero-shot fails."""

from collections.abc import Iterator

from accord.config.objectives import ObjectiveSettings
from accord.config.schema import Experiment
from accord.evaluation.records import Evaluation
from accord.report.answer import LEAST_BLEU, Verdict
from accord.report.numbers import count, score

_MODELS = {"gnmt": "GNMT", "transformer": "Transformer"}


def method(experiment: Experiment, step: int) -> str:
    """The method in a sentence; `step` is that of the weights that were evaluated."""
    if not experiment.model.is_network:
        return "Phrase-based: one statistical system for each direction with data."
    begun, waiting = _objectives(experiment, step)
    name = "Basic" if not begun else f"Basic with {' and '.join(begun)}"
    if not experiment.learns_from_gold:
        name = f"No gold pairs, but {' and '.join(begun)}"
    unused = f"; not begun by step {count(step)}: {', '.join(waiting)}" if waiting else ""
    model = experiment.model
    kind = f"{_MODELS.get(model.kind, model.kind)} of {count(model.units)} units"
    if model.generator is not None:
        kind += f", weights generated from languages (CPG: size {model.generator.size})"
    return f"{name}{unused}; {kind}."


def _objectives(experiment: Experiment, step: int) -> tuple[list[str], list[str]]:
    """What is optimised beside the likelihood: what has begun by a step, and what has not."""
    begun, waiting = list[str](), list[str]()
    for said, weight, start in _named(experiment.objective):
        if weight:
            sentence = f"{said}weight {weight:g}, from step {count(start + 1)})"
            (begun if start < step else waiting).append(sentence)
    return begun, waiting


def _named(objective: ObjectiveSettings) -> Iterator[tuple[str, float, int]]:
    """What each objective is called, up to its weight; its weight and start."""
    if agree := objective.agreement:
        yield f"agreement (Agree: {agree.decoding}, ", agree.weight, agree.start
        encodings = f"agreement of encodings ({agree.encoder_measure}, "
        yield encodings, agree.encoder_weight, agree.start
    if complete := objective.complete:
        name = "Complete" if complete.preset == "accord" else f"Distill, {complete.preset}"
        said = f"synthetic pairs ({name}: {complete.teacher.kind} teacher, "
        yield said, complete.weight, complete.start
    if alike := objective.consistency:
        yield "consistency (CrossConST: ", alike.weight, alike.start
    if noise := objective.denoise:
        yield "denoising (", noise.weight, noise.start
    if back := objective.back_translation:
        yield f"online back-translation (RoBT: {back.languages}, ", back.weight, back.start
    if dual := objective.dual:
        yield f"dual learning (Dual-0: alpha {dual.alpha:g}, ", dual.weight, dual.start
    if tie := objective.tie:
        said = f"tied vectors of {' and '.join(tie.languages)} (Soft pivot: "
        yield said, tie.weight, tie.start


def advice(verdict: Verdict, experiment: Experiment, evaluation: Evaluation) -> str:
    """What to try next; nothing where zero-shot works or cannot be judged."""
    if verdict not in ("no", "partly") or not experiment.model.is_network:
        return ""
    step, objective = evaluation.origin.step, experiment.objective
    begun, waiting = _objectives(experiment, step)
    supervised = evaluation.averages.get("supervised")
    if supervised and supervised.bleu < LEAST_BLEU:
        return (
            f"Directions with data do not work yet either (BLEU {score(supervised.bleu)}): train "
            "longer (training.steps), or on more text."
        )
    if waiting and not begun:
        return (
            f"What is to teach directions without data had not begun by step {count(step)}: train "
            "longer (training.steps), or set its key start lower."
        )
    if not begun:
        return (
            "Basic learns nothing about directions without data. Branch off from this run "
            f"(training.init_from) with objective: {{complete: {{start: {step}}}}}, see "
            f"docs/complete.md, or objective: {{agreement: {{start: {step}}}}}, see "
            "docs/agreement.md."
        )
    if not objective.complete:
        return (
            "In our measurements synthetic pairs went further: branch off from this run "
            f"(training.init_from) with objective: {{complete: {{start: {step}}}}}, see "
            "docs/complete.md."
        )
    if objective.complete.weight < 1 or objective.complete.every > 1:
        return (
            "Let synthetic pairs count more: objective.complete.weight: 1 and "
            "objective.complete.every: 1; or train longer (training.steps)."
        )
    return (
        "Train longer (training.steps), or let a better model teach "
        "(objective.complete.teacher.run)."
    )
