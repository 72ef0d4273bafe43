"""Arrays in several parts read like one array."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.data.joined_array import JoinedArray

PARTS = st.lists(st.lists(st.integers(0, 99), max_size=5), min_size=1, max_size=5)


def joined(parts, added=None):
    arrays = [np.array(part, dtype=np.int64) for part in parts]
    plain = np.concatenate([a + b for a, b in zip(arrays, added or [0] * len(arrays), strict=True)])
    return JoinedArray(arrays.__getitem__, [len(a) for a in arrays], plain.dtype, added), plain


@given(PARTS, st.data())
def test_slices_places_and_the_whole(parts, data):
    added = data.draw(st.none() | st.lists(st.integers(0, 9), min_size=5, max_size=5))
    added = added and added[: len(parts)]
    array, plain = joined(parts, added)
    assert len(array) == len(plain)
    assert np.asarray(array).tolist() == plain.tolist()
    bound = st.none() | st.integers(-20, 20)
    cut = slice(data.draw(bound), data.draw(bound), data.draw(st.sampled_from([None, 1, 2, -1])))
    assert array[cut].tolist() == plain[cut].tolist()
    if len(plain):
        places = data.draw(st.lists(st.integers(-len(plain), len(plain) - 1), max_size=9))
        wanted = np.array(places, dtype=np.int64)
        assert array[wanted].tolist() == plain[wanted].tolist()
        assert all(array[place] == plain[place] for place in places)
        assert array[wanted].dtype == plain.dtype


@pytest.mark.parametrize("place", [3, -4])
def test_a_place_beyond_the_end_is_an_error(place):
    array, _ = joined([[1], [2, 3]])
    with pytest.raises(IndexError):
        array[place]


def test_only_the_parts_asked_for_are_opened():
    opened = []
    parts = [np.arange(3), np.arange(3), np.arange(3)]
    array = JoinedArray(lambda k: opened.append(k) or parts[k], [3, 3, 3], parts[0].dtype)
    assert array[4:6].tolist() == [1, 2]
    assert array[np.array([8, 7])].tolist() == [2, 1]
    assert opened == [1, 2]
