"""The exporter interface: one format that a run's model can be written in.

An exporter is a subclass of `Exporter`; `exporters.EXPORTERS` names it. The rest of the road is
`export_run`'s. What it needs beside Accord is imported inside its methods: the list of formats is
read before anything is known to be installed.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from accord.errors import AccordError
from accord.files import atomic_write

if TYPE_CHECKING:
    from accord.config.schema import Experiment
    from accord.data.store import HeldOutSets
    from accord.inference.backends.manifest import Check, ExportPrecision, ModelFacts
    from accord.inference.backends.torch_backend import TorchBackend
    from accord.inference.translator import Translator
    from accord.progress import Progress
    from accord.run_directory import RunDirectory


@dataclass(frozen=True)
class ExportSource:
    """What is exported: a run with its checkpoint loaded, and the precision of the weights."""

    run: "RunDirectory"
    trained: "TorchBackend"
    precision: "ExportPrecision"


@dataclass(frozen=True)
class ExportedFiles:
    """What the manifest says of a model that was written: its size, and the names of its files."""

    model: "ModelFacts"
    names: tuple[str, ...]


_WHO = {"source": "the encoder", "target": "the decoder", "both": "encoder and decoder"}


class Exporter(ABC):
    """One format: what it needs, which runs it can hold, how they are written and checked."""

    format: ClassVar[str]
    """Its name for `--format` and in the manifest, by which a backend is chosen."""
    precisions: ClassVar[tuple["ExportPrecision", ...]] = ("fp32",)
    """What the weights may be written in; the first is the default."""
    packages: ClassVar[tuple[str, ...]] = ()
    """What has to be installed, to write and to compare."""
    extra: ClassVar[str] = "export"
    """The extra of Accord that installs it."""
    model_kinds: ClassVar[tuple[str, ...]]
    """The kinds of models, as in the key model.kind, that the format can hold."""
    tag_places: ClassVar[tuple[str, ...]] = ("source",)
    """Where the tag of the target language may stand, as in the key model.tag."""

    def check_request(self, precision: str) -> None:
        """Refuse a precision that the format does not have, and say what is not installed."""
        if precision not in self.precisions:
            raise AccordError(
                f"an export to {self.format} has no precision {precision}",
                where="--int8" if precision == "int8" else "",
                fix=f"use {', '.join(self.precisions)}",
            )
        for package in self.packages:
            try:
                importlib.import_module(package)
            except ImportError:
                raise AccordError(
                    f"an export to {self.format} needs the package {package}",
                    fix=f"pip install 'accord[{self.extra}]'",
                ) from None

    def check_run(self, run: Path, experiment: "Experiment") -> None:
        """Refuse a run that the format cannot hold, before anything of it is loaded."""
        from accord.export.exporters import EXPORTERS

        kind = experiment.model.kind
        if kind not in self.model_kinds:
            others = [name for name, each in EXPORTERS.items() if kind in each.model_kinds]
            other = (
                f"take --format {' or '.join(others)}, or "
                if others
                else "--format has none for it: "
            )
            raise AccordError(
                f"an export to {self.format} holds models of kind {', '.join(self.model_kinds)}, "
                f"not {kind}",
                where=f"{run}, key model.kind",
                fix=f"{other}translate with the run itself",
            )
        if (place := experiment.model.tag) not in self.tag_places:
            raise AccordError(
                f"an export to {self.format} holds no model whose tag is read by {_WHO[place]}",
                where=f"{run}, key model.tag: {place}",
                fix="translate with the run itself, or train a model with "
                f"model.tag {' or '.join(self.tag_places)}",
            )

    def check_model(self, run: Path, trained: "TorchBackend") -> None:
        """Refuse a model that a translator has to tell more than the text and the target."""
        if trained.needs_source:
            raise AccordError(
                f"an export to {self.format} holds no model that reads the source language",
                where=str(run),
                fix="translate with the run itself",
            )

    @abstractmethod
    def write(self, source: ExportSource, directory: Path) -> ExportedFiles:
        """Write the model's files, and all that its backend reads, into an empty directory.

        Only the manifest is left to be written. The same run gives the same bytes.
        """

    def compare(
        self,
        original: "Translator",
        exported: "Translator",
        held_out: "HeldOutSets",
        count: int,
        progress: "Progress",
    ) -> "Check | None":
        """Check the result against the run: about `count` held-out sentences, by both.

        None where the run has no such sentences.
        """
        from accord.export.comparison import compare_translations

        return compare_translations(original, exported, held_out, count, progress)


def model_facts(source: ExportSource) -> "ModelFacts":
    """What the manifest says of the run's model."""
    from accord.inference.backends.manifest import ModelFacts

    model, settings = source.trained.model, source.run.experiment().model
    return ModelFacts(
        preset=settings.preset,
        units=settings.units,
        encoder_layers=settings.encoder_depth,
        decoder_layers=settings.decoder_depth,
        input_feeding=settings.input_feeding,
        vocabulary=len(model.output_weight),
        parameters=sum(p.numel() for p in model.parameters() if p.requires_grad),
    )


def vocabulary_files(source: ExportSource) -> dict[str, bytes]:
    """Subwords and tags, how often each language has each, and the model card.

    The first two are what most backends read; the card is for `accord serve`.
    """
    from accord.inference.model_card import NAME, background_of_run

    return {
        "vocabulary.model": source.trained.vocabulary.model,
        "token_counts.npz": source.run.token_counts_file(),
        NAME: background_of_run(source.run).card.encoded(),
    }


def write_files(directory: Path, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Write files, each of them synced to disk, and give their names."""
    for name, data in files.items():
        with atomic_write(directory / name, "wb") as file:
            file.write(data)
    return tuple(files)
