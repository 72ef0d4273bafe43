"""Agreement inside the trainer: off it changes nothing, on it is logged, and runs can branch."""

import json
import math
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
import torch

from accord.config.load import store_directory
from accord.config.objectives import AgreementConfig
from accord.data.batches import BatchStream
from accord.data.store import Store
from accord.errors import AccordError
from accord.objectives.agreement.dials import degenerate
from accord.objectives.agreement.loss import AgreementSettings
from accord.objectives.agreement.objective import AgreementObjective
from accord.ops.distributed import World
from accord.training.trainer import train
from toy_training import HARD, Notes, checkpoint, experiment, prepared, weights


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


def metrics(run, kind="train"):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def agreement(decoding="hard", start=0, **keys):
    return {**HARD, "decoding": decoding, "start": start, **keys}


def same(one, two):
    return all(torch.equal(one[name], two[name]) for name in one)


def test_before_its_start_agreement_changes_nothing(toy, tmp_path):
    """T6: the very run of Basic up to `start`, bit for bit, and not one step longer."""
    train(experiment(toy, tmp_path / "basic", training__steps=10))
    late = agreement("continuous", start=9, max_length=6)
    train(experiment(toy, tmp_path / "late", training__steps=9, objective__agreement=late))
    train(experiment(toy, tmp_path / "on", training__steps=10, objective__agreement=late))
    train(experiment(toy, tmp_path / "nine", training__steps=9))
    assert same(weights(tmp_path / "late", 9), weights(tmp_path / "nine", 9))
    assert not same(weights(tmp_path / "on", 10), weights(tmp_path / "basic", 10))
    assert not any(
        key.startswith("agreement") for line in metrics(tmp_path / "late") for key in line
    )


READINGS = [{}, {"protect": "supervised-scores"}, {"fixed_length": True}]


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("decoding", ["hard", "continuous", "straight-through", "sampled"])
def test_every_decoding_trains_and_is_logged(toy, tmp_path, decoding, reading):
    """R12: the Agree run logs a non-zero agreement loss after its start."""
    chosen = agreement(decoding, start=5, max_length=6, **reading)
    run = tmp_path / decoding
    train(experiment(toy, run, training__steps=10, objective__agreement=chosen))
    before, after = metrics(run)
    assert "agreement_loss" not in before
    assert after["agreement_loss"] > 0
    assert 0 < after["agreement_length_ratio"] < 10
    assert 0 <= after["agreement_ended"] <= 1


ALONE = World(0, 1, torch.device("cpu"))


def agreeing(toy, **keys):
    chosen = experiment(toy, Path("unused"), objective__agreement=agreement(**keys))
    store = Store(store_directory(chosen))
    found = AgreementObjective(
        chosen.objective.agreement, chosen.graph, store, seed=chosen.training_seed, world=ALONE
    )
    stream = BatchStream(
        store.corpora, store.languages, store.vocabulary.tags, batch_tokens=200, seed=1
    )
    return found, next(iter(stream))


def test_it_is_a_mean_over_the_rows_of_the_whole_update(toy):
    """The updater divides by the update's gold tokens; the part at hand has fewer rows."""
    found, (_, batch) = agreeing(toy, weight=0.5)
    part = batch.part(0, 2)
    one, other = found.weights(1)
    scale = batch.update_target_tokens / batch.update_rows
    assert part.rows < batch.update_rows
    assert scale > 1
    done = found.work(1, part, [])
    assert done.scales == pytest.approx((one * scale, other * scale))
    assert done.tokens == part.target_tokens
    assert one == 0.5


def test_the_experiment_file_alone_says_how_agreement_is_measured(toy):
    """One set of defaults: what has a key is handed on, and has no default of its own."""
    keys = {
        "decoding": "sampled",
        "measure": "cross-entropy",
        "normalize": "token",
        "max_length": 7,
        "relative_length": False,
        "fixed_length": True,
        "temperature": 0.5,
        "dropout": False,
        "feedback_gradient": True,
        "distinct_bigrams": 0.6,
        "least_length": 0.3,
        "encoder_measure": "contrastive",
        "encoder_temperature": 0.2,
    }
    shared = [f for f in fields(AgreementSettings) if f.name in AgreementConfig.model_fields]
    assert {field.name for field in shared} == keys.keys()
    assert all(field.default is MISSING for field in shared)
    found, _ = agreeing(toy, **keys)
    assert {key: getattr(found.settings, key) for key in keys} == keys
    for limit in (3.0, None):
        assert agreeing(toy, gradient_limit=limit)[0].gradient_limit == limit


def test_every_nth_update_counts_for_those_between(toy):
    found, _ = agreeing(toy, start=4, every=3, encoder_weight=0.1)
    weights = [found.weights(step) for step in range(1, 17)]
    assert [step for step in range(1, 17) if found.weight(step)] == [5, 8, 11, 14]
    assert sum(pair[0] for pair in weights) == pytest.approx(12 * 0.3)
    assert sum(pair[1] for pair in weights) == pytest.approx(12 * 0.1)


def test_a_fraction_of_the_rows_counts_for_all(toy):
    whole, (position, batch) = agreeing(toy)
    part, _ = agreeing(toy, fraction=0.4)
    drawn = whole.draw(batch, position)
    all_rows, some_rows = whole.tagged(batch, drawn), part.tagged(batch, drawn)
    count = math.ceil(0.4 * batch.rows)
    assert some_rows.pairs == count < all_rows.pairs
    assert some_rows.weight_B.sum() == pytest.approx(batch.rows)
    width = some_rows.sentences_RS.shape[1]
    both = all_rows.sentences_RS.view(2, batch.rows, -1)[:, :count, :width]
    assert torch.equal(some_rows.sentences_RS.view(2, count, -1), both)


def test_the_share_of_agreement_in_the_gradient_is_logged(toy, tmp_path):
    for name, weight in (("some", 0.3), ("more", 0.6)):
        chosen = agreement(weight=weight)
        train(experiment(toy, tmp_path / name, training__steps=1, objective__agreement=chosen))
    some, more = (metrics(tmp_path / name)[0] for name in ("some", "more"))
    assert some["agreement_gradient_ratio"] > 0
    ratio = more["agreement_gradient_ratio"] / some["agreement_gradient_ratio"]
    assert ratio == pytest.approx(2, rel=1e-4)
    assert 0 <= some["agreement_right_language"] <= 1


@pytest.mark.parametrize(
    ("dials", "said"),
    [
        ({"length_ratio": 1.0}, None),
        ({"ended": 0.9, "length_ratio": 1.5, "right_language": 0.9, "gradient_ratio": 2.0}, None),
        ({"ended": 0.2}, "come to an end"),
        ({"length_ratio": 0.4}, "0.40 times"),
        ({"right_language": 0.3}, "30% of the auxiliary translations are in the right"),
        ({"degenerate": 0.3}, "30% of the auxiliary translations repeat"),
        ({"gradient_ratio": 34.2}, "34 times as long"),
    ],
)
def test_translations_that_degenerate_are_noticed(dials, said):
    values = {f"agreement_{name}": value for name, value in {"ended": 1.0, **dials}.items()}
    problem = degenerate(values)
    assert (problem is None) == (said is None)
    assert said is None or said in problem


def test_degeneration_is_said_once_when_it_begins(toy, tmp_path):
    notes = Notes()
    chosen = agreement("continuous", max_length=3, relative_length=False)  # no room to end
    train(
        experiment(toy, tmp_path / "x", training__steps=15, objective__agreement=chosen),
        progress=notes,
    )
    assert sum("auxiliary translations" in note for note in notes.notes) == 1
    assert degenerate({"loss": 1.0}) is None


@pytest.mark.parametrize("reading", READINGS)
def test_resuming_with_agreement_is_exact(toy, tmp_path, reading):
    chosen = agreement("continuous", start=2, max_length=5, **reading)
    train(experiment(toy, tmp_path / "one", training__steps=8, objective__agreement=chosen))
    for steps in (5, 8):
        train(
            experiment(toy, tmp_path / "two", training__steps=steps, objective__agreement=chosen),
            accept_changes=True,
        )
    assert same(weights(tmp_path / "one", 8), weights(tmp_path / "two", 8))


def test_the_strict_reading_has_the_same_value_and_a_gradient_of_its_own(toy, tmp_path):
    lines = {}
    for protect in ("supervised", "supervised-scores"):
        chosen = agreement("continuous", preset="paper", protect=protect, max_length=6)
        train(experiment(toy, tmp_path / protect, training__steps=1, objective__agreement=chosen))
        lines[protect] = metrics(tmp_path / protect)[0]
    ours, strict = lines.values()
    assert strict["agreement_loss"] == pytest.approx(ours["agreement_loss"])
    assert 0 < strict["agreement_gradient_ratio"] != ours["agreement_gradient_ratio"]


def test_accumulation_does_not_change_agreement(toy, tmp_path):
    """T14: both terms are averaged over the whole update."""
    keys = {"training__steps": 4, "model__dropout": 0.0}
    for parts in (1, 3):
        train(
            experiment(
                toy,
                tmp_path / str(parts),
                **keys,
                training__accumulation=parts,
                objective__agreement=agreement(max_length=5),
            )
        )
    one, three = weights(tmp_path / "1", 4), weights(tmp_path / "3", 4)
    assert all(torch.allclose(one[name], three[name], atol=1e-5) for name in one)


def test_a_branch_goes_on_where_the_other_run_stands(toy, tmp_path):
    train(experiment(toy, tmp_path / "basic", training__steps=9))
    branch = tmp_path / "branch"
    train(experiment(toy, branch, training__steps=14, training__init_from=str(tmp_path / "basic")))
    train(experiment(toy, tmp_path / "whole", training__steps=14))
    assert same(weights(branch, 14), weights(tmp_path / "whole", 14))
    state = json.loads((checkpoint(branch, 14) / "state.json").read_text())
    assert state["best_step"] > 9  # the origin's best is not in this run's folder


def test_a_damaged_checkpoint_is_nothing_to_branch_from(toy, tmp_path):
    """An older one in its place would be a branch of fewer updates than its sisters."""
    basic = tmp_path / "basic"
    train(experiment(toy, basic, training__steps=9))
    (checkpoint(basic, 9) / "model.safetensors").write_bytes(b"")
    with pytest.raises(AccordError, match="damaged checkpoint"):
        train(experiment(toy, tmp_path / "b", training__steps=14, training__init_from=str(basic)))
    assert checkpoint(basic, 9).is_dir()


def test_other_data_is_nothing_to_branch_from(toy, tmp_path):
    other = prepared(tmp_path, lines=50)
    train(experiment(other, tmp_path / "other", training__steps=2))
    with pytest.raises(AccordError, match="other data"):
        train(experiment(toy, tmp_path / "b", training__init_from=str(tmp_path / "other")))


def test_nothing_to_branch_from(toy, tmp_path):
    basic = tmp_path / "basic"
    train(experiment(toy, basic, training__steps=2))
    (basic / "checkpoints").rename(tmp_path / "moved")
    with pytest.raises(AccordError, match="no checkpoint to start from"):
        train(experiment(toy, tmp_path / "a", training__init_from=str(basic)))
