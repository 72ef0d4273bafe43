"""Unigram models of the training text: what counts as usual, and whose words are whose."""

import numpy as np
import pytest

from accord.data import builtin, vocabulary
from accord.inference.training_text import (
    ALLOWED,
    ENOUGH,
    MOST_BYTES,
    Familiarity,
    TrainingText,
    Usual,
    measure_usual,
)

PIECES = ["▁weeks", "▁days", "▁semaines", "▁jours", "▁Berlin", "ly", "<0xC3>", "▁"]
#          0         1        2            3         4          5     6         7
COUNTS = {
    "en": np.array([400, 500, 0, 1, 20, 70, 0, 9]),
    "fr": np.array([0, 0, 450, 500, 25, 5, 0, 20]),
}


@pytest.fixture
def text():
    return TrainingText(COUNTS, PIECES)


def test_probabilities_add_up_to_one(text):
    for language in COUNTS:
        assert sum(2 ** -text.bits([i], language) for i in range(8)) == pytest.approx(1)
    assert text.bits([0, 1], "en") == pytest.approx(-np.log2(400.5 / 1004 * 500.5 / 1004))


@pytest.mark.parametrize(
    ("ids", "given", "foreign"),
    [
        ([0, 1], [], False),
        ([0, 3], [0, 1], True),  # 3 weeks and 5 jours
        ([2, 3], [0, 1], True),
        ([0, 4], [0, 1], False),  # a name that both have
        ([0, 3], [0, 3], False),  # as in the best translation: that is not for us to judge
        ([0, 3, 5], [0, 3], False),  # jours-ly is French by its first half only
        ([], [0, 1], False),
    ],
)
def test_words_of_other_languages(text, ids, given, foreign):
    assert text.has_foreign_words(ids, "en", given) is foreign


def test_a_model_of_one_language_knows_no_foreign_words():
    alone = TrainingText({"en": COUNTS["en"]}, PIECES)
    assert not alone.has_foreign_words([2, 3], "en", [])


def test_a_score_does_not_hang_on_the_length():
    usual = Usual(bits=2.0, spread=3.0, limit=2.5)
    assert usual.surprise(2.0 * 40, 40) == 0
    assert usual.surprise(2.0 * 4 + 3.0 * 2, 4) == pytest.approx(1)
    assert usual.surprise(2.0 * 400 + 3.0 * 20, 400) == pytest.approx(1)


def test_the_limit_leaves_out_one_sentence_in_a_hundred():
    draw = np.random.default_rng(5)
    characters = draw.integers(10, 200, size=2000)
    bits = 2.0 * characters + 3.0 * np.sqrt(characters) * draw.standard_normal(2000)
    usual = measure_usual(zip(bits.tolist(), characters.tolist(), strict=True))
    assert usual.bits == pytest.approx(2.0, abs=0.02)
    assert usual.spread == pytest.approx(3.0, rel=0.05)
    assert usual.limit == pytest.approx(2.33, abs=0.2)  # that of the normal distribution
    beyond = [usual.surprise(b, c) > usual.limit for b, c in zip(bits, characters, strict=True)]
    assert sum(beyond) == 19


def test_too_few_or_equal_sentences_give_no_limit():
    assert measure_usual([(20.0 + i, 10) for i in range(ENOUGH - 1)]) is None
    assert measure_usual([(20.0 + i, 0) for i in range(1000)]) is None
    assert measure_usual([(20.0, 10)] * 1000) is None


def test_bytes_alone_are_enough_to_be_unlike(text):
    seen = text.familiarity([0, 6, 6], 7, "en")
    assert (seen.byte_share, seen.surprise, seen.limit) == (pytest.approx(2 / 3), None, None)
    assert seen.unlike
    assert not Familiarity(MOST_BYTES, 9.0, 2.0, 2.5).unlike
    assert Familiarity(0.0, 9.0, 2.6, 2.5).unlike


def test_nothing_is_like_anything(text):
    assert text.familiarity([], 0, "en") == Familiarity(0.0, 0.0, None, None)


# --- On the corpus of the tour: text like it that is taken for other text, and other text.


@pytest.fixture(scope="module")
def tour():
    """The built-in corpus, its vocabulary, and what is usual in it by the dev set."""
    languages = ("en", "de", "fr")
    made = builtin.make(languages, (("en", "de"), ("en", "fr")), 2000, seed=1, held_out=300)
    sides = {language: [] for language in languages}
    for pair, rows in made.train.items():
        for i, language in enumerate(pair):
            sides[language] += [row[i] for row in rows]
    model = vocabulary.train((line for side in sides.values() for line in side), languages, 900)
    words = vocabulary.Vocabulary(model, languages)
    counts = {
        language: np.bincount(np.concatenate(words.encode(side)).astype(int), minlength=len(words))
        for language, side in sides.items()
    }
    text = TrainingText(counts, words.pieces())
    for language, lines in made.dev.items():
        bits = [text.bits(ids, language) for ids in words.encode(lines)]
        text.usual[language] = measure_usual(zip(bits, map(len, lines), strict=True))
    return made, words, text


def shares_unlike(tour, sides):
    _, words, text = tour
    return {
        language: np.mean(
            [
                text.familiarity(ids, len(line), language).unlike
                for ids, line in zip(words.encode(lines), lines, strict=True)
            ]
        )
        for language, lines in sides.items()
    }


def test_false_alarms(tour):
    made, _, _ = tour
    assert max(shares_unlike(tour, made.dev).values()) <= ALLOWED
    # of 300 sentences: 0.7 % in English and French, 1.7 % in German
    assert max(shares_unlike(tour, made.test).values()) <= 2 * ALLOWED


def test_text_of_another_kind_is_found(tour):
    news = {
        "en": ["How are you today?", "The cat sat on the mat.", "Hello", "Prices fell sharply."],
        "de": ["Guten Morgen, wie geht es dir?", "Hallo", "Die Preise sind gefallen."],
        "fr": ["Bonjour", "Le chat dort sur le tapis.", "Comment allez-vous ?"],
    }
    assert set(shares_unlike(tour, news).values()) == {1.0}


def test_one_word_of_another_language_is_found_and_references_pass(tour):
    made, words, text = tour
    alarms, found, mixed = 0, 0, 0
    for line, other in zip(made.test["en"], made.test["fr"], strict=True):
        [ids] = words.encode([line])
        alarms += text.has_foreign_words(ids, "en", [])
        word = next((w for w in other.split() if w.isalpha() and w not in line and len(w) > 3), "")
        if word:
            mixed += 1
            found += text.has_foreign_words(words.encode([f"{line} {word}"])[0], "en", ids)
    assert alarms == 0
    assert mixed > 200
    assert found / mixed > 0.9
