"""The PyTorch backend: the model of a run directory, with all that can be asked of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import torch

from accord.data.vocabulary import Vocabulary
from accord.errors import AccordError
from accord.graph import TranslationGraph
from accord.inference.backends.base import Backend, LoadSettings, ParallelTexts, Precision
from accord.inference.beam_search import TorchEngine
from accord.inference.ensemble_search import EnsembleDecoder
from accord.inference.results import SearchSettings, Translation
from accord.inference.scoring import text_cross_entropies
from accord.inference.text import Decoder, TokenCounts, mended
from accord.models.base import Seq2Seq
from accord.models.build import build_model
from accord.models.checkpoint import find_checkpoint
from accord.ops.distributed import use_threads
from accord.run_directory import RunDirectory

_DEFAULT = LoadSettings()


class TorchBackend(Backend):
    """A model on a device, in evaluation mode, with its vocabulary and graph.

    With `bf16` its products are computed in bfloat16: several times faster on a GPU, and scores
    differ in the third digit. Softmax and scores are always at least fp32.
    """

    def __init__(
        self,
        model: Seq2Seq,
        vocabulary: Vocabulary,
        graph: TranslationGraph,
        *,
        device: torch.device,
        bf16: bool = False,
        token_counts: TokenCounts | None = None,
        step: int = 0,
    ) -> None:
        self.model = model.eval().to(device)
        self.graph = graph
        self.vocabulary = vocabulary
        self.device = device
        self.bf16 = bf16
        self.needs_source = model.reads_source_language
        self.step = step
        on_gpu = device.type == "cuda"
        self.device_name = torch.cuda.get_device_name(device) if on_gpu else str(device)
        self.precision_name = "bf16" if bf16 else "fp32"
        engine = TorchEngine(self.model, device, bf16=bf16)
        self.decoder = Decoder(engine, vocabulary, token_counts)
        self._ensembles = EnsembleDecoder(self.decoder, engine)

    @staticmethod
    def load(run: Path, settings: LoadSettings = _DEFAULT) -> "TorchBackend":
        """The model of a run directory."""
        directory = RunDirectory(run)
        experiment, vocabulary = directory.translator(), directory.vocabulary()
        chosen = find_checkpoint(directory.path, settings.checkpoint)
        precision, known = settings.precision, get_args(Precision)
        if precision not in known:
            raise AccordError(f"there is no precision {precision!r}", fix=f"use {', '.join(known)}")
        place = pick_device(settings.device)
        use_threads(settings.threads)
        model = build_model(
            experiment.model,
            len(vocabulary),
            experiment.training_seed,
            len(vocabulary.languages),
        )
        chosen.load_model(model)
        return TorchBackend(
            model,
            vocabulary,
            experiment.graph,
            device=place,
            bf16=precision == "bf16" or (precision == "auto" and place.type == "cuda"),
            token_counts=directory.token_counts,
            step=chosen.step,
        )

    def translate(
        self,
        texts: Sequence[str],
        to: str,
        settings: SearchSettings,
        source: str | None = None,
    ) -> list[Translation]:
        """Direct translations, by the recorded or the eager beam search."""
        return self.decoder.translate(texts, to, settings, source)

    def check_ensembles(self) -> None:
        """They are to be had."""

    def translate_together(
        self,
        sources: ParallelTexts,
        to: str,
        weights: Sequence[float],
        settings: SearchSettings,
        languages: Sequence[str | None] | None = None,
    ) -> list[Translation]:
        """One translation of all texts of a line, by one search over all of them."""
        return self._ensembles.translate(sources, to, weights, settings, languages)

    def cross_entropy(
        self, sources: Sequence[str], references: Sequence[str], to: str, source: str | None = None
    ) -> list[tuple[float, int]]:
        """-log P of each reference in nats, and its number of tokens; both include its end."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            return text_cross_entropies(
                self.model,
                self.decoder.vocabulary,
                [mended(text) for text in sources],
                [mended(text) for text in references],
                to,
                device=self.device,
                source=source,
            )


def pick_device(name: str | None) -> torch.device:
    """The device of that name, by default a GPU where there is one."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise AccordError(
            f"cannot compute on '{name}': {str(error).splitlines()[0]}",
            fix="take cpu or cuda" if torch.cuda.is_available() else "take cpu: no GPU was found",
        ) from None
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)  # graphs are recorded on the current device
    return device
