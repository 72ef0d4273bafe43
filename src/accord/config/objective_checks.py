"""Rules between the keys of `objective`, and between these and others: see checks.py."""

from collections.abc import Iterator

from accord.config.objectives import (
    AgreementConfig,
    BackTranslationConfig,
    CompleteConfig,
    DenoiseConfig,
    DualConfig,
    TieConfig,
)
from accord.config.schema import Experiment, pair_languages
from accord.config.section import Complaint, Location
from accord.config.third_languages import (
    BACK_TRANSLATION,
    ROUND_TRIP,
    Auxiliary,
    Triads,
    detours,
    round_trips,
)


def bad_objective(experiment: Experiment) -> Iterator[Complaint]:
    """Rules of those objectives that count: a weight of 0 leaves one out."""
    agreement, complete = experiment.objective.agreement, experiment.objective.complete
    if agreement is not None and (agreement.weight or agreement.encoder_weight):
        yield from bad_agreement(_auxiliary(experiment, agreement))
    if complete is not None and complete.weight:
        yield from _bad_complete(experiment, complete)
    denoise, back = experiment.objective.denoise, experiment.objective.back_translation
    if denoise is not None and denoise.weight:
        yield from _bad_denoising(experiment, denoise)
    if back is not None and back.weight:
        yield from _bad_detours(experiment, back)
    if experiment.objective.dual is not None and experiment.objective.dual.weight:
        yield from _bad_dual(experiment, experiment.objective.dual)
    if experiment.model.generator is not None:
        yield from _bad_for_generator(experiment)
    tie = experiment.objective.tie
    if tie is not None and tie.weight:
        yield from _bad_tie(experiment, tie)


def _bad_dual(experiment: Experiment, config: DualConfig) -> Iterator[Complaint]:
    graph, loc = experiment.graph, ("objective", "dual")
    if not any(round_trips(graph, language) for language in graph.languages):
        yield (
            loc,
            "no two languages that are translated into are without data both ways, so there is no "
            "round trip to reward",
            "add languages, or leave objective.dual out",
        )
    if not config.likelihood and "consistency" in experiment.objective.active:
        yield (
            (*loc, "likelihood"),
            "consistency is computed together with the likelihood, which is to be left out",
            "leave objective.consistency out, or keep the likelihood",
        )
    if not config.likelihood and config.every > 1:
        yield (
            (*loc, "every"),
            f"without the likelihood, {config.every - 1} of {config.every} updates would learn "
            "nothing",
            "set it to 1, or keep the likelihood",
        )


def _auxiliary(experiment: Experiment, config: AgreementConfig) -> Auxiliary:
    return Auxiliary(experiment.graph, config.auxiliary, config.protect)


def bad_agreement(auxiliary: Auxiliary) -> Iterator[Complaint]:
    """Agreement without a direction that it may change."""
    if not auxiliary.any_live():
        yield (
            ("objective", "agreement"),
            "no corpus has a language outside its pair with a zero-shot direction into it, "
            "so there is nothing to agree on",
            "add languages, or set objective.agreement.weight to 0",
        )


def _bad_denoising(experiment: Experiment, config: DenoiseConfig) -> Iterator[Complaint]:
    for language in () if config.languages == "all" else config.languages or ():
        if language not in experiment.languages:
            yield (
                ("objective", "denoise", "languages"),
                f"language {language!r} is not in `languages`",
                f"choose from {', '.join(experiment.languages)}",
            )


def _bad_detours(experiment: Experiment, config: BackTranslationConfig) -> Iterator[Complaint]:
    graph = experiment.graph
    targets = {target for _, target in graph.supervised_directions}
    if not any(detours(graph, config.languages, target) for target in targets):
        yield (
            ("objective", "back_translation", "languages"),
            "there is no direction without data into a language that is a target in training, so "
            "there is nothing to translate back",
            "use `languages: all`, or leave objective.back_translation out",
        )


def _bad_tie(experiment: Experiment, config: TieConfig) -> Iterator[Complaint]:
    if experiment.model.tables == "shared":
        yield (
            ("objective", "tie"),
            "sources and targets have one table, so that there is nothing to tie",
            "set model.tables to separate, or leave objective.tie out",
        )
    for language in config.languages:
        if language not in experiment.languages:
            yield (
                ("objective", "tie", "languages"),
                f"{language!r} is not in `languages`",
                f"choose the pivot from {', '.join(experiment.languages)}",
            )
        elif not all(
            any(direction[side] == language for direction in experiment.graph.supervised_directions)
            for side in (0, 1)
        ):
            yield (
                ("objective", "tie", "languages"),
                f"no training text has {language!r} on both sides: as a source and as a target",
                "choose a language that is translated from and into, or train corpora in both "
                "directions",
            )


def _bad_for_generator(experiment: Experiment) -> Iterator[Complaint]:
    """Its weights are made once for a batch, whose rows must then be of one direction."""
    for key in experiment.objective.active:
        if key != "tie":
            yield (
                ("objective", key),
                "a model with a generator is trained in batches of one direction, and those of "
                f"{key} may have several",
                f"leave model.generator or objective.{key} out",
            )


# --- Synthetic pairs.


def _bad_complete(experiment: Experiment, config: CompleteConfig) -> Iterator[Complaint]:
    """Searches, teachers and directions that contradict each other or the corpora."""
    yield from _bad_search(config)
    yield from _bad_teacher(experiment, config)
    yield from _bad_triads(experiment, config)
    yield from _bad_without_gold(experiment, config)


def _bad_search(config: CompleteConfig) -> Iterator[Complaint]:
    search, (least, most) = config.search, config.filters.length_ratio
    loc: Location = ("objective", "complete")
    if search.nbest > search.beam:
        yield (
            (*loc, "search", "nbest"),
            f"a beam of {search.beam} finds no {search.nbest} translations",
            "give a larger search.beam",
        )
    if search.sample is not None and search.beam > 1:
        yield _drawn_with_a_beam(config)
    if config.select == "agreement" and search.nbest < 2:
        yield (
            (*loc, "select"),
            "agreement chooses between translations, but there is only one",
            "give search.nbest and search.beam of 2 or more",
        )
    if config.select == "agreement" and config.teacher.vote > 0:
        yield (
            (*loc, "select"),
            "both sides are heard twice: in the search (teacher.vote) and in the choice",
            "use one of the two",
        )
    if least > most:
        yield (
            (*loc, "filters", "length_ratio"),
            f"no length lies between {least:g} and {most:g} times the usual one",
            "give the smaller number first",
        )


def _drawn_with_a_beam(config: CompleteConfig) -> Complaint:
    """One of the two may be the preset's: then there is nothing to leave out but the other."""
    loc: Location = ("objective", "complete", "search")
    drawn, kept = "one translation is drawn", f"a beam of {config.search.beam} is asked for"
    preset = f"preset {config.preset}"
    if "sample" in config.preset_search:
        return (
            (*loc, "beam"),
            f"{kept}, but {drawn} with {preset}, which sets search.sample",
            "leave search.beam out, or take another preset, such as sentence-beam",
        )
    if "beam" in config.preset_search:
        return (
            (*loc, "sample"),
            f"{drawn}, but {kept} with {preset}, which sets search.beam",
            "leave search.sample out, or take another preset, such as word-sampling",
        )
    return (
        (*loc, "sample"),
        f"{drawn}, but {kept}",
        "leave one of search.sample and search.beam out",
    )


def _bad_teacher(experiment: Experiment, config: CompleteConfig) -> Iterator[Complaint]:
    teacher, loc = config.teacher, ("objective", "complete", "teacher")
    if teacher.run is not None and teacher.kind != "frozen":
        yield (
            (*loc, "run"),
            f"another run cannot teach where the teacher is {teacher.kind}",
            "use teacher.kind frozen, or leave teacher.run out",
        )
    if teacher.run is None and teacher.checkpoint != "best":
        yield (
            (*loc, "checkpoint"),
            f"{teacher.checkpoint} is a checkpoint of another run, but none is to teach",
            "name it (teacher.run), or leave teacher.checkpoint out",
        )
    yield from _bad_whole_softmax(config)
    if teacher.kind != "frozen" and teacher.guard and not experiment.held_out.get("dev"):
        yield (
            (*loc, "guard"),
            "the guard of the teacher has no dev sentences to measure it on",
            "give `dev` sentences, or switch the guard off",
        )


def _bad_whole_softmax(config: CompleteConfig) -> Iterator[Complaint]:
    """What the teacher's whole distribution cannot go with."""
    loc: Location = ("objective", "complete", "teacher", "tokens")
    if config.teacher.tokens != "all":
        return
    if gold := [part for part in config.parts if part in (BACK_TRANSLATION, ROUND_TRIP)]:
        yield (
            loc,
            "all tokens are wanted as the teacher finds them likely, but targets of "
            f"{' and '.join(gold)} are gold",
            "set objective.complete.parts to [distillation], or tokens to 64 or less",
        )
    if config.teacher.checkpoint == "ensemble":
        yield (
            loc,
            "the teacher's whole softmax is of one model, but an ensemble is to teach",
            "set tokens to 64 or less, or let another teacher.checkpoint teach",
        )
    if config.teacher.vote:
        yield (
            loc,
            f"the teacher's whole softmax is of one sentence, but two vote ({config.teacher.vote})",
            "set tokens to 64 or less, or leave teacher.vote out",
        )


def _bad_without_gold(experiment: Experiment, config: CompleteConfig) -> Iterator[Complaint]:
    """Without gold pairs there is nothing but synthetic ones to make an update of."""
    if config.gold:
        return
    loc: Location = ("objective", "complete")
    if config.every > 1 or config.start:
        key = "every" if config.every > 1 else "start"
        yield (
            (*loc, key),
            f"with gold: false, updates without synthetic pairs have nothing to learn from, but "
            f"{key} is {getattr(config, key)}",
            "set every to 1 and start to 0, and name who teaches (teacher.run)",
        )
    for name in experiment.objective.active:
        if name not in ("complete", "tie"):
            yield (
                (*loc, "gold"),
                f"gold pairs are to be left out, but {name} learns from them",
                f"leave one of gold: false and objective.{name} out",
            )
    validation = experiment.training.validation
    chosen = validation.watch == "all" or validation.patience or validation.metric == "agreement"
    if validation.directions == "supervised" and chosen:
        yield (
            (*loc, "gold"),
            "with gold: false no direction with data is trained, so none can choose the model",
            "set training.validation.directions to all (references of zero-shot directions then "
            "choose it), or leave training.validation out: then the last checkpoint counts",
        )


def _bad_triads(experiment: Experiment, config: CompleteConfig) -> Iterator[Complaint]:
    graph, pairs = experiment.graph, [corpus.languages for corpus in experiment.trained_corpora]
    able = Triads(graph, config.parts).directions(pairs)
    for k, pair in enumerate(config.directions or ()):
        if able and pair_languages(pair) not in able:
            yield (
                ("objective", "complete", "directions", k),
                f"no synthetic pairs can be made for {pair} ({', '.join(config.parts)})",
                f"take some of {', '.join(map(str, able))}",
            )
    if not able:
        supervised = ", ".join(map(str, graph.supervised_directions))
        yield (
            ("objective", "complete"),
            f"no training pair can be completed: with data for {supervised}, no corpus has a third "
            "language that one of its sides is trained to translate into and that makes a pair "
            f"without data ({', '.join(config.parts)})",
            "add a corpus that shares a language with another one, train corpora in both "
            "directions, or leave objective.complete out",
        )
