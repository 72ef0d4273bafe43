"""Encoding word by word and decoding by a table are what sentencepiece itself does, id for id."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from accord.data import word_cache
from accord.data.store import IDS
from accord.data.vocabulary import Vocabulary, train
from accord.data.word_cache import Decoder, Encoder
from toy_corpus import sentence

TEXT = [sentence(i, language) for language in ("en", "de", "fr", "es") for i in range(300)]


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary(train(TEXT, ["en", "de"], 400), ["en", "de"])


def ids_of(row: bytes) -> list[int]:
    return np.frombuffer(row, IDS).tolist()


WORDS = st.sampled_from(["", "the", "Häuser.", "große", "x", "漢字", "😀", "<2de>", "</s>", "a\tb"])
LINES = st.one_of(
    st.lists(WORDS, max_size=8).map(" ".join),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\u2581\n"), max_size=20),
)


@given(st.lists(LINES, min_size=1, max_size=5))
@example(["", " ", "  ", " a", "a ", "a   b", "\u3000", "a\u00a0b", "<0x41>", "\x00"])
def test_the_same_ids_and_the_same_text(vocabulary, lines):
    rows = Encoder(vocabulary).encode(lines)
    assert [ids_of(row) for row in rows] == vocabulary.encode(lines)
    offsets = np.concatenate([[0], np.cumsum([len(row) // 2 for row in rows])])
    decoded = Decoder(vocabulary).decode(np.frombuffer(b"".join(rows), IDS), offsets)
    assert decoded == lines == vocabulary.decode([ids_of(row) for row in rows])


def test_a_full_memory_is_begun_anew_and_changes_nothing(vocabulary, monkeypatch):
    monkeypatch.setattr(word_cache, "_WORDS", 5)
    encoder = Encoder(vocabulary)
    lines = [*TEXT[:40], "", "a  b", *TEXT[:40]]
    for block in (lines, lines[::-1]):
        assert [ids_of(row) for row in encoder.encode(block)] == vocabulary.encode(block)


def test_a_piece_that_reaches_over_a_space_is_left_to_sentencepiece(vocabulary, monkeypatch):
    """No such vocabulary is ever trained here, so the list of its pieces is made up."""
    pieces = vocabulary.pieces()
    monkeypatch.setattr(vocabulary, "pieces", lambda: [*pieces, "\u2581of\u2581the"])
    encoder = Encoder(vocabulary)
    monkeypatch.setattr(encoder, "_learn", None)
    assert [ids_of(row) for row in encoder.encode(TEXT[:9])] == vocabulary.encode(TEXT[:9])
