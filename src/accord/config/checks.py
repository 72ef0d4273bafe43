"""Rules between the keys of an experiment: what no single key shows to be wrong.

`load` asks for all of them when it reads a file. A rule is a generator of complaints: the place of
a key, what is wrong with its value, and how to mend it. What files or the data decide as well is
said where these are read.
"""

from collections.abc import Iterable, Iterator
from os.path import normpath

from accord.config.model_checks import bad_language_model_training, bad_model, bad_phrase_based
from accord.config.objective_checks import bad_objective
from accord.config.paths import fill, format_of, format_of_side, locate, named_columns, tsv_columns
from accord.config.schema import Experiment, HeldOut, Source, TrainingSettings, pair_languages
from accord.config.section import Complaint, Location
from accord.errors import AccordError
from accord.files import expand

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
    yield from _bad_places(experiment)
    for name, held_out in experiment.held_out.items():
        yield from _bad_held_out(name, held_out, languages)
    yield from _bad_overlap(experiment)
    yield from _bad_vocabulary(experiment)
    yield from bad_model(experiment.model)
    if not experiment.model.is_network:
        yield from bad_phrase_based(experiment)
        return
    yield from _bad_directions(experiment)
    yield from _bad_decay(experiment.training)
    yield from _bad_validation(experiment)
    if experiment.model.translates:
        yield from bad_objective(experiment)
    else:
        yield from bad_language_model_training(experiment)


def _bad_places(experiment: Experiment) -> Iterator[Complaint]:
    """Store and run each have a manifest.json; in one directory either would overwrite it."""
    store, run = (
        normpath(expand(place.replace("{name}", experiment.name)))
        for place in (experiment.store, experiment.run)
    )
    if store == run:
        yield (
            ("run",),
            f"{run!r} is the directory of the store as well",
            "give each a directory of its own: by default runs/NAME and stores/NAME",
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
