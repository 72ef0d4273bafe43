"""What a translation must be like to be learnt from."""

import pytest

from accord.config.objectives import CompleteFilters
from accord.data.store import ParallelCorpus, Sentences
from accord.graph import Direction
from accord.objectives.distillation.filters import Filters, distinct_bigrams, usual_lengths

EN_DE, DE_EN = Direction("en", "de"), Direction("de", "en")


class Words:
    """A vocabulary whose subwords are these words."""

    WORDS = "the cat sat on a mat die katze sass auf einer matte".split()

    def decode(self, rows):
        return [" ".join(self.WORDS[i] for i in row) for row in rows]


def filters(usual=1.0, longest=100, **keys):
    return Filters(
        CompleteFilters(**keys), Words(), ["en", "de"], {EN_DE: usual, DE_EN: 1 / usual}, longest
    )


def fate(one, source, length, direction=EN_DE, pupil=5):
    return one.fate(source, pupil, list(range(length)), direction)


@pytest.mark.parametrize(
    ("source", "length", "wanted"),
    [
        (9, 9, "kept"),
        (9, 5, "kept"),  # 6 of 10
        (9, 4, "length_ratio"),
        (9, 14, "kept"),  # 15 of 10
        (9, 15, "length_ratio"),
        (1, 2, "kept"),  # 3 of 2
        (1, 0, "length_ratio"),
    ],
)
def test_length_is_measured_with_the_end_of_sentence(source, length, wanted):
    assert fate(filters(), source, length) == wanted


def test_length_is_measured_by_what_is_usual():
    long = filters(usual=2.0)
    assert fate(long, 9, 19) == "kept"
    assert fate(long, 9, 9) == "length_ratio"
    assert fate(long, 9, 4, DE_EN) == "kept"
    sides = Sentences.of([[1, 2], [3]]), Sentences.of([[1, 2, 3, 4, 5, 6], [7, 8]])
    found = usual_lengths([ParallelCorpus(("en", "de"), sides, (EN_DE,))])
    assert found == {EN_DE: 10 / 5, DE_EN: 5 / 10}
    empty = Sentences.of([])
    assert usual_lengths([ParallelCorpus(("en", "de"), (empty, empty), ())])[EN_DE] == 1.0


@pytest.mark.parametrize("usual", [0.5, 1.0, 1.37])
@pytest.mark.parametrize("source", [1, 2, 7, 30])
def test_a_search_stops_just_where_nothing_would_be_kept(source, usual):
    one = filters(usual=usual, length_ratio=(0.0, 1.5), longest=40)
    limit = one.limit(source, EN_DE)
    assert fate(one, source, limit) in ("length_ratio", "too_long")
    if limit > 1:
        assert fate(one, source, limit - 1) == "kept"


def test_there_must_be_room_for_both_sides():
    one = filters(longest=12, length_ratio=(0.0, 9.0))
    assert fate(one, 9, 10) == "kept"
    assert fate(one, 9, 11) == "too_long"
    assert fate(one, 9, 9, pupil=11) == "too_long"


def test_repetition():
    assert distinct_bigrams([5]) == distinct_bigrams([]) == 1.0
    assert distinct_bigrams([1, 2, 1, 2, 1, 2]) == 2 / 5
    one = filters()
    assert one.fate(5, 5, [1, 2, 3, 1, 2], EN_DE) == "distinct_bigrams"  # 3 of 4
    assert one.fate(5, 5, [1, 2, 3, 4, 1, 2], EN_DE) == "kept"  # 4 of 5


def test_language():
    german, english = [6, 7, 8, 9, 10, 11], [0, 1, 2, 3, 4, 5]
    one = filters(language=True)
    assert one.fate(6, 6, german, EN_DE) == "kept"
    assert one.fate(6, 6, english, EN_DE) == "language"
    assert filters().fate(6, 6, english, EN_DE) == "kept"


def test_round_trip_is_a_subword():
    one = filters(round_trip=-2.0)
    assert one.round_trip(-19.9, 9) == "kept"
    assert one.round_trip(-20.1, 9) == "round_trip"
    assert filters().round_trip(-1e9, 9) == "kept"
