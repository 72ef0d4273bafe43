"""Soft pivot: which subwords are tied, what the distance's gradient is, and whole runs."""

import numpy as np
import pytest
import torch

from accord.config.objectives import TieConfig
from accord.data.store import ParallelCorpus, Sentences, Store
from accord.errors import AccordError
from accord.export.export_run import export_run
from accord.inference.training_text import is_byte
from accord.inference.translator import Translator
from accord.models.gnmt import GNMT
from accord.models.transformer import Transformer
from accord.objectives.base import Context, Tally
from accord.objectives.likelihood import LikelihoodObjective
from accord.objectives.tie import TieObjective, mean_distance, tied_words
from accord.ops.distributed import World
from accord.progress import Silent
from accord.run_directory import RunDirectory
from accord.training.optim import set_learning_rate
from accord.training.trainer import train
from toy_training import experiment, metrics, prepared, stop_at, story, weights
from update_cases import gold, ragged_batch, updater

WORDS = torch.tensor([5, 9, 7])
TABLES = ("source_embedding.weight", "target_embedding.weight")


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


def model(**settings) -> GNMT:
    torch.manual_seed(3)
    return GNMT(12, 6, encoder_layers=1, **settings)


# --- The distance.


def test_it_is_the_mean_of_lengths_of_rows_as_they_are_stored():
    made = model()
    source, target = (made.get_parameter(name).detach() for name in TABLES)
    expected = (source - target)[WORDS].norm(dim=1).mean()
    torch.testing.assert_close(mean_distance(made, WORDS), expected)


def test_only_tied_rows_get_a_gradient():
    made = model()
    mean_distance(made, WORDS).backward()
    for name in TABLES:
        gradient = made.get_parameter(name).grad
        assert gradient[WORDS].norm(dim=1).allclose(torch.tensor(1 / 3))
        rest = torch.ones(12, dtype=torch.bool)
        rest[WORDS] = False
        assert (gradient[rest] == 0).all()
    others = [p for name, p in made.named_parameters() if name not in TABLES]
    assert all(parameter.grad is None for parameter in others)


def test_equal_rows_have_a_finite_gradient():
    made = model()
    with torch.no_grad():
        made.source_embedding.weight[WORDS] = made.target_embedding.weight[WORDS]
    mean_distance(made, WORDS).backward()
    assert (made.source_embedding.weight.grad == 0).all()


def test_a_transformer_with_two_tables_can_be_tied():
    made = Transformer(12, 8, 1, 1, heads=2, feed_forward=8, tables="separate")
    assert mean_distance(made, WORDS) > 0.1
    with pytest.raises(ValueError, match="nothing to tie"):
        mean_distance(model(tables="shared"), WORDS)


@pytest.mark.parametrize("shares", [1, 3])
def test_the_weight_is_of_the_mean_distance_whatever_the_processes(shares):
    """Gradients of processes are added up, and divided by the target tokens of them all."""
    objective, batch = TieObjective(TieConfig(weight=0.5), WORDS), ragged_batch()
    one = updater(objectives=[objective])
    total = 0.0
    for share in range(shares):
        part = batch.part(share, shares)
        one.accumulate([objective.work(1, part, [*objective.inputs(1, None, part, None)])])
        total = total + one.gradients.flat.clone()
    one.gradients.zero()
    one.gradients.add(0.5 * mean_distance(one.model, WORDS))
    torch.testing.assert_close(total / batch.update_target_tokens, one.gradients.flat)


def test_a_heavy_weight_makes_the_two_vectors_one():
    """The pull is as strong near the goal as far from it: what is left is as long as a step."""
    objective, batch = TieObjective(TieConfig(weight=30), WORDS), ragged_batch()
    both = updater(objectives=[LikelihoodObjective(0.1), objective])
    assert mean_distance(both.model, WORDS) > 0.5
    for step in range(60):
        set_learning_rate(both.optimizer, 0.01 * 0.9**step)
        tie = objective.work(1, batch, objective.inputs(1, None, batch, None))
        both.update([gold(batch), tie], batch.update_target_tokens)
    assert mean_distance(both.model, WORDS) < 1e-3
    assert mean_distance(both.model, torch.tensor([4, 6, 8])) > 0.5


# --- Which subwords.


def test_words_are_those_of_all_languages_on_both_sides(toy):
    vocabulary = Store(toy.parent / "store").vocabulary
    a, b, c, d, e = np.flatnonzero([not is_byte(p) for p in vocabulary.pieces()])[-5:].tolist()
    byte = vocabulary.pieces().index("<0x41>")

    def corpus(pair, one, other, *directions):
        return ParallelCorpus(pair, (Sentences.of([one]), Sentences.of([other])), directions)

    read = corpus(("en", "fr"), [a, b, byte], [a, c, d], ("en", "fr"))
    written = corpus(("de", "en"), [d], [a, c, byte], ("de", "en"))
    assert tied_words(vocabulary, (read, written), ["en"]).tolist() == [a]
    both = corpus(("en", "fr"), [a, b, e], [a, e], ("en", "fr"), ("fr", "en"))
    assert tied_words(vocabulary, (both, written), ["en"]).tolist() == [a, b, e]
    assert tied_words(vocabulary, (both, written), ["en", "fr"]).tolist() == [a, e]
    with pytest.raises(AccordError, match="no subword to tie"):
        tied_words(vocabulary, (both, written), ["en", "de"])


def test_only_corpora_that_are_trained_have_words(toy, tmp_path):
    """The store has text of further directions where `training.directions` leaves some out."""
    store = Store(toy.parent / "store")
    a, b, c = np.flatnonzero([not is_byte(p) for p in store.vocabulary.pieces()])[-3:].tolist()
    store.corpora = tuple(
        ParallelCorpus(pair, (Sentences.of([english]), Sentences.of([[a]])), (pair, pair[::-1]))
        for pair, english in ((("en", "de"), [a, b]), (("en", "fr"), [a, c]))
    )

    def tied(directions):
        keys = {"objective__tie__weight": 0.1, "training__directions": directions}
        chosen = experiment(toy, tmp_path, **keys)
        world, run = World(0, 1, torch.device("cpu")), RunDirectory(tmp_path)
        context = Context(chosen, store, world, model(), run, False, Silent())
        return TieObjective.of(chosen.objective.tie, context).word_N.tolist()

    assert tied(None) == [a, b, c]
    assert tied(["en-de", "de-en"]) == [a, b]
    assert tied(["en-de", "fr-en"]) == [a]  # one corpus is read, the other one written


@pytest.mark.parametrize(
    ("keys", "remedy"),
    [
        ({"model__tables": "shared"}, "model.tables to separate"),
        ({"objective__tie__languages": ["nl"]}, "choose the pivot from en, de, fr"),
        ({f"corpora__{n}__directions": "forward" for n in (0, 1)}, "translated from and into"),
    ],
)
def test_what_cannot_be_tied_is_refused(toy, tmp_path, keys, remedy):
    with pytest.raises(AccordError, match=remedy):
        experiment(toy, tmp_path, objective__tie__weight=0.1, **keys)
    experiment(toy, tmp_path, objective__tie__weight=0, **keys)


# --- Runs.


def test_without_weight_and_up_to_its_start_it_is_basic_and_then_it_resumes(
    toy, tmp_path, monkeypatch
):
    train(experiment(toy, tmp_path / "basic", training__steps=6))
    train(experiment(toy, tmp_path / "zero", training__steps=6, objective__tie__weight=0))
    keys = {"training__steps": 8, "objective__tie__start": 6, "training__save_every": 6}
    with monkeypatch.context() as patch:
        stop_at(patch, 7)
        assert not train(experiment(toy, tmp_path / "late", **keys)).finished
    plain = weights(tmp_path / "basic", 6)
    for name in ("zero", "late"):
        found = weights(tmp_path / name, 6)
        assert all(torch.equal(plain[key], found[key]) for key in plain)
    train(experiment(toy, tmp_path / "late", **keys))
    train(experiment(toy, tmp_path / "straight", **keys))
    assert story(tmp_path / "straight", 8) == story(tmp_path / "late", 8)
    assert TieObjective(TieConfig(), WORDS).metrics(Tally(), 0.0) == {}  # before its start
    first, last = metrics(tmp_path / "late", "train")
    assert "tie_distance" not in first
    assert 0.5 < last["tie_distance"] < 2


def test_gnmt_with_one_table_trains_resumes_translates_and_exports(toy, tmp_path, monkeypatch):
    keys = {"training__steps": 6, "model__tables": "shared"}
    train(experiment(toy, tmp_path / "straight", **keys))
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        assert not train(experiment(toy, tmp_path / "run", **keys)).finished
    train(experiment(toy, tmp_path / "run", **keys))
    assert story(tmp_path / "straight", 6) == story(tmp_path / "run", 6)
    assert TABLES[0] not in weights(tmp_path / "run", 6)
    said = Translator(tmp_path / "run").translate(["one two"], "de")
    export_run(tmp_path / "run", tmp_path / "onnx", compare=0)
    exported = Translator(tmp_path / "onnx").translate(["one two"], "de")
    assert [each.text for each in exported] == [each.text for each in said]
