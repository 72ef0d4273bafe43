import pytest
import torch
from torch import Tensor

from accord.ops.softmax_cross_entropy import dense_cross_entropy

N, V, D = 7, 23, 5


def inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    wanted = torch.randn(N, D, dtype=dtype, requires_grad=True)
    scorer = torch.randn(N, D, dtype=dtype, requires_grad=True)
    weight = torch.randn(V, D, dtype=dtype, requires_grad=True)
    return wanted, scorer, weight, torch.tensor([1.0, 0.5, 0.0, 2.0, 1.0, 0.25, 1.0], dtype=dtype)


def literal(
    wanted: Tensor, scorer: Tensor, weight: Tensor, temperature: float, divergence: bool
) -> Tensor:
    """The measure of every position, written out."""
    log_q = torch.log_softmax(scorer @ weight.T, dim=1)
    log_p = torch.log_softmax(wanted @ weight.T / temperature, dim=1)
    return (log_p.exp() * (log_p * divergence - log_q)).sum(dim=1)


@pytest.mark.parametrize("chunk", [1, 3, 100])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("divergence", [False, True])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_sum_and_gradients_equal_the_literal_ones(
    chunk: int, temperature: float, divergence: bool, dtype: torch.dtype, near: float
) -> None:
    wanted, scorer, weight, weights = inputs(dtype)
    loss, found = dense_cross_entropy(
        wanted,
        scorer,
        weight,
        weights,
        temperature=temperature,
        divergence=divergence,
        chunk=chunk,
    )
    expected = literal(wanted, scorer, weight, temperature, divergence) @ weights
    torch.testing.assert_close(loss, expected, rtol=near, atol=near)
    plain = literal(wanted, scorer, weight, temperature, divergence=False).detach()
    torch.testing.assert_close(found, plain, rtol=near, atol=near)
    got = torch.autograd.grad(3 * loss, [wanted, scorer, weight])
    right = torch.autograd.grad(3 * expected, [wanted, scorer, weight])
    torch.testing.assert_close(got, right, rtol=10 * near, atol=10 * near)


def test_gradcheck() -> None:
    wanted, scorer, weight, weights = inputs()

    def loss(wanted: Tensor, scorer: Tensor, weight: Tensor) -> Tensor:
        return dense_cross_entropy(wanted, scorer, weight, weights, temperature=0.7, chunk=3)[0]

    torch.autograd.gradcheck(loss, (wanted, scorer, weight))


def test_of_a_distribution_with_itself_it_is_the_entropy() -> None:
    wanted, _, weight, weights = inputs()
    entropy = torch.distributions.Categorical(logits=wanted @ weight.T).entropy()
    loss, found = dense_cross_entropy(wanted, wanted.detach(), weight, weights)
    torch.testing.assert_close(found, entropy.detach())
    torch.testing.assert_close(loss, entropy @ weights)
    none, _ = dense_cross_entropy(wanted, wanted.detach(), weight, weights, divergence=True)
    assert none.item() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("less", [0.0, 0.7])  # advantages are weights that may be negative
def test_tokens_are_distributions_without_doubt(less: float) -> None:
    _, scorer, weight, weights = inputs()
    weights -= less
    tokens = torch.tensor([4, 0, 22, 7, 7, 1, 3])
    loss, found = dense_cross_entropy(tokens, scorer, weight, weights, chunk=3)
    plain = torch.nn.functional.cross_entropy(scorer @ weight.T, tokens, reduction="none")
    torch.testing.assert_close(found, plain.detach(), rtol=1e-12, atol=1e-12)
    got = torch.autograd.grad(loss, [scorer, weight])
    torch.testing.assert_close(got, torch.autograd.grad(plain @ weights, [scorer, weight]))


@pytest.mark.parametrize("constant", ["wanted", "scorer"])
def test_a_side_without_gradient_is_a_constant_with_its_use_of_the_table(constant: str) -> None:
    wanted, scorer, weight, weights = inputs()
    fixed = weight.detach()
    if constant == "wanted":
        loss, _ = dense_cross_entropy(wanted.detach(), scorer, weight, weights)
        log_p = torch.log_softmax(wanted.detach() @ fixed.T, dim=1)
        log_q = torch.log_softmax(scorer @ weight.T, dim=1)
        live = scorer
    else:
        loss, _ = dense_cross_entropy(wanted, scorer.detach(), weight, weights)
        log_p = torch.log_softmax(wanted @ weight.T, dim=1)
        log_q = torch.log_softmax(scorer.detach() @ fixed.T, dim=1)
        live = wanted
    expected = -(log_p.exp() * log_q).sum(dim=1) @ weights
    got = torch.autograd.grad(loss, [live, weight])
    torch.testing.assert_close(got, torch.autograd.grad(expected, [live, weight]))


def test_flags_stop_single_positions_of_single_sides() -> None:
    wanted, scorer, weight, weights = inputs()
    flags = torch.tensor([True, False, True, True, False, False, True])
    loss, _ = dense_cross_entropy(
        wanted, scorer, weight, weights, live_wanted_N=flags, live_scorer_N=~flags, chunk=2
    )
    got = torch.autograd.grad(loss, [wanted, scorer, weight])
    assert not got[0][~flags].any()
    assert not got[1][flags].any()
    parts = [
        dense_cross_entropy(wanted[flags], scorer[flags].detach(), weight, weights[flags]),
        dense_cross_entropy(wanted[~flags].detach(), scorer[~flags], weight, weights[~flags]),
    ]
    right = torch.autograd.grad(parts[0][0] + parts[1][0], [wanted, scorer, weight])
    torch.testing.assert_close(got, right)


def test_without_gradients_there_is_only_the_sum() -> None:
    wanted, scorer, weight, weights = inputs()
    with torch.no_grad():
        loss, found = dense_cross_entropy(wanted, scorer, weight, weights)
    assert not loss.requires_grad
    assert not found.requires_grad
    torch.testing.assert_close(loss, literal(wanted, scorer, weight, 1.0, False).detach() @ weights)


def test_autocast_multiplies_in_bfloat16_and_sums_in_fp32() -> None:
    wanted, scorer, weight, weights = inputs(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, found = dense_cross_entropy(wanted, scorer, weight, weights, chunk=3)
    assert loss.dtype == found.dtype == torch.float32
    expected = literal(wanted, scorer, weight, 1.0, False) @ weights
    torch.testing.assert_close(loss, expected, rtol=0.02, atol=0.02)
    got = torch.autograd.grad(loss, [wanted, scorer, weight])
    right = torch.autograd.grad(expected, [wanted, scorer, weight])
    for rough, exact in zip(got, right, strict=True):
        assert rough.dtype == torch.float32
        assert (rough - exact).norm() < 0.03 * exact.norm()
