"""Building the objectives of an experiment: the one list that names them."""

from typing import Any

from accord.config.schema import Experiment
from accord.config.section import Naming
from accord.data.store import Store
from accord.objectives.agreement.objective import AgreementObjective
from accord.objectives.back_translation import BackTranslationObjective
from accord.objectives.base import Context, Objective
from accord.objectives.consistency import ConsistencyObjective
from accord.objectives.denoise import DenoiseObjective
from accord.objectives.distillation.objective import DistillationObjective
from accord.objectives.distillation.teaching import teaching_run
from accord.objectives.dual.objective import DualObjective, find_language_model
from accord.objectives.likelihood import LikelihoodObjective
from accord.objectives.tie import TieObjective


def check_runs(experiment: Experiment, store: Store, named: Naming) -> None:
    """Refuse runs that objectives ask and that cannot answer: before training writes anything."""
    complete, dual = experiment.objective.complete, experiment.objective.dual
    if complete and complete.weight:
        teaching_run(complete, experiment, store, named)
    if dual and dual.weight:
        find_language_model(dual, store, named)


def build_objectives(context: Context) -> list[Objective[Any]]:
    """What an experiment optimises, in the order in which an update computes it.

    An objective whose weight is 0 is not even there: the run is Basic, bit for bit.
    """
    asked = context.experiment.objective
    dual = asked.dual if asked.dual and asked.dual.weight else None
    likelihood = LikelihoodObjective(
        context.experiment.training.label_smoothing,
        until=dual.start if dual and not dual.likelihood else None,
    )
    found: list[Objective[Any]] = [likelihood]
    if asked.consistency and asked.consistency.weight:
        found = [ConsistencyObjective(asked.consistency, likelihood)]
    if asked.agreement and (asked.agreement.weight or asked.agreement.encoder_weight):
        found.append(AgreementObjective.of(asked.agreement, context))
    if asked.complete and asked.complete.weight:
        synthetic = DistillationObjective(asked.complete, context, likelihood)
        # Without gold pairs nothing else is computed: of the likelihood only the formula is used.
        found = [*found, synthetic] if context.experiment.learns_from_gold else [synthetic]
    if asked.denoise and asked.denoise.weight:
        found.append(DenoiseObjective(asked.denoise, context, likelihood))
    if asked.back_translation and asked.back_translation.weight:
        found.append(BackTranslationObjective(asked.back_translation, context, likelihood))
    if dual:
        found.append(DualObjective(dual, context))
    if asked.tie and asked.tie.weight:
        found.append(TieObjective.of(asked.tie, context))
    return found
