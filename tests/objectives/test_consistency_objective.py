"""Decode-free consistency against the same computation written out, all distributions in memory."""

import dataclasses

import numpy as np
import pytest
import torch

from accord.data.batches import Batch
from accord.models.gnmt import GNMT
from accord.models.tensor_batch import TensorBatch
from accord.objectives.consistency import consistent_likelihood
from accord.objectives.likelihood import composite_likelihood
from likelihood_cases import PAIRS, D, V, gradients, make, tensors

KINDS = ["forward", "symmetric"]
TOKENS = sum(len(target) for _, target in PAIRS)


def read(model, source, target):
    """Log-probabilities [T, V] of a gold target's positions, given some source."""
    memory = model.encode(torch.tensor([source]), torch.tensor([len(source)]))
    hidden = model.decode(memory, model.shifted_embeddings(torch.tensor([target])))
    return torch.log_softmax(model.logits(hidden)[0], dim=1)


def kl(log_p, log_q):
    return (log_p.exp() * (log_p - log_q)).sum()


def literal(model, kind):
    """One pair after the other, and both its sides."""
    total = torch.zeros((), dtype=torch.float64)
    for source, target in PAIRS:
        log_p, log_q = read(model, source, target), read(model, [source[0], *target], target)
        there, back = kl(log_p, log_q), kl(log_q, log_p)
        total = total + (there if kind == "forward" else (there + back) / 2)
    return total


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("feeding", [True, False])
@pytest.mark.parametrize("preset", ["paper", "gnmt3"])
def test_loss_and_gradients_are_those_of_the_definition(kind, feeding, preset):
    ours, theirs = (make(preset=preset, input_feeding=feeding) for _ in range(2))
    _, found = consistent_likelihood(ours, tensors(PAIRS), divergence=kind, chunk=5)
    wanted = literal(theirs, kind)
    found.loss.backward()
    wanted.backward()
    assert found.loss.item() == pytest.approx(wanted.item())
    assert found.loss.item() > 1e-3
    assert found.tokens == TOKENS
    torch.testing.assert_close(gradients(ours), gradients(theirs))


class Loss(torch.nn.Module):
    """The objective as a module, to be called with other weights."""

    def __init__(self):
        super().__init__()
        self.model = make()
        self.model.source_embedding.weight.data.mul_(5)

    def forward(self):
        return consistent_likelihood(self.model, tensors(PAIRS), chunk=5)[1].loss


def test_gradients_flow_into_both_readings():
    """Checked by differences, where a side that is stopped would show."""
    module = Loss()

    def loss(weight_VD):
        changed = {"model.source_embedding.weight": weight_VD}
        return torch.func.functional_call(module, changed)

    weight = module.model.source_embedding.weight.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(loss, (weight,), fast_mode=True)
    (grad,) = torch.autograd.grad(loss(weight), weight)
    sources = {token for source, _ in PAIRS for token in source}
    targets = {token for _, target in PAIRS for token in target}
    for tokens in (sources - targets, targets - sources):
        assert len(tokens) > 3
        assert (grad[sorted(tokens)].norm(dim=1) > 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_that_is_its_own_source_agrees_with_itself(kind):
    copies = [([source[0], *target], target) for source, target in PAIRS]
    model = make()
    _, found = consistent_likelihood(model, tensors(copies), divergence=kind)
    found.loss.backward()
    assert abs(found.loss.item()) < 1e-12
    assert all(grad.abs().max() < 1e-12 for grad in gradients(model).values())


def test_with_dropout_each_reading_has_its_own():
    copies = [([source[0], *target], target) for source, target in PAIRS]
    torch.manual_seed(1)
    model = GNMT(V, D, dropout=0.3).double()
    assert consistent_likelihood(model, tensors(copies))[1].loss > 1e-4
    assert consistent_likelihood(model.eval(), tensors(copies))[1].loss < 1e-12


def test_the_likelihood_is_the_one_without_consistency():
    ours, theirs = make(), make()
    found, _ = consistent_likelihood(ours, tensors(PAIRS), label_smoothing=0.2)
    wanted = composite_likelihood(theirs, tensors(PAIRS), label_smoothing=0.2)
    found.loss.backward()
    wanted.loss.backward()
    torch.testing.assert_close((found.loss, found.nll), (wanted.loss, wanted.nll))
    assert found.tokens == wanted.tokens
    torch.testing.assert_close(gradients(ours), gradients(theirs))


def test_smoothing_is_no_part_of_it():
    model = make()
    losses = [
        consistent_likelihood(model, tensors(PAIRS), label_smoothing=rate)[1].loss
        for rate in (0.0, 0.3)
    ]
    assert torch.equal(losses[0], losses[1])


def filled_up(rows, length):
    """As for a CUDA graph: more rows, longer ones, and padding among the places to score."""
    plain = tensors(PAIRS)
    arrays = {
        name: getattr(plain, name).numpy()
        for name in ("source_BS", "source_lengths_B", "target_BT", "target_lengths_B")
    }
    none = np.zeros(len(PAIRS), dtype=np.int16)
    batch = Batch(**arrays, source_language_B=none, target_language_B=none, corpus_B=none,
                  line_B=none, update_rows=len(PAIRS), update_target_tokens=TOKENS)  # fmt: skip
    return TensorBatch.of_shape(batch, rows, length)


@pytest.mark.parametrize("extra", ["width", "rows and places"])
def test_padding_changes_neither_losses_nor_gradients(extra, monkeypatch):
    monkeypatch.setattr(TensorBatch, "pinned", lambda self: self)
    padded = tensors(PAIRS, extra=3) if extra == "width" else filled_up(7, 9)
    results = []
    for batch in (tensors(PAIRS), padded):
        model = make()
        likelihood, found = consistent_likelihood(model, batch)
        (likelihood.loss + 0.25 * found.loss).backward()
        results.append((found.loss.detach(), found.tokens, likelihood.nll, gradients(model)))
    torch.testing.assert_close(results[0], results[1])


def test_accumulated_parts_equal_the_whole_batch():
    whole, parts = make(), make()
    for model, batches in ((whole, [PAIRS]), (parts, [PAIRS[:1], PAIRS[1:], []])):
        for pairs in batches:
            likelihood, found = consistent_likelihood(model, tensors(pairs))
            ((likelihood.loss + 0.25 * found.loss) / TOKENS).backward()
    torch.testing.assert_close(gradients(whole), gradients(parts))


def test_an_empty_share_adds_nothing():
    model = make()
    likelihood, found = consistent_likelihood(model, tensors([]))
    (likelihood.loss + found.loss).backward()
    assert (likelihood.loss.item(), found.loss.item(), found.tokens.item()) == (0, 0, 0)
    assert not gradients(model)


def test_it_can_be_learnt():
    """The divergence falls while the likelihood is learnt, though copying has no data."""
    torch.manual_seed(0)
    model = GNMT(V, 24, dropout=0.0)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.02)
    batch, losses = tensors(PAIRS), {}
    for weight in (0.0, 1.0):
        for _ in range(60):
            optimizer.zero_grad()
            likelihood, found = consistent_likelihood(model, batch, label_smoothing=0.0)
            ((likelihood.loss + weight * found.loss) / TOKENS).backward()
            optimizer.step()
        losses[weight] = found.loss.item() / TOKENS
    assert losses[1.0] < 0.1 * losses[0.0]
    assert likelihood.nll.item() / TOKENS < 0.1


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
def test_it_can_be_captured_as_a_cuda_graph(kind):
    model = make(torch.float32).cuda()
    batch = tensors(PAIRS).to(torch.device("cuda"))
    places = torch.arange(batch.target_BT.numel(), device="cuda")  # a fixed shape
    batch = dataclasses.replace(batch, places_N=places)

    def step():
        model.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            likelihood, found = consistent_likelihood(model, batch, divergence=kind)
        (likelihood.loss + found.loss).backward()
        return found.loss

    expected = [step().detach() for _ in range(3)][-1].clone()
    wanted = {name: grad.clone() for name, grad in gradients(model).items()}
    model.zero_grad()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    graph.replay()
    torch.testing.assert_close(loss.detach(), expected)
    torch.testing.assert_close(gradients(model), wanted)
