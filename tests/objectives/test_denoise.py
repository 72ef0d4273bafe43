"""Denoising: what noise does to a sentence, whose sentences are used, and whole runs with it."""

from pathlib import Path

import numpy as np
import pytest
import torch

from accord.config.load import store_directory
from accord.data.batches import BatchStream, Position
from accord.data.store import Store
from accord.data.vocabulary import EOS, PAD
from accord.objectives.base import Context, Cut
from accord.objectives.denoise import DenoiseObjective, mask_spans
from accord.objectives.likelihood import LikelihoodObjective
from accord.ops.distributed import World
from accord.progress import Silent
from accord.run_directory import RunDirectory
from accord.training.trainer import train
from language_reader import reader, seen_directions
from toy_training import experiment, metrics, prepared, stop_at, story, weights

MARK = 5
CPU = torch.device("cpu")
HERE = Position(0, 2)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


def same(one, two):
    return all(torch.equal(one[name], two[name]) for name in one)


# --- the noise -------------------------------------------------------------------------------


def sentences(rows, longest, seed=1):
    """Every subword a different number, so that what is left can be told."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(1, longest + 1, rows)
    tokens = np.tile(np.arange(100, 100 + longest, dtype=np.int32), (rows, 1))
    tokens[np.arange(longest) >= lengths[:, None]] = PAD
    return tokens, lengths, draw.integers(0, 2**63, rows, dtype=np.uint64)


def noised(tokens, lengths, words, share=0.3, span=3.5):
    found, left = mask_spans(tokens, lengths, words, share=share, span=span, mark=MARK)
    rows = [row[:count].tolist() for row, count in zip(found, left, strict=True)]
    assert all((row[count:] == PAD).all() for row, count in zip(found, left, strict=True))
    return rows


@pytest.mark.parametrize("share", [0.3, 0.62])
def test_the_share_that_is_masked_is_the_one_asked_for(share):
    """Within 3 standard errors: chance only rounds share * length up or down."""
    tokens, lengths, words = sentences(4000, 40)
    wide = share * lengths <= lengths - 1  # else a subword is left in any case
    tokens, lengths, words = tokens[wide], lengths[wide], words[wide]
    kept = np.array([sum(x != MARK for x in row) for row in noised(tokens, lengths, words, share)])
    rest = (share * lengths) % 1
    error = np.sqrt((rest * (1 - rest)).sum())
    assert abs((lengths - kept).sum() - share * lengths.sum()) < 3 * error
    assert abs(lengths - kept - share * lengths).max() < 1


def test_gaps_are_as_long_as_asked_for():
    """The mean of a Poisson number, where 0 counts as 1; only the last gap of a row is cut."""
    tokens, _, words = sentences(300, 400)
    lengths = np.full(300, 400)
    tokens[:] = np.arange(100, 500)
    marks = [row.count(MARK) for row in noised(tokens, lengths, words, span=3.5)]
    assert 0.3 * 400 * 300 / sum(marks) == pytest.approx(3.5 + np.exp(-3.5), rel=0.03)
    marks = [row.count(MARK) for row in noised(tokens, lengths, words, span=1e-3)]
    assert sum(marks) == pytest.approx(0.3 * 400 * 300, rel=0.01)


def test_what_is_left_keeps_its_order_and_gaps_fall_everywhere():
    """The first half is hidden as often as the second; the very ends, which fewer gaps reach, less
    often."""
    tokens, _, words = sentences(1500, 40)
    tokens[:] = np.arange(100, 140)
    hidden = np.full(40, 1500)
    for row in noised(tokens, np.full(1500, 40), words):
        left = [x for x in row if x != MARK]
        assert left == sorted(set(left))
        hidden[np.array(left) - 100] -= 1
    assert abs(hidden[:20].mean() - hidden[20:].mean()) / 1500 < 0.025
    assert abs(hidden[8:-8].mean() / 1500 - 0.31) < 0.02
    assert hidden.min() > 0.1 * 1500


def test_no_sentence_is_emptied():
    tokens, lengths, words = sentences(500, 4)
    for row, length in zip(noised(tokens, lengths, words, share=0.99), lengths, strict=True):
        assert sum(x != MARK for x in row) == 1
        assert len(row) <= length
    empty, left = mask_spans(tokens[:0], lengths[:0], words[:0], share=0.3, span=3.5, mark=MARK)
    assert (len(empty), len(left)) == (0, 0)


def test_the_noise_of_a_row_is_its_own():
    """Neither other rows nor the width of the batch change it, but its random word does."""
    tokens, lengths, words = sentences(50, 30)
    whole = noised(tokens, lengths, words)
    assert whole == noised(tokens, lengths, words)
    wider = np.pad(tokens, ((0, 0), (0, 7)))
    assert whole[::3] == noised(wider[::3], lengths[::3], words[::3])
    assert whole != noised(tokens, lengths, words + np.uint64(1))


# --- what it reads of a batch ----------------------------------------------------------------


def denoising(toy, rank=0, size=1, **keys):
    chosen = experiment(toy, Path("unused"), objective__denoise=keys)
    store = Store(store_directory(chosen))
    world = World(rank, size, CPU)
    context = Context(chosen, store, world, None, RunDirectory(Path("unused")), False, Silent())
    found = DenoiseObjective(chosen.objective.denoise, context, LikelihoodObjective(0.1))
    stream = BatchStream(
        store.corpora,
        store.languages,
        store.vocabulary.tags,
        batch_tokens=600,
        seed=1,
        rank=rank,
        world_size=size,
    )
    return found, store.vocabulary, stream.batch_at(HERE)


def rows_of(tokens, lengths):
    return [row[:count].tolist() for row, count in zip(tokens, lengths, strict=True)]


def test_only_sentences_of_the_pivot_are_used(toy):
    """English has most directions: source or target, it becomes the target."""
    found, vocabulary, batch = denoising(toy)
    (part,) = found.inputs(1, HERE, batch, Cut(1, [], False))
    sources = rows_of(batch.source_BS, batch.source_lengths_B)
    targets = rows_of(batch.target_BT, batch.target_lengths_B)
    english = [
        target if language == 0 else source[1:]
        for source, target, language in zip(
            sources, targets, batch.target_language_B.tolist(), strict=True
        )
    ]
    assert rows_of(part.pairs.target_BT, part.pairs.target_lengths_B) == english
    unknown = {vocabulary.unknown}
    for row, clean in zip(
        rows_of(part.pairs.source_BS, part.pairs.source_lengths_B), english, strict=True
    ):
        assert row[0] == vocabulary.tags["en"]
        assert row[-1] == EOS
        assert set(row[1:]) <= set(clean) | unknown
    assert part.pairs.source_BS.eq(vocabulary.unknown).any()
    assert vocabulary.unknown not in {x for row in vocabulary.encode(["☃ 語 ß"]) for x in row}


@pytest.mark.parametrize("fixed", [False, True])
def test_the_model_is_told_the_language(toy, monkeypatch, fixed):
    """Also where batches are filled up to fixed shapes: the longest targets gain a tag."""
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    found, vocabulary, batch = denoising(toy, mask=0.01)
    width = max(batch.source_BS.shape[1], batch.target_BT.shape[1])
    (part,) = found.inputs(1, HERE, batch, Cut(1, [(batch.rows + 2, width)], fixed))
    assert part.pairs.source_BS.shape[0] == batch.rows + 2 * fixed
    model = reader(vocabulary)
    assert found.loss(model, part).losses["loss"] > 0
    assert seen_directions(model, vocabulary) == {("en", "en")}


def test_languages_can_be_named(toy):
    found, vocabulary, batch = denoising(toy, languages=["fr"])
    (part,) = found.inputs(1, HERE, batch, Cut(1, [], False))
    french = (batch.source_language_B == 2) | (batch.target_language_B == 2)
    assert 0 < len(part.pairs.target_BT) == french.sum() < batch.rows
    assert part.pairs.source_BS[:, 0].eq(vocabulary.tags["fr"]).all()
    for everyone in (["en", "fr", "de"], "all"):
        each, _, _ = denoising(toy, languages=everyone)
        (part,) = each.inputs(1, HERE, batch, Cut(1, [], False))
        tags = part.pairs.source_BS[:, 0].tolist()
        assert len(tags) == batch.rows
        of_target = [tags[b] == vocabulary.tags[vocabulary.languages[language]]
                     for b, language in enumerate(batch.target_language_B)]  # fmt: skip
        assert 0.2 < sum(of_target) / batch.rows < 0.8  # either side, by chance
        assert {vocabulary.tags[x] for x in ("en", "fr", "de")} == set(tags)


def test_neither_processes_nor_parts_change_the_noise(toy):
    alone, _, batch = denoising(toy)
    cut = Cut(1, [], False)
    (whole,) = alone.inputs(1, HERE, batch, cut)
    rows = rows_of(whole.pairs.source_BS, whole.pairs.source_lengths_B)
    for rank in (0, 1):
        second, _, share = denoising(toy, rank, 2)
        (part,) = second.inputs(1, HERE, share, cut)
        assert rows_of(part.pairs.source_BS, part.pairs.source_lengths_B) == rows[rank::2]
    for k, part in enumerate(alone.inputs(1, HERE, batch, Cut(3, [], False))):
        assert rows_of(part.pairs.source_BS, part.pairs.source_lengths_B) == rows[k::3]
    (later,) = alone.inputs(1, Position(1, 2), batch, cut)
    assert rows_of(later.pairs.source_BS, later.pairs.source_lengths_B) != rows


def test_every_nth_update_counts_for_those_between(toy):
    found, _, batch = denoising(toy, start=4, every=3, weight=0.5)
    assert [step for step in range(1, 13) if found.weight(step)] == [5, 8, 11]
    inputs = found.inputs(5, HERE, batch, Cut(2, [], False))
    work = found.work(5, batch, inputs)
    assert work.scales == (1.5,)
    assert work.tokens == sum(int(part.pairs.target_lengths_B.sum()) for part in inputs)


# --- whole runs ------------------------------------------------------------------------------


def trained(toy, run, steps, denoise, **keys):
    train(experiment(toy, run, training__steps=steps, objective__denoise=denoise, **keys))
    return weights(run, steps)


def test_off_or_before_its_start_it_changes_nothing(toy, tmp_path):
    basic = trained(toy, tmp_path / "basic", 7, None)
    assert same(basic, trained(toy, tmp_path / "off", 7, {"weight": 0.0}))
    assert same(basic, trained(toy, tmp_path / "late", 7, {"start": 7}))
    assert not same(basic, trained(toy, tmp_path / "on", 7, {"start": 6}))
    assert not any("denoise_loss" in line for line in metrics(tmp_path / "late"))


def test_it_learns_to_fill_gaps(toy, tmp_path):
    trained(toy, tmp_path, 30, {"start": 5, "weight": 1.0})
    before, first, *_, last = metrics(tmp_path, "train")
    assert "denoise_nll" not in before
    assert last["denoise_nll"] < 0.85 * first["denoise_nll"]


def test_the_log_says_how_many_tokens_are_filled_in(toy, tmp_path):
    """Here every target, and nothing else, is a sentence of the language that has gaps."""
    trained(toy, tmp_path, 12, {"start": 5}, training__directions=["de-en", "fr-en"])
    before, *lines = metrics(tmp_path, "train")
    assert "denoise_tokens" not in before
    assert len(lines) == 2
    assert all(line["denoise_tokens"] == line["target_tokens"] > 0 for line in lines)


def test_resuming_is_exact(toy, tmp_path, monkeypatch):
    keys = {"training__steps": 11, "objective__denoise": {"start": 2, "every": 2}}
    train(experiment(toy, tmp_path / "a", **keys))
    with monkeypatch.context() as patch:
        stop_at(patch, 6)
        assert not train(experiment(toy, tmp_path / "b", **keys)).finished
    train(experiment(toy, tmp_path / "b", **keys))
    assert story(tmp_path / "a", 11) == story(tmp_path / "b", 11)
    assert metrics(tmp_path / "b", "train")[-1]["denoise_nll"] > 0
