import hashlib
import inspect
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy._core import _multiarray_umath

from accord.data.dedup import (
    contains,
    hash_lines,
    lowest,
    match_key,
    priority,
    repeated_pairs,
)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The house.", "the  house"),
        ("« L’été »", "l'été"),
        ("STRASSE", "Straße"),
        ("ﬁve", "five"),
        ("हिन्दी।", "हिन्दी"),
    ],
)
def test_normalised_matching_ignores_case_punctuation_and_spacing(first, second):
    assert match_key(first, "normalised") == match_key(second, "normalised")
    assert match_key(first, "exact") != match_key(second, "exact")


@pytest.mark.parametrize(
    ("first", "second"),
    [("a house", "a mouse"), ("हिन्दी", "हनद"), ("3", "4"), ("...", "!!!"), ("", ".")],
)
def test_normalised_matching_keeps_what_differs(first, second):
    assert match_key(first, "normalised") != match_key(second, "normalised")


def test_hashes_are_the_same_in_every_process():
    code = (
        "from accord.data.dedup import *;"
        "print(hash_lines(['a', 'ü']).tolist(), priority(hash_lines(['a']), 1, 'x').tolist())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert outputs == {"[3405396810240292928, 3976460501203677525] [15347330524493797679]\n"}


@given(st.lists(st.integers(0, 2**64 - 1)), st.lists(st.integers(0, 2**64 - 1)))
def test_contains_is_membership(known, values):
    array = np.unique(np.array(known, dtype=np.uint64))
    found = contains(array, np.array(values, dtype=np.uint64))
    assert found.tolist() == [value in set(known) for value in values]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=30))
def test_repeated_pairs_marks_all_but_the_first(pairs):
    first, second = (np.array([p[i] for p in pairs], dtype=np.uint64) for i in (0, 1))
    assert repeated_pairs(first, second).tolist() == [p in pairs[:i] for i, p in enumerate(pairs)]


def test_of_equal_priorities_the_first_lines_are_taken():
    order = np.array([5, 3, 5, 1, 5, 3], dtype=np.uint64)
    wanted = {0: "000000", 1: "000100", 2: "010100", 3: "010101", 4: "110101", 5: "111101"}
    for count, marks in wanted.items():
        assert "".join(str(int(mark)) for mark in lowest(order, count)) == marks
    assert lowest(order, 6).all()
    assert lowest(order, 7).all()
    assert lowest(order[:0], 3).shape == (0,)


def marked() -> str:
    """A cut through very many equal priorities."""
    order = np.random.default_rng(1).integers(0, 50, 20_000).astype(np.uint64)
    return hashlib.sha256(lowest(order, 9_999).tobytes()).hexdigest()


def test_the_lowest_do_not_depend_on_the_processor():
    """NumPy sorts and partitions by other means where the processor can do more."""
    features = _multiarray_umath.__cpu_features__
    extras = [name for name in _multiarray_umath.__cpu_dispatch__ if features[name]]
    if not extras:
        pytest.skip("this processor has nothing to switch off")
    imports = "import hashlib\nimport numpy as np\nfrom accord.data.dedup import lowest\n"
    for count in range(len(extras)):
        found = subprocess.run(
            [sys.executable, "-c", f"{imports}{inspect.getsource(marked)}print(marked())"],
            env={**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(extras[count:])},
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.strip() == marked()


@given(st.sets(st.integers(0, 2**64 - 1), min_size=1), st.data())
def test_lowest_gives_nested_subsets_of_the_right_size(values, data):
    """R21: a smaller subset lies inside a larger one."""
    order = priority(np.array(sorted(values), dtype=np.uint64), 7)
    large = data.draw(st.integers(0, len(values) + 3))
    small = data.draw(st.integers(0, large))
    assert lowest(order, large).sum() == min(large, len(values))
    assert not (lowest(order, small) & ~lowest(order, large)).any()


def test_priority_depends_on_seed_and_salt_and_is_spread_evenly():
    hashes = hash_lines(str(i) for i in range(4000))
    orders = [
        priority(hashes, 1),
        priority(hashes, 2),
        priority(hashes, 1, "a"),
        priority(hashes, 1, "b"),
    ]
    for i, first in enumerate(orders):
        assert len(np.unique(first)) == len(first)
        assert abs((first < np.uint64(2**63)).mean() - 0.5) < 0.05
        for second in orders[i + 1 :]:
            assert abs((first < second).mean() - 0.5) < 0.05
