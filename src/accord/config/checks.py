"""Rules between the keys of an experiment: what no single key shows to be wrong.

`load` asks for all of them when it reads a file. A rule is a generator of complaints: the place of
a key, what is wrong with its value, and how to mend it. What files or the data decide as well is
said where these are read.
"""

from collections.abc import Iterable, Iterator

from accord.config.model_settings import OWN_KEYS, OWN_PRESETS, ModelSettings
from accord.config.objectives import AgreementConfig, CompleteConfig
from accord.config.paths import fill, format_of, format_of_side, locate, named_columns, tsv_columns
from accord.config.schema import Experiment, HeldOut, Source, pair_languages
from accord.config.section import Section
from accord.config.third_languages import Auxiliary, Triads
from accord.errors import AccordError

Location = tuple[str | int, ...]
Complaint = tuple[Location, str, str]

# Every vocabulary has an entry for each byte and each language, the unknown, padding and the end.
_BYTES, _SPECIAL = 256, 3


def dotted(location: Location) -> str:
    """A place as it is written for `--set`: corpora.0.pair."""
    return ".".join(str(part) for part in location)


def refuse(complaints: Iterable[Complaint]) -> None:
    """Raise the first complaint: for settings that were made in Python and come from no file."""
    for location, what, fix in complaints:
        raise AccordError(what, where=dotted(location), fix=fix)


def contradictions(experiment: Experiment) -> Iterator[Complaint]:
    """What no single key shows: undeclared languages, a graph in pieces, and the like."""
    languages = set(experiment.languages)
    if len(languages) < len(experiment.languages):
        yield ("languages",), "a language is listed twice", "list each language once"
        return
    unknown = False
    pairs: dict[frozenset[str], int] = {}
    for i, corpus in enumerate(experiment.corpora):
        loc: Location = ("corpora", i, "pair")
        problem = _bad_pair(corpus.pair, languages)
        unknown |= problem is not None
        if problem:
            yield loc, *problem
        first = pairs.setdefault(frozenset(corpus.languages), i)
        if first != i:
            yield (
                loc,
                f"corpus {first + 1} has the pair {corpus.pair} already",
                "one corpus a pair: list all its files under one `train`",
            )
        for j, source in enumerate(corpus.train):
            yield from _bad_source(("corpora", i, "train", j), source, corpus.languages)
    if unknown:
        return
    graph = experiment.graph
    if not graph.spans():
        pieces = "; ".join(" ".join(part) for part in graph.components())
        yield (
            ("corpora",),
            f"the corpora do not connect all languages: {pieces}",
            "add a corpus between the parts, or take languages out: no training can reach a "
            "direction between them",
        )
    for name, held_out in experiment.held_out.items():
        yield from _bad_held_out(name, held_out, languages)
    yield from _bad_overlap(experiment)
    yield from _bad_vocabulary(experiment)
    yield from bad_model(experiment.model)
    if experiment.model.kind == "phrase-based":
        yield from _bad_phrase_based(experiment)
        return
    yield from _bad_validation(experiment)
    yield from _bad_objective(experiment)


def _bad_validation(experiment: Experiment) -> Iterator[Complaint]:
    settings = experiment.training.validation
    if settings.metric != "agreement":
        return
    loc: Location = ("training", "validation", "metric")
    if not settings.sentences:
        yield (
            loc,
            "agreement cannot choose the model where nothing is translated",
            "set training.validation.sentences to 100, say",
        )
    if settings.directions == "all":
        yield (
            loc,
            "agreement is to choose without zero-shot references, `directions: all` with them",
            "leave training.validation.directions at supervised; `watch: all` only logs",
        )
    if not experiment.dev.given:
        yield (
            loc,
            "agreement is measured on dev sentences, and `dev` names none",
            "add a dev set, or choose by cross_entropy",
        )
    elif not any(experiment.graph.anchors(*direction) for direction in experiment.graph.zero_shot):
        yield (
            loc,
            "there is nothing to measure agreement on: no pair with training data has a third "
            "language that only one of the two has data into",
            "choose by cross_entropy or bleu",
        )


def _bad_pair(pair: str, languages: set[str]) -> tuple[str, str] | None:
    first, second = pair_languages(pair)
    if first == second:
        return f"{pair!r} is one language twice", "a pair has two languages"
    missing = [language for language in (first, second) if language not in languages]
    if missing:
        return (
            f"language {missing[0]!r} of pair {pair!r} is not in `languages`",
            f"add it there; now: {', '.join(sorted(languages))}",
        )
    return None


def _bad_source(
    location: Location, source: Source, languages: tuple[str, str]
) -> Iterator[Complaint]:
    """A path that cannot be of its format, and columns that do not go with them."""
    if "$" in source.path:  # the environment decides as well: another machine may have run this
        return
    where = (*location, "path")
    try:
        kind = format_of(source.path, source.format)
        for language in languages:
            locate(fill(source.path, language))
        where = (*location, "columns")
        tsv_columns(source.path, languages, kind, source.columns)
        named_columns(source.path, languages, kind, source.columns)
    except AccordError as error:
        yield where, f"{source.path!r}: {error.what}", error.fix or "mend the path"


def _bad_shared_set(name: str, held_out: HeldOut) -> Iterator[Complaint]:
    """The same for a multi-parallel set."""
    path = held_out.path
    if path is None or "$" in path:
        return
    try:
        format_of_side(path, held_out.format)
        locate(fill(path, "{lang}"))
    except AccordError as error:
        yield (name, "path"), f"{path!r}: {error.what}", error.fix or "mend the path"


def _bad_held_out(name: str, held_out: HeldOut, languages: set[str]) -> Iterator[Complaint]:
    given = [key for key in ("path", "sets", "lines") if getattr(held_out, key)]
    if len(given) > 1:
        both = " and ".join(f"`{key}`" for key in given)
        yield (name,), f"{'both ' if len(given) == 2 else ''}{both} are given", "give one of them"
    yield from _bad_shared_set(name, held_out)
    pairs: dict[frozenset[str], int] = {}
    for i, item in enumerate(held_out.sets):
        loc: Location = (name, "sets", i, "pair")
        problem = _bad_pair(item.pair, languages)
        if problem:
            yield loc, *problem
        yield from _bad_source((name, "sets", i), item, pair_languages(item.pair))
        first = pairs.setdefault(frozenset(pair_languages(item.pair)), i)
        if first != i:
            yield (
                loc,
                f"{item.pair} ({item.path}) is set {i + 1}, but set {first + 1} is "
                f"{held_out.sets[first].pair} ({held_out.sets[first].path}) already",
                "one set a pair, in either order: join their files or leave one out",
            )


def _bad_overlap(experiment: Experiment) -> Iterator[Complaint]:
    overlap, loc = experiment.overlap, ("overlap", "pairs")
    if overlap.mode == "pairwise" and not overlap.pairs:
        yield loc, "mode pairwise needs the pairs to split", "for example pairs: [de-fr, de-es]"
    if overlap.mode != "pairwise" and overlap.pairs:
        yield loc, f"mode {overlap.mode} takes no pairs", "leave `pairs` out or use mode: pairwise"
    zero_shot = {frozenset(pair) for pair in experiment.graph.zero_shot_pairs()}
    for pair in overlap.pairs:
        problem = _bad_pair(pair, set(experiment.languages))
        if problem:
            yield loc, *problem
        elif frozenset(pair_languages(pair)) not in zero_shot:
            listed = ", ".join("-".join(p) for p in experiment.graph.zero_shot_pairs())
            yield loc, f"{pair} is supervised, not zero-shot", f"zero-shot pairs: {listed}"
        elif not _pivots(experiment, *pair_languages(pair)):
            yield (
                loc,
                f"no corpora of {pair} meet in a pivot language",
                "take the pair out: it has no common pivot sentences to split",
            )


def _pivots(experiment: Experiment, first: str, second: str) -> set[str]:
    """The languages that both have a corpus with."""
    pairs = [set(corpus.languages) for corpus in experiment.corpora]
    return {
        pivot
        for pivot in experiment.languages
        if {pivot, first} in pairs and {pivot, second} in pairs
    }


def _bad_vocabulary(experiment: Experiment) -> Iterator[Complaint]:
    size, languages = experiment.vocabulary.size, len(experiment.languages)
    taken = _BYTES + _SPECIAL + languages
    if size <= taken:
        yield (
            ("vocabulary", "size"),
            f"{size} entries leave none for text: bytes, marks and the tags of {languages} "
            f"languages take {taken}",
            f"give more than {taken}, better thousands",
        )


def bad_model(model: ModelSettings) -> Iterator[Complaint]:
    """Keys and presets of another kind of model, and sizes that do not fit together."""
    if model.preset not in OWN_PRESETS.get(model.kind, (model.preset,)):
        other = next(kind for kind, presets in OWN_PRESETS.items() if model.preset in presets)
        yield (
            ("model", "preset"),
            f"{model.preset} is a preset of kind {other}, but the model is a {model.kind}",
            f"set model.kind to {other}, or choose from {', '.join(OWN_PRESETS[model.kind])}",
        )
        return
    for other, keys in OWN_KEYS.items():
        for key in keys:
            if other != model.kind and getattr(model, key) is not None:
                yield (
                    ("model", key),
                    f"only a {other} model has `{key}`, but model.kind is {model.kind}",
                    f"leave it out (or null), or set model.kind to {other}",
                )
    rules = {"gnmt": bad_layers, "transformer": bad_heads}
    if model.kind in rules:
        yield from rules[model.kind](model)


# What a phrase-based system has of the sections that are about networks: two keys of training.
_OF_NETWORKS = ("preset", "units", "encoder_layers", "decoder_layers", "dropout", "tag")
_OF_ALL = ("seed", "threads")


def _bad_phrase_based(experiment: Experiment) -> Iterator[Complaint]:
    """Keys that only make sense for a network; dev sentences to tune on."""
    model, training = experiment.model, experiment.training
    sections: tuple[tuple[str, Section, Iterable[str]], ...] = (
        ("model", model, _OF_NETWORKS),
        ("objective", experiment.objective, type(experiment.objective).model_fields),
        ("training", training, set(type(training).model_fields).difference(_OF_ALL)),
    )
    for section, values, keys in sections:
        for key, field in type(values).model_fields.items():
            if key in keys and getattr(values, key) != field.default:
                yield (
                    (section, key),
                    "a phrase-based system is not trained by updates of a network, which this is "
                    "about",
                    f"leave {section}.{key} out, or choose another model.kind",
                )
    if model.tuning is not None and model.tuning.evaluations and not experiment.dev.given:
        yield (
            ("model", "tuning"),
            "weights are tuned on dev sentences, and `dev` names none",
            "add a dev set, or set model.tuning.evaluations to 0",
        )


def bad_heads(model: ModelSettings) -> Iterator[Complaint]:
    """The heads of a Transformer share out its units; a residual is that of a layer."""
    units, heads = model.units, model.heads or 1
    if units % 2 or units % heads:
        yield (
            ("model", "heads"),
            f"{units} units cannot be shared out to {heads} heads, or are odd",
            "let units be even and a multiple of heads: 64 units per head are usual",
        )
    layer, layers = model.encoder_residual, model.encoder_depth
    if layer is not None and layer > layers:
        yield (
            ("model", "encoder_residual"),
            f"there is no encoder layer {layer} whose residual could be left out",
            f"give a layer from 1 to {layers}, or leave it out",
        )


def bad_layers(model: ModelSettings) -> Iterator[Complaint]:
    """Every decoder layer of GNMT starts from one encoder state."""
    encoder, states, decoder = model.encoder_depth, model.encoder_states, model.decoder_depth
    if model.preset == "gnmt3" and encoder < 2:
        yield (
            ("model", "encoder_layers"),
            f"the encoder of preset gnmt3 has {encoder} layer",
            "give it at least 2: one bidirectional layer and one above",
        )
    elif states != decoder:
        yield (
            ("model", "decoder_layers"),
            f"{decoder} decoder layers cannot start from {states} encoder states "
            f"(preset {model.preset}, encoder_layers {encoder})",
            f"set decoder_layers to {states}, or leave it out",
        )


# --- Objectives: only those that count, since a weight of 0 leaves one out.


def _bad_objective(experiment: Experiment) -> Iterator[Complaint]:
    agreement, complete = experiment.objective.agreement, experiment.objective.complete
    if agreement is not None and (agreement.weight or agreement.encoder_weight):
        yield from bad_agreement(_auxiliary(experiment, agreement))
    if complete is not None and complete.weight:
        yield from _bad_search(complete)
        yield from _bad_teacher(experiment, complete)
        yield from _bad_triads(experiment, complete)


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


def _bad_search(config: CompleteConfig) -> Iterator[Complaint]:
    search, (least, most) = config.search, config.filters.length_ratio
    loc: Location = ("objective", "complete")
    if search.nbest > search.beam:
        yield (
            (*loc, "search", "nbest"),
            f"a beam of {search.beam} finds no {search.nbest} translations",
            "give a larger search.beam",
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
    if teacher.kind != "frozen" and teacher.guard and not experiment.held_out.get("dev"):
        yield (
            (*loc, "guard"),
            "the guard of the teacher has no dev sentences to measure it on",
            "give `dev` sentences, or switch the guard off",
        )


def _bad_triads(experiment: Experiment, config: CompleteConfig) -> Iterator[Complaint]:
    graph = experiment.graph
    if not Triads(graph, config.parts).any_of(corpus.languages for corpus in experiment.corpora):
        supervised = ", ".join(map(str, graph.supervised_directions))
        yield (
            ("objective", "complete"),
            f"no training pair can be completed: with data for {supervised}, no corpus has a third "
            "language that one of its sides is trained to translate into and that makes a pair "
            f"without data ({', '.join(config.parts)})",
            "add a corpus that shares a language with another one, train corpora in both "
            "directions, or leave objective.complete out",
        )
