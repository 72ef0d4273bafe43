"""The models there are, by the name that `model.kind` gives them, and how each is built.

To add one: write it against `accord.models.base` and name it here.
"""

from collections.abc import Callable

import torch

from accord.config.checks import refuse
from accord.config.model_checks import bad_heads
from accord.config.model_settings import ModelSettings
from accord.errors import AccordError
from accord.models.base import Seq2Seq
from accord.models.generator import Generator
from accord.models.gnmt import GNMT
from accord.models.language_model import LanguageModel
from accord.models.transformer import Transformer


def _gnmt(settings: ModelSettings, vocabulary_size: int, _languages: int) -> Seq2Seq:
    return GNMT(
        vocabulary_size,
        settings.units,
        "gnmt3" if settings.preset == "gnmt3" else "paper",
        settings.encoder_layers,
        settings.decoder_layers,
        settings.dropout,
        settings.input_feeding is not False,
        settings.tag,
        settings.tables or "separate",
    )


def _transformer(settings: ModelSettings, vocabulary_size: int, _languages: int) -> Seq2Seq:
    refuse(bad_heads(settings))
    other = {"kind", "preset", "input_feeding", "generator"}
    return Transformer(vocabulary_size, **settings.model_dump(exclude=other, exclude_none=True))


def _language_model(settings: ModelSettings, vocabulary_size: int, languages: int) -> Seq2Seq:
    depth = settings.decoder_layers or 2
    return LanguageModel(vocabulary_size, languages, settings.units, depth, settings.dropout)


MODELS: dict[str, Callable[[ModelSettings, int, int], Seq2Seq]] = {
    "gnmt": _gnmt,
    "transformer": _transformer,
    "language-model": _language_model,
}


def build_model(
    settings: ModelSettings, vocabulary_size: int, seed: int, languages: int = 0
) -> Seq2Seq:
    """The model of an experiment, with weights drawn from a seed.

    How many `languages` there are matters to those that have weights for each. A generator draws
    its own weights after those of its shape, which are then those of a plain model.
    """
    if settings.kind not in MODELS:
        raise AccordError(
            f"a {settings.kind} system has no network to build",
            where="model.kind",
            fix="train it by `accord train`, or by accord.training.phrase_based",
        )
    torch.manual_seed(seed)
    model = MODELS[settings.kind](settings, vocabulary_size, languages)
    if settings.generator is None:
        return model
    return Generator(model, languages, **settings.generator.model_dump())
