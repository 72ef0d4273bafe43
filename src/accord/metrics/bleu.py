"""BLEU and chrF, as sacreBLEU computes them: statistics of sentences, corpus scores, bootstrap.

There is one road to every score. The n-grams of each sentence are counted (`statistics`, slow);
whatever else is asked for, that of a corpus or of 1,000 samples of it, follows from sums of these
counts (quick). Texts are lists of equal length with at least one sentence; scores run from 0 to
100.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from accord.errors import AccordError

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF


Counts = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

# Languages written without spaces, or whose words carry their grammar glued on, need a tokeniser of
# their own: 13a would take a whole clause for one word.
_TOKENIZERS = {
    **dict.fromkeys(("zh", "zho", "chi", "cmn"), "zh"),
    **dict.fromkeys(("ja", "jpn"), "ja-mecab"),
    **dict.fromkeys(("ko", "kor"), "ko-mecab"),
}
SAMPLES = 1000
SEED = 12345
_ORDERS = 4
_BETA_SQUARED = 4.0
# References whose n-grams are held at once: those of chrF take 0.1 MB per sentence.
_BLOCK = 250


# --- The metrics, set as Accord uses them.


def tokenizer_name(language: str) -> str:
    """What sacreBLEU calls the tokeniser for text in `language`; 13a for most."""
    return _TOKENIZERS.get(language.split("_")[0], "13a")


def bleu_metric(language: str, *, lowercase: bool = False) -> "BLEU":
    """sacreBLEU's BLEU with the tokeniser of the target language."""
    name = tokenizer_name(language)
    try:
        return _bleu_metric(name, lowercase)
    except RuntimeError as error:
        raise AccordError(
            f"BLEU into {language} needs the tokeniser {name}, which is not installed",
            fix=f"pip install 'sacrebleu[{name[:2]}]'",
        ) from error


@lru_cache(maxsize=8)
def _bleu_metric(tokenizer: str, lowercase: bool) -> "BLEU":
    """One for all texts: its tokeniser remembers sentences that it has seen."""
    from sacrebleu.metrics.bleu import BLEU

    # `force` silences a remark about tokenised text; it changes no number.
    return BLEU(tokenize=tokenizer, lowercase=lowercase, force=True)


def chrf_metric() -> "CHRF":
    """sacreBLEU's chrF2: character 6-grams, no words, cased."""
    from sacrebleu.metrics.chrf import CHRF

    return CHRF()


def tokens(text: str, language: str) -> list[str]:
    """The words that BLEU would see."""
    return str(bleu_metric(language).tokenizer(text.rstrip())).split()


# --- Statistics of sentences, the references counted once for all systems.


def statistics(
    metric: "Metric", systems: Sequence[Sequence[str]], references: Sequence[str]
) -> list[Counts]:
    """What a metric counts in each sentence of each system: [sentences, columns].

    BLEU: length, length of the reference, matches of 1- to 4-grams, 1- to 4-grams.
    chrF: for 1- to 6-grams of characters those of the hypothesis, of the reference, and matches.
    """
    # sacreBLEU keeps these steps private, yet without them each resampling would count all anew.
    counting = copy.copy(metric)
    rows: list[list[list[int]]] = [[] for _ in systems]
    for start in range(0, len(references), _BLOCK):
        here = slice(start, start + _BLOCK)
        counting._ref_cache = counting._cache_references([references[here]])
        for found, hypotheses in zip(rows, systems, strict=True):
            found += counting._extract_corpus_statistics(hypotheses[here], None)
    return [np.array(found, dtype=np.int64) for found in rows]


# --- Scores from sums of statistics: one row of columns for each corpus, or each sample of one.


def bleu_of(sums: Values) -> Values:
    """BLEU of each row of summed statistics, with sacreBLEU's (exponential) smoothing."""
    length, reference = sums[:, 0], sums[:, 1]
    matches, ngrams = sums[:, 2 : 2 + _ORDERS], sums[:, 2 + _ORDERS :]
    missed = (matches == 0) & (ngrams > 0)
    smoothed = 0.5 ** np.cumsum(missed, axis=1)
    counted = np.where(missed, smoothed, matches)
    possible = np.all(ngrams > 0, axis=1) & np.any(matches > 0, axis=1)
    safe = np.expand_dims(possible, 1)
    precisions = np.where(safe, counted, 1.0) / np.where(safe, ngrams, 1.0)
    brevity = np.minimum(1.0 - reference / np.maximum(length, 1.0), 0.0)
    score = 100.0 * np.exp(brevity + np.log(precisions).mean(axis=1))
    return np.where(possible, score, 0.0)


def chrf_of(sums: Values) -> Values:
    """chrF2 of each row of summed statistics."""
    found, wanted, matched = sums[:, 0::3], sums[:, 1::3], sums[:, 2::3]
    counted = (found > 0) & (wanted > 0)
    orders = np.maximum(counted.sum(axis=1), 1)
    precision = np.where(counted, matched / np.maximum(found, 1.0), 0.0).sum(axis=1) / orders
    recall = np.where(counted, matched / np.maximum(wanted, 1.0), 0.0).sum(axis=1) / orders
    below = _BETA_SQUARED * precision + recall
    above = (1.0 + _BETA_SQUARED) * precision * recall
    return 100.0 * np.where(below > 0, above / np.where(below > 0, below, 1.0), 0.0)


@dataclass(frozen=True)
class Score:
    """A corpus score with all that sacreBLEU says about it, under sacreBLEU's names."""

    name: str
    score: float
    signature: str
    verbose_score: str
    confidence_mean: float
    """Mean over the bootstrap samples."""
    confidence_var: float
    """Half the width of the 95 % confidence interval (so named by sacreBLEU)."""


def bleu_score(counts: Counts, language: str, *, lowercase: bool = False) -> Score:
    """BLEU of a corpus from the statistics of its sentences."""
    return _score(bleu_metric(language, lowercase=lowercase), counts, bleu_of)


def chrf_score(counts: Counts) -> Score:
    """chrF2 of a corpus from the statistics of its sentences."""
    return _score(chrf_metric(), counts, chrf_of)


def _score(metric: "Metric", counts: Counts, score_of: Callable[[Values], Values]) -> Score:
    corpus = metric._compute_score_from_stats(counts.sum(axis=0).tolist())
    mean, half = confidence(score_of(resampled(counts)))
    # As after sacreBLEU's own bootstrap, so that the signature names samples and seed.
    signed = copy.copy(metric)
    signed.num_refs, signed.n_bootstrap, signed.seed = 1, SAMPLES, str(SEED)
    return Score(
        name=corpus.name,
        score=float(corpus.score),
        signature=signed.get_signature().format(),
        verbose_score=corpus._verbose,
        confidence_mean=mean,
        confidence_var=half,
    )


def bleu(hypotheses: Sequence[str], references: Sequence[str], language: str) -> float:
    """Cased corpus BLEU of text in `language`."""
    metric = bleu_metric(language)
    (counts,) = statistics(metric, [hypotheses], references)
    return float(metric._compute_score_from_stats(counts.sum(axis=0).tolist()).score)


def mutual_bleu(one: Sequence[str], other: Sequence[str], language: str) -> float:
    """The mean of BLEU with either list as the reference; 100 where they are the same."""
    (there,) = statistics(bleu_metric(language), [one], other)
    # The matches are the same the other way round; only lengths and numbers of n-grams change.
    lengths = there[:, [1, 0]]
    ngrams = [np.maximum(lengths[:, 0] - shorter, 0) for shorter in range(_ORDERS)]
    back = np.column_stack([lengths, there[:, 2 : 2 + _ORDERS], *ngrams])
    sums = np.stack([there.sum(axis=0), back.sum(axis=0)])
    return float(bleu_of(sums.astype(np.float64)).mean())


# --- Bootstrap resampling: sacreBLEU's samples, computed for all samples at once. Its own loop
# takes a second per direction, and breaks off where chrF is 0 in some samples.


_CHUNK = 100


@lru_cache(maxsize=1)
def _draws(sentences: int) -> npt.NDArray[np.uint16]:
    """How often each sentence stands in each sample: [samples, sentences].

    The draws depend on the number of sentences alone, so that two systems, and all directions of
    a multi-parallel set, are resampled jointly; and they are sacreBLEU's draws for its seed.
    """
    random = np.random.default_rng(SEED)
    counts = np.empty((SAMPLES, sentences), dtype=np.uint16)
    for row in counts:
        row[:] = np.bincount(random.integers(sentences, size=sentences), minlength=sentences)
    return counts


def resampled(counts: Counts) -> Values:
    """Column sums of each sample: [samples, columns] from [sentences, columns]."""
    draws = _draws(len(counts))
    columns = counts.astype(np.float64)
    chunks = [draws[i : i + _CHUNK].astype(np.float64) @ columns for i in range(0, SAMPLES, _CHUNK)]
    return np.concatenate(chunks)


def bounds(samples: Values) -> tuple[float, float]:
    """Between these lie 95 % of the samples."""
    ordered = np.sort(samples)
    tail = len(ordered) // 40
    return float(ordered[tail]), float(ordered[-tail - 1])


def confidence(samples: Values) -> tuple[float, float]:
    """The mean of the samples and half the width of their 95 % interval, as sacreBLEU has it."""
    low, high = bounds(samples)
    return float(samples.mean()), 0.5 * (high - low)
