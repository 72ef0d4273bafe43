import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.metrics.rates import (
    copy_rate,
    exact_match,
    is_repetitive,
    length_ratio,
    repetition_rate,
)


def test_length_ratio_counts_the_tokens_of_bleu():
    # "Yes, sir." has four tokens, "Yes" one and "" none.
    assert length_ratio(["Yes", ""], ["Yes, sir.", "Yes, sir."], "en") == 1 / 8
    assert length_ratio(["Yes, sir."], ["Yes, sir."], "en") == 1


def test_copies_are_found_whatever_their_case():
    assert copy_rate(["Guten Tag", "ja", "25"], ["guten tag ", "yes", "25"]) == pytest.approx(2 / 3)


def test_exact_match_minds_case_but_not_spaces_at_the_ends():
    assert exact_match(["a b", "A b", "a b "], ["a b"] * 3) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("text", "repeats"),
    [
        ("the the the", True),
        ("The the THE end", True),
        ("the the end", False),
        ("I saw of the of the of the cat", True),
        ("I saw of the of the cat", False),
        ("one two three four one two three four one two three four", True),
        ("1 2 3 4 5 a 1 2 3 4 5 a 1 2 3 4 5 a", False),  # longer than four tokens
        ("well . . . . . .", False),
        ("000 000 000", False),
        ("no , no , no , stop", True),
        ("a b a c a d a", False),
        ("", False),
    ],
)
def test_repetition_is_three_times_in_a_row(text, repeats):
    assert is_repetitive(text.split()) is repeats


@given(
    st.lists(st.sampled_from("abcde"), max_size=8),
    st.lists(st.sampled_from("abcde"), min_size=1, max_size=4),
    st.lists(st.sampled_from("abcde"), max_size=8),
)
def test_whatever_is_said_three_times_is_found(before, said, after):
    assert is_repetitive([*before, *said * 3, *after])


@given(st.lists(st.sampled_from("ab,"), max_size=14))
def test_repetition_agrees_with_looking_at_every_place(words):
    slow = any(
        words[i : i + n] * 3 == words[i : i + 3 * n]
        and any(word.isalpha() for word in words[i : i + n])
        for n in range(1, 5)
        for i in range(len(words) - 3 * n + 1)
    )
    assert is_repetitive(words) is slow


def test_repetition_rate_is_a_share():
    assert repetition_rate(["so so so", "fine", "fine...", "ha, ha, ha, ha"], "en") == 0.5
