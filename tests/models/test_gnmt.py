import itertools
import math

import pytest
import torch
from torch import Tensor

from accord.errors import AccordError
from accord.models.base import Memory, shift_right
from accord.models.gnmt import GNMT
from accord.models.lstm import LSTM

V, D = 23, 8
KINDS = list(itertools.product(["paper", "gnmt3"], [True, False]))
every_kind = pytest.mark.parametrize(("preset", "feeding"), KINDS)

SOURCE = torch.tensor([[5, 7, 9, 1, 0, 0], [3, 11, 12, 13, 22, 1], [4, 1, 0, 0, 0, 0]])
LENGTHS = torch.tensor([4, 6, 2])
TARGET = torch.tensor([[10, 14, 1, 0, 0], [15, 16, 17, 18, 1], [19, 1, 0, 0, 0]])


def make(preset: str = "paper", feeding: bool = True, **settings: float) -> GNMT:
    torch.manual_seed(1)
    model = GNMT(V, D, preset, input_feeding=feeding, **settings).double()
    for name, parameter in model.named_parameters():
        if "bias_ih" in name:  # a zero bias would hide mistakes
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def cell(lstm: LSTM, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The LSTM equations, letter by letter, with +1 on the forget gate."""
    h, c = state
    gates = lstm.weight_ih_l0 @ x + lstm.weight_hh_l0 @ h + lstm.bias_ih_l0
    i, f, g, o = gates.split(D)
    c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def read(lstm: LSTM, xs: list[Tensor]) -> tuple[list[Tensor], tuple[Tensor, Tensor]]:
    state = (xs[0].new_zeros(D), xs[0].new_zeros(D))
    outputs = []
    for x in xs:
        state = cell(lstm, x, state)
        outputs.append(state[0])
    return outputs, state


def read_stack(layers: list[LSTM], xs: list[Tensor]) -> tuple[list[Tensor], list]:
    states = []
    for number, lstm in enumerate(layers):
        outputs, state = read(lstm, xs)
        xs = [a + b for a, b in zip(outputs, xs, strict=True)] if number else outputs
        states.append(state)
    return xs, states


def reference_encoder(model: GNMT, preset: str, row: list[int]) -> tuple[Tensor, list]:
    xs = [math.sqrt(D) * model.source_embedding.weight[i] for i in row]
    encoder = model.encoder
    if preset == "paper":
        left, fw = read_stack(encoder.forwards, xs)
        right, bw = read_stack(encoder.backwards, xs[::-1])
        joined = [torch.cat(pair) for pair in zip(left, right[::-1], strict=True)]
        return torch.stack(joined), [fw[0], bw[0], fw[1], bw[1]]
    left, _ = read(encoder.forwards, xs)
    right, bw_state = read(encoder.backwards, xs[::-1])
    joined = [torch.cat(pair) for pair in zip(left, right[::-1], strict=True)]
    top, states = read_stack(encoder.uppers, joined)
    return torch.stack(top), [bw_state, *states]


def reference(model: GNMT, preset: str, source: list[int], inputs: list[Tensor]) -> tuple:
    """Hidden vectors, attention weights and states of one sentence, no batch, no padding."""
    memory, states = reference_encoder(model, preset, source)
    attention = model.decoder.attention
    keys = memory @ attention.key_weight.T
    fed, hiddens, weights = torch.zeros(D, dtype=torch.float64), [], []
    for y in inputs:
        u = torch.cat([y, fed]) if model.decoder.input_feeding else y
        states[0] = cell(model.decoder.bottom, u, states[0])
        h = states[0][0]
        w = torch.softmax(keys @ h, 0)
        fed = attention.output_weight @ torch.cat([h, w @ memory])
        for number, lstm in enumerate(model.decoder.uppers, start=1):
            states[number] = cell(lstm, torch.cat([h, fed]), states[number])
            h = states[number][0] + h
        hiddens.append(h)
        weights.append(w)
    return torch.stack(hiddens), torch.stack(weights), states


def forced(model: GNMT, source: Tensor = SOURCE, target: Tensor = TARGET) -> Tensor:
    return model.decode(model.encode(source, LENGTHS), model.shifted_embeddings(target))


def stepwise(model: GNMT, memory: Memory, inputs_BTD: Tensor) -> tuple[Tensor, Tensor, object]:
    state, hiddens, weights = model.initial_state(memory), [], []
    for input_BD in inputs_BTD.unbind(1):
        hidden, state = model.step(memory, state, input_BD)
        hiddens.append(hidden)
        weights.append(state.attention_BS)
    return torch.stack(hiddens, 1), torch.stack(weights, 1), state


@every_kind
def test_whole_sequences_and_steps_equal_a_literal_loop(preset: str, feeding: bool) -> None:
    model = make(preset, feeding).eval()
    memory = model.encode(SOURCE, LENGTHS)
    inputs = model.shifted_embeddings(TARGET)
    whole = model.decode(memory, inputs)
    stepped, weights, state = stepwise(model, memory, inputs)
    for row in range(3):
        ids = SOURCE[row, : LENGTHS[row]].tolist()
        hidden, attention, states = reference(model, preset, ids, list(inputs[row]))
        torch.testing.assert_close(whole[row], hidden)
        torch.testing.assert_close(stepped[row], hidden)
        torch.testing.assert_close(weights[row, :, : len(ids)], attention)
        assert not weights[row, :, len(ids) :].any()
        for got, wanted in zip(state.layers, states, strict=True):  # h without the residual
            torch.testing.assert_close((got[0][row], got[1][row]), wanted)


@every_kind
def test_initial_states_come_from_the_true_ends_in_the_stated_order(
    preset: str, feeding: bool
) -> None:
    model = make(preset, feeding).eval()
    layers = model.encode(SOURCE, LENGTHS).layers
    for row in range(3):
        _, states = reference_encoder(model, preset, SOURCE[row, : LENGTHS[row]].tolist())
        assert len(layers) == len(states)
        for got, wanted in zip(layers, states, strict=True):
            torch.testing.assert_close((got[0][row], got[1][row]), wanted)


def gradients(model: GNMT, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@every_kind
def test_the_hand_written_backward_pass_equals_autograd_through_the_steps(
    preset: str, feeding: bool
) -> None:
    model = make(preset, feeding).eval()
    mix = torch.randn(3, 5, D, dtype=torch.float64)
    inputs = torch.randn(3, 5, D, dtype=torch.float64, requires_grad=True)
    grads = []
    for run in (model.decode, lambda m, x: stepwise(model, m, x)[0]):
        inputs.grad = None
        grad = gradients(model, (run(model.encode(SOURCE, LENGTHS), inputs) * mix).sum())
        grads.append({**grad, "inputs": inputs.grad})
    torch.testing.assert_close(grads[0], grads[1])
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert set(grads[0]) == trained - {"target_embedding.weight"} | {"inputs"}
    assert all(grad.any() for grad in grads[0].values())


def test_dropout_in_the_loop_has_the_gradient_of_its_mask() -> None:
    model = make(dropout=0.5)
    inputs = torch.randn(3, 4, D, dtype=torch.float64, requires_grad=True)

    def run(inputs_BTD: Tensor) -> Tensor:
        torch.manual_seed(3)
        return model.decode(model.encode(SOURCE, LENGTHS), inputs_BTD)

    torch.autograd.gradcheck(run, (inputs,))


@every_kind
def test_extra_padding_changes_neither_outputs_nor_gradients(preset: str, feeding: bool) -> None:
    model = make(preset, feeding).eval()
    wide_source = torch.nn.functional.pad(SOURCE, (0, 3))
    wide_target = torch.nn.functional.pad(TARGET, (0, 2))
    real = (TARGET != 0).unsqueeze(-1)
    plain = forced(model) * real
    padded = forced(model, wide_source, wide_target)[:, :5] * real
    torch.testing.assert_close(plain, padded)
    torch.testing.assert_close(
        gradients(model, plain.square().sum()), gradients(model, padded.square().sum())
    )


@every_kind
def test_rows_do_not_depend_on_their_order_or_company(preset: str, feeding: bool) -> None:
    model = make(preset, feeding).eval()
    whole = forced(model)
    order = torch.tensor([2, 0, 1])
    memory = model.encode(SOURCE[order], LENGTHS[order])
    mixed = model.decode(memory, model.shifted_embeddings(TARGET[order]))
    torch.testing.assert_close(mixed, whole[order])
    alone = model.decode(
        model.encode(SOURCE[2:, :2], LENGTHS[2:]), model.shifted_embeddings(TARGET[2:])
    )
    torch.testing.assert_close(alone, whole[2:])


def test_memory_and_state_follow_their_rows() -> None:
    model = make().eval()
    memory = model.encode(SOURCE, LENGTHS)
    start = torch.zeros(3, D, dtype=torch.float64)
    _, state = model.step(memory, model.initial_state(memory), start)
    token = model.embed_target(torch.tensor([6, 6, 6]))
    whole, whole_state = model.step(memory, state, token)
    rows = torch.tensor([1, 1, 0])
    picked, picked_state = model.step(memory.select(rows), state.select(rows), token)
    torch.testing.assert_close(picked, whole[rows])
    torch.testing.assert_close(picked_state.attention_BS, whole_state.attention_BS[rows])
    twice = torch.tensor([0, 0, 1, 1, 2, 2])
    repeated, _ = model.step(memory.select(twice), state.select(twice), token[twice])
    torch.testing.assert_close(repeated, whole[twice])
    assert memory.select(twice).rows == 6
    shared, _ = model.step(memory, state.select(twice), token[twice])
    torch.testing.assert_close(shared, whole[twice])
    assert not memory.map(Tensor.detach).layers[0][0].requires_grad


@every_kind
def test_dropout_is_drawn_afresh_in_training_and_absent_otherwise(
    preset: str, feeding: bool
) -> None:
    model = make(preset, feeding, dropout=0.4)
    assert not torch.equal(forced(model), forced(model))
    memory = model.encode(SOURCE, LENGTHS)
    inputs = model.shifted_embeddings(TARGET)
    assert torch.equal(
        model.decode(memory, inputs, dropout=False), model.decode(memory, inputs, dropout=False)
    )
    state = model.initial_state(memory)
    same = [model.step(memory, state, inputs[:, 1], dropout=False)[0] for _ in range(2)]
    assert torch.equal(*same)
    assert not torch.equal(same[0], model.step(memory, state, inputs[:, 1])[0])
    model.eval()
    assert torch.equal(forced(model), forced(model))


def test_every_time_step_has_its_own_dropout_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []
    plain = torch.nn.functional.dropout

    def spy(tensor: Tensor, rate: float) -> Tensor:
        result = plain(torch.ones_like(tensor), rate)
        seen.append(result)
        return tensor * result

    monkeypatch.setattr("torch.nn.functional.dropout", spy)
    model = make(dropout=0.5)
    forced(model, target=torch.full((3, 12), 4))
    # Four encoder cells; the decoder's tokens, its fed attention and its three upper layers.
    assert len(seen) == 4 + 2 + 3
    for mask in seen[4:]:
        assert len({tuple(step.flatten().tolist()) for step in mask}) == 12
    assert set(torch.cat([mask.flatten() for mask in seen]).tolist()) == {0.0, 2.0}


def test_padding_is_the_zero_vector_and_a_one_hot_mixture_is_its_token() -> None:
    model = make()
    vectors = model.embed_target(torch.tensor([0, 9]))
    assert not vectors[0].any()
    torch.testing.assert_close(vectors[1], math.sqrt(D) * model.output_weight[9])
    ids = torch.arange(V)
    torch.testing.assert_close(
        model.embed_mixture(torch.eye(V, dtype=torch.float64)), model.embed_target(ids)
    )
    vectors[0].sum().backward()
    assert not model.output_weight.grad.any()


def test_the_first_input_is_zero_and_the_last_token_is_not_read() -> None:
    model = make()
    inputs = model.shifted_embeddings(TARGET)
    assert not inputs[:, 0].any()
    torch.testing.assert_close(inputs[:, 1:], model.embed_target(TARGET[:, :-1]))
    torch.testing.assert_close(shift_right(model.embed_target(TARGET)), inputs)
    torch.testing.assert_close(model.logits(inputs), inputs @ model.output_weight.T)


@pytest.mark.parametrize(
    ("preset", "encoder", "decoder", "total"),
    [("paper", 8_396_800, 13_901_824, 55_853_056), ("gnmt3", 9_445_376, 10_229_760, 53_229_568)],
)
def test_parameter_counts(preset: str, encoder: int, decoder: int, total: int) -> None:
    def count(module: torch.nn.Module) -> int:
        return sum(p.numel() for p in module.parameters() if p.requires_grad)

    with torch.device("meta"):
        model = GNMT(32768, preset=preset)
    assert count(model.encoder) == encoder
    assert count(model.decoder) == decoder
    assert count(model.source_embedding) + count(model.target_embedding) == 33_554_432
    assert count(model) == total


def test_initial_values_have_the_stated_bounds() -> None:
    torch.manual_seed(0)
    model = GNMT(1000, 512)
    attention = model.decoder.attention
    for tensor, bound in [
        (model.encoder.forwards[0].weight_ih_l0, 0.04419),
        (model.encoder.backwards[1].weight_hh_l0, 0.04419),
        (model.decoder.bottom.weight_ih_l0, 0.04092),
        (model.decoder.uppers[2].weight_hh_l0, 0.04092),
        (attention.key_weight, 0.0625),
        (attention.output_weight, 0.05413),
    ]:
        assert tensor.abs().max().item() == pytest.approx(bound, rel=1e-3)
    for table in (model.source_embedding.weight, model.target_embedding.weight):
        assert table.std().item() == pytest.approx(512**-0.5, rel=0.01)
    assert model.source_embedding.weight is not model.target_embedding.weight


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"decoder_layers": 3}, "3 decoder layers cannot start from 4 encoder states"),
        ({"preset": "gnmt3", "encoder_layers": 4, "decoder_layers": 3}, "from 4 encoder states"),
        ({"preset": "gnmt3", "encoder_layers": 1}, "gnmt3 has 1 layer"),
    ],
)
def test_layers_that_do_not_fit_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(AccordError, match=message):
        GNMT(V, D, **settings)


def test_other_depths_work() -> None:
    model = GNMT(V, D, encoder_layers=3).eval()
    assert len(model.decoder.uppers) == 5
    assert forced(model).shape == (3, 5, D)
    assert forced(GNMT(V, D, "gnmt3", encoder_layers=2)).shape == (3, 5, D)


@pytest.mark.gpu
@every_kind
def test_cuda_equals_cpu(preset: str, feeding: bool) -> None:
    model = make(preset, feeding).eval()
    results = []
    for device in ("cpu", "cuda"):
        model.to(device)
        hidden = forced(model, SOURCE.to(device), TARGET.to(device))
        grads = gradients(model, hidden.square().sum())
        results.append((hidden.cpu(), {name: grad.cpu() for name, grad in grads.items()}))
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.gpu
@every_kind
def test_bfloat16_autocast_stays_near_fp32(preset: str, feeding: bool) -> None:
    torch.manual_seed(0)
    model = GNMT(V, 128, preset, input_feeding=feeding, dropout=0.0).cuda()
    source, target = SOURCE.cuda(), TARGET.cuda()
    exact = forced(model, source, target)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        memory = model.encode(source, LENGTHS)
        rough = forced(model, source, target)
        stepped, _, _ = stepwise(model, memory, model.shifted_embeddings(target))
    assert rough.dtype == stepped.dtype == torch.bfloat16  # not the float16 of the library
    rough.float().square().sum().backward()
    torch.testing.assert_close(rough.float(), exact, rtol=0.05, atol=0.03)
    torch.testing.assert_close(stepped.float(), exact, rtol=0.05, atol=0.03)
    assert all(p.grad.isfinite().all() for p in model.encoder.parameters() if p.requires_grad)
