"""What is optimised: the sections below `objective`, each key described beside its field."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from accord.config.section import FilePath, Pair, Real, Section, Whole


class AgreementConfig(Section):
    """Agreement-based training: both sides of a pair are to be translated alike into a third
    language."""

    preset: Literal["accord", "paper"] = "accord"
    """What is not given is the preset's. paper: auxiliary all, relative_length false, measure
    cross-entropy, feedback_gradient true, gradient_limit null. accord: the defaults below."""
    weight: Annotated[Real, Field(ge=0)] = 0.01
    """gamma: how much agreement counts beside the likelihood; 0 leaves it out."""
    start: Annotated[Whole, Field(ge=0)] = 100_000
    """The last step without agreement: the model must translate before it can agree."""
    ramp: Annotated[Whole, Field(ge=0)] = 0
    """Steps over which the weight rises after `start`; 0 switches it on at once."""
    auxiliary: Literal["zero-shot", "all", "non-english"] = "zero-shot"
    """The third language: zero-shot: one outside the pair with a zero-shot side. all: any (the
    paper). non-english: any but English (the authors' release)."""
    protect: Literal["supervised", "supervised-scores", "none"] = "supervised"
    """Shield directions with data from agreement gradients; none is the release's behaviour.
    supervised-scores: nor does a translation learn from what they say about it (Algorithm 1, line
    8, read strictly)."""
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
    fixed_length: bool = False
    """Count every token up to the length limit, also those after the end of sentence."""
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

    @model_validator(mode="before")
    @classmethod
    def _in_force(cls, given: Any) -> Any:
        """What is not given, by preset."""
        if not isinstance(given, dict):
            return given
        # An unknown preset, of whatever type, is refused with its key in a moment.
        return {**_AGREEMENT_PRESETS.get(str(given.get("preset")), {}), **given}


_AGREEMENT_PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "auxiliary": "all",
        "relative_length": False,
        "measure": "cross-entropy",
        "feedback_gradient": True,
        "gradient_limit": None,
    }
}


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
    tokens: Annotated[Whole, Field(ge=1, le=64)] | Literal["all"] = 1
    """How many tokens a place distillation learns: those that the teacher finds likeliest, each as
    far as it does. 1: only the one in the translation. all: the divergence from the teacher's whole
    softmax, which reads its sentence again in every update."""
    guard: bool = True
    """For ema and rounds: new weights teach only if they translate the dev set about as well as
    before."""
    tolerance: Annotated[Real, Field(ge=0)] = 0.5
    """For the guard: BLEU that new weights may fall behind the best accepted ones."""


class CompleteSearch(Section):
    """How the teacher searches."""

    beam: Annotated[Whole, Field(ge=1)] = 1
    """Hypotheses kept at every step; 1 is greedy search."""
    sample: Annotated[Real, Field(gt=0)] | None = None
    """Draw each token at random, by the teacher's softmax at this temperature, instead of searching
    for the likeliest: 1.0 draws translations as often as the teacher finds them likely."""
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

    preset: Literal["accord", "sentence-beam", "sentence-greedy", "word-sampling"] = "accord"
    """What is not given is the preset's. The last three are Distill (Chen et al. 2017): weight 1,
    every 1, uses 1, parts [distillation], length_ratio [0, 9], distinct_bigrams 0; sentence-beam:
    beam 5. word-sampling: sample 1.0, tokens all. accord: the defaults below."""
    weight: Annotated[Real, Field(ge=0)] = 0.5
    """How much the mean loss of synthetic tokens counts beside that of gold ones; 0: not at all."""
    gold: bool = True
    """Learn from gold pairs as well. false: from synthetic ones alone, and nothing of the gold
    pairs' own loss is computed."""
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
    directions: Annotated[tuple[Pair, ...], Field(min_length=1)] | None = None
    """Only these directions get synthetic pairs, for example [es-fr]; by default all that can."""
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

    @model_validator(mode="before")
    @classmethod
    def _in_force(cls, given: Any) -> Any:
        """What is not given, by preset."""
        if not isinstance(given, dict):
            return given
        found = dict(given)
        for key, value in _COMPLETE_PRESETS.get(str(given.get("preset")), {}).items():
            mine = found.setdefault(key, value)
            if isinstance(value, dict) and isinstance(mine, dict):
                found[key] = {**value, **mine}
        return found


# Distill (Chen et al. 2017), in all directions at once; theirs has no filters.
_DISTILL: dict[str, Any] = {
    "weight": 1.0,
    "every": 1,
    "uses": 1,
    "parts": ("distillation",),
    "filters": {"length_ratio": (0.0, 9.0), "distinct_bigrams": 0.0},
}
_COMPLETE_PRESETS: dict[str, dict[str, Any]] = {
    "sentence-beam": {**_DISTILL, "search": {"beam": 5}},
    "sentence-greedy": _DISTILL,
    "word-sampling": {**_DISTILL, "search": {"sample": 1.0}, "teacher": {"tokens": "all"}},
}


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

    agreement: Annotated[
        AgreementConfig | None,
        BeforeValidator(
            lambda value: {"preset": value} if isinstance(value, str) else value,
            json_schema_input_type=Literal["accord", "paper"] | AgreementConfig | None,
        ),
    ] = None
    """Agreement-based training; without it the model is the Basic one."""
    complete: Annotated[
        CompleteConfig | None,
        BeforeValidator(
            lambda value: {"preset": value} if isinstance(value, str) else value,
            json_schema_input_type=Literal[
                "accord", "sentence-beam", "sentence-greedy", "word-sampling"
            ]
            | CompleteConfig
            | None,
        ),
    ] = None
    """Synthetic pairs for directions without data."""
    consistency: ConsistencyConfig | None = None
    """Decode-free consistency between reading sources and reading targets."""
