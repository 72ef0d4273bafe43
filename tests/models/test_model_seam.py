"""What the rest may rely on in any model: one that keeps h and c, one with caches, both at once."""

import pytest
import torch
from torch import Tensor

from accord.config.model_settings import ModelSettings
from accord.models.base import Seq2Seq, tensors_of
from accord.models.build import MODELS, build_model
from accord.models.ensemble import EnsembleModel
from accord.models.generator import Generator
from accord.models.gnmt import GNMT
from accord.models.language_model import LanguageModel
from accord.models.transformer import Transformer
from cached_model import cached

V, D = 14, 8
SOURCE = torch.tensor([[2, 7, 9, 5, 1], [3, 6, 1, 0, 0], [2, 1, 0, 0, 0]])
LENGTHS = torch.tensor([5, 3, 2])
TARGET = torch.tensor([[7, 8, 9, 5, 1], [6, 4, 1, 0, 0], [9, 9, 9, 9, 1]])


def make(name: str, tag: str = "source") -> Seq2Seq:
    torch.manual_seed(1)
    if name == "gnmt":
        return GNMT(V, D, tag=tag).double().eval()
    if name == "transformer":
        return Transformer(V, D, 2, 2, heads=2, feed_forward=12, tag=tag).double().eval()
    if name == "ensemble":
        return EnsembleModel([make("gnmt", tag), make("transformer", tag)])
    if name == "language-model":
        return LanguageModel(V, 2, D).double().eval()
    if name.startswith("generator"):
        return generator(make(name.partition(" of ")[2], tag))
    assert name in ("cached", "copied"), f"say how a {name} is made"
    return cached(1, V, D, copying=name == "copied")


class Told(Generator):
    """A generator that takes the language of a row from its subwords."""

    def encode(self, source_BS: Tensor, lengths_B: Tensor, language_B: Tensor | None = None):
        return super().encode(source_BS, lengths_B, source_BS[:, 1:].sum(dim=1) % 2)


def generator(shape: Seq2Seq) -> Generator:
    """Rows of several languages then have several weights."""
    found = Told(shape, languages=2, size=3).double().eval()
    with torch.no_grad():
        for parameter in (*found.from_source.parameters(), *found.from_target.parameters()):
            parameter.normal_()
    return found


# Beside them all that translate, with the tag in other places.
_KINDS = [kind for kind in MODELS if ModelSettings(kind=kind).translates]
_MADE = [("cached", "source"), ("copied", "source"), ("language-model", "source")]
_MADE += [("ensemble", "source"), ("ensemble", "both")]
_MADE += [(f"generator of {kind}", "source") for kind in _KINDS]
_MADE += [("generator of gnmt", "target")]
_MADE += [(kind, tag) for kind in _KINDS for tag in ("source", "target", "both")]
every_model = pytest.mark.parametrize(
    ("name", "tag"), _MADE, ids=[f"{name}-{tag}" for name, tag in _MADE]
)
every_kind = pytest.mark.parametrize("name", _KINDS)


def stepwise(model: Seq2Seq, memory, inputs_BTD: Tensor) -> tuple[Tensor, object]:
    state = model.initial_state(memory, steps=inputs_BTD.shape[1])
    hiddens = []
    for step, input_BD in enumerate(inputs_BTD.unbind(1)):
        assert state.position.item() == step
        hidden, state = model.step(memory, state, input_BD)
        hiddens.append(hidden)
    return torch.stack(hiddens, dim=1), state


@every_model
@pytest.mark.parametrize("gradients", [False, True])
def test_steps_are_the_teacher_forced_pass(name, tag, gradients):
    model = make(name, tag)
    found = []
    for run in (lambda *args: stepwise(model, *args)[0], model.decode):
        model.zero_grad()
        with torch.set_grad_enabled(gradients):
            memory = model.encode(SOURCE, LENGTHS)
            hidden = run(memory, model.shifted_embeddings(TARGET))
        if gradients:
            hidden.square().sum().backward()
        found.append([hidden.detach(), *(p.grad for p in model.parameters())])
    for one, other in zip(*found, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)


@every_model
def test_padding_changes_nothing(name, tag):
    model = make(name, tag)
    with torch.no_grad():
        whole = model.decode(model.encode(SOURCE, LENGTHS), model.shifted_embeddings(TARGET))
        memory = model.encode(SOURCE[1:2, :3], LENGTHS[1:2])
        alone = model.decode(memory, model.shifted_embeddings(TARGET[1:2]))
    torch.testing.assert_close(alone, whole[1:2])


@every_model
@torch.no_grad()
def test_a_memory_serves_all_hypotheses_of_its_sentence(name, tag):
    model, beam = make(name, tag), 3
    memory = model.encode(SOURCE, LENGTHS)
    tokens_TR = torch.randint(4, V, (4, 9))
    state, alone = model.initial_state(memory, beam=beam, steps=4), [None] * 9
    assert state.rows == 9
    for tokens_R in tokens_TR:
        hidden_RD, state = model.step(memory, state, model.embed_target(tokens_R))
        for row, token in enumerate(tokens_R):
            own = memory.select(torch.tensor([row // beam]))
            before = alone[row] or model.initial_state(own, steps=4)
            hidden, alone[row] = model.step(own, before, model.embed_target(token[None]))
            torch.testing.assert_close(hidden[0], hidden_RD[row])
            torch.testing.assert_close(alone[row].attention_BS[0], state.attention_BS[row])


@every_model
@pytest.mark.parametrize("way", ["select", "reorder"])
@torch.no_grad()
def test_hypotheses_change_their_places(name, tag, way):
    """Three steps, of which each goes on from other hypotheses than the one before."""
    model, beam = make(name, tag), 2
    memory = model.encode(SOURCE, LENGTHS)
    state, texts = model.initial_state(memory, beam=beam, steps=4), [[0]] * 6
    for chosen in ([1, 1, 2, 3, 5, 4], [0, 1, 3, 2, 4, 4], [1, 0, 2, 2, 5, 4], [0, 1, 2, 3, 4, 5]):
        read = torch.tensor([text[-1] for text in texts])
        hidden_RD, state = model.step(memory, state, model.embed_target(read))
        for row, text in enumerate(texts):
            own = memory.select(torch.tensor([row // beam]))
            whole = model.decode(own, model.embed_target(torch.tensor([text])))
            torch.testing.assert_close(whole[0, -1], hidden_RD[row])
        state = getattr(state, way)(torch.tensor(chosen))
        texts = [[*texts[row], 4 + place] for place, row in enumerate(chosen)]
        assert state.rows == 6
        assert state.position.item() == len(texts[0]) - 1


@every_model
@torch.no_grad()
def test_selected_sentences_go_on_by_themselves(name, tag):
    model, beam = make(name, tag), 2
    memory = model.encode(SOURCE, LENGTHS)
    state = model.initial_state(memory, beam=beam, steps=3)
    token_RD = model.embed_target(torch.arange(4, 10))
    _, state = model.step(memory, state, token_RD)
    state = state.reorder(torch.tensor([1, 0, 3, 3, 4, 5]))
    rows = torch.tensor([4, 5, 0, 1])
    kept, fewer = memory.select(torch.tensor([2, 0])), state.select(rows)
    mine = {tensor.untyped_storage().data_ptr() for tensor in tensors_of(fewer)}
    theirs = {tensor.untyped_storage().data_ptr() for tensor in tensors_of(state)}
    assert mine & theirs <= {state.position.untyped_storage().data_ptr()}
    some, _ = model.step(kept, fewer, token_RD[rows])
    all_RD, _ = model.step(memory, state, token_RD)
    torch.testing.assert_close(some, all_RD[rows])


@every_model
def test_memories_join_and_are_compared(name, tag):
    model = make(name, tag)
    memory = model.encode(SOURCE, LENGTHS)
    halves = memory.map(lambda x: x[:1]), memory.map(lambda x: x[1:])
    assert all(map(torch.equal, tensors_of(memory), tensors_of(halves[0].join(halves[1]))))
    assert memory.encoding.shape[:2] == SOURCE.shape


# --- Who reads the tag: in all cases it stands at the head of the rows.


@every_kind
@pytest.mark.parametrize("tag", ["target", "both"])
def test_the_decoder_reads_the_tag_first(name, tag):
    """As a model whose tag is the encoder's would, if it were given that as its first input."""
    model, plain = make(name, tag), make(name)
    skipped = 1 if tag == "target" else 0
    inputs_BTD = plain.shifted_embeddings(TARGET)
    inputs_BTD[:, 0] = plain.embed_target(SOURCE[:, 0])
    memory = plain.encode(SOURCE[:, skipped:], LENGTHS - skipped)
    found = model.decode(model.encode(SOURCE, LENGTHS), model.shifted_embeddings(TARGET))
    torch.testing.assert_close(found, plain.decode(memory, inputs_BTD))


@every_kind
@pytest.mark.parametrize(("tag", "same"), [("source", False), ("target", True), ("both", False)])
def test_encodings_depend_on_the_tag_only_where_the_encoder_reads_it(name, tag, same):
    model, other = make(name, tag), SOURCE.clone()
    other[:, 0] = 5 - other[:, 0]
    one, two = (model.encode(source, LENGTHS).encoding for source in (SOURCE, other))
    assert torch.equal(one, two) == same
    one, two = (
        model.decode(model.encode(source, LENGTHS), model.shifted_embeddings(TARGET))
        for source in (SOURCE, other)
    )
    assert not torch.isclose(one[:, 0], two[:, 0]).all(dim=1).any()


@every_kind
@torch.no_grad()
def test_weights_of_attention_are_over_the_rows_as_they_were_given(name):
    model, plain = make(name, "target"), make(name)
    found, memories = [], (model.encode(SOURCE, LENGTHS), plain.encode(SOURCE[:, 1:], LENGTHS - 1))
    for network, memory in zip((model, plain), memories, strict=True):
        inputs_BTD = network.shifted_embeddings(TARGET)
        inputs_BTD[:, 0] = network.embed_target(SOURCE[:, 0])
        found.append(stepwise(network, memory, inputs_BTD)[1].attention_BS)
    assert (found[0][:, 0] == 0).all()
    torch.testing.assert_close(found[0][:, 1:], found[1])


@every_kind
def test_rows_that_fill_up_a_shape_do_no_harm(name):
    """They have an end of sentence where others have their tag, and nothing else."""
    model = make(name, "target").train()
    filled = torch.cat([SOURCE, torch.tensor([[1, 0, 0, 0, 0]])])
    memory = model.encode(filled, torch.tensor([5, 3, 2, 1]))
    target = torch.cat([TARGET, torch.zeros(1, 5, dtype=torch.int64)])
    hidden = model.decode(memory, model.shifted_embeddings(target))
    hidden[:3].sum().backward()
    assert hidden.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_every_kind_of_the_schema_can_be_built():
    from typing import get_args

    from accord.config.model_checks import bad_model

    kinds = get_args(ModelSettings.model_fields["kind"].annotation)
    assert set(kinds) == {*MODELS, "phrase-based"}  # which is no network
    for kind in MODELS:
        settings = ModelSettings(kind=kind, units=16)
        assert not list(bad_model(settings))
        assert build_model(settings, 40, seed=1).output_weight.shape == (40, 16)
