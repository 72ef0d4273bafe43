import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from accord.inference.beam_search import TorchEngine
from accord.inference.cuda_steps import graph_width
from accord.inference.results import SearchSettings, length_penalty
from accord.inference.text import batches, most_tokens, windows
from accord.models.gnmt import GNMT
from accord.models.transformer import Transformer

GNMT_MODEL = GNMT(23, 8)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(1, 20))
def test_windows_cover_all_and_are_short(ids, longest):
    found = windows(ids, ["▁a", "b", "c", "▁d", ".", "▁"], longest)
    assert found[0][0] == 0
    assert found[-1][1] == len(ids)
    assert all(a[1] == b[0] for a, b in itertools.pairwise(found))
    assert all(0 < stop - start <= longest for start, stop in found)


def test_windows_end_with_a_sentence_or_at_least_a_word():
    pieces = ["▁a", "b", "."]
    assert windows([0, 1, 1, 1, 2, 0, 0, 1], pieces, 7) == [(0, 5), (5, 8)]
    assert windows([0, 1, 1, 1, 1, 0, 1, 1], pieces, 7) == [(0, 5), (5, 8)]
    assert windows([1] * 8, pieces, 7) == [(0, 7), (7, 8)]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@given(lengths=st.lists(st.integers(2, 90), max_size=80), budget=st.integers(1, 600))
def test_batches_hold_every_row_once_and_keep_to_the_budget(device, lengths, budget):
    engine = TorchEngine(GNMT_MODEL, torch.device(device))
    settings = SearchSettings(batch_tokens=budget)
    found = list(batches(lengths, lambda longest: engine.fitting(longest, settings)))
    assert sorted(i for batch in found for i in batch) == list(range(len(lengths)))
    for batch in found:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget


@pytest.mark.parametrize("beam", [1, 4])
def test_caches_take_an_eighth_of_a_gpu_at_most(beam, monkeypatch):
    model = Transformer(23, 16, encoder_layers=1, decoder_layers=3, heads=2, feed_forward=8)
    card = SimpleNamespace(total_memory=8 * 10_000_000)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: card)
    engine = TorchEngine(model, torch.device("cuda"), bf16=True)
    rows = engine.fitting(100, SearchSettings(beam=beam, batch_tokens=1_000_000))
    width = graph_width(100)
    memory = model.encode(torch.ones(1, width, dtype=torch.long), torch.tensor([width]))
    with torch.no_grad():
        state = model.initial_state(memory, beam=beam, steps=most_tokens(width))
    each = sum(cache.numel() for cache in (*state.keys, *state.values)) * 2
    assert rows * each <= 10_000_000 < 2 * rows * each
    assert engine.fitting(100, SearchSettings(beam=beam, batch_tokens=256)) == 2


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_tensors_arrays_and_numbers_have_one_length_penalty(alpha):
    lengths = range(1, 200)
    exact = [length_penalty(n, alpha) for n in lengths]
    assert exact == [((5 + n) / 6) ** alpha for n in lengths]
    single = length_penalty(np.array(lengths, dtype=np.float32), alpha)
    assert single.dtype == length_penalty(np.float32(7), alpha).dtype == np.float32
    tensor = length_penalty(torch.tensor(lengths), alpha)
    assert tensor.dtype == torch.float32
    assert single.tolist() == pytest.approx(exact, rel=1e-6)
    assert tensor.tolist() == pytest.approx(exact, rel=1e-6)
