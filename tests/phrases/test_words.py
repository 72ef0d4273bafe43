"""Words of a text, and text of words again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.phrases.words import JOINER, Truecaser, join, recase, tokenise


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("don't (ever)!", "don ￭'￭ t (￭ ever ￭) ￭!"),
        ("A T-shirt for 1,000.50 €, 3 times.", "A T-shirt for 1,000.50 € ￭, 3 times ￭."),
        ("l'été…", "l ￭'￭ été ￭…"),
        ("हिन्दी भाषा।", "हिन्दी भाषा ￭।"),
        ("我们, ok", "我 ￭们 ￭, ok"),
        ("a_b", "a ￭_￭ b"),
        ("NULL", "N￭ ULL"),
        ("", ""),
    ],
)
def test_words_and_the_text_again(text, words):
    assert tokenise(text) == words.split()
    assert join(tokenise(text)) == text


@given(st.text(alphabet="aB9é.,-'\" (我\u0301_", max_size=20))
def test_only_spaces_are_not_kept(text):
    assert join(tokenise(text)) == " ".join(text.split())


@given(st.text(max_size=20))
def test_no_word_is_one_that_the_library_means_something_by(text):
    for word in tokenise(text):
        assert word.split() == [word]
        assert word not in ("NULL", "UNKNOWN_WORD", "<s>", "</s>", "<unk>", "|||")


def test_a_joiner_in_the_text_does_not_join():
    assert JOINER not in join(tokenise(f"a {JOINER} b{JOINER}c"))
    assert tokenise(f"a {JOINER} b") == ["a", "■", "b"]


LINES = [
    "Ein Hund bellt.",
    "Der Hund sieht ein Haus.",
    "Da. Ein Haus. Ein Hund! Ein Tag? Ein.",
    "so ein Tag",
    "NATO",
]


def test_the_first_word_is_written_as_it_is_elsewhere():
    caser = Truecaser.learn(map(tokenise, LINES))
    assert caser.truecase(["Ein", "Hund"]) == ["ein", "Hund"]
    assert caser.truecase(["Hund", "da"]) == ["Hund", "da"]  # a noun keeps its capital
    assert caser.truecase(["Der", "Hund"]) == ["Der", "Hund"]  # never seen inside a sentence
    assert caser.truecase(['"￭', "Ein"]) == ['"￭', "ein"]
    assert caser.truecase(["EIN", "Hund"]) == ["EIN", "Hund"]
    assert caser.truecase(["￭."]) == ["￭."]


def test_a_translation_begins_as_its_source_does():
    assert recase(["(￭", "a", "dog"], ["Ein", "Hund"]) == ["(￭", "A", "dog"]
    assert recase(["a", "dog"], ["ein", "Hund"]) == ["a", "dog"]
    assert recase(["a", "dog"], ["狗"]) == ["A", "dog"]
    assert recase(["￭."], ["Ein"]) == ["￭."]
    assert recase([], ["Ein"]) == []
