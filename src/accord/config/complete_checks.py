"""Rules between the keys of synthetic pairs (`objective.complete`): see checks.py."""

from collections.abc import Iterator

from accord.config.objectives import CompleteConfig
from accord.config.schema import Experiment, pair_languages
from accord.config.section import Complaint, Location
from accord.config.third_languages import Triads


def bad_complete(experiment: Experiment, config: CompleteConfig) -> Iterator[Complaint]:
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
        yield (
            (*loc, "search", "sample"),
            f"one translation is drawn, but a beam of {search.beam} is asked for",
            "leave one of search.sample and search.beam out",
        )
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
    if "back-translation" in config.parts:
        yield (
            loc,
            "all tokens are wanted as the teacher finds them likely, but targets of "
            "back-translation are gold",
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
    loc, objective = ("objective", "complete"), experiment.objective
    if config.every > 1 or config.start:
        key = "every" if config.every > 1 else "start"
        yield (
            (*loc, key),
            f"with gold: false, updates without synthetic pairs have nothing to learn from, but "
            f"{key} is {getattr(config, key)}",
            "set every to 1 and start to 0, and name who teaches (teacher.run)",
        )
    for name, other in objective:
        if name not in ("complete", "tie") and other is not None and other.weight:
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
