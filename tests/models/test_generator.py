"""Contextual parameter generation: what is generated from what, alone and in mixed batches."""

import copy
from dataclasses import replace

import pytest
import torch

from accord.config.model_settings import ModelSettings
from accord.errors import AccordError
from accord.inference.beam_search import BeamSearch
from accord.inference.cuda_steps import FixedShapes
from accord.inference.results import SearchSettings
from accord.models.build import build_model
from accord.models.generator import Generator
from accord.models.gnmt import GNMT
from accord.models.transformer import Transformer

V, D = 20, 8
# Languages 0, 1 and 2 have the tags 2, 3 and 4.
SOURCE = torch.tensor([[4, 7, 9, 5, 1], [4, 6, 1, 0, 0], [4, 8, 15, 1, 0], [4, 9, 1, 0, 0]])
LENGTHS = torch.tensor([5, 3, 4, 3])
TARGET = torch.tensor([[7, 8, 9, 5, 1], [6, 4, 1, 0, 0], [9, 9, 9, 9, 1], [12, 1, 0, 0, 0]])
ZEROS = torch.zeros(4, dtype=torch.int64)


def gnmt(seed: int = 1) -> GNMT:
    torch.manual_seed(seed)
    return GNMT(V, D, dropout=0.0)


def transformer() -> Transformer:
    torch.manual_seed(1)
    return Transformer(V, D, 2, 2, heads=2, feed_forward=12, dropout=0.0)


def loss(model, source=SOURCE, language=ZEROS):
    told = (language,) if isinstance(model, Generator) else ()
    memory = model.encode(source, LENGTHS, *told)
    hidden = model.decode(memory, model.shifted_embeddings(TARGET))
    return torch.nn.functional.cross_entropy(model.logits(hidden).flatten(0, 1), TARGET.flatten())


def various(model: Generator) -> Generator:
    """With parts that are not zero, so that languages differ."""
    with torch.no_grad():
        for made in (model.from_source, model.from_target):
            for parameter in made.parameters():
                parameter.normal_()
    return model


# --- What is generated.


def test_of_one_number_that_is_one_and_without_biases_it_is_the_shape():
    plain = gnmt()
    made = Generator(gnmt(), languages=3, size=1, bias=False)
    with torch.no_grad():
        made.language_LM.fill_(1.0)
        for side in (made.from_source, made.from_target):
            for key, parts in side.full.items():
                parts[0] = plain.get_parameter(key.replace(":", "."))
    assert torch.equal(loss(made), loss(plain))


@pytest.mark.parametrize("shape", [gnmt, transformer])
def test_with_biases_it_begins_as_the_shape(shape):
    made = Generator(shape(), languages=3)
    assert torch.equal(loss(made), loss(shape()))
    loss(made).backward()
    for side in (made.from_source, made.from_target):
        assert all(parts.grad.abs().max() > 0 for parts in side.full.values())


@pytest.mark.parametrize("bias", [True, False])
def test_a_language_s_own_numbers_learn_from_its_directions_only(bias):
    made = various(Generator(gnmt(), languages=3, size=3, bias=bias))
    with torch.no_grad():
        made.language_LM.copy_(torch.eye(3))
    loss(made).backward()  # from language 0 into language 2
    for side, language in ((made.from_source, 0), (made.from_target, 2)):
        for key, parts in side.full.items():
            for number in range(3):
                assert (parts.grad[number] != 0).any() == (number == language), (key, number)
    used = made.language_LM.grad.abs().sum(dim=1) > 0
    assert used.tolist() == [True, False, True]


def test_tables_and_constants_are_not_generated_and_attention_is_the_target_s():
    made = Generator(gnmt(), languages=3)
    source, target = set(made.from_source.full), set(made.from_target.full)
    assert all(key.startswith("encoder:") for key in source)
    assert all(key.startswith("decoder:") for key in target)
    assert "decoder:attention:key_weight" in target
    assert not any("embedding" in key or "bias_hh" in key for key in source | target)
    plain = {name for name, p in gnmt().named_parameters() if p.requires_grad}
    assert {key.replace(":", ".") for key in source | target} == {
        name for name in plain if "embedding" not in name
    }


def test_without_biases_weights_are_as_large_as_the_shape_s():
    torch.manual_seed(2)
    shape = GNMT(V, 32)
    expected = shape.encoder.forwards[0].weight_hh_l0.std().item()
    made = Generator(shape, languages=200, size=8, bias=False)
    parts = made.from_source.full["encoder:forwards:0:weight_hh_l0"]
    weights = torch.einsum("lm,mij->lij", made.language_LM, parts)
    assert weights.std().item() == pytest.approx(expected, rel=0.1)
    assert not made.encoder.forwards[0].weight_hh_l0.numel()
    assert "encoder.forwards.0.weight_hh_l0" not in made.state_dict()


@pytest.mark.parametrize("rank", [None, 2])
def test_weights_are_not_rounded_where_products_are(rank):
    made = various(Generator(gnmt(), languages=3, rank=rank))
    exact = made.from_source(made.language_LM[1])
    with torch.autocast("cpu", torch.bfloat16):
        found = made.from_source(made.language_LM[1])
    assert all(torch.equal(exact[name], weight) for name, weight in found.items())


def test_a_low_rank_adds_little_and_begins_as_the_shape():
    made = Generator(gnmt(), languages=3, rank=2)
    assert torch.equal(loss(made), loss(gnmt()))
    loss(made).backward()
    assert made.from_source.left["encoder:forwards:0:weight_hh_l0"].grad.abs().max() > 0
    various(made)
    key = "encoder:forwards:0:weight_hh_l0"
    weight = made.from_source(made.language_LM[1])[key.replace(":", ".")]
    assert torch.linalg.matrix_rank(weight) == 2
    assert loss(made, language=ZEROS) != loss(made, language=ZEROS + 1)


# --- Rows of several directions.

MIXED = SOURCE.clone()
MIXED[:, 0] = torch.tensor([4, 2, 4, 3])
LANGUAGES = torch.tensor([0, 1, 1, 0])


def gradients(model, value):
    model.zero_grad()
    value.sum().backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("shape", [gnmt, transformer])
def test_a_mixed_batch_is_its_rows_one_by_one(shape):
    model = various(Generator(shape(), languages=3, size=2)).double()
    inputs = model.shifted_embeddings(TARGET)
    memory = model.encode(MIXED, LENGTHS, LANGUAGES)
    whole = model.decode(memory, inputs)
    alone = []
    for row in range(4):
        one = slice(row, row + 1)
        mine = model.encode(MIXED[one], LENGTHS[one], LANGUAGES[one])
        torch.testing.assert_close(mine.encoding[0], memory.encoding[row])
        alone.append(model.decode(mine, model.shifted_embeddings(TARGET[one])))
    together = torch.cat(alone)
    torch.testing.assert_close(whole, together)
    weight = torch.randn(whole.shape, dtype=torch.float64)
    for one, other in zip(
        gradients(model, whole * weight), gradients(model, together * weight), strict=True
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("shape", [gnmt, transformer])
@torch.no_grad()
def test_a_mixed_beam_is_its_sentences_one_by_one(shape):
    model = various(Generator(shape(), languages=3, size=2)).double().eval()
    memory, beam = model.encode(MIXED, LENGTHS, LANGUAGES), 2
    state = model.initial_state(memory, beam=beam, steps=3)
    own = [memory.select(torch.tensor([row])) for row in range(4)]
    states = [model.initial_state(each, beam=beam, steps=3) for each in own]
    for tokens in ([5, 6, 7, 8, 9, 10, 11, 12], [6, 6, 7, 5, 9, 13, 11, 4]):
        inputs = model.embed_target(torch.tensor(tokens))
        hidden, state = model.step(memory, state, inputs)
        for row in range(4):
            rows = slice(2 * row, 2 * row + 2)
            mine, states[row] = model.step(own[row], states[row], inputs[rows])
            torch.testing.assert_close(hidden[rows], mine)
            states[row] = states[row].reorder(torch.tensor([1, 1]))
        state = state.reorder(torch.tensor([1, 1, 3, 3, 5, 5, 7, 7]))
    assert state.position == 2


def test_rows_that_fill_up_a_shape_take_the_languages_of_the_first():
    model = various(Generator(gnmt(), languages=3))
    filled = torch.cat([SOURCE, torch.tensor([[1, 0, 0, 0, 0]])])
    lengths, language = torch.tensor([5, 3, 4, 3, 1]), torch.tensor([1, 1, 1, 1, 0])
    memory = model.encode(filled, lengths, language)
    assert list(memory.weights) == [2]
    same = model.encode(filled, lengths, torch.ones_like(language))
    assert torch.equal(memory.encoding, same.encoding)


def test_without_a_source_language_it_says_so():
    with pytest.raises(AccordError, match="reads the language of its sources"):
        Generator(gnmt(), languages=3).encode(SOURCE, LENGTHS)


def test_joined_memories_have_the_weights_of_both():
    model = various(Generator(gnmt(), languages=3)).double()
    memory = model.encode(MIXED, LENGTHS, LANGUAGES)
    halves = [
        model.encode(MIXED[rows], LENGTHS[rows], LANGUAGES[rows])
        for rows in (slice(2), slice(2, 4))
    ]
    inputs = model.shifted_embeddings(TARGET)
    joined = model.decode(halves[0].join(halves[1]), inputs)
    torch.testing.assert_close(joined, model.decode(memory, inputs))


@pytest.mark.parametrize("rows", [slice(1), slice(4)])
def test_weights_that_a_memory_does_not_hold_are_made_anew(rows):
    """As in a search on a GPU."""
    model = various(Generator(gnmt(), languages=3)).double()
    memory = model.encode(MIXED[rows], LENGTHS[rows], LANGUAGES[rows])
    without = replace(memory, weights={target: {} for target in memory.weights})
    inputs = model.shifted_embeddings(TARGET[rows])
    assert torch.equal(model.decode(without, inputs), model.decode(memory, inputs))


# --- Weights of a plain model.


def test_weights_of_a_plain_model_become_biases():
    plain, made = gnmt(5), Generator(gnmt(), languages=3)
    drawn = made.language_LM.clone()
    made.load_state_dict(plain.state_dict())
    assert torch.equal(loss(made), loss(plain))
    assert torch.equal(made.language_LM, drawn)
    again = Generator(gnmt(), languages=3)
    again.load_state_dict(various(made).state_dict())
    assert torch.equal(loss(again), loss(made))
    with pytest.raises(RuntimeError, match="language_LM"):
        again.load_state_dict({k: v for k, v in made.state_dict().items() if k != "language_LM"})
    with pytest.raises(AccordError, match="no place") as caught:
        Generator(gnmt(), languages=3, bias=False).load_state_dict(plain.state_dict())
    assert "model.generator.bias" in str(caught.value)


def test_a_copy_is_another_model_and_dropout_is_switched_off_with_it():
    made = various(Generator(GNMT(V, D, dropout=0.5), languages=3, bias=False))
    assert loss(made) != loss(made)
    other = copy.deepcopy(made).double().eval()
    assert torch.equal(loss(other), loss(other))
    before = loss(other)
    with torch.no_grad():
        made.target_embedding.weight.zero_()
    assert torch.equal(loss(other), before)


def test_it_is_built_from_an_experiment_and_draws_its_shape_as_without():
    plain = build_model(ModelSettings(units=D), V, seed=3)
    made = build_model(ModelSettings(units=D, generator={"size": 2}), V, seed=3, languages=3)
    assert made.language_LM.shape == (3, 2)
    assert all(torch.equal(made.get_parameter(k), p) for k, p in plain.named_parameters())
    with pytest.raises(ValueError, match="how many"):
        build_model(ModelSettings(units=D, generator={}), V, seed=3)


# --- CUDA graphs.


class AsOnGpu(Generator):
    """Its memories hold no weights, so that none are part of a recording."""

    def encode(self, *args):
        memory = super().encode(*args)
        return replace(memory, weights={target: {} for target in memory.weights})


@pytest.mark.parametrize("shape", [gnmt, transformer])
def test_steps_recorded_for_one_language_serve_all(shape):
    model = various(AsOnGpu(shape(), languages=3, size=2)).double().eval()
    settings, forbidden = SearchSettings(beam=2), torch.tensor([2, 3, 4])
    eager, fixed = (BeamSearch(model, settings, forbidden) for _ in range(2))
    fixed._shapes = FixedShapes(fixed._advance, record=lambda step: step)
    found = []
    for tag, spoken in ((4, 0), (2, 1), (3, 2)):
        source = SOURCE.clone()
        source[:, 0] = tag
        limits = torch.full((4,), 6)
        same = [each(source, LENGTHS, limits, ZEROS + spoken) for each in (eager, fixed)]
        said = [[(row[0].ids, round(row[0].score, 6)) for row in each] for each in same]
        assert said[0] == said[1]
        found.append(str(said[0]))
    assert len(fixed._shapes._steppers) == 1
    assert len(set(found)) == 3


@pytest.mark.gpu
def test_one_recording_serves_all_directions():
    """Languages are tensors: what was recorded with one direction is right for another."""
    from accord.ops.cuda_graphs import Recorder

    model = various(Generator(gnmt(), languages=3)).cuda().eval()
    source, target = SOURCE.cuda(), TARGET.cuda()
    lengths, language = LENGTHS.cuda(), ZEROS.cuda()

    def run():
        memory = model.encode(source, lengths, language)
        return model.decode(memory, model.shifted_embeddings(target)).detach()

    out = torch.empty_like(run())
    launch = Recorder()(lambda: out.copy_(run()))
    for tag, spoken in ((4, 0), (2, 1), (3, 2)):
        source[:, 0] = tag
        language.fill_(spoken)
        launch()
        torch.testing.assert_close(out, run(), rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
def test_a_search_on_a_gpu_finds_what_one_on_a_cpu_does():
    model = various(Generator(gnmt(), languages=3)).double().eval()
    settings, forbidden = SearchSettings(beam=2), torch.tensor([2, 3, 4])
    here = [
        BeamSearch(model, settings, forbidden)(SOURCE, LENGTHS, None, ZEROS + n) for n in (0, 1)
    ]
    search = BeamSearch(model.cuda(), settings, forbidden.cuda())
    there = [search(SOURCE, LENGTHS, None, ZEROS + n) for n in (0, 1)]
    for one, other in zip(here, there, strict=True):
        assert [row[0].ids for row in one] == [row[0].ids for row in other]
    with torch.no_grad():
        memory = model.encode(MIXED.cuda(), LENGTHS.cuda(), LANGUAGES.cuda())
    with pytest.raises(AccordError, match="several languages in one batch"):
        model.initial_state(memory, steps=3)
