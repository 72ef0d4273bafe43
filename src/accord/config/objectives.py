"""What is optimised: the sections below `objective`, each key described beside its field."""

from collections.abc import Mapping
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
    """Weight of the agreement of pooled encodings; 0 leaves it out."""
    encoder_measure: Literal["cosine", "contrastive"] = "cosine"
    """How pooled encodings are compared. cosine: 1 - cosine of the two sides' maxima (the release).
    contrastive: the means of both sides must find each other among those of the other pairs in the
    batch (mRASP2)."""
    encoder_temperature: Annotated[Real, Field(gt=0)] = 0.1
    """For contrastive: what cosines are divided by; the lower, the more the nearest pairs count."""

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
    checkpoint: Literal["best", "last", "average", "ensemble"] = "best"
    """Which checkpoint of `run` teaches. average: what `accord average` made of its last ones.
    ensemble: its last ones together, as many as its `training.keep` (by the mean of their logits);
    a round takes as many times as long."""
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
        tuple[Literal["distillation", "back-translation", "latent", "round-trip"], ...],
        Field(min_length=1),
    ] = ("distillation", "back-translation")
    """What a translation z of one side is used for. distillation: the other side into z.
    back-translation: z into the other side, which is gold. latent: two translations of one side
    into each other. round-trip, beside others: z back into its own side, a direction with data."""
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

    @property
    def preset_search(self) -> Mapping[str, Any]:
        """What the preset says about the search: in force where the file does not."""
        found: Mapping[str, Any] = _COMPLETE_PRESETS.get(self.preset, {}).get("search", {})
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


class DenoiseConfig(Section):
    """Denoising: sentences with gaps, of the pivot language or of all, are to be filled in, under
    the tag of their own language."""

    weight: Annotated[Real, Field(ge=0)] = 0.5
    """How much a token of a sentence that is filled in counts beside a gold one; 0 leaves it
    out. Pairs are trained both ways: 0.5 counts a pair's sentence as often as each direction."""
    start: Annotated[Whole, Field(ge=0)] = 0
    """The last step without it."""
    every: Annotated[Whole, Field(ge=1)] = 1
    """Compute it in every n-th update only, where it counts n times as much."""
    languages: Literal["all"] | Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Whose sentences are used: all, or those named; by default the pivot's, the language that has
    most directions with data, the first of several. Of a pair with two such sentences one is
    drawn."""
    mask: Annotated[Real, Field(gt=0, lt=1)] = 0.3
    """Share of subwords that are taken out; one is always left."""
    span: Annotated[Real, Field(gt=0, le=100)] = 3.5
    """Mean length of a gap, in subwords (Poisson, at least 1); the unknown piece, which no text
    has, marks each."""


class BackTranslationConfig(Section):
    """Random online back-translation: the target of a pair is translated into another language by
    the model in training, and this translation back into the target."""

    weight: Annotated[Real, Field(ge=0)] = 1.0
    """How much a target token counts, read from a translation, beside a gold one; 0 leaves it
    out."""
    start: Annotated[Whole, Field(ge=0)] = 0
    """The last step without it: the model must translate before it can learn from that."""
    every: Annotated[Whole, Field(ge=1)] = 1
    """Compute it in every n-th update only, where it counts n times as much."""
    languages: Literal["all", "zero-shot"] = "all"
    """The languages drawn for a target. all: any but its own, also one with data (the published
    method). zero-shot: those without data into its own; targets without such a one are left
    out."""
    distinct_bigrams: Annotated[Real, Field(ge=0, le=1)] = 0.8
    """Least share of different pairs of neighbouring subwords in a translation: fewer are
    repetition, and teach nothing."""
    least_length: Annotated[Real, Field(ge=0, le=1)] = 0.6
    """Least length of a translation, as a share of the target's, less one token; shorter ones teach
    nothing."""


class DualConfig(Section):
    """Dual learning (Dual-0): sentences go into a language without data and come back, and are
    rewarded for being fluent there and for what is left of them on return."""

    language_model: FilePath
    """The run of a language model (model.kind language-model) of the same prepared data."""
    weight: Annotated[Real, Field(ge=0)] = 0.1
    """How much the mean reward of a sentence counts beside the likelihood of a token; 0 leaves it
    out."""
    start: Annotated[Whole, Field(ge=0)] = 100_000
    """The last step without it: the model must translate before it can be rewarded."""
    alpha: Annotated[Real, Field(ge=0, le=1)] = 0.01
    """Share of fluency in the reward; the rest is reconstruction, and both are nats a token."""
    temperature: Annotated[Real, Field(gt=0)] = 0.002
    """Of the softmax that translations are drawn from: 0.002, as published, is nearly greedy. Only
    at 1 is the gradient that of the expected reward."""
    baseline: Literal["others", "batch", "none"] = "others"
    """What rewards are compared with: the mean of the other sentences computed at once, of all of
    them (as published; its gradient is shorter), or nothing."""
    advantage_limit: Annotated[Real, Field(gt=0)] | None = 3.0
    """Furthest that a reward may lie from the baseline, in standard deviations; null: no limit."""
    likelihood: bool = True
    """Go on with the likelihood of gold pairs beside it. false is the published Dual-0, which
    forgets directions with data."""
    max_length: Annotated[Whole, Field(ge=1)] = 40
    """Longer sentences, in subwords, are left out."""
    distinct_bigrams: Annotated[Real, Field(ge=0, le=1)] = 0.8
    """Least share of different pairs of neighbouring subwords in a translation; those with fewer
    teach nothing."""
    least_length: Annotated[Real, Field(ge=0, le=1)] = 0.6
    """Least length of a translation, as a share of its sentence's, less one token; shorter ones
    teach nothing, nor do those without an end."""
    every: Annotated[Whole, Field(ge=1)] = 1
    """Compute it in every n-th update only, where it counts n times as much."""


class TieConfig(Section):
    """Soft pivot (Cheng et al. 2017): a subword of a pivot language should have one vector, whether
    it is read as a source or written as a target."""

    weight: Annotated[Real, Field(ge=0)] = 0.1
    """How much the mean distance of a subword's two vectors counts beside the mean loss of a target
    token; 0 leaves it out. A mean, not a sum over subwords, of lengths, not squares, of the vectors
    as they are stored: times sqrt(model.units) they are read."""
    languages: Annotated[tuple[str, ...], Field(min_length=1)] = ("en",)
    """Only subwords that all of these languages have in their training text, both as a source and
    as a target; tags and bytes are none."""
    start: Annotated[Whole, Field(ge=0)] = 0
    """The last step without it."""


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
    denoise: DenoiseConfig | None = None
    """Sentences of the pivot language with gaps, to be filled in."""
    back_translation: BackTranslationConfig | None = None
    """Targets out of the model's own translations of them, made in each update."""
    dual: DualConfig | None = None
    """Dual learning: rewards for round trips through directions without data."""
    tie: TieConfig | None = None
    """Soft pivot: one vector for a pivot language's subwords, read or written."""

    @property
    def active(self) -> tuple[str, ...]:
        """The names of those that count: a weight of 0 leaves one out."""
        weights = ("weight", "encoder_weight")
        return tuple(
            name
            for name, section in self
            if section is not None and any(getattr(section, key, 0) for key in weights)
        )
