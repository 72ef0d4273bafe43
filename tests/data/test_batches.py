import hashlib
import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import made_corpora
from accord.data.batches import Position
from accord.data.epoch_plan import corpus_quotas
from accord.data.store import ParallelCorpus, Sentences
from accord.errors import AccordError
from made_corpora import (
    BATCH_TOKENS,
    LANGUAGES,
    TAGS,
    all_examples,
    corpora_lists,
    digest,
    epoch_of,
    examples_in,
    random_corpus,
    stream_of,
    three_corpora,
)


@settings(max_examples=60, deadline=None)
@given(corpora_lists, st.integers(22, 300), st.integers(0, 2**40), st.integers(0, 5))
def test_natural_epoch_has_every_example_once_within_budget(
    corpora: list[ParallelCorpus], batch_tokens: int, seed: int, epoch: int
) -> None:
    stream = stream_of(corpora, batch_tokens=batch_tokens, seed=seed)
    batches = epoch_of(stream, epoch)
    found = examples_in(batches)
    assert set(found) == all_examples(corpora)
    assert set(found.values()) == {1}
    for batch in batches:
        padded = max(batch.source_BS.shape[1], batch.target_BT.shape[1])
        assert 0 < batch.rows * padded <= batch_tokens


@settings(max_examples=30, deadline=None)
@given(corpora_lists, st.sampled_from([1.0, 2.0, 5.0]), st.integers(0, 3))
def test_rows_equal_a_naive_collation(
    corpora: list[ParallelCorpus], temperature: float, epoch: int
) -> None:
    for batch in epoch_of(stream_of(corpora, temperature=temperature), epoch):
        for row in range(batch.rows):
            corpus = corpora[batch.corpus_B[row]]
            source = LANGUAGES[batch.source_language_B[row]]
            target = LANGUAGES[batch.target_language_B[row]]
            line = int(batch.line_B[row])
            assert (source, target) in corpus.directions
            source_row = [TAGS[target], *corpus.side(source)[line].tolist(), 1]
            target_row = [*corpus.side(target)[line].tolist(), 1]
            assert batch.source_lengths_B[row] == len(source_row)
            assert batch.target_lengths_B[row] == len(target_row)
            padding = batch.source_BS.shape[1] - len(source_row)
            assert batch.source_BS[row].tolist() == source_row + [0] * padding
            padding = batch.target_BT.shape[1] - len(target_row)
            assert batch.target_BT[row].tolist() == target_row + [0] * padding
        assert batch.source_BS.shape[1] == batch.source_lengths_B.max()
        assert batch.target_BT.shape[1] == batch.target_lengths_B.max()


def test_token_counts_leave_padding_out() -> None:
    for batch in epoch_of(stream_of()):
        assert batch.source_tokens == np.count_nonzero(batch.source_BS)
        assert batch.target_tokens == np.count_nonzero(batch.target_BT)
        assert (batch.source_BS.dtype, batch.target_BT.dtype) == (np.int32, np.int32)


def test_corpora_on_disk_give_the_same_batches(tmp_path: Path) -> None:
    def mapped(sentences: Sentences, name: str) -> Sentences:
        np.save(tmp_path / f"{name}.ids.npy", sentences.ids)
        np.save(tmp_path / f"{name}.offsets.npy", sentences.offsets)
        ids = np.load(tmp_path / f"{name}.ids.npy", mmap_mode="r")
        return Sentences(ids, np.load(tmp_path / f"{name}.offsets.npy", mmap_mode="r"))

    on_disk = [
        ParallelCorpus(
            corpus.languages,
            (mapped(corpus.sides[0], f"{corpus.name}.0"), mapped(corpus.sides[1], corpus.name)),
            corpus.directions,
        )
        for corpus in three_corpora()
    ]
    assert digest(epoch_of(stream_of(on_disk))) == digest(epoch_of(stream_of()))


def test_sides_of_nothing_but_empty_lines() -> None:
    empty = Sentences.of([[], [], []])
    corpus = ParallelCorpus(("en", "de"), (empty, empty), (("en", "de"),))
    (batch,) = epoch_of(stream_of([corpus]))
    assert batch.source_BS.tolist() == [[TAGS["de"], 1]] * 3
    assert batch.target_BT.tolist() == [[1]] * 3


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_ranks_share_out_the_rows_of_one_process(world_size: int) -> None:
    alone = stream_of()
    ranks = [stream_of(rank=rank, world_size=world_size) for rank in range(world_size)]
    for number in range(alone.batches_per_epoch(0)):
        whole = alone.batch_at(Position(0, number))
        for rank, stream in enumerate(ranks):
            shard = stream.batch_at(Position(0, number))
            mine = slice(rank, None, world_size)
            assert digest([shard]) == digest(
                [alone.batch_at(Position(0, number), rank, world_size)]
            )
            assert shard.line_B.tolist() == whole.line_B[mine].tolist()
            assert (shard.update_rows, shard.update_target_tokens) == (
                whole.rows,
                whole.target_tokens,
            )
            assert shard.target_lengths_B.tolist() == whole.target_lengths_B[mine].tolist()
            width = shard.source_BS.shape[1]
            assert shard.rows == 0 or (shard.source_BS == whole.source_BS[mine, :width]).all()
            assert not whole.source_BS[mine, width:].any()
        assert sum(stream.batch_at(Position(0, number)).rows for stream in ranks) == whole.rows


def test_a_shard_without_rows_is_a_batch() -> None:
    side = Sentences.of([[7, 8]])
    corpus = ParallelCorpus(("en", "de"), (side, side), (("en", "de"),))
    batch = stream_of([corpus], rank=1, world_size=2).batch_at(Position())
    assert (batch.rows, batch.source_tokens, batch.target_tokens) == (0, 0, 0)
    assert (batch.source_BS.shape, batch.target_BT.shape) == ((0, 2), (0, 1))


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_resume_anywhere_continues_bit_for_bit(temperature: float) -> None:
    stream = stream_of(temperature=temperature)
    total = sum(stream.batches_per_epoch(epoch) for epoch in range(3))
    steps = list(itertools.islice(stream, total))
    assert stream.position == steps[-1][0] == Position(3, 0)
    for done in range(0, total - 4, 3):
        resumed = stream_of(temperature=temperature)
        resumed.seek(steps[done][0])
        following = list(itertools.islice(resumed, 3))
        expected = steps[done + 1 : done + 4]
        assert [position for position, _ in following] == [position for position, _ in expected]
        assert digest([b for _, b in following]) == digest([b for _, b in expected])


def test_seek_behind_the_end_of_an_epoch_names_the_remedy() -> None:
    stream = stream_of()
    with pytest.raises(AccordError, match=r"stopped before batch 9999[\s\S]*batch_tokens"):
        stream.seek(Position(0, 9999))


def test_epochs_and_seeds_differ() -> None:
    stream = stream_of()
    orders = [digest(epoch_of(stream, epoch)) for epoch in range(3)]
    orders.append(digest(epoch_of(stream_of(seed=4))))
    assert len(set(orders)) == 4
    assert digest(epoch_of(stream_of())) == orders[0]


def test_batches_are_shuffled_but_rows_alike_in_length() -> None:
    rng = np.random.default_rng(0)
    rows = [[9] * int(length) for length in rng.integers(1, 60, 3000)]
    corpus = ParallelCorpus(("en", "de"), (Sentences.of(rows), Sentences.of(rows)), (("en", "de"),))
    batches = epoch_of(stream_of([corpus], batch_tokens=1000))
    widths = np.array([batch.source_BS.shape[1] for batch in batches])
    assert abs(np.corrcoef(widths[:-1], widths[1:])[0, 1]) < 0.3
    padded = sum(batch.source_BS.size for batch in batches)
    assert sum(batch.source_tokens for batch in batches) / padded > 0.95
    assert sorted(batch.rows * batch.source_BS.shape[1] for batch in batches)[1] > 900


def test_a_few_long_examples_do_not_break_up_the_short_ones() -> None:
    rows = [[9] * 3] * 100 + [[9] * 998] * 2
    corpus = ParallelCorpus(("en", "de"), (Sentences.of(rows), Sentences.of(rows)), (("en", "de"),))
    batches = epoch_of(stream_of([corpus], batch_tokens=1000))
    assert sorted(batch.rows for batch in batches) == [1, 1, 100]


def test_directions_mix_at_random_in_a_batch() -> None:
    # The target is always the longer side of en-de: sorting by one side would part the directions.
    rng = np.random.default_rng(0)
    lengths = np.maximum(1, rng.lognormal(2.5, 0.5, 4000)).astype(int)
    english = Sentences.of([[9] * int(n) for n in lengths])
    german = Sentences.of([[9] * int(n) for n in lengths * rng.uniform(1.1, 1.5, 4000)])
    both = (("en", "de"), ("de", "en"))
    stream = stream_of([ParallelCorpus(("en", "de"), (english, german), both)], batch_tokens=2000)
    scores = [
        (np.mean(batch.source_language_B) - 0.5) * 2 * batch.rows**0.5 for batch in epoch_of(stream)
    ]
    assert np.std(scores) < 1.35  # 1 if every row tossed a coin


@pytest.mark.parametrize("window", [2**25, 40])
@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_a_model_may_ask_for_batches_of_one_direction(window: int, temperature: float) -> None:
    options = {"temperature": temperature, "window": window}
    mixed, apart = stream_of(**options), stream_of(**options, one_direction=True)
    found = []
    while apart.position.epoch == 0:
        found.append(next(iter(apart))[1])
    for batch in found:
        assert len(set(zip(batch.source_language_B, batch.target_language_B, strict=True))) == 1
        assert batch.rows * max(batch.source_BS.shape[1], batch.target_BT.shape[1]) <= BATCH_TOKENS
    counts = examples_in(found)
    assert sum(counts.values()) == 90 * 2 + 40 + 7 * 2
    if window > 40:
        assert counts == examples_in(epoch_of(mixed))
    directions = [int(batch.corpus_B[0]) for batch in found]
    assert directions != sorted(directions)


def test_padding_is_low_for_correlated_lognormal_lengths() -> None:
    rng = np.random.default_rng(1)
    base = rng.lognormal(np.log(24), 0.6, 20_000)
    sides = [
        Sentences.of(
            [[9] * int(n) for n in np.clip(base * rng.lognormal(bias, 0.14, 20_000), 1, 250)]
        )
        for bias in (0.0, 0.08)
    ]
    both = (("en", "de"), ("de", "en"))
    stream = stream_of(
        [ParallelCorpus(("en", "de"), (sides[0], sides[1]), both)], batch_tokens=4096
    )
    batches = epoch_of(stream)
    source = 1 - sum(b.source_tokens for b in batches) / sum(b.source_BS.size for b in batches)
    target = 1 - sum(b.target_tokens for b in batches) / sum(b.target_BT.size for b in batches)
    assert source < 0.12
    assert target < 0.12


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=8).filter(any), st.floats(1, 100))
def test_quotas_add_up_and_follow_the_temperature(sizes: list[int], temperature: float) -> None:
    assert corpus_quotas(sizes, 1.0) == sizes
    quotas = corpus_quotas(sizes, temperature)
    assert sum(quotas) == sum(sizes)
    weights = [size ** (1 / temperature) if size else 0 for size in sizes]
    for quota, weight in zip(quotas, weights, strict=True):
        assert quota == pytest.approx(sum(sizes) * weight / sum(weights), abs=1.01)


def test_temperature_repeats_small_corpora_and_cuts_large_ones() -> None:
    corpora = three_corpora()
    sizes = [180, 40, 14]
    quotas = corpus_quotas(sizes, 5.0)
    stream = stream_of(corpora, temperature=5.0)
    for epoch in range(3):
        found = examples_in(epoch_of(stream, epoch))
        for c, (size, quota) in enumerate(zip(sizes, quotas, strict=True)):
            counts = [n for example, n in found.items() if example[0] == c]
            assert sum(counts) == quota
            assert set(counts) <= {quota // size, quota // size + 1}
            assert quota < size or len(counts) == size


def test_what_is_sampled_down_comes_round_over_the_epochs() -> None:
    corpora = three_corpora()
    stream = stream_of(corpora, temperature=5.0)
    quota = corpus_quotas([180, 40, 14], 5.0)[0]
    needed = -(-180 // quota)
    epochs = [examples_in(epoch_of(stream, epoch)) for epoch in range(needed)]
    seen = [{example for example in found if example[0] == 0} for found in epochs]
    assert set.union(*seen) == {example for example in all_examples(corpora) if example[0] == 0}
    assert len(seen[0] & seen[1]) == 2 * quota - 180  # no more than must be
    assert {example[1] for example in seen[0]} == {"en", "de"}  # random, not the first block


def test_too_long_an_example_is_named() -> None:
    short, long = Sentences.of([[7], [7], [7]]), Sentences.of([[7], [7] * 80, [7]])
    corpus = ParallelCorpus(("en", "de"), (short, long), (("en", "de"),))
    with pytest.raises(AccordError) as caught:
        stream_of([random_corpus("en", "fr", 5), corpus])
    message = str(caught.value)
    for part in ("en-de", "line 2", "81 tokens", "batch of 64", "training.batch_tokens"):
        assert part in message


def test_an_example_as_long_as_the_budget_fits() -> None:
    side = Sentences.of([[7] * 62, [7] * 62])
    stream = stream_of([ParallelCorpus(("en", "de"), (side, side), (("en", "de"),))])
    assert [batch.source_BS.shape for batch in epoch_of(stream)] == [(1, 64), (1, 64)]


def test_corpora_without_a_line_are_an_error() -> None:
    with pytest.raises(AccordError, match="no training examples"):
        stream_of([random_corpus("en", "de", 0)])


@pytest.mark.parametrize("world_size", [1, 3])
def test_largest_shapes_bound_every_batch(world_size: int) -> None:
    stream = stream_of(temperature=2.0, world_size=world_size)
    shapes = stream.largest_shapes()
    assert shapes == sorted(shapes, key=lambda shape: shape[1])
    assert all(rows * length <= BATCH_TOKENS + length * (world_size - 1) for rows, length in shapes)
    for epoch in range(2):
        for batch in epoch_of(stream, epoch):
            longest = max(batch.source_BS.shape[1], batch.target_BT.shape[1])
            assert any(batch.rows <= rows and longest <= length for rows, length in shapes)
    whole = stream_of(world_size=world_size)
    reached = {
        (batch.rows, max(batch.source_BS.shape[1], batch.target_BT.shape[1]))
        for batch in epoch_of(whole)
    }
    assert reached & set(shapes)


def test_progress_counts_epochs() -> None:
    stream = stream_of()
    count = stream.batches_per_epoch(1)
    assert stream.epochs(Position(1, 0)) == 1.0
    assert stream.epochs(Position(1, count // 2)) == pytest.approx(1 + (count // 2) / count)


DIGEST_SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import made_corpora as t
stream = t.stream_of(temperature=2.0)
print(t.digest(t.epoch_of(stream, 0) + t.epoch_of(stream, 1)))
"""


def test_batches_do_not_depend_on_the_hash_seed() -> None:
    here = str(Path(made_corpora.__file__).parent)
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST_SCRIPT, here],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("0", "4711")
    }
    stream = stream_of(temperature=2.0)
    assert digests == {digest(epoch_of(stream, 0) + epoch_of(stream, 1))}


def test_the_order_is_fixed_for_good() -> None:
    # A change here breaks the resumption of every run that is under way.
    stream = stream_of(temperature=2.0)
    lines = np.concatenate([batch.line_B for batch in epoch_of(stream, 1)])
    assert hashlib.sha256(lines.tobytes()).hexdigest()[:16] == "3eb04eb49c22e2f1"


def test_batches_need_no_torch() -> None:
    code = "import sys, accord.data.batches, accord.data.prefetch; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
