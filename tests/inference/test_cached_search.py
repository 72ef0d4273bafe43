"""Search with a model whose caches are written in place: step by step, recorded, in ensembles."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from accord.config.model_settings import TagPlace
from accord.data.vocabulary import EOS
from accord.inference import beam_step, cuda_steps
from accord.inference.beam_search import BeamSearch, TorchEngine, padded
from accord.inference.beam_step import Rules, Task, advance, start
from accord.inference.cuda_steps import FixedShapes
from accord.inference.ensemble_search import EnsembleSearch
from accord.inference.results import SearchSettings
from accord.models.base import Tensors, tensors_of
from accord.models.transformer import Transformer
from cached_model import cached
from search_models import TAGS, D, V, plain_search, random_sources

CPU = torch.device("cpu")
WAYS = [{"beam": 1}, {"beam": 4, "nbest": 3}, {"beam": 3, "no_repeat_ngram": 2}]
every_way = pytest.mark.parametrize("way", WAYS, ids=["greedy", "beam", "ngram"])


def model(seed: int = 3, *, ends: float = 1.6, copying: bool = False):
    return cached(seed, V, D, ends=ends, copying=copying)


def transformer(heads: int = 2, tag: TagPlace = "source", seed: int = 4):
    """Random weights, large enough for translations that differ."""
    torch.manual_seed(seed)
    network = Transformer(V, 16 * heads, 1, 2, heads=heads, feed_forward=24, tag=tag)
    network = network.double().eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "norm" not in name:
                parameter.mul_(2.0)
        network.target_embedding.weight[EOS] *= 1.6
    return network


def reading_the_tag(heads: int = 2):
    """The same with the tag in the decoder."""
    return transformer(heads, tag="target", seed=1)


every_model = pytest.mark.parametrize("made", [model, transformer, reading_the_tag])


def warmed(step):
    """Records nothing, but makes a step as recording does."""
    step()
    return step


def search(network, sources, device=CPU, limits=None, **settings):
    made = BeamSearch(network, SearchSettings(**settings), torch.tensor(TAGS, device=device))
    return made(*padded(sources, CPU), None if limits is None else torch.tensor(limits))


def recorded(network, **settings) -> BeamSearch:
    made = BeamSearch(network, SearchSettings(**settings), torch.tensor(TAGS))
    made._shapes = FixedShapes(made._advance, record=warmed)
    made._look_every = 8
    return made


def assert_same(one, two, tolerance=1e-9):
    for mine, theirs in zip(one, two, strict=True):
        assert [item.ids for item in mine] == [item.ids for item in theirs]
        assert [item.alignment for item in mine] == [item.alignment for item in theirs]
        scores = [item.score for item in theirs]
        assert [item.score for item in mine] == pytest.approx(scores, abs=tolerance)


@pytest.fixture(autouse=True)
def _few_rows(monkeypatch):
    monkeypatch.setattr(cuda_steps, "_LEAST_ROWS", 2)


@every_model
@every_way
def test_a_batch_gives_what_a_plain_search_of_each_sentence_gives(made, way):
    sources = random_sources(7)
    network = made()
    found = search(network, sources, **way)
    for source, items in zip(sources, found, strict=True):
        ngram = way.get("no_repeat_ngram", 0)
        ids, log_p = plain_search(network, source, beam=way["beam"], ngram=ngram)[0]
        assert list(items[0].ids) == ids
        assert items[0].log_probability == pytest.approx(log_p, abs=1e-9)
    lengths = [len(items[0].ids) for items in found]
    assert max(lengths) > 4 * min(lengths)  # rows were put aside


@every_way
def test_reordering_by_an_index_finds_what_copying_finds(way):
    sources = random_sources(30)
    moved = search(model(copying=True), sources, **way)
    assert_same(search(model(), sources, **way), moved)


@every_way
@pytest.mark.parametrize(
    "network", [model(), model(copying=True), transformer(), reading_the_tag()]
)
def test_recorded_steps_change_no_result(way, network):
    sources = random_sources(37)
    made = recorded(network, **way)
    for some in (sources, sources[:20], sources):  # buffers are used again
        assert_same(made(*padded(some, CPU)), search(network, some, **way))
    rows = {len(stepper.beam.done_B) for stepper in made._shapes._steppers.values()}
    assert rows >= {64, 32, 16}


@every_model
def test_batches_that_get_larger_bit_by_bit_leave_no_memory_behind(made):
    network, way = made(), {"beam": 4, "nbest": 3}
    search_again = recorded(network, **way)
    for rows in (2, 5, 11, 20, 37):
        sources = random_sources(rows, seed=rows)
        assert_same(search_again(*padded(sources, CPU)), search(network, sources, **way))
        shapes = search_again._shapes
        held = [
            tensor
            for stepper in shapes._steppers.values()
            for tensor in (*tensors_of(stepper.task), *tensors_of(stepper.beam))
        ]
        rooms = (shapes._task_room, shapes._beam_room)
        blocks = [block for room in rooms for block in room._blocks.values()]
        assert _memory(held) == _memory(blocks)
    assert len(shapes._steppers) > 1  # shapes that fit into one room share it


def _memory(tensors):
    """Where tensors lie, as far as they take any room."""
    return {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel()}


@every_model
@every_way
def test_ensembles(made, way):
    network, one = made(), random_sources(21)
    other = [[a[0], *b[1:]] for a, b in zip(one, random_sources(21, seed=101), strict=True)]
    engine, settings = TorchEngine(network, CPU), SearchSettings(**way)
    eager = EnsembleSearch(engine, settings, TAGS, (0.6, 0.4))
    fixed = EnsembleSearch(engine, settings, TAGS, (0.6, 0.4))
    fixed._search._shapes = FixedShapes(fixed._search._advance, record=warmed)
    fixed._search._look_every = 8
    assert_same(fixed([one, other]), eager([one, other]))
    if made is model:
        moved = EnsembleSearch(TorchEngine(model(copying=True), CPU), settings, TAGS, (0.6, 0.4))
        assert_same(eager([one, other]), moved([one, other]))
    assert_same(eager([one, one]), search(network, one, **way))


@every_model
@pytest.mark.parametrize("beam", [1, 3])
def test_there_is_room_for_the_longest_translation(made, beam):
    """Also where limits exceed the usual one, and where steps go on past them for a while."""
    endless = made()
    plain, never = endless.logits, torch.zeros(V).double().index_fill_(0, torch.tensor(EOS), -99.0)
    endless.logits = lambda hidden: plain(hidden) + never
    for limits in ([0, 3], [7, 8], [200, 11]):
        found = search(endless, [[2, 1], [3, 7, 1]], limits=limits, beam=beam)
        assert [len(items[0].ids) for items in found] == limits
        fixed = recorded(endless, beam=beam, no_repeat_ngram=30)
        found = fixed(*padded([[2, 1], [3, 7, 1]], CPU), torch.tensor(limits))
        assert [len(items[0].ids) for items in found] == limits


@torch.no_grad()
def test_a_step_moves_no_cache():
    network = model()
    source_BS, lengths_B = padded(random_sources(5), CPU)
    task = Task(network.encode(source_BS, lengths_B), torch.full((5,), 9))
    rules = Rules(3, 1, 0.6, 0, torch.tensor([0, 1, *TAGS]))
    beam = start(network, rules, task, 10, torch.zeros(5, dtype=torch.bool))
    for _ in range(4):
        after, _ = advance(network, rules, task, beam)
        caches = zip(
            (*after.state.keys, *after.state.values),
            (*beam.state.keys, *beam.state.values),
            strict=True,
        )
        assert all(new.is_set_to(old) for new, old in caches)
        beam = after
    assert beam.state.owner_RT.unique().tolist() == [0, 1, 2]  # the beam was re-ordered


def test_recordings_share_what_they_hold():
    made = recorded(model(), beam=3)
    made(*padded(random_sources(40), CPU))
    steppers = list(made._shapes._steppers.values())
    assert len(steppers) >= 3
    for item in ("task", "beam"):
        held = [tensors_of(getattr(stepper, item)) for stepper in steppers]
        for largest, *others in zip(*held, strict=True):
            for tensor in others:
                assert tensor.data_ptr() == largest.data_ptr()


@dataclass(frozen=True)
class Pair(Tensors):
    one: Tensor
    other: Tensor


def test_what_is_read_from_a_place_that_is_overwritten_is_read_before():
    pair = Pair(torch.tensor([1.0]), torch.tensor([2.0]))
    cuda_steps._copy(pair, Pair(pair.other, pair.one))
    assert (pair.one.item(), pair.other.item()) == (2.0, 1.0)


@pytest.mark.gpu
@every_model
@every_way
def test_graphs_give_what_single_steps_give(made, way):
    network, settings = made().cuda(), SearchSettings(**way)
    forbidden = torch.tensor(TAGS).cuda()
    graphed = BeamSearch(network, settings, forbidden)
    eager = BeamSearch(network, settings, forbidden, graphs=False)
    for count, seed in ((300, 1), (70, 2), (1, 3), (300, 4)):
        batch = padded(random_sources(count, seed), CPU)
        assert_same(graphed(*batch), eager(*batch))
    for source, items in zip(
        random_sources(8), eager(*padded(random_sources(8), CPU)), strict=True
    ):
        ngram = way.get("no_repeat_ngram", 0)
        ids, _ = plain_search(made(), source, beam=way["beam"], ngram=ngram)[0]
        assert list(items[0].ids) == ids


@pytest.mark.gpu
@every_model
@pytest.mark.parametrize("beam", [1, 4])
def test_graphs_of_ensembles(made, beam):
    device = torch.device("cuda")
    network, settings = made().cuda(), SearchSettings(beam=beam)
    one = random_sources(150)
    other = [[a[0], *b[1:]] for a, b in zip(one, random_sources(150, seed=101), strict=True)]
    graphed = EnsembleSearch(TorchEngine(network, device), settings, TAGS, (0.6, 0.4))
    on_host = EnsembleSearch(TorchEngine(made(), CPU), settings, TAGS, (0.6, 0.4))
    assert_same(graphed([one, other]), on_host([one, other]), 1e-5)


@pytest.mark.gpu
@every_model
@pytest.mark.parametrize("beam", [1, 4])
def test_graphs_in_bf16(made, beam):
    network = made().float().cuda()
    batch = padded(random_sources(200), CPU)
    forbidden, settings = torch.tensor(TAGS).cuda(), SearchSettings(beam=beam)
    with torch.autocast("cuda", torch.bfloat16):
        graphed = BeamSearch(network, settings, forbidden)(*batch)
        eager = BeamSearch(network, settings, forbidden, graphs=False)(*batch)
    same = sum(a[0].ids == b[0].ids for a, b in zip(graphed, eager, strict=True))
    assert same > 0.9 * len(eager)


@pytest.mark.gpu
@pytest.mark.parametrize("beam", [1, 4])
def test_finding_the_best_tokens_in_one_read_changes_no_result(beam, monkeypatch):
    network, batch = transformer().float().cuda(), padded(random_sources(100), CPU)
    forbidden, settings = torch.tensor(TAGS).cuda(), SearchSettings(beam=beam, nbest=beam)
    assert beam_step.top_k_triton.fits(torch.zeros(2, V).cuda(), beam)
    found = BeamSearch(network, settings, forbidden, graphs=False)(*batch)
    monkeypatch.setattr(beam_step, "top_k_triton", None)
    wanted = BeamSearch(network, settings, forbidden, graphs=False)(*batch)
    assert_same(found, wanted, tolerance=1e-4)
