"""Small models of every kind that can be exported, and their graphs loaded."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from accord.config.load import load, run_directory, store_directory
from accord.data.prepare import prepare
from accord.data.store import Store
from accord.data.vocabulary import EOS, PAD
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


# Three sentences of different lengths, and what a step is told where nothing is unlikely.
SOURCES = np.array([[2, 7, 9, 11, 30, 8, EOS], [3, 20, EOS] + [PAD] * 4, [2, 5, 6, 7, EOS, 0, 0]])
LENGTHS = np.array([7, 3, 5])
NO_PENALTY = np.zeros((1, V), dtype=np.float32)


def steps_beside_the_model(model, precision: str):
    """Log-probabilities of five steps, those of the graphs and those of the model."""
    made, rows = sessions(model, precision), np.arange(3)
    memory, state = made.encode(SOURCES, LENGTHS)
    token_R = np.full(3, PAD)
    with torch.no_grad():
        theirs = model.encode(torch.from_numpy(SOURCES), torch.from_numpy(LENGTHS))
        before = model.initial_state(theirs, steps=5)
        for _ in range(5):
            said, state = made.step(memory, state, token_R, rows, NO_PENALTY, V)
            token = model.embed_target(torch.from_numpy(token_R))
            hidden_RD, before = model.step(theirs, before, token)
            log_p_RV = torch.log_softmax(model.logits(hidden_RD), dim=1).numpy()
            mine_RV = np.empty_like(log_p_RV)
            np.put_along_axis(mine_RV, said.next_RC, said.log_p_RC, axis=1)
            np.testing.assert_array_equal(said.end_R, mine_RV[:, EOS])
            if precision == "fp32":
                assert said.seen_R.tolist() == before.attention_BS.argmax(dim=1).tolist()
            yield mine_RV, log_p_RV
            token_R = log_p_RV.argmax(axis=1)


def assert_same_in_any_company(model, near: float) -> None:
    """A sentence is read the same alone and beside longer ones."""
    made = sessions(model)
    token_R, few = np.full(3, 9), np.full(1, 9)
    memory, state = made.encode(SOURCES, LENGTHS)
    said, _ = made.step(memory, state, token_R, np.arange(3), NO_PENALTY, 5)
    for row, length in enumerate(LENGTHS):
        memory, state = made.encode(SOURCES[row : row + 1, :length], LENGTHS[row : row + 1])
        alone, _ = made.step(memory, state, few, np.zeros(1, dtype=np.int64), NO_PENALTY, 5)
        np.testing.assert_allclose(alone.log_p_RC[0], said.log_p_RC[row], atol=near)
        assert alone.next_RC[0].tolist() == said.next_RC[row].tolist()


LANGUAGES = ["en", "de", "fr"]


def made_run(directory: Path, *, held_out: bool = True, dev: int = 0, **model) -> Path:
    """A run with one checkpoint of random weights; en-de and en-fr have data.

    It has 12 test sentences unless nothing is held out, and so many for `dev`.
    """
    sets = {"train": range(300), "test": range(1000, 1012), "dev": range(2000, 2000 + 7 * dev, 7)}
    for split, numbers in sets.items():
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
        **({"dev": str(directory / "dev.{lang}")} if dev else {}),
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


def translated_without_torch(directory: Path, line: str) -> dict:
    """What `accord translate` says of a line, in a process that must not import PyTorch."""
    code = (
        "import sys\nfrom accord.cli import main\n"
        f"sys.argv = ['accord', 'translate', {str(directory)!r}, '--to', 'de', '--json']\n"
        "main()\nassert 'torch' not in sys.modules"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input=f"{line}\n", capture_output=True, text=True, check=True)
    [found] = map(json.loads, done.stdout.splitlines())
    return found
