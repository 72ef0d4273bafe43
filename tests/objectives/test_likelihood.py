import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor

from accord.models.gnmt import GNMT
from accord.models.tensor_batch import TensorBatch
from accord.objectives.likelihood import composite_likelihood
from likelihood_cases import PAIRS, V, gradients, make, tensors


def test_sums_equal_the_plain_computation() -> None:
    model = make()
    result = composite_likelihood(model, tensors(PAIRS), chunk=4)
    # The library's smoothing gives mass to gold as well, so that its rate must be larger.
    sums = {0.1 * V / (V - 1): 0.0, 0.0: 0.0}
    for source, target in PAIRS:
        memory = model.encode(torch.tensor([source]), torch.tensor([len(source)]))
        target_BT = torch.tensor([target])
        logits = model.logits(model.decode(memory, model.shifted_embeddings(target_BT)))[0]
        for rate in sums:
            sums[rate] += torch.nn.functional.cross_entropy(
                logits, target_BT[0], label_smoothing=rate, reduction="sum"
            ).item()
    smoothed, plain = sums.values()
    entropy = -0.9 * np.log(0.9) - 0.1 * np.log(0.1 / (V - 1))
    assert result.tokens == 14
    assert result.loss.item() == pytest.approx(smoothed - 14 * entropy)
    assert result.nll.item() == pytest.approx(plain)


@pytest.mark.parametrize("preset", ["paper", "gnmt3"])
@pytest.mark.parametrize("feeding", [True, False])
def test_extra_padding_changes_neither_loss_nor_gradient(preset: str, feeding: bool) -> None:
    results = []
    for extra in (0, 3):
        model = make(preset=preset, input_feeding=feeding)
        result = composite_likelihood(model, tensors(PAIRS, extra))
        result.loss.backward()
        results.append((result.loss.detach(), result.nll, gradients(model)))
    torch.testing.assert_close(results[0], results[1])


def test_accumulated_parts_equal_the_whole_batch() -> None:
    whole = make()
    result = composite_likelihood(whole, tensors(PAIRS))
    (result.loss / result.tokens).backward()
    parts = make()
    for pairs in (PAIRS[:1], PAIRS[1:], []):
        (composite_likelihood(parts, tensors(pairs)).loss / result.tokens).backward()
    torch.testing.assert_close(gradients(whole), gradients(parts))


def test_the_order_of_rows_and_tags_does_not_matter() -> None:
    model = make()
    there, back = (composite_likelihood(model, tensors(p)) for p in (PAIRS, PAIRS[::-1]))
    torch.testing.assert_close(there.loss, back.loss)
    other_tag = [([4, *source[1:]], target) for source, target in PAIRS]
    assert composite_likelihood(model, tensors(other_tag)).nll != there.nll


def test_an_empty_share_adds_nothing() -> None:
    model = make()
    result = composite_likelihood(model, tensors([]))
    result.loss.backward()
    assert (result.loss.item(), result.nll.item(), result.tokens) == (0.0, 0.0, 0)
    assert not gradients(model)


@pytest.mark.parametrize("feeding", [True, False])
def test_a_handful_of_sentences_is_learnt(feeding: bool) -> None:
    torch.manual_seed(0)
    model = GNMT(V, 24, dropout=0.0, input_feeding=feeding)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.02)
    batch = tensors(PAIRS)
    for _ in range(80):
        optimizer.zero_grad()
        result = composite_likelihood(model, batch, label_smoothing=0.0)
        (result.loss / result.tokens).backward()
        optimizer.step()
    assert result.nll.item() / result.tokens < 0.1


@pytest.mark.gpu
def test_a_whole_step_can_be_captured_as_a_cuda_graph() -> None:
    model = make(torch.float32).cuda()
    batch = TensorBatch(
        *(t.cuda() if isinstance(t, Tensor) else t for t in vars(tensors(PAIRS)).values())
    )
    places = torch.arange(batch.target_BT.numel(), device="cuda")  # a fixed shape
    batch = dataclasses.replace(batch, places_N=places)

    def step() -> Tensor:
        model.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = composite_likelihood(model, batch).loss
        loss.backward()
        return loss

    expected = [step().detach() for _ in range(3)][-1].clone()
    wanted = {name: grad.clone() for name, grad in gradients(model).items()}
    model.zero_grad()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    graph.replay()
    torch.testing.assert_close(loss.detach(), expected)
    torch.testing.assert_close(gradients(model), wanted)
