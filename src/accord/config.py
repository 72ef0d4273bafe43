"""Everything an experiment needs, typed and strict; each key is described beside its field."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    StringConstraints,
)

from accord.graph import Direction, TranslationGraph

Language = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}(_[A-Za-z0-9]+)?$")]
Pair = Annotated[
    str, StringConstraints(pattern=r"^[a-z]{2,3}(_[A-Za-z0-9]+)?-[a-z]{2,3}(_[A-Za-z0-9]+)?$")
]
# Strict: YAML's yes and true are no numbers, and nothing here may be endless.
Whole = Annotated[int, Strict()]
Real = Annotated[float, Strict(), AllowInfNan(False)]
FilePath = Annotated[str, StringConstraints(min_length=1)]
Directory = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]+$")]
Format = Literal["auto", "text", "tsv", "jsonl", "tmx", "iwslt", "sgm"]


# What the prepared data follows from; the rest of an experiment may change without a new store.
DATA_KEYS = frozenset(
    ("seed", "languages", "corpora", "dev", "test", "overlap", "cleaning", "vocabulary")
)


def pair_languages(pair: str) -> tuple[str, str]:
    """The two languages of a pair such as `en-de`, in the order written."""
    first, second = pair.split("-")
    return first, second


class Section(BaseModel):
    """A part of the experiment file: strict, frozen, its field docstrings are the help text."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=True
    )


class Source(Section):
    """Files that hold sentences. A plain string in YAML is a source with only a path."""

    path: FilePath
    """File; {lang} is filled in. Compressed files (.gz .xz .bz2 .zst) are read as they are, and
    members of archives as archive.tar.gz::member."""
    format: Format = "auto"
    """How to read it; auto decides by the name."""
    columns: dict[Language, Annotated[Whole, Field(ge=0)]] | None = None
    """For tsv: the column of each language, counted from 0."""


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
    """Sentences kept out of training. Either `path` (one multi-parallel set, with {lang}) or
    `sets` (one set a pair; pairs that have none are joined through a pivot language)."""

    path: FilePath | None = None
    """A multi-parallel set: the same sentences in every language; {lang} is filled in."""
    format: Format = "auto"
    """How to read `path`; auto decides by the name."""
    sets: tuple[PairSet, ...] = ()
    """Sets of two languages each."""


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


class ModelSettings(Section):
    """The translation model: GNMT, stacked LSTMs with attention."""

    preset: Literal["paper", "gnmt3"] = "paper"
    """paper: 2 bidirectional encoder layers, 4 decoder layers. gnmt3: the authors' release, one
    bidirectional and 2 further encoder layers, 3 decoder layers."""
    units: Annotated[Whole, Field(ge=1)] = 512
    """Width of embeddings and layers."""
    encoder_layers: Annotated[Whole, Field(ge=1)] | None = None
    """Number of encoder layers, if not the preset's."""
    decoder_layers: Annotated[Whole, Field(ge=1)] | None = None
    """Number of decoder layers, if not the preset's."""
    dropout: Annotated[Real, Field(ge=0, lt=1)] = 0.2
    """Share of every layer's inputs that is dropped in training."""
    input_feeding: bool = True
    """Feed the attention of the step before into the bottom decoder layer, as the paper does;
    training is about 15 % faster without."""


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

    @property
    def peak(self) -> float:
        """The highest learning rate in force."""
        return self.learning_rate or (0.01 if self.kind == "adafactor" else 0.001)

    @property
    def shape(self) -> Literal["paper", "inverse-sqrt", "constant"]:
        """The schedule in force."""
        return self.schedule or ("paper" if self.kind == "adafactor" else "inverse-sqrt")


class AgreementConfig(Section):
    """Agreement-based training: both sides of a pair are to be translated alike into a third
    language."""

    weight: Annotated[Real, Field(ge=0)] = 0.01
    """gamma: how much agreement counts beside the likelihood; 0 leaves it out."""
    start: Annotated[Whole, Field(ge=0)] = 100_000
    """The last step without agreement: the model must translate before it can agree."""
    ramp: Annotated[Whole, Field(ge=0)] = 0
    """Steps over which the weight rises after `start`; 0 switches it on at once."""
    auxiliary: Literal["zero-shot", "all", "non-english"] = "zero-shot"
    """The third language: zero-shot: one outside the pair with a zero-shot side. all: any (the
    paper). non-english: any but English (the authors' release)."""
    protect: Literal["supervised", "none"] = "supervised"
    """Shield directions with data from agreement gradients; none is the release's behaviour."""
    decoding: Literal["continuous", "straight-through", "hard", "sampled"] = "continuous"
    """How the third-language translation is made: mixtures of embeddings (the paper), tokens with
    the mixture's gradient, or tokens without gradient, which only teach the other side."""
    measure: Literal["cross-entropy", "kl"] = "kl"
    """cross-entropy is the paper's. kl takes the translation's own entropy off, so that nothing
    makes it sharper than the other side finds right."""
    normalize: Literal["sum", "token"] = "sum"
    """Over the tokens of a translation: sum (the scale of the paper's 0.01) or mean."""
    max_length: Annotated[Whole, Field(ge=1)] = 40
    """The most tokens of such a translation."""
    relative_length: bool = True
    """Stop also at 1.5 times the longer sentence of the pair and 5 tokens."""
    temperature: Annotated[Real, Field(gt=0)] = 1.0
    """Of the softmax that makes the translation."""
    dropout: bool = True
    """Dropout while making the translation; scoring it has none."""
    feedback_gradient: bool = False
    """Let gradients flow on through the mixtures that were fed back, as in the paper; they often
    explode there."""
    gradient_limit: Annotated[Real, Field(gt=0)] | None = 1.0
    """Longest gradient of agreement, in lengths of the likelihood's; null sets no limit."""
    distinct_bigrams: Annotated[Real, Field(ge=0, le=1)] = 0.8
    """Least share of different pairs of neighbouring subwords in a translation; fewer are
    repetition. Hard and sampled ones that fall short teach nothing; soft ones are only counted."""
    least_length: Annotated[Real, Field(ge=0, le=1)] = 0.6
    """Least length of a translation, as a share of the mean of the pair's two sides, less one
    token. Hard and sampled ones that are shorter teach nothing."""
    every: Annotated[Whole, Field(ge=1)] = 1
    """Compute agreement in every n-th update only, where it counts n times as much."""
    fraction: Annotated[Real, Field(gt=0, le=1)] = 1.0
    """The part of each batch that agreement is computed on, where it counts so much more."""
    encoder_weight: Annotated[Real, Field(ge=0)] = 0.0
    """Weight of the agreement of pooled encodings (cosine); 0 leaves it out."""


class CompleteTeacher(Section):
    """The model that translates training sentences into third languages."""

    kind: Literal["frozen", "ema", "rounds"] = "frozen"
    """frozen: one set of weights for good. ema: a running average of the model in training. rounds:
    the model in training itself. The last two as they stand when a round is asked for, if the guard
    lets them pass."""
    run: FilePath | None = None
    """For frozen: the run that teaches; by default the model in training, as it is when the pool
    begins."""
    checkpoint: Literal["best", "last", "average"] = "best"
    """Which checkpoint of `run` teaches. average: what `accord average` made of its last ones."""
    decay: Annotated[Real, Field(ge=0, lt=1)] = 0.999
    """For ema: how much of the average is kept in an update."""
    vote: Annotated[Real, Field(ge=0, le=1)] = 0.0
    """Weight of what the other sentence of the pair says in the choice of each token: translations
    then come from both sentences. 0 reads only the one whose direction has data."""
    tokens: Annotated[Whole, Field(ge=1, le=64)] = 1
    """How many tokens a place distillation learns: those that the teacher finds likeliest, each as
    far as it does. 1: only the one in the translation."""
    guard: bool = True
    """For ema and rounds: new weights teach only if they translate the dev set about as well as
    before."""
    tolerance: Annotated[Real, Field(ge=0)] = 0.5
    """For the guard: BLEU that new weights may fall behind the best accepted ones."""


class CompleteSearch(Section):
    """How the teacher searches."""

    beam: Annotated[Whole, Field(ge=1)] = 1
    """Hypotheses kept at every step; 1 is greedy search."""
    nbest: Annotated[Whole, Field(ge=1)] = 1
    """Translations of a sentence to choose from, at most `beam`."""
    vocabulary: Literal["all", "target"] = "all"
    """target: only subwords that the language has in the training text."""
    batch_tokens: Annotated[Whole, Field(ge=16)] = 65_536
    """Subwords, padding included, that are translated at once; on a GPU, as many are scored."""


class CompleteFilters(Section):
    """Which translations are dropped. Each drop is counted."""

    length_ratio: tuple[Annotated[Real, Field(ge=0)], Annotated[Real, Field(gt=0)]] = (0.6, 1.5)
    """Least and greatest length of a translation, over that of the sentence it was made from times
    what is usual in the training text of the two languages. In subwords, ends counted."""
    distinct_bigrams: Annotated[Real, Field(ge=0, le=1)] = 0.8
    """Least share of different pairs of neighbouring subwords: fewer are repetition."""
    language: bool = False
    """Drop translations that are in another of the languages (py3langid); slow."""
    round_trip: Annotated[Real, Field(le=0)] | None = None
    """Least log-probability a subword (nats) of the sentence given its translation, by the teacher;
    costs a scoring pass."""


class CompleteConfig(Section):
    """Synthetic pairs for directions without data: a teacher translates one side of training pairs
    into third languages; with the other side these make new pairs."""

    weight: Annotated[Real, Field(ge=0)] = 0.5
    """How much the mean loss of synthetic tokens counts beside that of gold ones; 0: not at all."""
    start: Annotated[Whole, Field(ge=0)] = 0
    """The last step without it: the teacher must have learnt to translate."""
    every: Annotated[Whole, Field(ge=1)] = 3
    """Only every n-th update computes synthetic pairs, as many as gold ones and with n times the
    weight: fewer cost less and make the gradient noisier, but change nothing in what is
    optimised."""
    parts: Annotated[
        tuple[Literal["distillation", "back-translation", "latent"], ...], Field(min_length=1)
    ] = ("distillation", "back-translation")
    """What a translation z of one side is used for. distillation: the other side into z.
    back-translation: z into the other side, which is gold. latent: two translations of one side
    into each other."""
    pairs: Annotated[Whole, Field(ge=1)] = 100_000
    """Training pairs translated in one round, at most all there are."""
    uses: Annotated[Whole, Field(ge=1)] = 3
    """How often each synthetic example is used before the next round takes its place."""
    teacher: CompleteTeacher = CompleteTeacher()
    """Who translates."""
    search: CompleteSearch = CompleteSearch()
    """How it searches."""
    filters: CompleteFilters = CompleteFilters()
    """Which translations are dropped."""
    select: Literal["first", "agreement"] = "first"
    """Which of `search.nbest` translations is used: the likeliest given one side, or the likeliest
    given both, a subword."""


class ConsistencyConfig(Section):
    """Decode-free consistency (CrossConST): led along the target of a pair, the decoder should say
    the same whether it reads the source or the target itself."""

    weight: Annotated[Real, Field(ge=0)] = 0.25
    """alpha: how much the divergence of a target token counts beside its likelihood; 0 leaves it
    out."""
    start: Annotated[Whole, Field(ge=0)] = 0
    """The last step without it."""
    divergence: Literal["forward", "symmetric"] = "forward"
    """forward: KL(P given the source || P given the target), as in CrossConST. symmetric: the mean
    of that and of its reverse."""


class ObjectiveSettings(Section):
    """What is optimised beside the likelihood of the training pairs."""

    agreement: AgreementConfig | None = None
    """Agreement-based training; without it the model is the Basic one."""
    complete: CompleteConfig | None = None
    """Synthetic pairs for directions without data."""
    consistency: ConsistencyConfig | None = None
    """Decode-free consistency between reading sources and reading targets."""


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
    steps: Annotated[Whole, Field(ge=1)] = 500_000
    """Updates in all."""
    minutes: Annotated[Real, Field(gt=0)] | None = None
    """Stop after this much training time, whatever the step."""
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
    threads: Annotated[Whole, Field(ge=1)] | None = None
    """CPU threads; by default half of the cores, at most 8."""
    log_every: Annotated[Whole, Field(ge=1)] = 100
    """Steps between two lines of metrics.jsonl."""
    save_every: Annotated[Whole, Field(ge=1)] = 1000
    """Steps between two checkpoints."""
    keep: Annotated[Whole, Field(ge=1)] = 3
    """How many of the newest checkpoints are kept, beside the best."""
    bad_steps: Annotated[Whole, Field(ge=1)] = 20
    """Give up after so many updates in a row whose gradient is not finite."""
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
    def graph(self) -> TranslationGraph:
        """Supervised and zero-shot directions that follow from the corpora."""
        supervised = frozenset(d for corpus in self.corpora for d in corpus.supervised)
        return TranslationGraph(self.languages, supervised)

    @property
    def held_out(self) -> Mapping[str, HeldOut]:
        """The dev and test sets that are given, by name."""
        sets = {"dev": self.dev, "test": self.test}
        return {name: value for name, value in sets.items() if value.path or value.sets}
