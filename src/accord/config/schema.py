"""Everything an experiment needs, typed and strict; each key is described beside its field."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainValidator, StringConstraints
from pydantic_core import PydanticCustomError

from accord.config.model_settings import ModelSettings
from accord.config.objectives import ObjectiveSettings
from accord.config.section import FilePath, Language, Pair, Real, Section, Whole
from accord.graph import Direction, TranslationGraph
from accord.machine import MOST_THREADS

Directory = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]+$")]
Format = Literal["auto", "text", "tsv", "jsonl", "tmx", "iwslt", "sgm", "parquet", "arrow"]


def _as_column(value: object) -> int | str:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise PydanticCustomError("column", "a column is a number from 0 on, or a name")


Column = Annotated[
    int | str,
    PlainValidator(_as_column, json_schema_input_type=Annotated[int, Field(ge=0)] | str),
]


# What the prepared data follows from; the rest of an experiment may change without a new store.
DATA_KEYS = frozenset(
    ("seed", "languages", "corpora", "dev", "test", "overlap", "cleaning", "vocabulary")
)


def pair_languages(pair: str) -> tuple[str, str]:
    """The two languages of a pair such as `en-de`, in the order written."""
    first, second = pair.split("-")
    return first, second


class Source(Section):
    """Files that hold sentences. A plain string in YAML is a source with only a path."""

    path: FilePath
    """File; {lang} is filled in. Compressed files (.gz .xz .bz2 .zst) are read as they are, and
    members of archives as archive.tar.gz::member."""
    format: Format = "auto"
    """How to read it; auto decides by the name."""
    columns: dict[Language, Column] | None = None
    """The column of each language. For tsv: its number, counted from 0. For parquet and arrow: its
    name; a field of a struct is written as translation.en."""


def _as_source(value: object) -> object:
    return {"path": value} if isinstance(value, str) else value


def _as_sources(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_as_source(item) for item in value]
    return [_as_source(value)]


Sources = Annotated[
    tuple[Source, ...],
    BeforeValidator(_as_sources, json_schema_input_type=str | Source | list[str | Source]),
    Field(min_length=1),
]


class Corpus(Section):
    """One parallel training corpus; there is one a pair of languages."""

    pair: Pair
    """The two languages, for example en-de."""
    train: Sources
    """Its text: a path, or a list of paths that are read one after the other."""
    directions: Literal["both", "forward"] = "both"
    """Train both directions on it, or only the one in which the pair is written."""
    limit: Annotated[Whole, Field(ge=1)] | None = None
    """Keep at most so many lines, chosen by the seed; a smaller limit gives a subset."""

    @property
    def languages(self) -> tuple[str, str]:
        """The two languages in the order of `pair`."""
        return pair_languages(self.pair)

    @property
    def supervised(self) -> tuple[Direction, ...]:
        """The directions that are trained on this corpus."""
        first, second = self.languages
        forward = Direction(first, second)
        return (forward,) if self.directions == "forward" else (forward, Direction(second, first))


class PairSet(Source):
    """A dev or test set of two languages."""

    pair: Pair
    """The two languages, for example en-de."""


def _as_held_out(value: object) -> object:
    if isinstance(value, str):
        return {"path": value}
    return {"sets": value} if isinstance(value, list | tuple) else value


class HeldOut(Section):
    """Sentences kept out of training. One of `path` (one multi-parallel set, with {lang}), `sets`
    (one set a pair; pairs that have none are joined through a pivot language) and `lines` (there
    are no files for it: so many lines of each corpus are split off)."""

    path: FilePath | None = None
    """A multi-parallel set: the same sentences in every language; {lang} is filled in."""
    format: Format = "auto"
    """How to read `path`; auto decides by the name."""
    sets: tuple[PairSet, ...] = ()
    """Sets of two languages each."""
    # Left out where it is not given: stores are known by their settings, also those made before it.
    lines: Annotated[
        Annotated[Whole, Field(ge=1)] | None, Field(exclude_if=lambda value: value is None)
    ] = None
    """Take so many lines of each training corpus, chosen by the seed, and train on the others."""

    @property
    def given(self) -> bool:
        """Whether there is a set at all."""
        return bool(self.path or self.sets or self.lines)


class Overlap(Section):
    """What to do with pivot sentences that stand in several corpora. A plain string is a mode."""

    mode: Literal["disjoint", "pairwise", "keep"] = "disjoint"
    """disjoint: each pivot sentence stays in one corpus only. pairwise: the paper's halving, for
    the pairs listed. keep: leave the overlap in."""
    pairs: tuple[Pair, ...] = ()
    """For pairwise: the zero-shot pairs whose common pivot sentences are split in halves."""
    matching: Literal["exact", "normalised"] = "exact"
    """Two sentences are the same if equal, or if equal without case, punctuation and spacing."""


class Cleaning(Section):
    """Which lines are mended or dropped before training. Every step is counted."""

    nfc: bool = True
    """Bring text into Unicode's composed form (NFC)."""
    control_characters: bool = True
    """Replace control characters, odd spaces and line separators by one space."""
    empty: bool = True
    """Drop pairs with an empty side."""
    max_characters: Annotated[Whole, Field(ge=1, le=20_000)] = 2000
    """Drop pairs with a side longer than this, in characters. There is always a limit, since words
    of more than 65,535 characters break the training of the vocabulary."""
    max_subwords: Annotated[Whole, Field(ge=1)] | None = 250
    """Drop pairs with a side longer than this, in subwords."""
    max_ratio: Annotated[Real, Field(ge=1)] | None = 9.0
    """Drop pairs whose longer side has more than this many times the characters of the shorter."""
    identical: bool = True
    """Drop pairs whose sides are the same text."""
    duplicates: bool = True
    """Drop pairs that occurred before in the same corpus."""
    wrong_language: bool = False
    """Drop pairs with a side that is in another of the experiment's languages (py3langid)."""


class VocabularySettings(Section):
    """The subword vocabulary that all languages share (sentencepiece BPE with byte fallback)."""

    size: Annotated[Whole, Field(ge=300, le=65536)] = 32000
    """Number of entries, tags and the 256 byte pieces included."""
    sample: Annotated[Whole, Field(ge=100)] = 1_000_000
    """Train it on at most so many sentences."""
    temperature: Annotated[Real, Field(ge=1)] = 2.0
    """Share of each language in that sample: 1 is natural, higher is more even."""


class PrepareSettings(Section):
    """How prepared data is made; none of it changes the result."""

    memory: Annotated[Real, Field(gt=0)] | None = None
    """Gigabytes that choosing among lines may take, on one machine and all processes together: the
    less, the more passes. By default a quarter of what the machine has."""


class OptimizerSettings(Section):
    """How gradients become steps. A plain string is a kind."""

    kind: Literal["adafactor", "adam"] = "adafactor"
    """adafactor is the paper's; adam is the practical alternative."""
    learning_rate: Annotated[Real, Field(gt=0)] | None = None
    """Highest learning rate; by default 0.01 for adafactor and 0.001 for adam."""
    schedule: Literal["paper", "inverse-sqrt", "constant"] | None = None
    """paper: the highest rate for `warmup` steps, then 1/sqrt(step). inverse-sqrt: a straight rise
    in `warmup` steps, then the same fall. By default paper for adafactor, inverse-sqrt for adam."""
    warmup: Annotated[Whole, Field(ge=1)] = 10_000
    """Steps before the rate begins to fall."""
    decay: Annotated[Whole, Field(ge=0)] = 0
    """Last steps of `training.steps` over which the rate falls on, in a straight line, to 0. A run
    that ends by the clock may not come so far."""
    decay_minutes: Annotated[Real, Field(gt=0)] | None = None
    """The same by the clock: last minutes of `training.minutes` or `training.branch_minutes`."""

    @property
    def peak(self) -> float:
        """The highest learning rate in force."""
        return self.learning_rate or (0.01 if self.kind == "adafactor" else 0.001)

    @property
    def shape(self) -> Literal["paper", "inverse-sqrt", "constant"]:
        """The schedule in force."""
        return self.schedule or ("paper" if self.kind == "adafactor" else "inverse-sqrt")


class ValidationSettings(Section):
    """Measuring the model on the dev set while it trains."""

    every: Annotated[Whole, Field(ge=1)] = 2000
    """Steps between two validations."""
    sentences: Annotated[Whole, Field(ge=0)] = 100
    """Sentences of each direction that are translated for BLEU; 0 leaves that out."""
    directions: Literal["supervised", "all"] = "supervised"
    """Which directions count. With all, references of zero-shot directions choose the model."""
    watch: Literal["supervised", "all"] = "supervised"
    """Which directions are measured and logged; those that do not count choose nothing."""
    metric: Literal["cross_entropy", "bleu", "agreement"] = "cross_entropy"
    """What the best checkpoint is chosen by: the mean over the directions. agreement: how far
    zero-shot translations agree with supervised ones, and supervised BLEU; no zero-shot references
    needed."""
    patience: Annotated[Whole, Field(ge=1)] | None = None
    """Stop after so many validations without a new best."""


class TrainingSettings(Section):
    """The course of training."""

    seed: Annotated[Whole, Field(ge=0, lt=2**63)] | None = None
    """Random choices of training: first weights, order of batches, dropout. By default the
    experiment's seed; another one repeats training on the same prepared data."""
    init_from: str | None = None
    """Start from the newest checkpoint of another run: weights, optimiser, step and place in the
    data. Branches of one run are so matched in updates."""
    directions: Annotated[tuple[Pair, ...], Field(min_length=1)] | None = None
    """Train these directions only, for example [en-fr]; by default all that have a corpus. The
    others count as without data for this run; the prepared data stays what it is."""
    steps: Annotated[Whole, Field(ge=1)] = 500_000
    """Updates in all."""
    minutes: Annotated[Real, Field(gt=0)] | None = None
    """Stop after this much training time, whatever the step; that of the run which this one
    branches off counts."""
    branch_minutes: Annotated[Real, Field(gt=0)] | None = None
    """Stop after this much training time since the run branched off (`init_from`), or else began:
    branches of one run are so matched in time."""
    batch_tokens: Annotated[Whole, Field(ge=16)] = 4096
    """Tokens of one update, over all processes: rows times the longest of their sides."""
    accumulation: Annotated[Whole, Field(ge=1)] = 1
    """Compute an update in so many parts, if it does not fit into memory at once."""
    temperature: Annotated[Real, Field(ge=1)] = 1.0
    """Sampling of corpora: 1 is natural, higher shows small corpora more often."""
    label_smoothing: Annotated[Real, Field(ge=0, lt=1)] = 0.1
    """Probability mass that is taken off the reference token and spread over all others."""
    optimizer: Annotated[
        OptimizerSettings,
        BeforeValidator(
            lambda value: {"kind": value} if isinstance(value, str) else value,
            json_schema_input_type=Literal["adafactor", "adam"] | OptimizerSettings,
        ),
    ] = OptimizerSettings()
    """How gradients become steps."""
    clip: Annotated[Real, Field(gt=0)] = 2.0
    """Longest gradient, as the norm over all parameters."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: bf16 on a GPU, fp32 on a CPU."""
    exchange: Literal["fp32", "bf16"] = "fp32"
    """In which precision several processes add up their gradients. bf16 halves what goes over the
    network, and rounds every sum to three digits."""
    threads: Annotated[Whole, Field(ge=1, le=MOST_THREADS)] | None = None
    """CPU threads; by default half of the cores, at most 8. phrase-based: directions that are
    trained at once, each by a process."""
    log_every: Annotated[Whole, Field(ge=1)] = 100
    """Steps between two lines of metrics.jsonl."""
    save_every: Annotated[Whole, Field(ge=1)] = 1000
    """Steps between two checkpoints."""
    keep: Annotated[Whole, Field(ge=1)] = 3
    """How many of the newest checkpoints are kept, beside the best."""
    bad_steps: Annotated[Whole, Field(ge=1)] = 20
    """Give up after so many updates in a row whose gradient is not finite."""
    loggers: tuple[Literal["tensorboard", "wandb", "mlflow"], ...] | None = None
    """Where the figures of metrics.jsonl go as well; each is an extra to install. By default
    tensorboard where it is installed; [] is none."""
    validation: ValidationSettings = ValidationSettings()
    """Measuring the model on the dev set."""


class Experiment(Section):
    """One experiment: languages, corpora, how they become training data, model and training."""

    name: Annotated[str, StringConstraints(pattern=r"^[^\W_][\w.+-]*$")]
    """Names the store and the run; by default the name of the experiment file."""
    seed: Annotated[Whole, Field(ge=0, lt=2**63)] = 1
    """Every random choice follows from it, but those of training if that has its own."""
    languages: Annotated[tuple[Language, ...], Field(min_length=2, max_length=1000)]
    """All languages to translate between."""
    corpora: Annotated[tuple[Corpus, ...], Field(min_length=1)]
    """The parallel corpora; every pair of languages without one is zero-shot."""
    dev: Annotated[HeldOut, BeforeValidator(_as_held_out, json_schema_input_type=Any)] = HeldOut()
    """Sentences for validation during training."""
    test: Annotated[HeldOut, BeforeValidator(_as_held_out, json_schema_input_type=Any)] = HeldOut()
    """Sentences for evaluation."""
    overlap: Annotated[
        Overlap,
        BeforeValidator(
            lambda value: {"mode": value} if isinstance(value, str) else value,
            json_schema_input_type=Literal["disjoint", "pairwise", "keep"] | Overlap,
        ),
    ] = Overlap()
    """Pivot sentences that stand in several corpora."""
    cleaning: Cleaning = Cleaning()
    """Which lines are mended or dropped."""
    vocabulary: VocabularySettings = VocabularySettings()
    """The shared subword vocabulary."""
    prepare: PrepareSettings = PrepareSettings()
    """How the data is prepared."""
    store: Directory = "stores/{name}"
    """Directory of the prepared data; {name} is the experiment's name."""
    model: ModelSettings = ModelSettings()
    """The translation model."""
    objective: ObjectiveSettings = ObjectiveSettings()
    """What is optimised: Basic, or Basic with agreement."""
    training: TrainingSettings = TrainingSettings()
    """How it is trained: steps, batches, optimiser, checkpoints, validation."""
    run: Directory = "runs/{name}"
    """Directory of the trained model and all that is known about it."""

    @property
    def training_seed(self) -> int:
        """What the random choices of training follow from."""
        return self.seed if self.training.seed is None else self.training.seed

    @property
    def data_graph(self) -> TranslationGraph:
        """Supervised and zero-shot directions that follow from the corpora."""
        supervised = frozenset(d for corpus in self.corpora for d in corpus.supervised)
        return TranslationGraph(self.languages, supervised)

    @property
    def graph(self) -> TranslationGraph:
        """The same for the run: what it does not train (`training.directions`) is zero-shot."""
        known, chosen = self.data_graph, self.training.directions
        if chosen is None:
            return known
        asked = {Direction(*pair_languages(pair)) for pair in chosen}
        return TranslationGraph(self.languages, known.supervised & asked)

    @property
    def learns_from_gold(self) -> bool:
        """Whether the pairs of the corpora are learnt from, and not only ones made of them."""
        complete = self.objective.complete
        return complete is None or complete.gold or "complete" not in self.objective.active

    @property
    def trained_corpora(self) -> tuple[Corpus, ...]:
        """The corpora of which at least one direction is trained."""
        supervised = self.graph.supervised
        return tuple(c for c in self.corpora if not supervised.isdisjoint(c.supervised))

    @property
    def held_out(self) -> Mapping[str, HeldOut]:
        """The dev and test sets that are given, by name."""
        sets = {"dev": self.dev, "test": self.test}
        return {name: value for name, value in sets.items() if value.given}
