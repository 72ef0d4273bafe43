"""The model behind the service: what is asked of it, and the one place where it is opened."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from accord.graph import Direction, TranslationGraph
from accord.inference.alignments import Subwords
from accord.inference.backends.base import LoadSettings
from accord.inference.model_card import NO_BACKGROUND, Background
from accord.inference.results import SearchSettings, Translation


class AnyTranslator(Protocol):
    """Whatever translates; only one thread calls it."""

    @property
    def graph(self) -> TranslationGraph:
        """The languages and the directions between them."""

    @property
    def vocabulary(self) -> Subwords:
        """The subwords."""

    @property
    def needs_source(self) -> bool:
        """Whether the language of a text must be given."""

    @property
    def directions(self) -> frozenset[Direction] | None:
        """Those that can be translated directly; None stands for all."""

    def translate(
        self,
        texts: Sequence[str],
        to: str,
        *,
        source: str | None = None,
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

    model = load_backend(path, settings)
    about, background = _known(path, model.step)
    return Opened(Translator.of(model), about, background=background)


def _known(path: Path, step: int) -> tuple[dict[str, str | int | None], Background]:
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
    from accord.run_directory import RunDirectory

    run = RunDirectory(path)
    experiment = run.experiment()
    about = {
        "name": experiment.name,
        "steps": step,
        "units": experiment.model.units,
    }
    return about, background_of_run(run)
