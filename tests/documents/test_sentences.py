"""Splitting into sentences: nothing is lost, nothing is cut in two, and it takes linear time."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from accord.documents.sentences import join, split

TEXTS = st.one_of(
    st.text(max_size=200),
    st.text('aB1.!?…。！？「」"“”’() \n\r\t\u2028\x1c', max_size=80),
    st.lists(
        st.sampled_from(["Dr.", "z.B.", "25.", "No.", "XIV.", "…", "Ja!", " ", "\n", "。", "b"])
    ).map("".join),
)


def sentences(text):
    return [piece.text for piece in split(text)]


@given(TEXTS)
@example("\ud800. A")
def test_joining_the_pieces_gives_the_text_back(text):
    pieces = split(text)
    assert join(text, pieces, [piece.text for piece in pieces]) == text
    assert all(text[piece.start : piece.end] == piece.text for piece in pieces)


@given(TEXTS)
def test_pieces_are_in_order_on_one_line_and_worth_translating(text):
    at = 0
    for piece in split(text):
        assert at <= piece.start < piece.end
        at = piece.end
        assert piece.text == piece.text.strip()
        assert len(piece.text.splitlines()) == 1
        assert any(character.isalnum() for character in piece.text)
    kept = "".join(piece.text for piece in split(text))
    assert [x for x in kept if x.isalnum()] == [x for x in text if x.isalnum()]


@given(TEXTS)
def test_a_sentence_is_not_split_again(text):
    for piece in split(text):
        assert sentences(piece.text) == [piece.text]


@given(TEXTS.filter(lambda text: "<" not in text))
def test_what_lies_between_sentences_stays(text):
    pieces = split(text)
    new = [f"<{i}>" for i in range(len(pieces))]
    found = join(text, pieces, new)
    for number, piece in enumerate(pieces):
        before, _, found = found.partition(f"<{number}>")
        assert before == text[pieces[number - 1].end if number else 0 : piece.start]
    assert found == text[pieces[-1].end if pieces else 0 :]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four… Five", ["One.", "Two!", "Three?", "Four…", "Five"]),
        ("Am 25. August 1922 kam sie.", ["Am 25. August 1922 kam sie."]),
        ("It was 1922. Then it was not.", ["It was 1922.", "Then it was not."]),
        ("Dr. No met Mrs. Bond.", ["Dr. No met Mrs. Bond."]),
        ("I said no. She left.", ["I said no.", "She left."]),
        ("See no. 5 and Fig. 3.", ["See no. 5 and Fig. 3."]),
        ("J. R. R. Tolkien wrote, e.g. Hobbit.", ["J. R. R. Tolkien wrote, e.g. Hobbit."]),
        ("Ludwig XIV. Er war König.", ["Ludwig XIV. Er war König."]),
        ("Pi is 3.14. See www.pi.org.", ["Pi is 3.14.", "See www.pi.org."]),
        ("„Nein.“ Dann ging er.", ["„Nein.“", "Dann ging er."]),
        (
            'He said "Stop." Then (at last.) Silence',
            ['He said "Stop."', "Then (at last.)", "Silence"],
        ),
        ("«Oui !» Elle rit.", ["«Oui !»", "Elle rit."]),
        ("¿Qué? ¡Sí! Bueno... Vale", ["¿Qué?", "¡Sí!", "Bueno...", "Vale"]),
        ("“What?” he asked. Really? no.", ["“What?” he asked.", "Really? no."]),
        ("你好。再见！「何？」と言った。", ["你好。", "再见！", "「何？」と言った。"]),
        ("他说：“你好。” “再见。”", ["他说：“你好。”", "“再见。”"]),
        ("a\n\n - \r\nb\u2028c", ["a", "b", "c"]),
        ("1. First\n2. Second", ["1. First", "2. Second"]),
        ("--- ... !", []),
        ("", []),
    ],
)
def test_examples(text, expected):
    assert sentences(text) == expected


def test_touching_sentences_are_spaced_where_the_target_writes_spaces():
    text = "你好。再见。"
    pieces = split(text)
    assert join(text, pieces, ["Hello.", "Bye."], "en") == "Hello. Bye."
    assert join(text, pieces, ["A。", "B。"], "ja") == "A。B。"
    spaced = "One.  Two."
    assert join(spaced, split(spaced), ["A。", "B。"], "zh_Hant") == "A。  B。"


@pytest.mark.parametrize("unit", [".", "a.", ". ", "Dr. ", "。”", "…" + " " * 30, "\n", '."'])
def test_time_is_linear(unit):
    """A bad pattern would take minutes for this much."""
    begun = time.process_time()
    split(unit * (200_000 // len(unit)))
    assert time.process_time() - begun < 5
