"""A trained run as a translator: between all its languages, directly or through pivots."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, get_args

import torch

from accord.config import Experiment
from accord.corpus.vocabulary import EOS, Vocabulary
from accord.errors import AccordError
from accord.graph import TranslationGraph
from accord.model.protocol import Seq2Seq
from accord.search.decoding import Decoder, TokenCounts, mended
from accord.search.forced import cross_entropies
from accord.search.pivot import translate_along
from accord.search.result import SearchSettings, Translation
from accord.search.rows import source_rows
from accord.training.checkpoint import Checkpoint, open_checkpoint
from accord.training.run import RunDirectory
from accord.training.setup import build_model, use_threads

Precision = Literal["auto", "fp32", "bf16"]
_DEFAULT = SearchSettings()


class Translator:
    """A model, ready to translate.

    With `bf16` its products are computed in bfloat16: several times faster on a GPU, and scores
    differ in the third digit. Softmax and scores are always at least fp32.
    """

    def __init__(
        self,
        model: Seq2Seq,
        vocabulary: Vocabulary,
        experiment: Experiment,
        *,
        device: torch.device,
        bf16: bool = False,
        token_counts: TokenCounts | None = None,
    ) -> None:
        self.model = model.eval().to(device)
        self.vocabulary = vocabulary
        self.experiment = experiment
        self.device = device
        self.bf16 = bf16
        self._decoder = Decoder(self.model, vocabulary, device, token_counts)

    @staticmethod
    def load(
        run: Path,
        *,
        checkpoint: str = "best",
        device: str | None = None,
        threads: int | None = None,
        precision: Precision = "auto",
    ) -> "Translator":
        """The model of a run directory.

        `checkpoint` is best (by validation; the last one where there was none), last, average, or a
        name such as step-00001000. The device is a GPU where there is one; `precision` auto is bf16
        on a GPU and fp32 on a CPU.
        """
        directory = RunDirectory(run)
        experiment, vocabulary = directory.experiment(), directory.vocabulary()
        chosen = find_checkpoint(directory, checkpoint)
        if precision not in get_args(Precision):
            raise AccordError(
                f"there is no precision {precision!r}", fix=f"use {', '.join(get_args(Precision))}"
            )
        place = pick_device(device)
        use_threads(threads)
        model = build_model(experiment, len(vocabulary))
        chosen.load_model(model)
        return Translator(
            model,
            vocabulary,
            experiment,
            device=place,
            bf16=precision == "bf16" or (precision == "auto" and place.type == "cuda"),
            token_counts=directory.token_counts,
        )

    @property
    def graph(self) -> TranslationGraph:
        """The languages and the directions between them."""
        return self.experiment.graph

    def translate(
        self,
        texts: Sequence[str],
        to: str,
        *,
        source: str | None = None,
        via: str | Sequence[str] | None = None,
        settings: SearchSettings = _DEFAULT,
    ) -> list[Translation]:
        """Translations into `to`, in the order of the texts; an empty text stays empty.

        The model needs no source language. `via` names the languages to pass through, one or
        several; `auto` takes the shortest chain of directions with training data from `source`.
        """
        path = self._path(to, source, via)
        with self._precision():
            return translate_along(self._decoder.translate, texts, path, settings)

    def stream(
        self,
        lines: Iterable[str],
        to: str,
        *,
        source: str | None = None,
        via: str | Sequence[str] | None = None,
        settings: SearchSettings = _DEFAULT,
        at_once: int = 2048,
    ) -> Iterator[Translation]:
        """The same for any number of lines: `at_once` of them are read before any is translated.

        The languages are checked at once, the lines as they are asked for.
        """
        self._path(to, source, via)
        return self._stream(iter(lines), to, source, via, settings, at_once)

    def _stream(
        self,
        lines: Iterator[str],
        to: str,
        source: str | None,
        via: str | Sequence[str] | None,
        settings: SearchSettings,
        at_once: int,
    ) -> Iterator[Translation]:
        while texts := list(itertools.islice(lines, at_once)):
            yield from self.translate(texts, to, source=source, via=via, settings=settings)

    def cross_entropy(
        self, sources: Sequence[str], references: Sequence[str], to: str
    ) -> list[tuple[float, int]]:
        """-log P of each reference in nats, and its number of tokens; both include its end."""
        self._check(to)
        inputs = source_rows(self.vocabulary, [mended(text) for text in sources], to)
        rows = self.vocabulary.encode([mended(text) for text in references])
        outputs = [[*row, EOS] for row in rows]
        with self._precision():
            found = cross_entropies(self.model, inputs, outputs, device=self.device)
        return [(nll, len(row)) for nll, row in zip(found, outputs, strict=True)]

    def _precision(self) -> AbstractContextManager[object]:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16)

    def _path(
        self, to: str, source: str | None, via: str | Sequence[str] | None
    ) -> tuple[str, ...]:
        """The languages to translate into, one after the other."""
        self._check(to)
        if source is not None:
            self._check(source)
        if via == "auto":
            return self._shortest(source, to)
        pivots = (via,) if isinstance(via, str) else tuple(via or ())
        path = (*pivots, to)
        for before, language in zip((source, *path), path, strict=False):
            self._check(language)
            if before == language:
                raise AccordError(
                    f"a translation from {language} into {language} was asked for",
                    fix="name each language once on the way from source to target",
                )
        return path

    def _shortest(self, source: str | None, to: str) -> tuple[str, ...]:
        if source is None:
            raise AccordError(
                "a way through the graph needs to know where it begins",
                where="via auto",
                fix="give the source language (--from)",
            )
        path = self.graph.pivot_path(source, to)
        if path is None:
            raise AccordError(
                f"no chain of training data leads from {source} to {to}",
                fix="translate directly, or name the pivot language",
            )
        return path[1:]

    def _check(self, language: str) -> None:
        known = self.vocabulary.languages
        if language not in known:
            raise AccordError(
                f"the model does not know the language '{language}'",
                fix=f"use one of {', '.join(known)}",
            )


def find_checkpoint(run: RunDirectory, name: str) -> Checkpoint:
    """The checkpoint that is called best, last, average, or by its step."""
    checkpoints = run.checkpoints
    if name in ("best", "last"):
        newest, _ = checkpoints.newest()
        if newest is None:
            raise AccordError(
                "the run has no checkpoint yet",
                where=str(run.path),
                fix="run `accord train` until it has saved one",
            )
        best = newest.state.get("best_step")
        if name == "last" or best is None or best == newest.step:
            return newest
        name = f"step-{best:08d}"
    path = checkpoints.directory / name
    if not path.is_dir():
        average = f"make it with `accord average {run.path}`" if name == "average" else ""
        known = ", ".join(path.name for path in checkpoints.paths()) or "none"
        raise AccordError(
            f"the run has no checkpoint '{name}'",
            where=str(run.path),
            fix=average or f"take best, last, average or one of those there are: {known}",
        )
    return open_checkpoint(path)


def pick_device(name: str | None) -> torch.device:
    """The device of that name, by default a GPU where there is one."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise AccordError(
            f"cannot compute on '{name}': {str(error).splitlines()[0]}", fix="take cpu or cuda"
        ) from None
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)  # graphs are recorded on the current device
    return device
