import random
from collections.abc import Iterator

import pytest

from accord.data.formats import Drift, Side, aligned
from accord.errors import AccordError


def texts(count: int, seed: int = 1) -> tuple[list[str], list[str]]:
    """Two sides whose lengths go together as those of translations do."""
    draw = random.Random(seed)
    lengths = [max(3, int(draw.lognormvariate(4.4, 0.7))) for _ in range(count)]
    other = [max(2, int(size * 1.2 * draw.lognormvariate(0, 0.2))) for size in lengths]
    return ["a" * size for size in lengths], ["b" * size for size in other]


def run(first: list[str], second: list[str]) -> list[tuple[str | None, str | None]]:
    return list(aligned(Side("de", "x.de", first), Side("en", "x.en", second)))


def test_equal_sides_are_paired() -> None:
    first, second = texts(100)
    assert run(first, second) == list(zip(first, second, strict=True))
    assert run([], []) == []


def test_lines_without_content_count_as_lines() -> None:
    sides = Side("de", "x.de", [None, "a"]), Side("en", "x.en", ["b", None])
    assert list(aligned(*sides)) == [(None, "b"), ("a", None)]


@pytest.mark.parametrize("missing", ["de", "en"])
def test_unequal_sides_give_both_counts(missing: str) -> None:
    first, second = texts(12_345)
    (first if missing == "de" else second).pop()
    with pytest.raises(AccordError) as caught:
        run(first, second)
    counts = ("12,344", "12,345") if missing == "de" else ("12,345", "12,344")
    assert f"de has {counts[0]} lines (x.de)" in str(caught.value)
    assert f"en has {counts[1]} lines (x.en)" in str(caught.value)
    assert "may lie at the end" in str(caught.value)


def test_pairs_before_the_end_are_given_out() -> None:
    pairs: Iterator[object] = aligned(Side("de", "x", ["a", "c"]), Side("en", "y", ["b"]))
    assert next(pairs) == ("a", "b")
    with pytest.raises(AccordError, match="de has 2 lines"):
        next(pairs)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("lost", [100, 2000])
def test_the_place_of_a_lost_line_is_found(lost: int, seed: int) -> None:
    first, second = texts(5000, seed)
    del second[lost]
    drift = Drift()
    for a, b in zip(first, second, strict=False):
        drift.see(a, b)
    assert drift.drifted is not None
    assert lost - 40 <= drift.drifted <= lost + 60


def test_a_line_empty_on_one_side_is_suspicious() -> None:
    first, second = texts(50)
    first[3] = second[3] = ""
    second[16] = ""
    with pytest.raises(AccordError, match="first suspicious line 17: it is empty on one side"):
        run([*first, "more"], second)


def test_languages_of_very_different_lengths_are_not_suspicious() -> None:
    first, second = texts(5000)
    drift = Drift()
    for a, b in zip(first, second, strict=True):
        drift.see(a, b * 4)
    assert drift.drifted is None
