"""Back-translation: which languages are drawn, what comes back, who learns, and whole runs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from accord.config.load import store_directory
from accord.data.batches import BatchStream, Position
from accord.data.store import Store
from accord.data.vocabulary import EOS, PAD
from accord.graph import Direction
from accord.inference.beam_search import BeamSearch
from accord.inference.results import SearchSettings
from accord.models.gnmt import GNMT
from accord.objectives import back_translation
from accord.objectives.agreement.decoding import Translations
from accord.objectives.back_translation import BackTranslationObjective, translate, way_back
from accord.objectives.base import Context, Cut
from accord.objectives.likelihood import LikelihoodObjective, composite_likelihood
from accord.ops.distributed import World
from accord.progress import Silent
from accord.run_directory import RunDirectory
from accord.training.trainer import train
from language_reader import reader, seen_directions
from toy_training import (
    arguments,
    experiment,
    metrics,
    prepared,
    stop_at,
    story,
    two_processes,
    weights,
)

CPU = torch.device("cpu")
HERE = Position(0, 2)
WHOLE = Cut(1, [], False)
ANYTHING = {"distinct_bigrams": 0.0, "least_length": 0.0}
EN, DE, FR = range(3)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp(), units=16)


@pytest.fixture(scope="module")
def base(toy, tmp_path_factory):
    """A run whose model comes to an end of its sentences, at step 60."""
    run = tmp_path_factory.mktemp("base")
    train(experiment(toy, run, training__steps=60))
    return run


def same(one, two):
    return all(torch.equal(one[name], two[name]) for name in one)


def going_back(toy, rank=0, size=1, tokens=600, **keys):
    chosen = experiment(toy, Path("unused"), objective__back_translation=keys)
    store = Store(store_directory(chosen))
    world = World(rank, size, CPU)
    context = Context(chosen, store, world, None, RunDirectory(Path("unused")), False, Silent())
    likelihood = LikelihoodObjective(0.0)
    found = BackTranslationObjective(chosen.objective.back_translation, context, likelihood)
    stream = BatchStream(
        store.corpora,
        store.languages,
        store.vocabulary.tags,
        batch_tokens=tokens,
        seed=1,
        rank=rank,
        world_size=size,
    )
    return found, store.vocabulary, stream.batch_at(HERE)


def model_of(base, vocabulary, dropout=0.2):
    model = GNMT(len(vocabulary), 16, encoder_layers=1, decoder_layers=2, dropout=dropout)
    model.load_state_dict(weights(base, 60), strict=False)
    return model


def rows_of(tokens, lengths):
    return [row[:count].tolist() for row, count in zip(tokens, lengths, strict=True)]


# --- which languages -------------------------------------------------------------------------


def drawn(found, batch, times=60):
    """How often each language was drawn for each language of a target."""
    counts = np.zeros((3, 4), dtype=int)
    for number in range(times):
        languages = found.draw(batch, Position(0, number))
        np.add.at(counts, (batch.target_language_B, languages), 1)  # none is the last column
    return counts


def test_any_other_language_is_drawn_with_equal_chance(toy):
    found, _, batch = going_back(toy)
    counts = drawn(found, batch)
    assert counts[[EN, DE, FR], [EN, DE, FR]].sum() == 0
    assert counts[:, 3].sum() == 0
    for target in (EN, DE, FR):
        total = counts[target].sum()
        others = np.delete(counts[target, :3], target)
        assert abs(others - total / 2).max() < 3 * np.sqrt(total / 4)


def test_only_ways_back_without_data_where_these_are_asked_for(toy):
    found, vocabulary, batch = going_back(toy, languages="zero-shot")
    counts = drawn(found, batch)
    assert (counts > 0).tolist() == [
        [False, False, False, True],  # all have data into English
        [False, False, True, False],
        [False, True, False, False],
    ]
    (part,) = found.inputs(1, HERE, batch, WHOLE)
    assert 0 < len(part.back_tag_B) == (batch.target_language_B != EN).sum() < batch.rows
    assert found.work(1, batch, [part]).tokens == int(part.out.target_lengths_B.sum())
    tags = [vocabulary.tags[x] for x in ("en", "de", "fr")]
    assert part.back_tag_B.tolist() == [tags[x] for x in batch.target_language_B if x != EN]


def test_neither_processes_nor_parts_change_the_draw(toy):
    alone, _, batch = going_back(toy)
    (whole,) = alone.inputs(1, HERE, batch, WHOLE)
    rows = rows_of(whole.out.source_BS, whole.out.source_lengths_B)
    for rank in (0, 1):
        second, _, share = going_back(toy, rank, 2)
        (part,) = second.inputs(1, HERE, share, WHOLE)
        assert rows_of(part.out.source_BS, part.out.source_lengths_B) == rows[rank::2]
    for k, part in enumerate(alone.inputs(1, HERE, batch, Cut(3, [], False))):
        assert rows_of(part.out.source_BS, part.out.source_lengths_B) == rows[k::3]


# --- there and back --------------------------------------------------------------------------


def test_translations_are_those_of_a_beam_of_1(toy, base):
    """With the weights of the moment and without dropout, in a model that goes on training."""
    found, vocabulary, batch = going_back(toy)
    model = model_of(base, vocabulary)
    (part,) = found.inputs(1, HERE, batch, WHOLE)
    said = translate(model, part.out)
    assert model.training
    rows = rows_of(said.tokens_BT, said.lengths())
    search = BeamSearch(model.eval(), SearchSettings(beam=1), torch.zeros(0, dtype=torch.int64))
    best = search(part.out.source_BS, part.out.source_lengths_B)
    ended = [row for row, done in zip(rows, said.ended(), strict=True) if done]
    wanted = [[*of[0].ids, EOS] for of, done in zip(best, said.ended(), strict=True) if done]
    assert ended == wanted
    assert len(ended) > 0.5 * batch.rows
    assert len({tuple(row) for row in ended}) > 5


def test_a_translation_may_be_half_as_long_again_as_its_sentence(toy, base, monkeypatch):
    found, vocabulary, batch = going_back(toy)
    (part,) = found.inputs(1, HERE, batch, WHOLE)
    plain, asked = back_translation.generate, []

    def watched(model, memory, limits_B, steps, **keys):
        asked.append((limits_B.tolist(), steps))
        return plain(model, memory, limits_B, steps, **keys)

    monkeypatch.setattr(back_translation, "generate", watched)
    translate(model_of(base, vocabulary), part.out)
    limits = [(3 * (length - 1) + 1) // 2 + 5 for length in batch.target_lengths_B.tolist()]
    assert asked == [(limits, max(limits))]  # ends of sentences are no subwords


def test_what_comes_back_is_the_translation_under_the_tag_of_its_target(toy, base):
    found, vocabulary, batch = going_back(toy)
    model = model_of(base, vocabulary)
    (part,) = found.inputs(1, HERE, batch, WHOLE)
    assert (part.out.source_BS[:, 1:] == part.out.target_BT).all()
    said = translate(model, part.out)
    kept = torch.arange(batch.rows) % 2 == 0
    pairs = way_back(part, said, kept)
    tags = [vocabulary.tags[x] for x in ("en", "de", "fr")]
    for row, spoken, language in zip(
        rows_of(pairs.source_BS, pairs.source_lengths_B),
        rows_of(said.tokens_BT, said.lengths()),
        batch.target_language_B,
        strict=True,
    ):
        assert row == [tags[language], *spoken]
    assert torch.equal(pairs.target_BT[kept], part.out.target_BT[kept])
    assert (pairs.target_BT[~kept] == PAD).all()


def test_only_the_way_back_has_a_gradient(toy, base, monkeypatch):
    """The gradient is that of pairs whose sources somebody else might have written."""
    found, vocabulary, batch = going_back(toy, **ANYTHING)
    model = model_of(base, vocabulary, dropout=0.0)
    (part,) = found.inputs(1, HERE, batch, WHOLE)
    encode, modes = model.encode, []
    watched = lambda *rows: (modes.append(torch.is_grad_enabled()), encode(*rows))[1]  # noqa: E731
    monkeypatch.setattr(model, "encode", watched)
    terms = found.loss(model, part)
    assert modes == [False, True]
    terms.losses["loss"].backward()
    grads = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    said = translate(model, part.out)
    assert not said.hidden_BTD.requires_grad
    fit = said.ended() & (said.lengths() > 1)
    plain = composite_likelihood(model, way_back(part, said, fit), label_smoothing=0.0)
    plain.loss.backward()
    assert plain.loss.item() > 0
    torch.testing.assert_close(terms.losses["loss"], plain.loss)
    for name, p in model.named_parameters():
        if p.grad is not None:
            torch.testing.assert_close(grads[name], p.grad)
    assert terms.counts["kept"] == fit.sum()
    assert terms.counts["tokens"] == part.out.target_lengths_B[fit].sum()


def test_poor_translations_teach_nothing(toy, base):
    """Neither repetitions nor what is short."""
    found, vocabulary, batch = going_back(toy, distinct_bigrams=1.0, least_length=1.0)
    model = model_of(base, vocabulary, dropout=0.0)
    (part,) = found.inputs(1, HERE, batch, WHOLE)
    terms, said = found.loss(model, part), translate(model, part.out)
    poor = (said.distinct_bigrams() < 1) | (said.lengths() < part.out.target_lengths_B - 1)
    fit = said.ended() & (said.lengths() > 1) & ~poor
    assert 0 < fit.sum() < (said.ended() & (said.lengths() > 1)).sum()
    assert terms.counts["kept"] == fit.sum()
    only = composite_likelihood(model, way_back(part, said, fit), label_smoothing=0.0)
    torch.testing.assert_close(terms.losses["loss"], only.loss)


@pytest.mark.parametrize("more", [0, 3])
def test_both_ways_are_in_the_right_languages(toy, monkeypatch, more):
    """Rows that fill up a shape are neither counted nor learnt from."""
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    found, vocabulary, batch = going_back(toy, **ANYTHING)
    model, drawn_B = reader(vocabulary), found.draw(batch, HERE)
    shape = (batch.rows + more, batch.target_BT.shape[1]) if more else None  # just as long
    inputs = found.tagged(batch, drawn_B, shape)
    terms = found.loss(model, inputs)
    out = zip(batch.target_language_B.tolist(), drawn_B.tolist(), strict=True)
    directions = {Direction(vocabulary.languages[y], vocabulary.languages[t]) for y, t in out}
    assert len(directions) > 4
    assert seen_directions(model, vocabulary) == directions | {
        Direction(t, y) for y, t in directions
    }
    assert terms.counts["kept"] == terms.counts["translations"] == batch.rows
    assert terms.counts["tokens"] == batch.target_tokens
    every_other = lambda said, *_: torch.arange(len(said.tokens_BT)) % 2 == 0  # noqa: E731
    monkeypatch.setattr(Translations, "right_language", every_other)
    assert found.loss(model, inputs).counts["right_language"] == -(-batch.rows // 2)
    there = replace(
        inputs, out=inputs.out.map_tensors(torch.zeros_like), back_tag_B=inputs.back_tag_B * 0
    )
    there.copy_from(inputs)
    assert torch.equal(there.back_tag_B, inputs.back_tag_B)
    torch.testing.assert_close(found.loss(model, there).losses, terms.losses)


def test_a_process_without_any_target_has_a_loss_without_effect(toy, base):
    """Its share of a small last batch may be empty; the others learn all the same."""
    found, vocabulary, batch = going_back(toy)
    empty = found.tagged(batch.where(np.zeros(batch.rows, dtype=bool)), np.zeros(0, np.int16), None)
    terms = found.loss(model_of(base, vocabulary), empty)
    terms.losses["loss"].backward()
    assert (terms.losses["loss"], terms.counts["kept"]) == (0, 0)


def test_only_translations_that_are_hardly_kept_are_warned_of(toy):
    found, _, _ = going_back(toy)
    assert found.warning({}) is None
    assert found.warning({"back_translation_kept": 0.6}) is None
    assert "only 40%" in found.warning({"back_translation_kept": 0.4})


def test_every_nth_update_counts_for_those_between(toy):
    found, _, batch = going_back(toy, start=4, every=3, weight=0.5)
    assert [step for step in range(1, 13) if found.weight(step)] == [5, 8, 11]
    inputs = found.inputs(5, HERE, batch, Cut(2, [], False))
    work = found.work(5, batch, inputs)
    assert work.scales == (1.5,)
    assert work.tokens == sum(int(part.out.target_lengths_B.sum()) for part in inputs)


# --- whole runs ------------------------------------------------------------------------------


def trained(toy, run, steps, config, **keys):
    train(experiment(toy, run, training__steps=steps, objective__back_translation=config, **keys))
    return weights(run, steps)


def test_off_or_before_its_start_it_changes_nothing(toy, tmp_path, base):
    keys = {"training__init_from": str(base)}
    basic = trained(toy, tmp_path / "basic", 64, None, **keys)
    assert same(basic, trained(toy, tmp_path / "off", 64, {"weight": 0.0}, **keys))
    assert same(basic, trained(toy, tmp_path / "late", 64, {"start": 64}, **keys))
    assert not same(basic, trained(toy, tmp_path / "on", 64, {"start": 63} | ANYTHING, **keys))


def test_resuming_is_exact(toy, tmp_path, base, monkeypatch):
    keys = {
        "training__steps": 70,
        "training__init_from": str(base),
        "objective__back_translation": {"start": 61, "every": 2} | ANYTHING,
    }
    train(experiment(toy, tmp_path / "a", **keys))
    with monkeypatch.context() as patch:
        stop_at(patch, 6)
        assert not train(experiment(toy, tmp_path / "b", **keys)).finished
    train(experiment(toy, tmp_path / "b", **keys))
    assert story(tmp_path / "a", 70) == story(tmp_path / "b", 70)
    last = metrics(tmp_path / "b", "train")[-1]
    assert last["back_translation_nll"] > 0
    assert 0 < last["back_translation_kept"] <= last["back_translation_ended"] <= 1
    assert 0 < last["back_translation_right_language"] <= 1
    # Three of the five updates of a line, and there only what is kept.
    assert 0.3 < last["back_translation_tokens"] / last["target_tokens"] < 0.7


@pytest.mark.slow
def test_two_processes_equal_one(toy, tmp_path, base):
    """Denoising, too: neither noise nor draws know of processes."""
    keys = {
        "model__dropout": 0.0,
        "training__steps": 70,
        "training__batch_tokens": 104,
        "training__init_from": str(base),
        "objective__back_translation": {"start": 62} | ANYTHING,
        "objective__denoise": {"start": 62, "every": 2},
    }
    two_processes(arguments(toy, tmp_path / "two", **keys))
    train(experiment(toy, tmp_path / "one", **keys))
    one, two = weights(tmp_path / "one", 70), weights(tmp_path / "two", 70)
    assert all(torch.allclose(one[name], two[name], atol=1e-5) for name in one)
    lines = zip(metrics(tmp_path / "one", "train"), metrics(tmp_path / "two", "train"), strict=True)
    for mine, theirs in lines:
        for key in (
            "back_translation_nll",
            "back_translation_kept",
            "back_translation_tokens",
            "denoise_nll",
            "denoise_tokens",
        ):
            assert mine[key] == pytest.approx(theirs[key], rel=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_graphs_of_both_are_replayed_in_turn(toy, tmp_path):
    """Basic, then back-translation every other update, then denoising as well."""
    toy = prepared(toy.parents[1], units=64)
    config = {"start": 20, "every": 2} | ANYTHING
    last = trained(toy, tmp_path, 40, config, objective__denoise={"start": 30})
    assert all(value.isfinite().all() for value in last.values())
    lines = metrics(tmp_path, "train")
    assert all(line["skipped"] == 0 for line in lines)
    assert ["back_translation_kept" in line for line in lines] == [False] * 4 + [True] * 4
    assert ["denoise_nll" in line for line in lines] == [False] * 6 + [True] * 2
