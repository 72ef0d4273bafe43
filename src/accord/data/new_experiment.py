"""A first experiment file for text that was found: corpora, dev and test sets, sizes that fit.

It is read back by the loader, and its vocabulary is tried, before anybody sees it.
"""

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from pathlib import Path
from typing import Any

from accord.config.load import load
from accord.config.schema import Cleaning, Experiment
from accord.config.sizes import Sizes, held_out_lines, sizes_for
from accord.data.cleaning import Cleaner
from accord.data.discover import Discovery, FoundText
from accord.data.file_names import Role
from accord.data.formats import read_pair
from accord.data.held_out import read_held_out
from accord.data.vocabulary import train as train_vocabulary
from accord.errors import AccordError
from accord.progress import Progress

_MOST_COUNTED = 2_000_000  # pairs of a corpus; more say nothing about sizes that these do not
_ALL_PAIRS = 4  # languages of one text up to which every pair is taken
_VOCABULARY_SAMPLE = 20_000
Pair = tuple[str, str]


@dataclass(frozen=True)
class Machine:
    """Where the model is to be trained."""

    gpu: str | None
    """The name of the GPU, if there is one."""
    cores: int


@dataclass(frozen=True)
class Draft:
    """An experiment file that does what it should, and what to know about it."""

    text: str
    experiment: Experiment
    lines: Mapping[str, int]
    """Pairs of sentences of each corpus; those above two million are not counted."""
    example: tuple[str, str]
    """A language, and a sentence in it."""
    notes: tuple[str, ...]


def draft(
    found: Discovery,
    machine: Machine,
    *,
    name: str,
    progress: Progress,
    pairs: Sequence[Pair] | None = None,
) -> Draft:
    """The experiment file for what was found; `pairs` are those to train on, if not all."""
    notes = list(found.notes)
    corpora = _corpora(found.texts, pairs, notes)
    languages = _languages(corpora)
    corpora = {_ordered(pair, languages): texts for pair, texts in corpora.items()}
    corpora = {pair: corpora[pair] for pair in sorted(corpora, key=_places(languages))}
    lines: dict[str, int] = {}
    samples: dict[Pair, list[Pair]] = {}
    for pair, texts in corpora.items():
        written, listed = "-".join(pair), ", ".join(text.path for text in texts)
        progress.start(f"reading {written}")
        lines[written], samples[pair] = _read(pair, texts, progress)
        if len(samples[pair]) < 2:
            raise AccordError(
                f"the corpus {written} has {lines[written]} lines, of which {len(samples[pair])} "
                "can be used",
                where=listed,
                fix="check that its two sides are translations; give it more text, or leave it "
                "out: name the other files or directories",
            )
        if len(texts) > 1:
            notes.append(
                f"{written} has {len(texts)} texts, which are read one after the other: {listed}; "
                "take those out of the file that are copies"
            )
    progress.start("choosing sizes")
    sizes = sizes_for(sum(lines.values()), gpu=machine.gpu is not None)
    sizes = _fitting_vocabulary(sizes, samples, languages)
    sets = {role: _held_out(found.texts, role, languages, notes) for role in ("dev", "test")}
    split = held_out_lines(min(map(_distinct, samples.values())))
    body = _Page(name, languages, corpora, lines, sets, split, sizes, machine).text()
    experiment = _read_back(body, name)
    progress.start("reading dev and test sets")
    for settings in experiment.held_out.values():
        if not settings.lines:
            read_held_out(settings, languages, experiment.cleaning)  # which refuses what is uneven
    return Draft(
        body,
        experiment,
        lines,
        (languages[0], _example(samples, languages[0])),
        tuple(notes),
    )


# --- Which corpora.


def _corpora(
    texts: Iterable[FoundText], wanted: Sequence[Pair] | None, notes: list[str]
) -> dict[Pair, list[FoundText]]:
    """The texts of each pair: those that say so, and pairs out of texts in many languages."""
    training = [text for text in texts if text.role == "train"]
    if not training:
        raise AccordError(
            "dev and test sets were found, but no text to train on",
            where=", ".join(sorted(text.path for text in texts)),
            fix="name the training text as well, or rename what is to be trained on",
        )
    pivot = _pivot(training)
    found: dict[Pair, list[FoundText]] = defaultdict(list)
    for text in training:
        for pair in _pairs_of(text, pivot, wanted, notes):
            found[pair].append(text)
    if wanted:
        missing = [pair for pair in wanted if not found.get(_sorted(pair))]
        if missing:
            there = ", ".join("-".join(pair) for text in training for pair in _all_pairs(text))
            raise AccordError(
                f"no text was found for {', '.join('-'.join(pair) for pair in missing)}",
                where="--pairs",
                fix=f"pairs that there is text for: {there}",
            )
    return found


def _sorted(pair: Pair) -> Pair:
    first, second = sorted(pair)
    return first, second


def _all_pairs(text: FoundText) -> list[Pair]:
    return [_sorted(pair) for pair in combinations(text.languages, 2)]


def _pairs_of(
    text: FoundText, pivot: str, wanted: Sequence[Pair] | None, notes: list[str]
) -> list[Pair]:
    every = _all_pairs(text)
    if wanted is not None:
        return [pair for pair in every if pair in {_sorted(pair) for pair in wanted}]
    if len(text.languages) <= _ALL_PAIRS:
        return every
    centre = pivot if pivot in text.languages else text.languages[0]
    notes.append(
        f"{text.path} has {len(text.languages)} languages: its pairs with {centre} are trained on, "
        "all others are zero-shot; --pairs chooses others"
    )
    return [pair for pair in every if centre in pair]


def _pivot(texts: Sequence[FoundText]) -> str:
    """The language that most texts have, English before others."""
    counts = Counter(language for text in texts for language in text.languages)
    return min(counts, key=lambda language: (-counts[language], language != "en", language))


def _languages(corpora: Iterable[Pair]) -> list[str]:
    counts = Counter(language for pair in corpora for language in pair)
    return sorted(counts, key=lambda language: (-counts[language], language != "en", language))


def _places(languages: Sequence[str]) -> Callable[[Pair], list[int]]:
    return lambda pair: [languages.index(language) for language in pair]


def _ordered(pair: Pair, languages: Sequence[str]) -> Pair:
    first, second = sorted(pair, key=languages.index)
    return first, second


# --- What they hold.


def _read(
    pair: Pair, texts: Sequence[FoundText], progress: Progress
) -> tuple[int, list[tuple[str, str]]]:
    """How many pairs there are, and the first that cleaning leaves; unequal sides are refused."""
    count = 0
    cleaner = Cleaner(Cleaning(), pair)
    sample: list[tuple[str, str]] = []
    for text in texts:
        columns = dict(text.columns) or None
        rows = read_pair(text.path, pair, format=text.format, columns=columns)
        for first, second in islice(rows, _MOST_COUNTED - count):
            count += 1
            if len(sample) < _VOCABULARY_SAMPLE and (clean := cleaner.clean((first, second))):
                sample.append(clean)
            if count % 10_000 == 0:
                progress.reach(count)
    return count, sample


def _distinct(rows: Sequence[Pair]) -> int:
    """How many lines can be held out: a sentence that stands in many lines takes all of them."""
    return min(len({row[side] for row in rows}) for side in (0, 1))


def _fitting_vocabulary(
    sizes: Sizes, samples: Mapping[Pair, Sequence[Pair]], languages: Sequence[str]
) -> Sizes:
    """The vocabulary, smaller where so few lines cannot fill it.

    It is tried on a third of the lines, as cleaning and held-out sets take theirs.
    """
    lines = [
        text for rows in samples.values() for row in rows[: max(1, len(rows) // 3)] for text in row
    ]
    size = sizes.vocabulary
    while True:
        try:
            train_vocabulary(iter(lines), languages, size)
        except AccordError as error:
            size = size * 3 // 4
            if size < 320 + len(languages):
                raise AccordError(
                    f"{sum(map(len, samples.values())):,} lines are too few to learn from: not "
                    "even a vocabulary can be made of them",
                    fix="give thousands of lines; a model needs to have seen each word a few times",
                ) from error
        else:
            return replace(sizes, vocabulary=size)


def _example(samples: Mapping[Pair, Sequence[Pair]], language: str) -> str:
    """A short sentence of the language, to be translated at the end."""
    rows = [
        row[pair.index(language)]
        for pair, found in samples.items()
        if language in pair
        for row in found[:200]
    ]
    return min(rows, key=lambda text: abs(len(text) - 50), default="")


# --- Dev and test sets.


def _held_out(
    texts: Iterable[FoundText], role: Role, languages: Sequence[str], notes: list[str]
) -> Any:
    """What the key says: one path, a list of sets, or None where there is nothing."""
    mine = [text for text in texts if text.role == role]
    for text in mine:
        if set(languages) <= set(text.languages) and _shared(text):
            rest = [other.path for other in mine if other is not text]
            notes.extend(f"{path}: left out, since {text.path} has all languages" for path in rest)
            return text.path
    sets: dict[Pair, FoundText] = {}
    for text in mine:
        for pair in _all_pairs(text):
            if not set(pair) <= set(languages):
                continue
            if pair in sets:
                notes.append(
                    f"{text.path}: left out, since {sets[pair].path} is the {role} set of it"
                )
            sets.setdefault(pair, text)
    return {_ordered(pair, languages): text for pair, text in sets.items()} or None


def _shared(text: FoundText) -> bool:
    """Whether it may be the one set of all languages: these have no columns."""
    return text.format not in ("tsv", "tmx") and not text.columns


# --- The file.


@dataclass(frozen=True)
class _Page:
    name: str
    languages: Sequence[str]
    corpora: Mapping[Pair, Sequence[FoundText]]
    lines: Mapping[str, int]
    sets: Mapping[str, Any]
    split: int
    sizes: Sizes
    machine: Machine

    def text(self) -> str:
        """The YAML, with a comment for all that one may want to change."""
        return "\n".join([*self._data(), "", *self._model(), "", *self._training()]) + "\n"

    def _data(self) -> Iterator[str]:
        yield f"# Written by `accord init`; `accord config {self.name}.yaml` shows all other keys."
        yield f"languages: [{', '.join(map(_quoted, self.languages))}]"
        yield "corpora:  # pairs of languages without one are zero-shot"
        for pair, texts in self.corpora.items():
            written = "-".join(pair)
            count = self.lines[written]
            more = " or more" if count >= _MOST_COUNTED else ""
            sources = [_source(text, pair) for text in texts]
            train = sources[0] if len(sources) == 1 else f"[{', '.join(sources)}]"
            yield f"  - {{pair: {_quoted(written)}, train: {train}}}  # {count:,} lines{more}"
        yield from self._set("dev", "measures the model while it trains")
        yield from self._set("test", "is for `accord evaluate` at the end")

    def _set(self, role: str, about: str) -> Iterator[str]:
        found = self.sets[role]
        if found is None:
            yield f"{role}: {{lines: {self.split}}}  # {about}; split off each corpus"
        elif isinstance(found, str):
            yield f"{role}: {_quoted(found)}  # {about}"
        else:
            yield f"{role}:  # {about}"
            for pair, text in found.items():
                keys = _keys(text, pair)
                yield f"  - {{pair: {_quoted('-'.join(pair))}, {keys}}}"

    def _model(self) -> Iterator[str]:
        sizes = self.sizes
        total = sum(self.lines.values())
        yield f"# Sizes for {total:,} lines; more text allows more of each."
        yield f"vocabulary: {{size: {sizes.vocabulary}}}"
        yield (
            f"model: {{kind: transformer, units: {sizes.units}, encoder_layers: "
            f"{sizes.encoder_layers}, decoder_layers: {sizes.decoder_layers},"
        )
        rest = f"heads: {sizes.heads}, feed_forward: {sizes.feed_forward}"
        yield f"  {rest}, dropout: {sizes.dropout}}}  # more dropout for less text"

    def _training(self) -> Iterator[str]:
        sizes, machine = self.sizes, self.machine
        where = machine.gpu or f"a CPU with {machine.cores} cores"
        yield "training:"
        if sizes.minutes is not None:
            yield f"  minutes: {sizes.minutes:g}  # on {where}; it stops there or after the steps"
        yield f"  steps: {sizes.steps}"
        yield f"  batch_tokens: {sizes.batch_tokens}"
        if not machine.gpu:
            yield f"  threads: {max(1, min(8, machine.cores))}"
        rate = f"learning_rate: {sizes.learning_rate}, warmup: {sizes.warmup}"
        yield f"  optimizer: {{kind: adam, {rate}}}"
        yield f"  save_every: {sizes.validate_every}"
        yield f"  validation: {{every: {sizes.validate_every}, sentences: 50}}"


def _quoted(text: str) -> str:
    """Plain where YAML reads it as it stands; `no` for one would be false."""
    plain = all(c.isascii() and (c.isalnum() or c in "/._-") for c in text) and text[:1].isalpha()
    words = {"no", "yes", "on", "off", "y", "n", "true", "false", "null"}
    return text if plain and text.lower() not in words else json.dumps(text, ensure_ascii=False)


def _keys(text: FoundText, pair: Pair) -> str:
    columns = ", ".join(f"{name}: {_column(place)}" for name, place in text.columns if name in pair)
    return f"path: {_quoted(text.path)}" + (f", columns: {{{columns}}}" if columns else "")


def _column(place: int | str) -> str:
    return str(place) if isinstance(place, int) else _quoted(place)


def _source(text: FoundText, pair: Pair) -> str:
    return f"{{{_keys(text, pair)}}}" if text.columns else _quoted(text.path)


def _read_back(text: str, name: str) -> Experiment:
    """The experiment that the loader makes of it: a file that it refuses is never written."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.yaml"
        file.write_text(text, encoding="utf-8")
        try:
            return load(file)
        except AccordError as error:
            what = str(error).replace(f"{folder}/", "")
            raise AccordError(
                f"no experiment can be made of what was found: {what}",
                fix="leave out or rename what does not fit: `accord init` takes files, too",
            ) from None
