"""COMET: a trained metric that reads source, translation and reference (Rei et al. 2020).

The model is a checkpoint on this machine (package unbabel-comet); nothing is ever downloaded.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accord.errors import AccordError
from accord.files import sha256_of

_BATCH = 16


@dataclass(frozen=True)
class Comet:
    """A loaded model, and the signature that goes with its figures."""

    model: Any
    signature: str
    """The name of the model's folder or file, and the beginning of the checkpoint's SHA-256."""
    gpus: int

    @staticmethod
    def load(path: Path, *, gpu: bool) -> "Comet":
        """The model in a checkpoint, or in a folder as the hub has it: checkpoints/model.ckpt."""
        checkpoint = path / "checkpoints" / "model.ckpt" if path.is_dir() else path
        if not checkpoint.is_file():
            raise AccordError(
                "there is no COMET checkpoint here",
                where=str(checkpoint),
                fix="give a model.ckpt, or the folder of a downloaded model that has "
                "checkpoints/model.ckpt; names are not looked up and nothing is downloaded",
            )
        # Read when the libraries are loaded: without them they would ask the hub for newer files.
        os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
        try:
            import comet
        except ImportError:
            raise AccordError(
                "COMET needs the package unbabel-comet, which is not installed",
                fix="pip install 'accord[comet]'",
            ) from None
        try:
            model = comet.load_from_checkpoint(str(checkpoint), local_files_only=True)
        except Exception as error:
            raise AccordError(
                f"the COMET model cannot be loaded: {' '.join(str(error).split())[:300]}",
                where=str(checkpoint),
                fix="hparams.yaml belongs two folders above the checkpoint; the encoder that it "
                "names (pretrained_model) must lie on this machine too: huggingface-cli download",
            ) from error
        name = path.resolve().name
        return Comet(model, f"{name}|sha256:{sha256_of(checkpoint)[:12]}", int(gpu))

    def score(
        self, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
    ) -> float:
        """The mean over the sentences."""
        rows = zip(sources, hypotheses, references, strict=True)
        found = self.model.predict(
            [{"src": src, "mt": mt, "ref": ref} for src, mt, ref in rows],
            batch_size=_BATCH,
            gpus=self.gpus,
            progress_bar=False,
            # The default starts two processes per GPU, for texts that are in memory already.
            num_workers=0,
        )
        scores = [float(score) for score in found.scores]
        if len(scores) != len(sources):
            raise AccordError(
                f"the COMET model gave {len(scores)} scores for {len(sources)} sentences",
                fix="use another model: each sentence must have one",
            )
        return sum(scores) / len(scores)
