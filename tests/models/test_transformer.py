"""The Transformer against an independent one, against itself, and its kernels against it."""

import math
import os

import pytest
import torch
from torch import Tensor, nn

from accord.data.vocabulary import PAD
from accord.models.transformer import Transformer, TransformerMemory, sinusoids
from accord.ops import transformer_layers

V, D, H, F = 23, 16, 2, 24
LENGTHS = torch.tensor([6, 3, 1])
SOURCE = torch.tensor([[4, 5, 6, 7, 8, 1], [9, 10, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0]])
TARGET = torch.tensor([[11, 12, 13, 14, 1], [15, 16, 17, 18, 1], [19, 1, 0, 0, 0]])
TARGET_LENGTHS = [5, 5, 2]

every_kind = pytest.mark.parametrize(
    "kind",
    [
        {},
        {"norm": "post"},
        {"tables": "separate"},
        {"encoder_residual": 2},
        {"norm": "post", "encoder_residual": 1},
        {"decoder_layers": 1, "encoder_layers": 1},
    ],
    ids=str,
)


def make(**settings: object) -> Transformer:
    torch.manual_seed(1)
    sizes = {"encoder_layers": 3, "decoder_layers": 2, "heads": H, "feed_forward": F}
    model = Transformer(V, D, **{**sizes, "dropout": 0.0, **settings}).double()  # type: ignore[arg-type]
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:  # biases of 0 and weights of 1 would hide mistakes
            nn.init.normal_(parameter, mean=float("norm.weight" in name), std=0.3)
    return model


def forced(model: Transformer, source: Tensor = SOURCE, target: Tensor = TARGET) -> Tensor:
    return model.decode(model.encode(source, LENGTHS), model.shifted_embeddings(target))


def stepwise(
    model: Transformer, memory: TransformerMemory, inputs_BTD: Tensor
) -> tuple[Tensor, Tensor]:
    state = model.initial_state(memory, steps=inputs_BTD.shape[1])
    hiddens, weights = [], []
    for input_BD in inputs_BTD.unbind(1):
        hidden, state = model.step(memory, state, input_BD)
        hiddens.append(hidden)
        weights.append(state.attention_BS)
    assert state.position == inputs_BTD.shape[1]
    return torch.stack(hiddens, 1), torch.stack(weights, 1)


# ----- an independent Transformer: PyTorch's own layers with the same weights


def attention_of(theirs: nn.MultiheadAttention, qkv: Tensor, output: Tensor) -> None:
    theirs.in_proj_weight.data.copy_(qkv)
    theirs.out_proj.weight.data.copy_(output)
    theirs.in_proj_bias.data.zero_()
    theirs.out_proj.bias.data.zero_()


def copy_common(theirs: nn.Module, mine: nn.Module) -> None:
    theirs.linear1.load_state_dict(mine.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(mine.feed_forward.outer.state_dict())
    theirs.norm1.load_state_dict(mine.attention_norm.state_dict())
    attention_of(theirs.self_attn, mine.attention.qkv.weight, mine.attention.output.weight)


def reference(model: Transformer, source: list[int], target: list[int]) -> Tensor:
    """Hidden vectors of one sentence, without a batch."""
    first = model.encoder.norm is not None
    settings = {"dropout": 0.0, "batch_first": True, "norm_first": first, "dtype": torch.float64}

    def read(ids: list[int], table: Tensor) -> Tensor:
        rows = [torch.zeros(D).double() if i == PAD else table[i] * math.sqrt(D) for i in ids]
        half = D // 2
        for position, row in enumerate(rows):
            angles = [position * 10_000 ** (-i / (half - 1)) for i in range(half)]
            waves = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
            rows[position] = row + torch.tensor(waves, dtype=torch.float64)
        return torch.stack(rows)[None]

    table = model.source_embedding or model.target_embedding
    x = read(source, table.weight)
    for number, layer in enumerate(model.encoder.layers, start=1):
        theirs = nn.TransformerEncoderLayer(D, H, F, **settings)
        copy_common(theirs, layer)
        theirs.norm2.load_state_dict(layer.feed_forward_norm.state_dict())
        if number == model.encoder_residual:
            x = without_residual(theirs, x, first)
        else:
            x = theirs.train()(x)
    memory = model.encoder.norm(x) if first else x
    y = read([PAD, *target[:-1]], model.target_embedding.weight)
    mask = nn.Transformer.generate_square_subsequent_mask(len(target), dtype=torch.float64)
    pairs = model.keys_and_values.weight.view(len(model.decoder.layers), 2 * D, D)
    for layer, pair in zip(model.decoder.layers, pairs, strict=True):
        theirs = nn.TransformerDecoderLayer(D, H, F, **settings)
        copy_common(theirs, layer)
        theirs.norm2.load_state_dict(layer.cross_attention_norm.state_dict())
        theirs.norm3.load_state_dict(layer.feed_forward_norm.state_dict())
        query = torch.cat([layer.cross_attention.query.weight, pair])
        attention_of(theirs.multihead_attn, query, layer.cross_attention.output.weight)
        y = theirs.train()(y, memory, tgt_mask=mask)
    return (model.decoder.norm(y) if first else y)[0]


def without_residual(theirs: nn.TransformerEncoderLayer, x: Tensor, first: bool) -> Tensor:
    if first:
        normed = theirs.norm1(x)
        x = theirs.self_attn(normed, normed, normed)[0]
        return x + theirs.linear2(theirs.linear1(theirs.norm2(x)).relu())
    x = theirs.norm1(theirs.self_attn(x, x, x)[0])
    return theirs.norm2(x + theirs.linear2(theirs.linear1(x).relu()))


@every_kind
def test_hidden_vectors_equal_those_of_pytorchs_own_layers(kind: dict[str, object]) -> None:
    model = make(**kind)
    whole = forced(model)
    for row in range(3):
        ids = SOURCE[row, : LENGTHS[row]].tolist()
        tokens = TARGET[row, : TARGET_LENGTHS[row]].tolist()
        torch.testing.assert_close(whole[row, : len(tokens)], reference(model, ids, tokens))


# ----- whole sequences and steps


@every_kind
@pytest.mark.parametrize("learning", [False, True])
def test_steps_equal_whole_sequences(kind: dict[str, object], learning: bool) -> None:
    model = make(**kind)
    with torch.set_grad_enabled(learning):
        memory = model.encode(SOURCE, LENGTHS)
        inputs = model.shifted_embeddings(TARGET)
        stepped, weights = stepwise(model, memory, inputs)
        torch.testing.assert_close(stepped, model.decode(memory, inputs))
    torch.testing.assert_close(weights.sum(2), torch.ones(3, 5))
    for row, length in enumerate(LENGTHS):
        assert not weights[row, :, length:].any()


def test_every_parameter_learns() -> None:
    for tables in ("shared", "separate"):
        model = make(tables=tables)
        model.logits(forced(model)).logsumexp(-1).sum().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name


def test_what_comes_later_is_not_seen() -> None:
    model = make()
    other = TARGET.clone()
    other[:, 3:] = 7
    assert torch.equal(forced(model)[:, :4], forced(model, target=other)[:, :4])


def test_mixtures_are_read_as_their_mean_vector() -> None:
    model = make()
    memory = model.encode(SOURCE, LENGTHS)
    one_hot = torch.nn.functional.one_hot(TARGET, V).double()
    embedded = model.embed_mixture(one_hot)
    torch.testing.assert_close(embedded, model.embed_target(TARGET))
    halves = model.embed_mixture((one_hot + one_hot.roll(1, dims=0)) / 2)
    first, state = model.step(memory, model.initial_state(memory, steps=3), halves[:, 0] * 0)
    second, _ = model.step(memory, state, halves[:, 0])
    inputs = torch.stack([torch.zeros_like(halves[:, 0]), halves[:, 0]], dim=1)
    torch.testing.assert_close(torch.stack([first, second], 1), model.decode(memory, inputs))


def test_shared_tables_are_one() -> None:
    shared, separate = make(tables="shared"), make(tables="separate")
    assert shared.source_embedding is None
    assert not {"source_embedding.weight"} & shared.state_dict().keys()
    count = [sum(p.numel() for p in model.parameters()) for model in (shared, separate)]
    assert count[1] - count[0] == V * D


def test_dropout_can_be_left_out_of_the_decoder() -> None:
    model = make(dropout=0.5).train()
    memory = model.encode(SOURCE, LENGTHS)
    inputs = model.shifted_embeddings(TARGET)
    calm = [model.decode(memory, inputs, dropout=False) for _ in range(2)]
    assert torch.equal(*calm)
    assert not torch.equal(model.decode(memory, inputs), model.decode(memory, inputs))
    assert not torch.equal(memory.encoded_BSD, model.encode(SOURCE, LENGTHS).encoded_BSD)


def test_positions_are_computed_for_any_length() -> None:
    far = sinusoids(torch.tensor([0, 5000]), D, torch.float64)
    assert far.shape == (2, D)
    assert far[1].isfinite().all()
    assert far[0].tolist() == [0.0] * (D // 2) + [1.0] * (D // 2)


# ----- beams


@torch.no_grad()
def follow(model: Transformer, beam: int, choices: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Hidden vectors [R, T, D] of hypotheses that are re-ordered, and their histories [R, T]."""
    memory = model.encode(SOURCE, LENGTHS)
    state = model.initial_state(memory, beam=beam, steps=len(choices))
    caches = [cache.data_ptr() for cache in state.keys]
    rows = 3 * beam
    generator = torch.Generator().manual_seed(3)
    token = torch.full((rows,), PAD)
    histories = token.new_zeros(rows, 0)
    for parents in choices:
        histories = torch.cat([histories, token[:, None]], 1)
        hidden, state = model.step(memory, state, model.embed_target(token))
        chosen = (torch.arange(3)[:, None] * beam + torch.tensor(parents)).flatten()
        state, histories, hidden = state.reorder(chosen), histories[chosen], hidden[chosen]
        token = torch.randint(4, V, (rows,), generator=generator)
    assert [cache.data_ptr() for cache in state.keys] == caches  # nothing was copied
    return hidden, histories


CHOICES = [[0, 0, 0], [2, 1, 0], [1, 1, 2], [0, 2, 2], [2, 0, 1], [0, 0, 1]]


def test_reordering_by_an_index_equals_reading_every_hypothesis_alone() -> None:
    model = make()
    hidden, histories = follow(model, 3, CHOICES)
    memory = model.encode(SOURCE, LENGTHS)
    rows_R = torch.arange(3).repeat_interleave(3)
    alone = model.decode(memory.select(rows_R), model.embed_target(histories))
    torch.testing.assert_close(hidden, alone[:, -1])


# ----- kernels: on a GPU, or on a CPU by Triton's interpreter (TRITON_INTERPRET=1)

INTERPRETED = transformer_layers.norm_triton is not None and bool(
    os.environ.get("TRITON_INTERPRET")
)
DEVICE = torch.device("cpu" if INTERPRETED else "cuda")
WIDE, HEADS = 64, 4  # kernels want at least 16 units a head
on_gpu = pytest.mark.gpu if not INTERPRETED else pytest.mark.timeout(600)


def make_wide(fused: bool, **settings: object) -> Transformer:
    torch.manual_seed(1)
    sizes = {"encoder_layers": 2, "decoder_layers": 2, "heads": HEADS, "feed_forward": 96}
    model = Transformer(V, WIDE, **{**sizes, "dropout": 0.0, **settings}).to(DEVICE)  # type: ignore[arg-type]
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, mean=float("norm.weight" in name), std=0.3)
    model.fused = fused
    return model


def loss_and_gradients(model: Transformer, width: int = 0) -> list[Tensor]:
    more = max(0, width - SOURCE.shape[1])
    source, target = (nn.functional.pad(ids, (0, more)).to(DEVICE) for ids in (SOURCE, TARGET))
    mix = torch.linspace(-1, 1, V, device=DEVICE)
    model.zero_grad()
    memory = model.encode(source, LENGTHS.to(DEVICE))
    hidden = model.decode(memory, model.shifted_embeddings(target))[target != PAD]
    loss = (model.logits(hidden.float()).softmax(-1) @ mix).sum()
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


@on_gpu
@pytest.mark.parametrize("width", [0, 40, 120, 140], ids=["short", "padded", "long", "too long"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_kernels_compute_what_the_plain_way_does(norm: str, width: int) -> None:
    wanted = loss_and_gradients(make_wide(False, norm=norm, encoder_residual=2), width)
    found = loss_and_gradients(make_wide(True, norm=norm, encoder_residual=2), width)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_gradients_in_bf16_are_as_good_as_those_of_autocast(norm: str) -> None:
    """In a model of a usual depth: in a shallow one, residuals in bf16 are the largest error."""
    ids, lengths = torch.randint(4, 500, (64, 24)).cuda(), torch.randint(8, 25, (64,)).cuda()
    ids = ids.masked_fill(torch.arange(24, device="cuda") >= lengths[:, None], PAD)
    gradients = []
    for fused, low in ((False, False), (False, True), (True, True)):
        torch.manual_seed(1)
        model = Transformer(500, 256, heads=4, feed_forward=1024, dropout=0.0, norm=norm).cuda()  # type: ignore[arg-type]
        model.fused = fused
        with torch.autocast("cuda", torch.bfloat16, enabled=low):
            hidden = model.decode(model.encode(ids, lengths), model.shifted_embeddings(ids))
            scores = model.logits(hidden[ids != PAD]).float()
        nn.functional.cross_entropy(scores, ids[ids != PAD], reduction="sum").backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    exact, plain, kernels = gradients
    assert (kernels - exact).norm() < 1.3 * (plain - exact).norm()


@on_gpu
@pytest.mark.parametrize("beam", [1, 3])
@torch.no_grad()
def test_kernels_of_steps_compute_what_the_plain_way_does(beam: int) -> None:
    found = []
    for fused in (False, True):
        model = make_wide(fused)
        memory = model.encode(SOURCE.to(DEVICE), LENGTHS.to(DEVICE))
        state = model.initial_state(memory, beam=beam, steps=40)
        generator = torch.Generator().manual_seed(3)
        for step in range(36):
            input_RD = torch.randn(3 * beam, WIDE, generator=generator).to(DEVICE)
            hidden, state = model.step(memory, state, input_RD)
            found.append((hidden, state.attention_BS))
            parents = torch.tensor(CHOICES[step % len(CHOICES)][:beam]) % beam
            chosen = (torch.arange(3)[:, None] * beam + parents).flatten().to(DEVICE)
            state = state.reorder(chosen)
    for wanted, other in zip(found[:36], found[36:], strict=True):
        torch.testing.assert_close(other, wanted, rtol=1e-3, atol=1e-5)


@on_gpu
def test_dropped_elements_are_as_many_as_asked_for_and_the_same_backwards() -> None:
    norm_triton = transformer_layers.norm_triton
    norm = torch.nn.LayerNorm(WIDE).to(DEVICE)
    rows = 256
    x = torch.zeros(rows, WIDE, device=DEVICE, requires_grad=True)
    y = torch.ones(rows, WIDE, device=DEVICE, requires_grad=True)
    seeds = norm_triton.Seeds(DEVICE)
    settings = (norm.weight, norm.bias, norm.eps, 0.3)
    sums, _ = norm_triton.add_norm(x, y, None, *settings, seeds.next(), torch.float32)
    other, _ = norm_triton.add_norm(x, y, None, *settings, seeds.next(), torch.float32)
    kept = sums > 0
    assert sums[kept].unique().tolist() == pytest.approx([1 / 0.7])
    assert kept.float().mean().item() == pytest.approx(0.7, abs=0.02)
    assert ((sums > 0) == (other > 0)).float().mean().item() == pytest.approx(0.58, abs=0.02)
    both = (kept[:, 1:] & kept[:, :-1]).float().mean().item()
    assert both == pytest.approx(0.49, abs=0.02)
    sums.sum().backward()
    torch.testing.assert_close(y.grad, sums.detach())
    torch.testing.assert_close(x.grad, torch.ones_like(x))
