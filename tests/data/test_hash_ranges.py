"""Choices by hash ranges and shards are those that are made with everything in memory."""

import subprocess
import sys

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.data.dedup import kth_lowest, lowest, make_disjoint, repeated_pairs
from accord.data.hash_ranges import (
    PivotTask,
    Range,
    RangeTask,
    SortTask,
    count_ranges,
    find_duplicates,
    find_overlap,
    gone_by_shard,
    sort_shard,
)
from accord.data.shards import CLEAN, Shard
from accord.data.thresholds import cuts
from hashed_corpora import corpus

NUMBERS = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 5), max_size=30)


@settings(max_examples=30)
@given(st.lists(NUMBERS, min_size=1, max_size=4), st.integers(1, 130))
def test_a_cut_takes_the_lowest_of_all_shards_and_of_equal_ones_the_first(shards, count):
    arrays = [np.array(shard, dtype=np.uint64) for shard in shards]
    everything = np.concatenate(arrays)
    found = cuts([np.sort(array)[:count] for array in arrays], len(everything), count)
    chosen = [cut.chosen(array) for cut, array in zip(found, arrays, strict=True)]
    assert np.concatenate(chosen).tolist() == lowest(everything, count).tolist()
    if count <= len(everything):
        assert kth_lowest([np.sort(a) for a in arrays], count) == int(
            np.sort(everything)[count - 1]
        )


@given(NUMBERS, st.integers(1, 9))
def test_ranges_share_out_all_hashes(values, count):
    ordered = np.sort(np.array(values, dtype=np.uint64))
    parts = [ordered[Range(index, count).stretch(ordered)] for index in range(count)]
    assert np.concatenate(parts).tolist() == ordered.tolist()


def test_less_memory_and_more_workers_mean_more_ranges():
    assert count_ranges(1000, 1, 10**9) == 1
    assert count_ranges(1000, 1, 64 * 100) == 10
    assert count_ranges(1000, 2, 64 * 100) == 20
    assert count_ranges(10**9, 64, 2**36) == 239
    assert count_ranges(0, 1, 1) == 1


def sharded(folder, found, size):
    """The shards of a corpus on disk, as cleaning leaves them."""
    shards = []
    for number, start in enumerate(range(0, max(1, len(found.keep)), size)):
        first, second = (side[start : start + size] for side in found.sides)
        shard = Shard(folder, found.languages, number, len(first))
        path = shard.hash_file("exact")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(np.stack([first, second], axis=1).tobytes())
        shards.append(shard)
    return shards


def ordered(shards, side):
    tasks = tuple(SortTask(shard, CLEAN, side, "exact") for shard in shards)
    for task in tasks:
        sort_shard(task, lambda _: None)
    return tasks


def kept(shards, gone):
    marks = []
    for shard, parts in zip(shards, gone, strict=True):
        keep = np.ones(shard.lines, dtype=bool)
        for part in parts:
            keep[part.lines()] = False
        marks.append(keep)
    return np.concatenate(marks).tolist()


LINES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=40)


@settings(max_examples=25)
@given(st.lists(LINES, min_size=3, max_size=3), st.sampled_from([3, 7, 100]), st.integers(1, 5))
def test_ranges_decide_as_the_whole_does(tmp_path_factory, lines, size, count):
    folder = tmp_path_factory.mktemp("work")
    pairs = [("en", "de"), ("en", "es"), ("en", "fr")]
    zero_shot = frozenset(frozenset(p) for p in (("de", "es"), ("de", "fr"), ("es", "fr")))
    corpora = [corpus(pair, found) for pair, found in zip(pairs, lines, strict=True)]
    shards = [sharded(folder, found, size) for found in corpora]
    ranges = [Range(index, count) for index in range(count)]

    tasks = [RangeTask(part, (ordered(shards[0], None),), "duplicates") for part in ranges]
    gone = gone_by_shard(tasks, [find_duplicates(task, lambda _: None) for task in tasks])
    assert kept(shards[0], gone) == (~repeated_pairs(*corpora[0].sides)).tolist()

    sides = tuple(ordered(own, 0) for own in shards)
    tasks = [PivotTask(part, sides, "overlap", "en", zero_shot, 7) for part in ranges]
    gone = gone_by_shard(tasks, [find_overlap(task, lambda _: None) for task in tasks])
    make_disjoint(corpora, zero_shot, 7)
    for found, own in zip(corpora, shards, strict=True):
        assert kept(own, gone[: len(own)]) == found.keep.tolist()
        gone = gone[len(own) :]


MILLIONS = """
import resource, sys
from pathlib import Path
import numpy as np
from accord.data.hash_ranges import *
from accord.data.shards import CLEAN, Shard
folder, lines, count = Path(sys.argv[1]), 500_000, 8
pairs = [("en", "de"), ("en", "es"), ("en", "fr")]
zero_shot = frozenset(frozenset(p) for p in (("de", "es"), ("de", "fr"), ("es", "fr")))
sides = []
for pair in pairs:
    shards = []
    for number in range(2):
        shard = Shard(folder, pair, number, lines)
        first = np.random.default_rng(number).integers(0, 2**64, lines, dtype=np.uint64)
        shard.hash_file("exact").parent.mkdir(parents=True, exist_ok=True)
        shard.hash_file("exact").write_bytes(np.repeat(first, 2).tobytes())
        shards.append(SortTask(shard, CLEAN, 0, "exact"))
        sort_shard(shards[-1], lambda _: None)
    sides.append(tuple(shards))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
gone = 0
for index in range(count):
    task = PivotTask(Range(index, count), tuple(sides), "overlap", "en", zero_shot, 1)
    gone += sum(find_overlap(task, lambda _: None)["gone"])
print(gone, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_millions_of_hashes_are_dealt_with_range_by_range(tmp_path):
    """Three corpora of a million equal lines: two thirds go, in the memory of an eighth of them."""
    found = subprocess.run(
        [sys.executable, "-c", MILLIONS, str(tmp_path)], capture_output=True, text=True, check=True
    )
    gone, more = map(int, found.stdout.split())
    assert gone == 2_000_000
    unit = 1 if sys.platform == "darwin" else 1024
    assert more * unit < 64 * 3_000_000 / 8 + 8_000_000
