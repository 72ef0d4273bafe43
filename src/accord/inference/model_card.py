"""The model card: what a model was trained on, sentences to try, and what text it is used to.

All of it comes from the run. An export has it in model_card.json; exports of former versions have
none, and are as good without.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from accord.errors import AccordError
from accord.inference.backends.exported_files import read_vocabulary
from accord.inference.backends.manifest import AGAIN, Manifest
from accord.inference.training_text import TrainingText, Usual, measure_usual
from accord.run_directory import RunDirectory

NAME = "model_card.json"
EXAMPLES = 4
"""Sentences to try in each language."""
_LENGTHS = range(8, 121)
"""Characters of a sentence to try, where there are such."""
_MEASURED = 2000
"""Dev sentences of a language that are looked at, at most."""
_PLACE_OF_LANGUAGE = re.compile(r"[._-]?\{lang\}")
_ENDINGS = re.compile(r"(\.(gz|xz|bz2|zst|zip|tar|tgz|txt|tsv|tmx|jsonl|parquet|sgm|xml))+$")


@dataclass(frozen=True)
class TrainingCorpus:
    """Text of one pair of languages."""

    pair: str
    sentences: int
    """Pairs of sentences that were trained on."""
    names: tuple[str, ...] = ()
    """Of its files, without folders and endings."""


@dataclass(frozen=True)
class ModelCard:
    """What is told about a model to those who use it."""

    corpora: tuple[TrainingCorpus, ...] = ()
    examples: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Dev sentences of each language."""
    usual: dict[str, Usual] = field(default_factory=dict)
    """What dev sentences of each language usually take."""

    def encoded(self) -> bytes:
        """As it is written into an export."""
        return (json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n").encode()


@dataclass(frozen=True)
class Background:
    """A model card, and the memory of the training text that it was made with."""

    card: ModelCard = ModelCard()
    text: TrainingText | None = None


NO_BACKGROUND = Background()


def background_of_run(run: RunDirectory) -> Background:
    """What a run knows; its dev sentences are read, where it has any."""
    vocabulary, manifest = run.vocabulary(), run.manifest()
    counts = {language: run.token_counts(language) for language in vocabulary.languages}
    text = TrainingText(counts, vocabulary.pieces())
    examples: dict[str, tuple[str, ...]] = {}
    sides = [(item, language) for item in run.held_out.sets("dev") for language in item.languages]
    for item, language in sides:
        if language in examples:
            continue
        lines = [line for line in item.lines(language)[:_MEASURED] if line]
        rows = vocabulary.encode(lines)
        if usual := _usual(text, rows, lines, language):
            text.usual[language] = usual
        known = [
            line
            for line, ids in zip(lines, rows, strict=True)
            if not text.familiarity(ids, len(line), language).unlike
        ]
        examples[language] = _chosen(known)
    return Background(ModelCard(_corpora(manifest), examples, text.usual), text)


def _usual(
    text: TrainingText, rows: Sequence[Sequence[int]], lines: Sequence[str], language: str
) -> Usual | None:
    bits = (text.bits(ids, language) for ids in rows)
    return measure_usual(zip(bits, map(len, lines), strict=True))


def background_of_export(directory: Path, manifest: Manifest) -> Background:
    """What an export knows; one of a former version, or of a format of its own, knows less."""
    card = ModelCard()
    if NAME in manifest.files:
        file = manifest.file(directory, NAME)
        try:
            card = TypeAdapter(ModelCard).validate_json(file.read_bytes())
        except ValidationError as error:
            what = f"the model card makes no sense: {error.errors(include_url=False)[0]['msg']}"
            raise AccordError(what, where=str(file), fix=AGAIN) from None
    if not {"vocabulary.model", "token_counts.npz"} <= set(manifest.files):
        return Background(card)
    vocabulary, counts = read_vocabulary(directory, manifest)
    return Background(card, TrainingText(counts, vocabulary.pieces(), card.usual))


def _chosen(lines: Sequence[str]) -> tuple[str, ...]:
    """Sentences at even distances, of a length that is read at a glance if there are such."""
    some = [line for line in dict.fromkeys(lines) if line.strip()]
    short = [line for line in some if len(line) in _LENGTHS] or sorted(some, key=len)[:EXAMPLES]
    count = min(EXAMPLES, len(short))
    return tuple(short[(2 * i + 1) * len(short) // (2 * count)] for i in range(count))


def _corpora(manifest: Mapping[str, Any]) -> tuple[TrainingCorpus, ...]:
    names: dict[str, dict[str, None]] = {}
    for entry in manifest["settings"].get("corpora", ()):
        found = (_name(part["path"]) for part in entry["train"])
        names.setdefault(entry["pair"], {}).update(dict.fromkeys(found))
    return tuple(
        TrainingCorpus(entry["pair"], entry["lines"], tuple(names.get(entry["pair"], ())))
        for entry in manifest["corpora"]
    )


def _name(path: str) -> str:
    """`europarl-v7.de-en` of `data/europarl-v7.de-en.{lang}.gz`: where files lie is nobody's."""
    last = path.rpartition("::")[2].rpartition("/")[2]
    return _ENDINGS.sub("", _PLACE_OF_LANGUAGE.sub("", last))
