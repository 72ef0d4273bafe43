"""Where marks go when the text around them is translated."""

from hypothesis import given
from hypothesis import strategies as st

from accord.documents import passage as module
from accord.documents.passage import Mark, Passage, placed
from accord.documents.translation import Translated, translate_all, translating
from document_cases import shouted, turned


def shown(passage):
    """Marks as brackets with their names."""
    return passage.written(str, lambda mark, inside: f"[{mark.payload}:{inside}]")


def moved(passage, answer):
    [found] = translate_all(translating([passage], "fr"), answer)
    return shown(found)


def test_a_mark_goes_where_its_words_go():
    passage = Passage("one two three four.", (Mark(4, 7, "b"),))
    assert moved(passage, shouted) == "ONE [b:TWO] THREE FOUR."
    assert moved(passage, turned) == "four three [b:two] one."


def test_marks_inside_each_other_stay_so():
    passage = Passage("one two three four.", (Mark(4, 13, "a", inner=(Mark(8, 13, "b"),)),))
    assert moved(passage, turned) == "four [a:[b:three] two] one."


def test_a_mark_around_all_of_it_stays_around_all_of_it():
    passage = Passage("one two.", (Mark(0, 8, "b"),))
    assert moved(passage, lambda _: [Translated("x y z!", [-1] * 6)]) == "[b:x y z!]"


def test_signs_belong_to_a_mark_as_they_did():
    passage = Passage("one (two) three", (Mark(4, 9, "b"),))
    assert moved(passage, shouted) == "ONE [b:(TWO)] THREE"
    passage = Passage("one (two) three", (Mark(5, 8, "b"),))
    assert moved(passage, shouted) == "ONE ([b:TWO]) THREE"


def test_stray_links_do_not_pull_a_mark_apart():
    passage = Passage("one two three four five", (Mark(4, 7, "b"),))
    text = "a b c d e"
    links = {0: 4, 2: 0, 4: 5, 6: 8, 8: 14}  # a and c look at two, d and e at others
    found = placed(passage, text, [links.get(i, -1) for i in range(9)], {})
    assert shown(found) in ("[b:a] b c d e", "a b [b:c] d e")


def test_without_links_marks_are_placed_in_proportion():
    passage = Passage("one two three four", (Mark(4, 13, "b"),))
    found = placed(passage, "a b c d", [-1] * 7, {})
    assert shown(found) == "a [b:b c] d"


def test_what_stands_between_words_goes_behind_the_word_before_it_and_keeps_its_order():
    marks = (Mark(3, 3, "x", fixed=True), Mark(13, 13, "y", fixed=True))
    passage = Passage("one two three four", marks)
    assert moved(passage, shouted) == "ONE[x:] TWO THREE[y:] FOUR"
    assert moved(passage, turned) == "four three two one[x:][y:]"


def test_at_the_ends_things_stay_at_the_ends():
    marks = (Mark(0, 0, "x", fixed=True), Mark(7, 7, "y", fixed=True))
    assert moved(Passage("one two", marks), turned) == "[x:]two one[y:]"


def test_fixed_text_that_comes_back_stays_where_it_came():
    passage = Passage("press f(x) now", (Mark(6, 10, "code", fixed=True),))
    assert moved(passage, turned) == "now [code:f(x)] press"


def test_at_fixed_text_that_is_lost_the_sentence_is_cut():
    asked = []

    def forgetful(sentences):
        asked.append([sentence.text for sentence in sentences])
        return [Translated(x.text.replace("f(x)", "").upper()) for x in sentences]

    passage = Passage("press f(x) now. And stop.", (Mark(6, 10, "code", fixed=True),))
    assert moved(passage, forgetful) == "PRESS [code:f(x)] NOW. AND STOP."
    assert asked == [["press f(x) now.", "And stop."], ["press", "now."]]


def test_fixed_text_of_several_words_is_not_shown_to_the_model():
    asked = []

    def noting(sentences):
        asked.extend(sentence.text for sentence in sentences)
        return shouted(sentences)

    passage = Passage("I like Acme Corp Ltd a lot", (Mark(7, 20, "name", fixed=True),))
    assert moved(passage, noting) == "I LIKE [name:Acme Corp Ltd] A LOT"
    assert asked == ["I like", "a lot"]


def test_a_word_that_only_looks_like_fixed_text_is_not_taken_for_it():
    passage = Passage("the ab here", (Mark(4, 6, "code", fixed=True),))
    answers = iter([[Translated("abba cab")], [Translated("X"), Translated("Y")]])
    assert moved(passage, lambda _: next(answers)) == "X [code:ab] Y"


def test_nothing_to_say_is_left_alone():
    passages = [Passage("…"), Passage("", (Mark(0, 0, "x"),)), Passage("a")]
    found = translate_all(translating(passages, "fr"), shouted)
    assert found == [None, None, Passage("A")]
    assert translate_all(translating([], "fr"), shouted) == []


def test_sentences_of_languages_without_spaces_are_parted():
    [found] = translate_all(
        translating([Passage("一。二。")], "en"), lambda x: [Translated("a.")] * 2
    )
    assert found.text == "a. a."


@st.composite
def passages(draw, size=40):
    text = draw(st.text("ab .(\n", min_size=1, max_size=size))

    def marks(start, end, level):
        found = []
        while start <= end and len(found) < 4 and draw(st.booleans()):
            low = draw(st.integers(start, end))
            high = draw(st.integers(low, end))
            fixed = draw(st.booleans())
            inner = () if fixed or level > 2 else marks(low, high, level + 1)
            found.append(Mark(low, high, object(), fixed, inner))
            start = high + 1
        return tuple(found)

    return Passage(text, marks(0, len(text), 0))


def payloads(marks):
    return [x for mark in marks for x in (id(mark.payload), *payloads(mark.inner))]


def check(marks, start, end):
    for mark in marks:
        assert start <= mark.start <= mark.end <= end
        check(mark.inner, mark.start, mark.end)
        start = mark.end


def check_marks(passage, found):
    assert sorted(payloads(found.marks)) == sorted(payloads(passage.marks))
    check(found.marks, 0, len(found.text))
    before = {id(mark.payload): passage.text[mark.start : mark.end] for mark in passage.fixed()}
    behind = {id(mark.payload): found.text[mark.start : mark.end] for mark in found.fixed()}
    assert behind == before


@given(passages(), st.randoms(use_true_random=False))
def test_no_mark_is_lost_or_torn_and_no_fixed_text_changes(passage, random):
    def answer(sentences):
        made = []
        for sentence in sentences:
            words = [*sentence.text.split(), "new", "more"]
            random.shuffle(words)
            text = " ".join(words[: random.randint(1, len(words))])
            made.append(
                Translated(text, [random.randint(-1, len(sentence.text) - 1) for _ in text])
            )
        return made

    [found] = translate_all(translating([passage], "fr"), answer)
    if found is None:
        return
    check_marks(passage, found)


@given(passages(200))
def test_thousands_of_marks_are_placed_in_proportion(passage):
    limit, module._MOST_STEPS = module._MOST_STEPS, -1
    try:
        [found] = translate_all(translating([passage], "fr"), turned)
    finally:
        module._MOST_STEPS = limit
    if found is not None:
        check_marks(passage, found)


def test_what_comes_between_two_fixed_texts_that_touched_is_not_lost(monkeypatch):
    marks = (Mark(2, 5, "x", fixed=True), Mark(5, 8, "y", fixed=True))
    passage = Passage("a f()g() b", marks)
    for limit in (module._MOST_STEPS, -1):
        monkeypatch.setattr(module, "_MOST_STEPS", limit)
        assert (
            moved(passage, lambda _: [Translated("c f() and g() d")]) == "c [x:f()] and [y:g()] d"
        )
