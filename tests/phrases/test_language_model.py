"""The n-gram model: weights that make held-out text likelier, files that Thot reads."""

import math
import random

import numpy as np
import pytest

from accord.phrases.alignment import thot
from accord.phrases.language_model import NgramCounts


def sentences(seed: int, count: int) -> list[list[str]]:
    """Words that follow each other in the order of the alphabet, more often than not."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        row = [rng.randrange(12)]
        while len(row) < 9:
            row.append((row[-1] + 1) % 12 if rng.random() < 0.8 else rng.randrange(12))
        rows.append([f"w{number}" for number in row])
    return rows


def perplexity(tmp_path, counts, weights, text) -> float:
    counts.write(tmp_path / "lm", weights)
    model = thot("common").NGramLanguageModel()
    assert model.load(str(tmp_path / "lm"))
    bits = -sum(model.get_sentence_log_probability(words) for words in text)
    return math.exp(bits * math.log(10) / sum(len(words) + 1 for words in text))


def test_fitted_weights_make_new_text_likelier(tmp_path):
    counts, dev, new = NgramCounts.of(sentences(1, 60)), sentences(2, 60), sentences(3, 60)
    even = np.full(9, 0.5)
    fitted = counts.fitted_weights(dev)
    found = perplexity(tmp_path, counts, fitted, new)
    assert found < 0.97 * perplexity(tmp_path, counts, even, new)
    assert found < 5  # of 12 words, of which one is likelier than all others together


def test_no_other_weights_fit_the_dev_text_better(tmp_path):
    counts, dev = NgramCounts.of(sentences(1, 60)), sentences(2, 60)
    fitted = counts.fitted_weights(dev)
    best = perplexity(tmp_path, counts, fitted, dev)
    for place in range(len(fitted)):
        for moved in (fitted[place] / 2, (1 + fitted[place]) / 2):
            other = fitted.copy()
            other[place] = moved
            assert perplexity(tmp_path, counts, other, dev) >= best * 0.999
    for by in (0.97, 1.03):  # that of bigrams, on which most depends, more closely
        other = fitted.copy()
        other[5] *= by
        assert perplexity(tmp_path, counts, other, dev) > best


def test_words_seen_once_are_the_unknown_word():
    counts = NgramCounts.of([["a", "b", "a"], ["b", "once"]])
    assert counts.counts["<unk>",] == 1
    assert ("once",) not in counts.counts
    assert counts.counts["<s>", "a", "b"] == 1
    assert counts.history(()) == counts.total == 9
    assert max(map(len, counts.counts)) == 3


def test_weights_are_fitted_to_the_words_at_the_beginning_too():
    """Of c, alone in a sentence: <s> c was never seen and pulls the weight of such bigrams down,
    c </s> is certain and pulls it up."""
    counts = NgramCounts.of([["a"]] * 30 + [["b", "a", "c"]] * 30)
    weights = counts.fitted_weights([["c"]] * 20).reshape(3, 3)
    assert 0.3 < weights[1, 2] < 0.5


def test_trigrams_are_asked_only_where_there_are_two_words_before():
    counts = NgramCounts.of([["a"]] * 30 + [["b", "a", "c"]] * 30)
    weights = counts.fitted_weights([["a"]] * 20).reshape(3, 3)
    assert weights[2, 2] > 0.99  # <s> a </s> is certain; a </s> is not


def test_without_dev_text_the_weights_are_even():
    assert NgramCounts.of([["a", "a"]]).fitted_weights([]) == pytest.approx(0.5)
