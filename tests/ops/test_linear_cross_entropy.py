import math

import pytest
import torch
from torch import Tensor

from accord.ops.linear_cross_entropy import Likely, linear_cross_entropy, smoothing_entropy

N, V, D = 7, 23, 5


def inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    hidden = torch.randn(N, D, dtype=dtype, requires_grad=True)
    weight = torch.randn(V, D, dtype=dtype, requires_grad=True)
    return hidden, weight, torch.randint(1, V, (N,))


def literal(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Cross-entropy with the written-out distribution, less that distribution's entropy."""
    log_p = torch.log_softmax(hidden @ weight.T, dim=1)
    wanted = torch.full((len(targets), V), smoothing / (V - 1), dtype=hidden.dtype)
    wanted[torch.arange(len(targets)), targets] = 1 - smoothing
    entropy = -torch.xlogy(wanted, wanted).sum()
    return -(wanted * log_p).sum() - entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [1, 3, 7, 100])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_loss_and_gradients_equal_the_literal_ones(
    smoothing: float, chunk: int, dtype: torch.dtype, near: float
) -> None:
    hidden, weight, targets = inputs(dtype)
    loss, nll = linear_cross_entropy(
        hidden, weight, targets, label_smoothing=smoothing, chunk=chunk
    )
    expected = literal(hidden, weight, targets, smoothing)
    torch.testing.assert_close(loss, expected, rtol=near, atol=near)
    plain = torch.nn.functional.cross_entropy(hidden @ weight.T, targets, reduction="sum")
    torch.testing.assert_close(nll, plain, rtol=near, atol=near)
    got = torch.autograd.grad(3 * loss, [hidden, weight])
    wanted = torch.autograd.grad(3 * expected, [hidden, weight])
    torch.testing.assert_close(got, wanted, rtol=near, atol=near)


def test_padding_adds_nothing() -> None:
    hidden, weight, targets = inputs()
    padded = targets.clone()
    padded[[1, 4]] = 0
    loss, nll = linear_cross_entropy(hidden, weight, padded, label_smoothing=0.1, chunk=3)
    kept = [0, 2, 3, 5, 6]
    wanted, wanted_nll = linear_cross_entropy(
        hidden[kept], weight, targets[kept], label_smoothing=0.1, chunk=3
    )
    torch.testing.assert_close((loss, nll), (wanted, wanted_nll))
    got = torch.autograd.grad(loss, [hidden, weight])
    torch.testing.assert_close(got, torch.autograd.grad(wanted, [hidden, weight]))
    assert not got[0][[1, 4]].any()


def test_gradcheck() -> None:
    hidden, weight, targets = inputs()

    def loss(hidden: Tensor, weight: Tensor) -> Tensor:
        return linear_cross_entropy(hidden, weight, targets, label_smoothing=0.1, chunk=3)[0]

    torch.autograd.gradcheck(loss, (hidden, weight))


def test_the_smallest_reachable_loss_is_zero() -> None:
    targets = torch.arange(1, 8)
    gold, other = 0.9, 0.1 / (V - 1)
    best = torch.full((7, V), math.log(other), dtype=torch.float64)
    best[torch.arange(7), targets] = math.log(gold)
    identity = torch.eye(V, dtype=torch.float64)
    loss, _ = linear_cross_entropy(best, identity, targets, label_smoothing=0.1, chunk=4)
    assert loss.item() == pytest.approx(0.0, abs=1e-12)
    assert smoothing_entropy(0.1, 32768) == pytest.approx(1.36480, abs=5e-6)
    sharper, _ = linear_cross_entropy(best * 2, identity, targets, label_smoothing=0.1, chunk=4)
    assert sharper.item() > 0.1


def test_extreme_logits_stay_finite() -> None:
    hidden = torch.tensor([[1000.0, 0.0], [-1000.0, 0.0]], requires_grad=True)
    weight = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    loss, nll = linear_cross_entropy(
        hidden, weight, torch.tensor([1, 1]), label_smoothing=0.1, chunk=1
    )
    loss.backward()
    assert nll.item() == pytest.approx(2000.0)
    assert hidden.grad.isfinite().all()


def test_nothing_but_the_loss_without_gradients() -> None:
    hidden, weight, targets = inputs()
    with torch.no_grad():
        loss, nll = linear_cross_entropy(hidden, weight, targets, label_smoothing=0.1, chunk=3)
    torch.testing.assert_close(loss, literal(hidden, weight, targets, 0.1).detach())
    assert not loss.requires_grad
    _, nll = linear_cross_entropy(hidden, weight, targets, label_smoothing=0.1, chunk=3)
    assert not nll.requires_grad


def test_autocast_multiplies_in_bfloat16_and_sums_in_fp32() -> None:
    hidden, weight, targets = inputs(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, nll = linear_cross_entropy(hidden, weight, targets, label_smoothing=0.1, chunk=3)
    assert loss.dtype == nll.dtype == torch.float32
    expected = literal(hidden, weight, targets, 0.1)
    torch.testing.assert_close(loss, expected, rtol=0.02, atol=0.02)
    got = torch.autograd.grad(loss, [hidden, weight])
    wanted = torch.autograd.grad(expected, [hidden, weight])
    assert all(grad.dtype == torch.float32 for grad in got)
    torch.testing.assert_close(got, wanted, rtol=0.05, atol=0.03)


@pytest.mark.gpu
def test_bfloat16_on_cuda_stays_near_fp32() -> None:
    torch.manual_seed(0)
    hidden = torch.randn(300, 64, device="cuda", requires_grad=True)
    weight = torch.randn(1000, 64, device="cuda", requires_grad=True)
    targets = torch.randint(1, 1000, (300,), device="cuda")
    results = []
    for enabled in (False, True):
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=enabled):
            loss, _ = linear_cross_entropy(hidden, weight, targets, label_smoothing=0.1, chunk=128)
        results.append([loss.detach(), *torch.autograd.grad(loss / 300, [hidden, weight])])
    for rough, exact in zip(results[1], results[0], strict=True):
        assert (rough - exact).norm() < 0.01 * exact.norm()


# --- several wanted tokens -------------------------------------------------------------------


def likely(k: int, dtype: torch.dtype = torch.float64) -> Likely:
    torch.manual_seed(1)
    tokens = torch.stack([torch.randperm(V)[:k] for _ in range(N)])
    return Likely(tokens, torch.rand(N, k, dtype=dtype).softmax(dim=1))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [3, 100])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_several_tokens_are_wanted_by_their_shares(
    smoothing: float, chunk: int, dtype: torch.dtype, near: float
) -> None:
    hidden, weight, targets = inputs(dtype)
    targets[2] = 0
    several = likely(4, dtype)
    loss, nll = linear_cross_entropy(
        hidden, weight, targets, label_smoothing=smoothing, chunk=chunk, likely=several
    )
    wanted = torch.full((N, V), smoothing / (V - 1), dtype=dtype)
    extra = 1 - smoothing - smoothing / (V - 1)
    wanted.scatter_add_(1, several.token_NK, extra * several.share_NK)
    log_p = torch.log_softmax(hidden @ weight.T, dim=1)
    each = (torch.xlogy(wanted, wanted) - wanted * log_p).sum(dim=1)
    expected = each[[0, 1, 3, 4, 5, 6]].sum()
    torch.testing.assert_close(loss, expected, rtol=near, atol=near)
    plain = torch.nn.functional.cross_entropy(
        hidden @ weight.T, targets, reduction="sum", ignore_index=0
    )
    torch.testing.assert_close(nll, plain, rtol=near, atol=near)
    got = torch.autograd.grad(3 * loss, [hidden, weight])
    torch.testing.assert_close(
        got, torch.autograd.grad(3 * expected, [hidden, weight]), rtol=near, atol=near
    )


def test_one_token_with_all_the_mass_is_a_target() -> None:
    hidden, weight, targets = inputs()
    tokens = torch.stack([targets, (targets + 1) % V, (targets + 2) % V], dim=1)
    one = Likely(tokens, torch.tensor([1.0, 0.0, 0.0]).expand(N, 3))
    found = [
        linear_cross_entropy(hidden, weight, targets, label_smoothing=0.1, chunk=3, likely=each)
        for each in (None, one)
    ]
    torch.testing.assert_close(found[1], found[0])
    grads = [torch.autograd.grad(loss, [hidden, weight]) for loss, _ in found]
    torch.testing.assert_close(grads[1], grads[0])
