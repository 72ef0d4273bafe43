"""Contrastive encodings: the formula written out, who is held against whom, and whole runs."""

from dataclasses import dataclass, replace
from math import exp, log

import pytest
import torch
from torch import Tensor

from accord.models.base import Memory
from accord.objectives.agreement import loss as module
from accord.objectives.agreement.inputs import AgreementInputs
from accord.objectives.agreement.loss import agreement, contrast
from accord.training.trainer import train
from agreement_cases import EXACT, PAIRS, make, run, star, sums_of
from toy_training import HARD, Notes, experiment, metrics, prepared, weights

CONTRASTIVE = replace(EXACT, translations=False, encodings=True, encoder_measure="contrastive")


@dataclass(frozen=True)
class Encoded(Memory):
    """Encodings as they are given."""

    vectors_BSD: Tensor

    @property
    def encoding(self) -> Tensor:
        return self.vectors_BSD


def words(vectors_BD: Tensor) -> Encoded:
    """Sentences of one word."""
    return Encoded(torch.ones(len(vectors_BD), 1, dtype=torch.bool), vectors_BD.unsqueeze(1))


def pairs_of(count: int, weight: list[float] | None = None) -> AgreementInputs:
    inputs = star((PAIRS * count)[:count], protect="none")
    return replace(inputs, weight_B=torch.tensor(weight or [1.0] * count))


def test_it_is_the_formula() -> None:
    """Means over real positions, cosines over the temperature, each anchor among all firsts."""
    torch.manual_seed(1)
    lengths = [torch.tensor([3, 1, 4, 2]), torch.tensor([2, 4, 1, 3])]
    vectors = [torch.randn(4, 4, 5, dtype=torch.float64, requires_grad=True) for _ in lengths]
    first, second = (
        Encoded(torch.arange(4) < count.unsqueeze(1), each)
        for count, each in zip(lengths, vectors, strict=True)
    )
    weight = [1.0, 0.0, 2.5, 1.0]
    found = contrast(first, second, pairs_of(4, weight), temperature=0.3)

    mean = [
        [sum(row[:count]) / count for row, count in zip(each, counts.tolist(), strict=True)]
        for each, counts in zip(vectors, lengths, strict=True)
    ]

    def near(i: int, j: int) -> Tensor:
        one, other = mean[1][i], mean[0][j]
        return (one @ other / one.norm() / other.norm() / 0.3).exp()

    counted = [0, 2, 3]
    plain = sum(-weight[i] * (near(i, i) / sum(near(i, j) for j in counted)).log() for i in counted)
    torch.testing.assert_close(found, plain)
    gradients = zip(*(torch.autograd.grad(x, vectors) for x in (found, plain)), strict=True)
    for mine, theirs in gradients:
        torch.testing.assert_close(mine, theirs)


def test_it_is_least_where_pairs_coincide_and_others_are_orthogonal() -> None:
    basis = torch.eye(4, dtype=torch.float64)
    inputs, turned = pairs_of(4), (basis + 0.4 * basis.roll(1, 0)) * 3

    def loss(first: Tensor, second: Tensor) -> float:
        return contrast(words(first), words(second), inputs, 0.1).item()

    least = loss(basis * 2, basis * 5)  # lengths do not matter
    assert least == pytest.approx(4 * log(1 + 3 * exp(-1 / 0.1)))
    assert least < loss(basis, turned) < loss(basis, basis.roll(1, 0))
    alike = torch.ones_like(basis)
    assert loss(alike, alike) == pytest.approx(4 * log(4))  # coinciding alone is not enough


@pytest.mark.parametrize("one_sided", [True, False])
def test_rows_that_fill_up_a_shape_are_no_negatives(one_sided: bool) -> None:
    plain = replace(star(), one_sided=one_sided)
    wide = replace(star(shape=(7, 11)), one_sided=one_sided)
    (one, one_grads), (other, other_grads) = run(plain, CONTRASTIVE), run(wide, CONTRASTIVE)
    assert one.encoder_loss.item() > 0.1
    torch.testing.assert_close(sums_of(one), sums_of(other))
    torch.testing.assert_close(one_grads, other_grads)


def test_where_no_pair_counts_nothing_is_lost() -> None:
    empty = replace(star(), weight_B=torch.zeros(len(PAIRS)))
    terms, grads = run(empty, CONTRASTIVE)
    assert terms.encoder_loss.item() == 0.0
    assert all(grad.abs().max() == 0 for grad in grads.values())


def test_nothing_is_translated_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "generate", None)
    assert agreement(make(), star(), CONTRASTIVE).encoder_loss.item() > 0


def test_only_sides_that_may_learn_have_a_gradient() -> None:
    """As with cosines: English is a constant where its directions are protected."""
    inputs = replace(star(), one_sided=False)
    torch.manual_seed(4)
    vectors = [torch.randn(4, 1, 6, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    mask = torch.ones(4, 1, dtype=torch.bool)
    first, second = (Encoded(mask, each) for each in vectors)
    teacher, pupil = torch.autograd.grad(contrast(first, second, inputs, 0.1), vectors)
    assert not inputs.live_R[:4].any()
    assert teacher.abs().max() == 0
    assert (pupil.flatten(1).norm(dim=1) > 0).all()


# --- whole runs ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory):
    return prepared(tmp_path_factory.getbasetemp())


def trained(toy, path, steps: int, **keys):
    chosen = {"weight": 0, "start": 2, "encoder_measure": "contrastive", **keys}
    train(
        experiment(toy, path, training__steps=steps, objective__agreement=chosen),
        accept_changes=True,
    )
    return weights(path, steps)


def same(one, two) -> bool:
    return all(torch.equal(one[name], two[name]) for name in one)


def test_it_trains_alone_and_resumes_exactly(toy, tmp_path) -> None:
    one = trained(toy, tmp_path / "one", 12, encoder_weight=1.0)
    first, *_, last = metrics(tmp_path / "one", "train")
    assert 0 < last["agreement_encoder_loss"] < first["agreement_encoder_loss"]
    for steps in (7, 12):
        two = trained(toy, tmp_path / "two", steps, encoder_weight=1.0)
    assert same(one, two)


OF_TRANSLATIONS = {
    f"agreement_{name}"
    for name in (
        *("loss", "per_token", "entropy", "length_ratio"),
        *("ended", "right_language", "degenerate"),
    )
}


@pytest.mark.parametrize("weight", [0, 0.3])
@pytest.mark.parametrize("measure", ["contrastive", "cosine"])
def test_nothing_is_said_of_translations_where_there_are_none(toy, tmp_path, measure, weight):
    """Rules of thumb about translations would take a healthy run of encodings for a ruined one."""
    notes = Notes()
    chosen = {"weight": weight, "encoder_weight": 1.0, "encoder_measure": measure, "start": 0}
    train(
        experiment(toy, tmp_path, training__steps=10, objective__agreement={**HARD, **chosen}),
        progress=notes,
    )
    lines = metrics(tmp_path, "train")
    assert len(lines) == 2
    for line in lines:
        assert OF_TRANSLATIONS & line.keys() == (OF_TRANSLATIONS if weight else set())
        assert line["agreement_encoder_loss"] > 0
        assert line["agreement_gradient_ratio"] > 0
        assert line["agreement_pairs"] == 1.0
    # An untrained model's translations are poor, so that there is something to warn of.
    assert any("watch the zero-shot scores" in note for note in notes.notes) == bool(weight)


def test_off_it_changes_nothing(toy, tmp_path) -> None:
    train(experiment(toy, tmp_path / "basic", training__steps=5))
    basic = weights(tmp_path / "basic", 5)
    assert same(basic, trained(toy, tmp_path / "off", 5, encoder_weight=0.0))
    assert not same(basic, trained(toy, tmp_path / "on", 5, encoder_weight=1.0))
