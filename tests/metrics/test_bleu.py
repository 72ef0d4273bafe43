import random

import numpy as np
import pytest

from accord.errors import AccordError
from accord.metrics.bleu import (
    bleu,
    bleu_metric,
    bleu_of,
    bleu_score,
    bounds,
    chrf_metric,
    chrf_of,
    chrf_score,
    confidence,
    mutual_bleu,
    resampled,
    statistics,
    tokenizer_name,
    tokens,
)


@pytest.mark.parametrize(
    ("language", "name"),
    [
        ("de", "13a"),
        ("ro", "13a"),
        ("zh", "zh"),
        ("zho_Hant", "zh"),
        ("ja", "ja-mecab"),
        ("jpn_Jpan", "ja-mecab"),
        ("ko", "ko-mecab"),
    ],
)
def test_every_language_gets_its_tokenizer(language, name):
    assert tokenizer_name(language) == name


def test_a_missing_tokenizer_is_named_with_its_remedy():
    pytest.importorskip("sacrebleu")
    try:
        import MeCab  # noqa: F401
    except ImportError:
        with pytest.raises(AccordError, match=r"pip install 'sacrebleu\[ja\]'"):
            bleu_metric("ja")
    else:
        assert bleu_metric("ja").get_signature


def test_chinese_is_scored_by_character():
    assert tokens("我喜欢猫。", "zh") == ["我", "喜", "欢", "猫", "。"]
    # One character of eight is wrong: 13a would see one wrong word and nothing else.
    assert bleu(["我们非常喜欢小猫"], ["我们非常喜欢大猫"], "zh") > 50
    assert bleu(["我们非常喜欢小猫"], ["我们非常喜欢大猫"], "de") < 1


def test_bleu_and_chrf_run_from_0_to_100():
    text = ["The cat sat on the mat.", "A dog barks at the moon tonight."]
    assert bleu(text, text, "en") == pytest.approx(100)
    assert chrf_score(*statistics(chrf_metric(), [text], text)).score == pytest.approx(100)
    assert bleu(["x y z"] * 2, text, "en") == 0
    assert bleu([line.lower() for line in text], text, "en") < 100


def test_agreement_of_equal_translations_is_100():
    text = ["The cat sat on the mat.", "A dog barks at the moon."]
    assert mutual_bleu(text, text, "en") == pytest.approx(100)


def test_agreement_does_not_depend_on_the_order():
    one = ["The cat sat on the mat.", "", "A dog barks."]
    other = ["The cat sat down on a mat today.", "Hello?", "The dog barks at night."]
    assert mutual_bleu(one, other, "en") == mutual_bleu(other, one, "en")
    both_ways = (bleu(one, other, "en") + bleu(other, one, "en")) / 2
    assert mutual_bleu(one, other, "en") == pytest.approx(both_ways)
    assert 0 < both_ways < 100


WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa".split()


def texts(count, seed, noise=0.3):
    dice = random.Random(seed)
    references = [" ".join(dice.choices(WORDS, k=dice.randint(1, 15))) for _ in range(count)]
    hypotheses = [
        " ".join(w if dice.random() > noise else dice.choice(WORDS) for w in line.split())
        for line in references
    ]
    return hypotheses, references


def test_systems_counted_together_are_counted_as_alone():
    """References are counted in blocks, and once for all systems."""
    one, references = texts(600, seed=1)
    other, _ = texts(600, seed=1, noise=0.8)
    for metric in (bleu_metric("de"), bleu_metric("de", lowercase=True), chrf_metric()):
        together = statistics(metric, [one, other], references)
        theirs = [metric._extract_corpus_statistics(texts, [references]) for texts in (one, other)]
        assert [counts.tolist() for counts in together] == theirs


@pytest.mark.parametrize("count", [1, 2, 40, 300])
@pytest.mark.parametrize("noise", [0.0, 0.3, 0.9])
def test_confidence_is_the_one_of_sacrebleu(count, noise):
    hypotheses, references = texts(count, seed=count, noise=noise)
    for metric, score_of in ((bleu_metric("de"), bleu_of), (chrf_metric(), chrf_of)):
        theirs = metric.corpus_score(hypotheses, [references], n_bootstrap=1000)
        samples = score_of(resampled(*statistics(metric, [hypotheses], references)))
        mean, half = confidence(samples)
        # sacreBLEU sums in single precision.
        assert mean == pytest.approx(theirs._mean, abs=2e-5)
        assert half == pytest.approx(theirs._ci, abs=2e-5)


@pytest.mark.parametrize(
    "hypothesis",
    [
        *("", "alpha", "x", "alpha beta", "alpha x beta gamma y"),
        *("v w x y z", "v w alpha y z", "alpha beta gamma x"),  # no match, one; one 4-gram
    ],
)
@pytest.mark.parametrize("other", ["alpha", ""])
@pytest.mark.parametrize("reference", ["alpha beta gamma delta epsilon", "a"])
def test_degenerate_hypotheses_score_as_in_sacrebleu(hypothesis, reference, other):
    for metric, score_of in ((bleu_metric("de"), bleu_of), (chrf_metric(), chrf_of)):
        theirs = metric.corpus_score([hypothesis, ""], [[reference, other]]).score
        (counts,) = statistics(metric, [[hypothesis, ""]], [reference, other])
        assert score_of(counts.sum(axis=0, keepdims=True).astype(float))[0] == pytest.approx(
            theirs, abs=1e-9
        )


def test_a_score_says_how_it_was_counted():
    (counts,) = statistics(bleu_metric("de"), [["Ein Haus"]], ["ein haus"])
    assert "|case:mixed|" in bleu_score(counts, "de").signature
    assert "|case:lc|" in bleu_score(counts, "de", lowercase=True).signature


def test_sets_of_the_same_size_are_resampled_jointly():
    counts = np.arange(50)[:, None]
    ours, theirs = resampled(counts), resampled(2 * counts)
    assert np.array_equal(2 * ours, theirs)


def test_bounds_hold_95_percent():
    assert bounds(np.arange(1000.0)) == (25.0, 974.0)
