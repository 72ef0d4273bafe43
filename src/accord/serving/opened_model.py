"""The model behind the service: what is asked of it, and the one place where it is opened."""

import itertools
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from accord.graph import TranslationGraph
from accord.inference.backends.base import LoadSettings
from accord.inference.model_card import NO_BACKGROUND, Background
from accord.inference.results import SearchSettings, Translation
from accord.inference.text import mended
from accord.inference.training_text import is_byte


class Subwords(Protocol):
    """The part of a vocabulary that shows how a sentence was read."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Subword ids of each text."""

    def pieces(self) -> list[str]:
        """All subwords, in the order of their ids."""


class AnyTranslator(Protocol):
    """Whatever translates; only one thread calls it."""

    @property
    def graph(self) -> TranslationGraph:
        """The languages and the directions between them."""

    @property
    def vocabulary(self) -> Subwords:
        """The subwords."""

    def translate(
        self,
        texts: Sequence[str],
        to: str,
        *,
        via: Sequence[str] | None = None,
        settings: SearchSettings = ...,
    ) -> list[Translation]:
        """Translations in the order of the texts."""


class Held(Protocol):
    """What a model runs in, if not in this process."""

    def wait(self) -> None:
        """Return when it has ended."""

    def close(self) -> int | None:
        """End it; returns its exit code if it had ended before."""


@dataclass(frozen=True)
class Opened:
    """A translator, what is to be told about it, what holds it, and what it was trained on."""

    translator: AnyTranslator
    about: Mapping[str, str | int | None]
    held: Held | None = None
    background: Background = NO_BACKGROUND


def modules_to_open(path: Path) -> list[str]:
    """Modules that take long to import and are needed to open a model."""
    from accord.inference.backends.manifest import is_exported

    name = "loading" if is_exported(path) else "torch_backend"
    return [f"accord.inference.backends.{name}"]


def open_translator(
    path: Path,
    settings: LoadSettings = LoadSettings(),  # noqa: B008 (frozen)
) -> Opened:
    """The model in a run directory, or in what `accord export` made of one."""
    from accord.inference.backends.loading import load_backend
    from accord.inference.translator import Translator

    translator = Translator.of(load_backend(path, settings))
    about, background = _known(path, settings.checkpoint)
    return Opened(translator, about, background=background)


def _known(path: Path, checkpoint: str) -> tuple[dict[str, str | int | None], Background]:
    from accord.inference.backends.manifest import Manifest, is_exported
    from accord.inference.model_card import background_of_export, background_of_run

    if is_exported(path):
        manifest = Manifest.read(path)
        about: dict[str, str | int | None] = {
            "name": manifest.origin.experiment,
            "steps": manifest.origin.step,
            "units": manifest.model.units,
            "precision": manifest.precision,
        }
        return about, background_of_export(path, manifest)
    from accord.models.checkpoint import find_checkpoint  # PyTorch, which an export does without
    from accord.run_directory import RunDirectory

    run = RunDirectory(path)
    experiment = run.experiment()
    about = {
        "name": experiment.name,
        "steps": find_checkpoint(run.path, checkpoint).step,
        "units": experiment.model.units,
    }
    return about, background_of_run(run)


# --- Subwords of what was read, and which of them each subword of a translation looked at.


class Tracer:
    """Follows alignments back to the source, through pivots as well."""

    def __init__(self, vocabulary: Subwords) -> None:
        self._vocabulary = vocabulary
        self._pieces = vocabulary.pieces()

    def tokens(self, text: str) -> list[str]:
        """The subwords in which the model reads a text."""
        return [self._pieces[i] for i in self.read(text)[0]]

    def read(self, text: str) -> tuple[list[int], int]:
        """The ids in which the model reads a text, and how many characters it sees."""
        seen = mended(text)
        [ids] = self._vocabulary.encode([seen])
        return ids, len(seen)

    def trace(self, found: Translation) -> tuple[list[str], list[int]]:
        """The source's subwords, and for each target subword its place among them or -1."""
        read = self.tokens(found.source if found.pivot is None else found.pivot.text)
        # In the model's input the tag is 0, and the end of sentence comes last.
        near = [i - 1 if i <= len(read) else -1 for i in found.hypotheses[0].alignment]
        if found.pivot is None:
            return read, near
        source, far = self.trace(found.pivot)
        written = _places(read, found.pivot.hypotheses[0].tokens)
        return source, [-1 if i < 0 or written[i] < 0 else far[written[i]] for i in near]


def _places(read: Sequence[str], written: Sequence[str]) -> list[int]:
    """For each subword as read, the one that stands at its place in the same text as written.

    A model may spell a pivot sentence in other subwords than those it is read in.
    """
    ends = list(itertools.accumulate(_bytes(piece) for piece in written))
    if not ends:
        return [-1] * len(read)
    starts = itertools.accumulate((_bytes(piece) for piece in read), initial=0)
    return [
        min(bisect_right(ends, start + (_bytes(piece) - 1) / 2), len(ends) - 1)
        for start, piece in zip(starts, read, strict=False)
    ]


def _bytes(piece: str) -> int:
    """Bytes of text that a subword stands for; ▁ is a space, and <0x41> is one byte."""
    if is_byte(piece):
        return 1
    return len(piece.replace("▁", " ").encode())
