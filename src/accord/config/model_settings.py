"""The `model` section: the kinds of models, their presets, and which keys belong to which kind."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from accord.config.section import Real, Section, Whole

Kind = Literal["gnmt", "transformer", "language-model", "phrase-based"]
Preset = Literal[
    "paper", "gnmt3", "transformer", "transformer-6+6", "transformer-small", "language-model"
]
TagPlace = Literal["source", "target", "both"]
Tables = Literal["shared", "separate"]
Size = Annotated[Whole, Field(ge=1)]
Symmetrisation = Literal[
    "grow-diag-final-and", "grow-diag-final", "grow-diag", "union", "intersection"
]


class GeneratorSettings(Section):
    """Contextual parameter generation (Platanios et al. 2018): every weight of the encoder is a
    linear function of a vector of the source language, every weight of the decoder one of a vector
    of the target language: W l + b. Tables of embeddings are not generated."""

    size: Size = 8
    """Numbers in the vector of a language. The model has so many times the weights of encoder and
    decoder."""
    bias: bool = True
    """Add b, which is the same for all languages. W then begins as 0, so that the model begins as
    one without a generator, or as the run in training.init_from. Without b, as published, W is
    drawn."""
    rank: Size | None = None
    """Only with bias: give every matrix a W of this rank, U diag(A l) V, instead of a whole one;
    16 adds few weights."""


# --- Keys of a phrase-based system: word alignment, phrases, tuning of its weights.


class AlignmentSettings(Section):
    """Which words of a training pair are translations of each other."""

    model: Literal["hmm", "fast-align"] = "hmm"
    """hmm: IBM model 1, then a hidden Markov model of the jumps between words (Vogel et al. 1996).
    fast-align: IBM model 2 with a preference for the diagonal (Dyer et al. 2013)."""
    iterations: Annotated[Whole, Field(ge=1)] = 5
    """Iterations of EM, of each model in turn."""
    symmetrise: Symmetrisation = "grow-diag-final-and"
    """How alignments of either direction become one (Koehn et al. 2003)."""


class PhraseSettings(Section):
    """The phrases that translations are put together of."""

    longest: Annotated[Whole, Field(ge=1, le=20)] = 7
    """Most words of a phrase."""
    choices: Annotated[Whole, Field(ge=1)] = 10
    """Translations of a phrase that are kept and tried, the likeliest."""


class TuningSettings(Section):
    """Search for the weights that give the highest BLEU on dev sentences of the direction."""

    sentences: Annotated[Whole, Field(ge=1)] = 100
    """Dev sentences to translate, at most all there are; the seed chooses them."""
    evaluations: Annotated[Whole, Field(ge=0)] = 20
    """How often they are translated, each time with other weights; 0 keeps the first weights."""


# --- The section itself.


class ModelSettings(Section):
    """The translation model: what it is, and how large. Keys that name a kind are for that one
    only; what is not given is the preset's."""

    kind: Kind = "gnmt"
    """The architecture. gnmt: stacked LSTMs with attention, as the paper has them. transformer:
    self-attention. language-model: an LSTM per language that translates nothing, for
    `objective.dual`. phrase-based: statistical translation by phrases, a system for each direction
    with data; of the keys below it has only its own."""
    preset: Preset = "paper"
    """paper: 2 bidirectional encoder layers, 4 decoder layers. gnmt3: the authors' release, one
    bidirectional and 2 further encoder layers, 3 decoder layers. transformer (the default of that
    kind): 6 encoder and 3 decoder layers. transformer-6+6: as many of both. transformer-small: 3
    and 2 layers, 256 units, 4 heads, feed_forward 1024. language-model (the only one of that kind):
    2 layers."""
    units: Size = 512
    """Width of embeddings and layers; 256 for transformer-small."""
    encoder_layers: Size | None = None
    """Number of encoder layers, if not the preset's."""
    decoder_layers: Size | None = None
    """Number of decoder layers, if not the preset's; of a language model, all that it has."""
    dropout: Annotated[Real, Field(ge=0, lt=1)] = 0.2
    """gnmt and language-model: share of every layer's inputs that is dropped in training.
    transformer: of the inputs, and of what every sub-layer adds; 0.1 by default."""
    tag: TagPlace = "source"
    """Who reads the tag that names the target language. source: the encoder, before the sentence.
    target: the decoder, as its first input; encodings then do not depend on the target language.
    both: both."""
    tables: Tables | None = None
    """Whether sources and targets have one table of embeddings (shared, the default of a
    transformer) or two (separate, that of gnmt); the softmax has the targets' in any case."""
    generator: GeneratorSettings | None = None
    """Make the weights from vectors of the source and the target language; by default they are the
    same for all languages."""
    input_feeding: bool | None = None
    """gnmt: feed the attention of the step before into the bottom decoder layer, as the paper does
    and as is the default; training is about 15 % faster without."""
    heads: Size | None = None
    """transformer: heads of every attention, which share out the units; 8 by default. Fast on a GPU
    where a head has 16, 32, 64 or 128 units."""
    feed_forward: Size | None = None
    """transformer: width inside the feed-forward layers; 2048 by default."""
    norm: Literal["pre", "post"] | None = None
    """transformer: norms stand before every sub-layer (pre, the default), or after its residual."""
    encoder_residual: Size | None = None
    """transformer: the encoder layer (1 is the lowest) whose attention has no residual, so that
    encodings hang less on word order (Liu et al. 2021); by default all have one."""
    alignment: AlignmentSettings | None = None
    """phrase-based: alignment of the words of the training pairs."""
    phrases: PhraseSettings | None = None
    """phrase-based: how long phrases are, and how many translations each has."""
    reordering: Annotated[Whole, Field(ge=0, le=20)] | None = None
    """phrase-based: how many words a translation may leave behind and come back to; 4 by default,
    0 translates from left to right."""
    tuning: TuningSettings | None = None
    """phrase-based: how its weights are found on dev sentences."""

    @property
    def is_network(self) -> bool:
        """Whether it has weights that updates change, and checkpoints of them."""
        return self.kind != "phrase-based"

    @property
    def translates(self) -> bool:
        """Whether it is a translation model at all."""
        return self.kind != "language-model"

    @property
    def encoder_depth(self) -> int:
        """The number of encoder layers in force."""
        return self.encoder_layers or (3 if self.preset == "gnmt3" else 2)

    @property
    def encoder_states(self) -> int:
        """How many states the encoder ends with: two per layer where all are bidirectional."""
        return self.encoder_depth * (2 if self.preset == "paper" else 1)

    @property
    def decoder_depth(self) -> int:
        """The number of decoder layers in force: one for each state, if not given."""
        return self.decoder_layers or self.encoder_states

    @model_validator(mode="before")
    @classmethod
    def _in_force(cls, given: Any) -> Any:
        """What is not given, by kind and preset."""
        if not isinstance(given, dict):
            return given
        # An unknown kind or preset, of whatever type, is refused with its key in a moment.
        kind, preset = str(given.get("kind", "gnmt")), str(given.get("preset"))
        defaults = {**_DEFAULTS.get(kind, {})}
        if preset in OWN_PRESETS.get(kind, ()):
            defaults |= _PRESETS.get(preset, {})
        optional = {key for key, field in cls.model_fields.items() if field.default is None}
        kept = {
            key: value for key, value in given.items() if value is not None or key not in optional
        }
        return {**defaults, **kept}


_DEFAULTS: dict[str, dict[str, Any]] = {
    "gnmt": {"preset": "paper", "units": 512, "dropout": 0.2, "input_feeding": True},
    "transformer": {
        "preset": "transformer",
        "units": 512,
        "encoder_layers": 6,
        "decoder_layers": 3,
        "dropout": 0.1,
        "heads": 8,
        "feed_forward": 2048,
        "norm": "pre",
        "tables": "shared",
    },
    "language-model": {
        "preset": "language-model",
        "units": 512,
        "decoder_layers": 2,
        "dropout": 0.2,
    },
    "phrase-based": {"alignment": {}, "phrases": {}, "reordering": 4, "tuning": {}},
}
_PRESETS: dict[str, dict[str, Any]] = {
    "transformer-6+6": {"decoder_layers": 6},
    "transformer-small": {
        "units": 256,
        "encoder_layers": 3,
        "decoder_layers": 2,
        "heads": 4,
        "feed_forward": 1024,
    },
}
OWN_PRESETS: dict[str, tuple[str, ...]] = {
    "gnmt": ("paper", "gnmt3"),
    "transformer": ("transformer", *_PRESETS),
    "language-model": ("language-model",),
}
OWN_KEYS: dict[str, tuple[str, ...]] = {
    "gnmt": ("input_feeding",),
    "transformer": ("heads", "feed_forward", "norm", "encoder_residual"),
    "phrase-based": ("alignment", "phrases", "reordering", "tuning"),
}
