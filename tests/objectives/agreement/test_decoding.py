from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from accord.data.vocabulary import EOS, PAD
from accord.models.base import Memory, Seq2Seq, shift_right
from accord.models.gnmt import GNMT
from accord.models.transformer import Transformer
from accord.objectives.agreement.decoding import Decoding, Mixture, Translations, generate
from accord.objectives.distillation.filters import distinct_bigrams

V, D, STEPS = 23, 8, 9
SOURCES = [[2, 5, 7, 9, 1], [3, 11, 12, 1], [4, 20, 1], [2, 21, 6, 8, 13, 1], [3, 22, 1]]


def make(
    dropout: float = 0.0,
    sharp: float = 3.0,
    end: float = 1.0,
    kind: str = "gnmt",
    **settings: Any,
) -> Seq2Seq:
    """A random model; `sharp` makes its choices clear and `end` sentences short."""
    torch.manual_seed(6)
    model: Seq2Seq
    if kind == "gnmt":
        model = GNMT(V, D, dropout=dropout, **settings).double()
    else:
        model = Transformer(V, D, 2, 2, heads=2, feed_forward=12, dropout=dropout, **settings)
        model = model.double()
    with torch.no_grad():
        model.target_embedding.weight.mul_(sharp)
        model.target_embedding.weight[EOS] *= end
    return model


def encode(model: Seq2Seq, rows: list[list[int]] = SOURCES, extra: int = 0) -> Memory:
    width = max(map(len, rows)) + extra
    padded = torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
    return model.encode(padded, torch.tensor([len(row) for row in rows]))


def limits(rows: int = len(SOURCES), most: int = STEPS) -> Tensor:
    return torch.full((rows,), most)


def literal(
    model: Seq2Seq, memory: Memory, steps: int, straight: bool = False, feedback: bool = True
) -> list[Tensor]:
    """Hidden vectors, vectors fed back and distributions, by plain autograd."""
    state = model.initial_state(memory, steps=steps)
    vector = torch.zeros(memory.rows, D, dtype=torch.float64)
    found = []
    for _ in range(steps):
        hidden, state = model.step(memory, state, vector if feedback else vector.detach())
        p = torch.softmax(model.logits(hidden), dim=1)
        vector = model.embed_mixture(p)
        if straight:
            vector = vector + (model.embed_target(p.argmax(dim=1)) - vector).detach()
        found.append((hidden, vector, p))
    return [torch.stack(column, dim=1) for column in zip(*found, strict=True)]


# Models that keep what they have said in a state of their own, and one that reads it again.
every_kind = pytest.mark.parametrize(
    "kind",
    [
        {"input_feeding": True},
        {"input_feeding": False},
        {"kind": "transformer"},
        {"kind": "transformer", "tag": "both"},
    ],
    ids=str,
)


@every_kind
@pytest.mark.parametrize("decoding", ["continuous", "straight-through"])
@pytest.mark.parametrize("feedback", [True, False])
def test_values_and_gradients_equal_plain_autograd(
    kind: dict[str, Any], decoding: Decoding, feedback: bool
) -> None:
    results = []
    for fast in (True, False):
        model = make(**kind)
        memory = encode(model)
        if fast:
            found = generate(
                model, memory, limits(), STEPS, decoding=decoding, feedback_gradient=feedback
            )
            hidden, vectors = found.hidden_BTD, found.vectors_BTD
        else:
            straight = decoding == "straight-through"
            hidden, vectors, _ = literal(model, memory, STEPS, straight, feedback)
        # Both uses of a translation: its distributions, and its vectors as another's inputs.
        steps = hidden.shape[1]
        (hidden.cos().sum() + vectors[:, : steps - 1].sin().sum()).backward()
        grads = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        results.append((hidden.detach(), vectors.detach(), grads))
    torch.testing.assert_close(results[0], results[1])


def test_no_step_after_the_end_when_all_rows_have_ended() -> None:
    model = make(end=4.0)
    short = [SOURCES[0], SOURCES[2]]
    found = generate(model, encode(model, short), limits(2), STEPS)
    assert found.ended().all()
    assert found.tokens_BT.shape[1] == found.lengths().max() < STEPS


def test_real_positions_reach_to_the_first_end_or_the_limit() -> None:
    model = make(end=4.0)
    most = torch.tensor([9, 9, 2, 9, 5])
    found = generate(model, encode(model), most, STEPS)
    lengths = []
    for tokens, limit in zip(found.tokens_BT.tolist(), most.tolist(), strict=True):
        first = tokens.index(EOS) + 1 if EOS in tokens else limit
        lengths.append(min(first, limit))
    assert found.lengths().tolist() == lengths
    assert len(set(lengths)) > 2, "the example must have rows of unequal length"
    steps = torch.arange(found.real_BT.shape[1])
    assert found.real_BT.equal(steps < torch.tensor(lengths).unsqueeze(1))
    ended = [EOS in row[:n] for row, n in zip(found.tokens_BT.tolist(), lengths, strict=True)]
    assert found.ended().tolist() == ended
    assert 0 < sum(ended) < len(ended)


@given(
    rows=st.lists(
        st.tuples(st.lists(st.integers(1, 3), min_size=7, max_size=7), st.integers(0, 7)),
        min_size=1,
        max_size=4,
    )
)
def test_neighbours_are_compared_as_the_filters_of_synthetic_pairs_do(
    rows: list[tuple[list[int], int]],
) -> None:
    tokens_BT = torch.tensor([tokens for tokens, _ in rows])
    real_BT = torch.arange(7) < torch.tensor([[length] for _, length in rows])
    made = Translations(tokens_BT, tokens_BT, tokens_BT, tokens_BT, real_BT)
    expected = [distinct_bigrams(tokens[:length]) for tokens, length in rows]
    assert made.distinct_bigrams().tolist() == pytest.approx(expected)


def test_tokens_are_the_likeliest_and_may_exceed_the_number_of_units() -> None:
    model = make()
    found = generate(model, encode(model), limits(), STEPS)
    _, vectors, p = literal(model, encode(model), found.tokens_BT.shape[1])
    assert p.shape[2] == V != D
    torch.testing.assert_close(p.sum(dim=2), torch.ones_like(found.entropy_BT))
    assert found.tokens_BT.equal(p.argmax(dim=2))
    assert (found.tokens_BT >= D).any()
    torch.testing.assert_close(found.vectors_BTD, vectors)
    torch.testing.assert_close(found.entropy_BT, torch.distributions.Categorical(p).entropy())


def test_the_first_step_is_that_of_ordinary_decoding() -> None:
    model = make()
    memory = encode(model)
    targets = torch.full((len(SOURCES), 3), 7)
    supervised = model.decode(memory, model.shifted_embeddings(targets))
    found = generate(model, memory, limits(), STEPS)
    torch.testing.assert_close(found.hidden_BTD[:, 0], supervised[:, 0])


def test_a_certain_distribution_gives_the_tokens_own_vector() -> None:
    model = make()
    tokens = torch.tensor([EOS, 7, 22])
    mixture = Mixture(model, temperature=1e-9)
    with torch.no_grad():
        vectors, chosen, entropy = mixture(model.output_weight[tokens] * 50)
    assert chosen.equal(tokens)
    torch.testing.assert_close(vectors, model.embed_target(tokens))
    torch.testing.assert_close(entropy, torch.zeros_like(entropy))


def test_padding_has_no_vector() -> None:
    model = make()
    with torch.no_grad():
        for straight in (False, True):
            hidden = model.output_weight[PAD].unsqueeze(0) * 1e6
            vectors, token, _ = Mixture(model, straight=straight)(hidden)
            assert token.item() == PAD
            assert not vectors.any()


@every_kind
def test_at_low_temperature_it_is_greedy_decoding(kind: dict[str, Any]) -> None:
    model = make(**kind)
    memory = encode(model)
    found = {
        decoding: generate(
            model,
            memory,
            limits(),
            STEPS,
            decoding=decoding,
            temperature=1e-7 if decoding == "continuous" else 1.0,
        )
        for decoding in ("continuous", "straight-through", "hard")
    }
    for other in ("straight-through", "hard"):
        soft, sharp = found["continuous"], found[other]
        assert soft.tokens_BT.equal(sharp.tokens_BT)
        assert soft.real_BT.equal(sharp.real_BT)
        torch.testing.assert_close(soft.hidden_BTD, sharp.hidden_BTD)
        torch.testing.assert_close(soft.vectors_BTD, sharp.vectors_BTD)
    # Greedy decoding is what a reader of its own output would say.
    tokens = found["hard"].tokens_BT
    again = model.logits(model.decode(memory, model.shifted_embeddings(tokens)))
    assert again.argmax(dim=2).equal(tokens)


@every_kind
@pytest.mark.parametrize("gradients", [True, False])
def test_who_reads_its_own_mixtures_says_them_again(kind: dict[str, Any], gradients: bool) -> None:
    model = make(sharp=1.0, **kind)
    with torch.set_grad_enabled(gradients):
        memory = encode(model, extra=2)
        found = generate(model, memory, limits(), STEPS)
        read = model.decode(memory, shift_right(found.vectors_BTD), dropout=False)
    torch.testing.assert_close(read, found.hidden_BTD)
    assert found.entropy_BT.min() > 0.1, "mixtures of one token would show nothing"


@every_kind
def test_reading_a_certain_translation_is_ordinary_teacher_forcing(kind: dict[str, Any]) -> None:
    model = make(**kind)
    memory = encode(model)
    found = generate(model, memory, limits(), STEPS, temperature=1e-9)
    reader = memory.select(torch.tensor([3, 2, 1, 0, 4]))
    read = model.decode(reader, shift_right(found.vectors_BTD), dropout=False)
    forced = model.decode(reader, model.shifted_embeddings(found.tokens_BT))
    torch.testing.assert_close(read, forced)


def test_hard_and_sampled_translations_have_no_gradient() -> None:
    model = make()
    for decoding in ("hard", "sampled"):
        found = generate(model, encode(model), limits(), STEPS, decoding=decoding)
        assert not found.hidden_BTD.requires_grad
        assert not found.vectors_BTD.requires_grad
        torch.testing.assert_close(found.vectors_BTD, model.embed_target(found.tokens_BT))


def test_samples_follow_the_softmax() -> None:
    model = make(sharp=1.5)
    rows = 4000
    memory = encode(model, [SOURCES[0]]).select(torch.zeros(rows, dtype=torch.int64))
    for temperature in (1.0, 0.5):
        found = generate(
            model, memory, limits(rows, 1), 1, decoding="sampled", temperature=temperature
        )
        logits = model.logits(found.hidden_BTD[0, 0]) / temperature
        logits[PAD] = float("-inf")
        p = torch.softmax(logits, dim=0)
        counts = torch.bincount(found.tokens_BT[:, 0], minlength=V)
        assert (counts / rows - p).abs().max() < 4 * (0.25 / rows) ** 0.5
        assert (counts > 0).sum() > 3


def test_padding_and_neighbours_change_no_translation() -> None:
    model = make(end=4.0)
    together = generate(model, encode(model, extra=3), limits(), STEPS)
    for row, source in enumerate(SOURCES):
        alone = generate(model, encode(model, [source]), limits(1), STEPS)
        length = int(alone.lengths())
        assert int(together.lengths()[row]) == length
        torch.testing.assert_close(
            together.vectors_BTD[row, :length], alone.vectors_BTD[0, :length]
        )


def test_dropout_can_be_left_out() -> None:
    model = make(dropout=0.5)
    with torch.no_grad():
        memory = encode(model)

        def run(dropout: bool) -> Translations:
            return generate(model, memory, limits(), STEPS, dropout=dropout)

        torch.testing.assert_close(run(False).hidden_BTD[:, 0], run(False).hidden_BTD[:, 0])
        assert not torch.allclose(run(True).hidden_BTD[:, 0], run(True).hidden_BTD[:, 0])


def test_nothing_as_wide_as_the_vocabulary_is_kept() -> None:
    model = make()
    wide: list[tuple[int, ...]] = []

    def pack(tensor: Tensor) -> Tensor:
        if tensor.dim() > 1 and tensor.shape[-1] == V and tensor.shape[0] != D:
            wide.append(tuple(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        generate(model, encode(model), limits(), STEPS)
        assert not wide
        literal(model, encode(model), STEPS)
        assert wide


def test_autocast_stays_near_full_precision() -> None:
    torch.manual_seed(6)
    model = GNMT(V, D, dropout=0.0)
    grads = []
    for enabled in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            found = generate(model, encode(model), limits(), 4)
            loss = (found.hidden_BTD.float() ** 2).sum()
        loss.backward()
        grads.append(model.target_embedding.weight.grad.clone())
    assert grads[1].dtype == torch.float32
    assert (grads[1] - grads[0]).norm() < 0.1 * grads[0].norm()
