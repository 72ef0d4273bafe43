"""Small models of every kind that can be exported, and their graphs loaded."""

from pathlib import Path

import torch

from accord.config.load import load, run_directory, store_directory
from accord.data.prepare import prepare
from accord.data.store import Store
from accord.data.vocabulary import EOS
from accord.export.onnx.exporter import graphs
from accord.inference.backends.onnx_sessions import Sessions
from accord.models.build import build_model
from accord.models.checkpoint import Checkpoints
from accord.models.gnmt import GNMT
from accord.models.transformer import Transformer
from accord.run_directory import RunDirectory
from accord.training.begin import begin_run
from accord.training.optim import build_optimizer
from toy_corpus import sentence, write_experiment, write_lines

V, D = 40, 16
TAGS = [2, 3]
KINDS = [
    (preset, layers, feeding)
    for preset, layers in (("paper", 1), ("paper", 2), ("gnmt3", 2), ("gnmt3", 3))
    for feeding in (True, False)
]


def small(preset: str, layers: int, feeding: bool, *, seed: int = 1, ends: float = 1.3) -> GNMT:
    """Random weights, large enough for translations that differ; `ends` makes ends likelier."""
    torch.manual_seed(seed)
    return enlarged(GNMT(V, D, preset, layers, input_feeding=feeding).eval(), ends)


# Where norms stand, tables, the encoder layer without a residual.
TRANSFORMERS = [
    ("pre", "shared", None),
    ("pre", "separate", 2),
    ("post", "shared", 1),
    ("post", "separate", None),
]


def transformer(
    norm: str, tables: str, residual: int | None, *, seed: int = 1, ends: float = 1.3
) -> Transformer:
    """The same as a Transformer."""
    torch.manual_seed(seed)
    return enlarged(Transformer(V, D, 2, 3, 4, 24, 0.1, norm, tables, residual).eval(), ends)


def enlarged(model, ends: float):
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.mul_(2.0)
        model.target_embedding.weight[EOS] *= ends
    return model


def sessions(model, precision: str = "fp32") -> Sessions:
    """The model in ONNX Runtime."""
    made = graphs(model, precision)
    return Sessions(made["encoder.onnx"], made["decoder.onnx"], threads=1)


LANGUAGES = ["en", "de", "fr"]


def made_run(directory: Path, *, held_out: bool = True, **model) -> Path:
    """A run with one checkpoint of random weights; en-de and en-fr have data."""
    for split, numbers in (("train", range(300)), ("test", range(1000, 1012))):
        for language in LANGUAGES:
            write_lines(directory / f"{split}.{language}", (sentence(i, language) for i in numbers))
    experiment = write_experiment(
        directory,
        languages=LANGUAGES,
        corpora=[
            {"pair": f"en-{x}", "train": str(directory / "train.{lang}")} for x in ("de", "fr")
        ],
        overlap="keep",
        vocabulary={"size": 330},
        model={"units": 24, "preset": "gnmt3", **model},
        run=str(directory / "run"),
        **({"test": str(directory / "test.{lang}")} if held_out else {}),
    )
    settings = load(experiment)
    prepare(settings, workers=1)
    store, run = Store(store_directory(settings)), RunDirectory(run_directory(settings))
    begin_run(run, settings, store, False)
    network = enlarged(
        build_model(settings.model, len(store.vocabulary), settings.training_seed), ends=1.5
    )
    Checkpoints(run.checkpoints).save(
        7, network, build_optimizer("adam", network), {"best_step": 7}
    )
    return run.path
