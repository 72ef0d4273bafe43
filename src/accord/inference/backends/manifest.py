"""The manifest of an exported directory: what it holds, and the proof that it still does.

export.json         the manifest: format, languages, model, precision, SHA-256 of every file
vocabulary.model    subwords and tags
token_counts.npz    how often each language has each subword in training
model_card.json     what it was trained on, sentences to try (see model_card.py)

and the model itself, in the files of its format. Those of onnx:

encoder.onnx        reads sentences
decoder.onnx        makes one step of a translation
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from accord.errors import AccordError
from accord.files import atomic_write, reading_errors, sealed, sha256_of
from accord.graph import Direction, TranslationGraph

NAME = "export.json"
AGAIN = "export the run again"

ExportPrecision = Literal["fp32", "int8"]
Count = Annotated[int, Field(ge=0)]


def _named(value: object) -> object:
    """The name of a format; while there was one, manifests had the number 1 in its place."""
    return "onnx" if type(value) is int and value == 1 else value


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ModelFacts(_Part):
    """The model that was exported; preset and input feeding are those of GNMT."""

    preset: str | None = None
    units: Count
    encoder_layers: Count
    decoder_layers: Count
    input_feeding: bool | None = None
    vocabulary: Count
    parameters: Count


class Origin(_Part):
    """The weights that were exported; `fingerprint` is that of the data they were trained on."""

    experiment: str
    run: str
    checkpoint: str
    step: Count
    fingerprint: str


class Bleu(_Part):
    """Mean BLEU over the directions of one kind, in PyTorch and as exported."""

    directions: Count
    pytorch: float
    exported: float

    @property
    def change(self) -> float:
        """What the export gained; a loss is below 0."""
        return self.exported - self.pytorch


class Check(_Part):
    """The exported model compared with the one it was made from."""

    split: str
    sentences: Count
    same: Count
    """Translations that are the same, character by character."""
    bleu: dict[str, Bleu]
    """By kind of direction: supervised, zero-shot."""


class FileFacts(_Part):
    """A file as it was written."""

    bytes: Count
    sha256: str


class Manifest(_Part):
    """The account of an exported directory."""

    format: Annotated[str, BeforeValidator(_named)]
    """What its files are, and so which backend translates with them."""
    accord: str
    precision: ExportPrecision
    languages: tuple[str, ...]
    supervised: tuple[str, ...]
    """Directions with training data, such as en-de."""
    model: ModelFacts
    origin: Origin
    files: dict[str, FileFacts]
    check: Check | None = None

    @property
    def graph(self) -> TranslationGraph:
        """The languages and the directions between them."""
        directions = frozenset(Direction.parse(text) for text in self.supervised)
        return TranslationGraph(self.languages, directions)

    def write(self, directory: Path) -> None:
        """Write it into its directory."""
        with atomic_write(directory / NAME) as file:
            json.dump(sealed(self.model_dump(mode="json")), file, indent=1, ensure_ascii=False)
            file.write("\n")

    @staticmethod
    def read(directory: Path) -> "Manifest":
        """The account of a directory; one that is altered or makes no sense is refused."""
        path, entries = directory / NAME, _entries(directory)
        with _parsing(path):
            if entries != sealed(entries):
                raise AccordError("the manifest was altered", where=str(path), fix=AGAIN)
            return _checked({k: v for k, v in entries.items() if k != "seal"}, path)

    def file(self, directory: Path, name: str) -> Path:
        """The path of a file that holds what was written; an altered one is refused."""
        path = directory / name
        if name not in self.files:
            raise _damaged("this file is not named", directory / NAME, f"files.{name}")
        with reading_errors(path):
            found = sha256_of(path)
        if found != self.files[name].sha256:
            raise AccordError(
                "the file was altered: its checksum is not the manifest's",
                where=str(path),
                fix=AGAIN,
            )
        return path


def format_name(directory: Path) -> str:
    """The format of an exported directory, known or not; nothing else is looked at."""
    found = _named(_entries(directory).get("format"))
    return found if isinstance(found, str) else json.dumps(found)


def _entries(directory: Path) -> dict[str, object]:
    """The manifest as it was written, in whichever format."""
    path = directory / NAME
    with reading_errors(path):
        text = path.read_bytes()
    with _parsing(path):
        entries = json.loads(text)
        if not isinstance(entries, dict):
            raise ValueError("it has no entries")
        return entries


@contextmanager
def _parsing(path: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, RecursionError) as error:
        raise AccordError(f"the manifest is damaged: {error}", where=str(path), fix=AGAIN) from None


def _checked(entries: dict[str, object], path: Path) -> Manifest:
    """The entries of a manifest, if each is what it has to be: a seal only tells of changes."""
    try:
        found = Manifest.model_validate_json(json.dumps(entries))
        _ = found.graph
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _damaged(first["msg"], path, ".".join(map(str, first["loc"]))) from None
    except AccordError as error:  # of the graph
        raise _damaged(error.what, path, "languages or supervised") from None
    return found


def _damaged(what: str, path: Path, key: str) -> AccordError:
    return AccordError(f"the manifest is damaged: {what}", where=f"{path}, key {key}", fix=AGAIN)


def is_exported(directory: Path) -> bool:
    """Whether this is what `accord export` writes."""
    with reading_errors(directory):
        return (directory / NAME).is_file()
