import hashlib
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.data.vocabulary import EOS, PAD, Vocabulary, train
from accord.errors import AccordError

LANGUAGES = ["en", "de", "fr"]
TEXT = [f"the cat number {i} sees die Katze {i * 7}" for i in range(500)]
MODEL = train(TEXT, LANGUAGES, 400)
VOCABULARY = Vocabulary(MODEL, LANGUAGES)


def test_reserved_ids():
    """T8: PAD 0, EOS 1, then the tags; each is one piece."""
    assert (PAD, EOS) == (0, 1)
    assert VOCABULARY.tags == {"en": 2, "de": 3, "fr": 4}
    assert len(VOCABULARY) == 400
    assert VOCABULARY.pieces()[:5] == ["<pad>", "</s>", "<2en>", "<2de>", "<2fr>"]


@given(st.text(st.characters(exclude_characters="\u2581", exclude_categories=["Cs"])))
def test_every_text_comes_back_unchanged_and_is_never_a_tag(text):
    text = text.strip()
    (row,) = VOCABULARY.encode([text])
    assert VOCABULARY.decode([row]) == [text]
    assert not {PAD, EOS, *VOCABULARY.tags.values()} & set(row)


@pytest.mark.parametrize("text", ["<2de>", "say <2de> and </s> <pad> <unk>", "<0x41>"])
def test_tags_in_text_are_plain_text(text):
    (row,) = VOCABULARY.encode([text])
    assert VOCABULARY.decode([row]) == [text]
    assert min(row) > max(VOCABULARY.tags.values()) + 1  # past the tags and the unknown piece


def test_tags_and_ends_add_nothing_to_decoded_text():
    (row,) = VOCABULARY.encode(["the cat"])
    assert VOCABULARY.decode([[3, *row, EOS, PAD, PAD]]) == ["the cat"]


def test_training_is_the_same_bit_for_bit_in_every_process():
    code = (
        "import hashlib, sys; from accord.data.vocabulary import train\n"
        f"text = [f'the cat number {{i}} sees die Katze {{i * 7}}' for i in range(500)]\n"
        f"print(hashlib.sha256(train(text, {LANGUAGES}, 400)).hexdigest())"
    )
    for seed in ("0", "123"):
        run = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.strip() == hashlib.sha256(MODEL).hexdigest()


def test_a_size_that_does_not_fit_the_text_is_explained():
    with pytest.raises(AccordError, match="too large") as caught:
        train(TEXT, LANGUAGES, 60000)
    assert "at most" in caught.value.fix
    with pytest.raises(AccordError, match="too small"):
        train(["".join(map(chr, range(0x4E00, 0x4E00 + 500)))] * 3, LANGUAGES, 300)


def test_text_that_is_too_small_for_any_vocabulary_is_said_to_be():
    with pytest.raises(AccordError, match="too small for any") as caught:
        train(["a b", "c d"], LANGUAGES, 400)
    assert "more training text" in caught.value.fix


@pytest.mark.parametrize("model", [b"", b"garbage", MODEL[:-5], MODEL[:100]])
def test_what_is_no_vocabulary_is_refused(tmp_path, model):
    path = tmp_path / "vocabulary.model"
    path.write_bytes(model)
    with pytest.raises(AccordError, match=r"no vocabulary|no tag") as error:
        Vocabulary.load(path, LANGUAGES)
    assert error.value.where == str(path)
    with pytest.raises(AccordError, match="altered"):
        Vocabulary.load(path, LANGUAGES, "0" * 64)


def test_a_vocabulary_without_a_language_is_refused():
    with pytest.raises(AccordError, match="no tag for xx"):
        Vocabulary(MODEL, ["en", "xx"])


@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt])
def test_what_goes_wrong_while_sentences_are_read_is_not_blamed_on_sentencepiece(kind):
    def sentences():
        yield from TEXT[:50]
        raise kind("mine")

    with pytest.raises(kind, match="mine"):
        train(sentences(), LANGUAGES, 400)
