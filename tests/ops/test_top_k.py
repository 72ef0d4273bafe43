"""The kernel on a GPU, or on a CPU by Triton's interpreter (TRITON_INTERPRET=1)."""

import os

import pytest
import torch

from accord.inference.beam_step import top_k_triton

INTERPRETED = top_k_triton is not None and bool(os.environ.get("TRITON_INTERPRET"))
DEVICE = torch.device("cpu" if INTERPRETED else "cuda")


@(pytest.mark.gpu if not INTERPRETED else pytest.mark.timeout(600))
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("size", [3, 700, 5000, 32000])
def test_the_best_are_those_of_a_softmax_without_the_forbidden(count: int, size: int) -> None:
    torch.manual_seed(1)
    logits_RV, forbidden_F = 3 * torch.randn(6, size), torch.randperm(size)[: min(3, size // 2)]
    wanted_RV = logits_RV.log_softmax(dim=1).index_fill_(1, forbidden_F, -torch.inf)
    count = min(count, size - len(forbidden_F))
    found = top_k_triton.log_softmax_top_k(logits_RV.to(DEVICE), forbidden_F.to(DEVICE), count)
    log_p_RK, token_RK, normaliser_R = (tensor.cpu() for tensor in found)
    wanted_RK, best_RK = wanted_RV.topk(count)
    torch.testing.assert_close(log_p_RK, wanted_RK)
    assert torch.equal(token_RK, best_RK)
    torch.testing.assert_close(normaliser_R, logits_RV.logsumexp(dim=1))
