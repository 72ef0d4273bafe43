"""Rules between the keys of an experiment: what no single key shows to be wrong.

`load` asks for all of them when it reads a file. A rule is a generator of complaints: the place of
a key, what is wrong with its value, and how to mend it. What files or the data decide as well is
said where these are read.
"""

from collections.abc import Iterable, Iterator

from accord.config.complete_checks import bad_complete
from accord.config.model_settings import OWN_KEYS, OWN_PRESETS, ModelSettings
from accord.config.objectives import (
    AgreementConfig,
    BackTranslationConfig,
    DenoiseConfig,
    DualConfig,
    TieConfig,
)
from accord.config.paths import fill, format_of, format_of_side, locate, named_columns, tsv_columns
from accord.config.schema import Experiment, HeldOut, Source, TrainingSettings, pair_languages
from accord.config.section import Complaint, Location, Section
from accord.config.third_languages import Auxiliary, detours, round_trips
from accord.errors import AccordError

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
    graph = experiment.data_graph
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
    yield from _bad_directions(experiment)
    yield from _bad_decay(experiment.training)
    yield from _bad_validation(experiment)
    if experiment.model.translates:
        yield from _bad_objective(experiment)
    else:
        yield from _bad_language_model_training(experiment)


def _bad_language_model_training(experiment: Experiment) -> Iterator[Complaint]:
    """What only those models can be asked for that translate."""
    for key, section in experiment.objective:
        if section is not None:
            yield (
                ("objective", key),
                "a language model knows the likelihood of its text only",
                "leave it out, or choose another model.kind",
            )
    if experiment.training.validation.metric != "cross_entropy":
        yield (
            ("training", "validation", "metric"),
            "a language model translates nothing that could be measured",
            "leave it at cross_entropy",
        )


def _bad_decay(training: TrainingSettings) -> Iterator[Complaint]:
    """The rate can fall by updates or by the clock, and only towards an end that is known."""
    optimizer, loc = training.optimizer, ("training", "optimizer", "decay_minutes")
    if optimizer.decay_minutes is None:
        return
    if optimizer.decay:
        yield (
            loc,
            f"the rate falls twice: over {optimizer.decay:,} updates (decay) and over "
            f"{optimizer.decay_minutes:g} minutes",
            "give one of the two",
        )
    if training.minutes is None and training.branch_minutes is None:
        yield (
            loc,
            "the rate is to fall in the last minutes, but no time is set that they could be of",
            "set training.minutes or training.branch_minutes, or use decay, which counts updates",
        )


def _bad_directions(experiment: Experiment) -> Iterator[Complaint]:
    """Directions to train that no corpus is for."""
    chosen, loc = experiment.training.directions or (), ("training", "directions")
    for k, pair in enumerate(chosen):
        if problem := _bad_pair(pair, set(experiment.languages)):
            yield (*loc, k), *problem
        elif pair_languages(pair) not in experiment.data_graph.supervised:
            known = ", ".join(map(str, experiment.data_graph.supervised_directions))
            yield (*loc, k), f"no corpus trains {pair}", f"take some of {known}"
        elif pair in chosen[:k]:
            yield (*loc, k), f"{pair} is listed twice", "list each direction once"


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
    zero_shot = {frozenset(pair) for pair in experiment.data_graph.zero_shot_pairs()}
    for pair in overlap.pairs:
        problem = _bad_pair(pair, set(experiment.languages))
        if problem:
            yield loc, *problem
        elif frozenset(pair_languages(pair)) not in zero_shot:
            listed = ", ".join("-".join(p) for p in experiment.data_graph.zero_shot_pairs())
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
    rules = {
        "gnmt": bad_layers,
        "transformer": bad_heads,
        "language-model": _bad_language_model,
    }
    if model.kind in rules:
        yield from rules[model.kind](model)
    yield from _bad_generator(model)


def _bad_language_model(model: ModelSettings) -> Iterator[Complaint]:
    """What only models have that read a source."""
    for key, value in (
        ("encoder_layers", None),
        ("tag", "source"),
        ("tables", None),
        ("generator", None),
    ):
        if getattr(model, key) != value:
            yield (
                ("model", key),
                f"a language model reads no source, so `{key}` does nothing",
                "leave it out: decoder_layers says how many layers it has",
            )


def _bad_generator(model: ModelSettings) -> Iterator[Complaint]:
    generator = model.generator
    if generator is None or generator.bias:
        return
    if generator.rank is not None:
        yield (
            ("model", "generator", "rank"),
            f"without biases, all matrices would be of rank {generator.rank}",
            "set model.generator.bias to true, or leave rank out",
        )
    if model.kind == "transformer":
        yield (
            ("model", "generator", "bias"),
            "without biases, the norms of a Transformer would begin near 0 instead of at 1",
            "set it to true",
        )


# What a phrase-based system has of the sections that are about networks: two keys of training.
_OF_NETWORKS = (
    *("preset", "units", "encoder_layers", "decoder_layers", "dropout", "tag"),
    *("tables", "generator"),
)
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
        yield from bad_complete(experiment, complete)
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
    consistency = experiment.objective.consistency
    if not config.likelihood and consistency is not None and consistency.weight:
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
    for language in config.languages or ():
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
    for key, section in experiment.objective:
        weights = ("weight", "encoder_weight")
        if key != "tie" and section and any(getattr(section, name, 0) for name in weights):
            yield (
                ("objective", key),
                "a model with a generator is trained in batches of one direction, and those of "
                f"{key} may have several",
                f"leave model.generator or objective.{key} out",
            )
