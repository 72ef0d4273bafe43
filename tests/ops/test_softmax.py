import pytest
import torch
from torch import Tensor

from accord.data.vocabulary import PAD
from accord.ops import softmax as softmax_rows
from accord.ops.softmax import (
    against_softmax,
    against_tokens,
    choose,
    mixture_gradient,
)

ROWS, V = 6, 37


def logits(seed: int = 0, rows: int = ROWS, size: int = V) -> Tensor:
    torch.manual_seed(seed)
    return 3 * torch.randn(rows, size, dtype=torch.float64)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_choose_gives_the_softmax_without_padding(temperature: float) -> None:
    token, entropy, normaliser, p = choose(logits(), temperature, torch.float64)
    law = torch.distributions.Categorical(logits=logits() / temperature)
    assert torch.equal(token, law.probs.argmax(dim=1))
    torch.testing.assert_close(entropy, law.entropy())
    torch.testing.assert_close(normaliser, (logits() / temperature).logsumexp(dim=1))
    assert p is not None
    assert p[:, PAD].abs().max() == 0
    torch.testing.assert_close(p[:, PAD + 1 :], law.probs[:, PAD + 1 :])
    assert choose(logits(), temperature)[3] is None


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_mixture_gradient_is_that_of_autograd(temperature: float) -> None:
    x, given = logits().requires_grad_(), logits(1)
    p = torch.softmax(x / temperature, dim=1).clone()
    p[:, PAD] = 0
    (right,) = torch.autograd.grad((p * given).sum(), x)
    _, _, normaliser, _ = choose(x.detach(), temperature)
    found = mixture_gradient(x.detach(), normaliser, given, temperature, torch.float64)
    torch.testing.assert_close(found[:ROWS], right)
    torch.testing.assert_close(found[ROWS:], p.detach())


def test_against_tokens_gives_log_probability_and_gradient() -> None:
    x, scale = logits().requires_grad_(), torch.tensor([1.0, 0, 2, 1, 0.5, 1]).double()
    tokens = torch.tensor([0, 36, 5, 5, 1, 2])
    log_p = torch.log_softmax(x, dim=1)[torch.arange(ROWS), tokens]
    (right,) = torch.autograd.grad(-(log_p * scale).sum(), x)
    found, normaliser, gradient = against_tokens(x.detach(), tokens, 1.0, scale, torch.float64)
    torch.testing.assert_close(found, log_p.detach())
    torch.testing.assert_close(normaliser, x.detach().logsumexp(dim=1))
    torch.testing.assert_close(gradient, right)


@pytest.mark.parametrize("divergence", [False, True])
def test_against_softmax_gives_only_the_gradients_asked_for(divergence: bool) -> None:
    for scorer_scale, wanted_scale in ((None, torch.ones(ROWS)), (torch.ones(ROWS), None)):
        _, _, scorer, wanted = against_softmax(
            logits(),
            logits(1),
            temperature=1.0,
            divergence=divergence,
            scorer_scale_N=scorer_scale,
            wanted_scale_N=wanted_scale,
            dtype=torch.float64,
        )
        assert (scorer is None) == (scorer_scale is None)
        assert (wanted is None) == (wanted_scale is None)


# --- the kernels against what is written out -------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("size", [37, 4096, 32_003])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_kernels_equal_the_plain_computation(
    size: int, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert softmax_rows.kernels is not None
    x, y = (logits(seed, 50, size).float().cuda() for seed in (0, 1))
    tokens = torch.randint(0, size, (50,), device="cuda")
    scale, other = torch.rand(2, 50, device="cuda")
    fp32 = torch.float32

    def everything() -> list[Tensor | None]:
        found: list[Tensor | None] = []
        chosen = choose(x, temperature, fp32)
        found += [*chosen, mixture_gradient(x, chosen[2], y, temperature, fp32)]
        found += [*against_tokens(x, tokens, 0.9, scale, fp32)]
        for divergence in (False, True):
            found += against_softmax(
                x,
                y,
                temperature=temperature,
                divergence=divergence,
                scorer_scale_N=scale,
                wanted_scale_N=other,
                dtype=fp32,
            )
        return found

    fused = everything()
    monkeypatch.setattr(softmax_rows, "kernels", None)
    for ours, plain in zip(fused, everything(), strict=True):
        torch.testing.assert_close(ours, plain, rtol=2e-5, atol=1e-5)
