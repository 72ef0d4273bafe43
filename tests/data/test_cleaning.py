from collections import Counter

import pytest

from accord.config.schema import Cleaning
from accord.data.cleaning import Cleaner, mend
from accord.data.language_id import LanguageGuesser

OFF = Cleaning(
    nfc=False,
    control_characters=False,
    empty=False,
    max_characters=20_000,
    max_ratio=None,
    identical=False,
)


@pytest.mark.parametrize(
    ("text", "mended", "counted"),
    [
        ("e\u0301te\u0301", "été", {"nfc": 1}),
        ("a\tb\x00c", "a b c", {"control_characters": 1}),
        ("10\u00a0000\u202fkm", "10 000 km", {"control_characters": 1}),
        ("\ufeffHallo", "Hallo", {"control_characters": 1}),
        ("a\u2028b", "a b", {"control_characters": 1}),
        ("plain <2de> text", "plain <2de> text", {}),
    ],
)
def test_text_is_mended_and_counted(text, mended, counted):
    counts = Counter()
    assert mend(text, Cleaning(), counts) == mended
    assert counts == counted


def test_mending_can_be_switched_off_but_the_subword_space_always_goes():
    assert mend("e\u0301\ta\u2581b", OFF, Counter()) == "e\u0301\ta b"


@pytest.mark.parametrize(
    ("pair", "step"),
    [
        ((None, "a"), "line_over_1_mb"),
        (("a", ""), "empty"),
        (("\u200b", "a"), "empty"),
        (("a" * 2001, "b" * 2001), "max_characters"),
        (("a", "b" * 10), "max_ratio"),
        (("same", "same"), "identical"),
    ],
)
def test_each_step_drops_and_counts_its_own(pair, step):
    cleaner = Cleaner(Cleaning(), ("en", "de"))
    assert cleaner.clean(pair) is None
    assert +cleaner.dropped == {step: 1}


def test_steps_that_are_off_drop_nothing():
    cleaner = Cleaner(OFF, ("en", "de"))
    for pair in [("a", ""), ("", ""), ("a" * 2001, "b"), ("same", "same")]:
        assert cleaner.clean(pair) == pair
    assert not +cleaner.dropped


def test_the_ratio_bound_itself_is_allowed():
    assert Cleaner(Cleaning(), ("en", "de")).clean(("a", "b" * 9)) is not None


def test_lines_in_the_wrong_language_are_dropped_if_long_enough_to_tell():
    settings = Cleaning(wrong_language=True)
    guesser = LanguageGuesser(["en", "de", "fr"])
    cleaner = Cleaner(settings, ("en", "de"), guesser)
    english = "this is quite clearly an English sentence about the house"
    german = "das ist ganz klar ein deutscher Satz über das Haus"
    assert cleaner.clean((english, german)) == (english, german)
    assert cleaner.clean((german, english)) is None
    assert cleaner.clean(("Berlin", "Paris")) == ("Berlin", "Paris")
    assert +cleaner.dropped == {"wrong_language": 1}


def test_empty_sides_stay_when_only_that_step_is_off():
    cleaner = Cleaner(Cleaning(empty=False), ("en", "de"))
    assert cleaner.clean(("a", "")) == ("a", "")
    assert cleaner.clean(("", "")) == ("", "")
