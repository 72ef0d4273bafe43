"""Translations drawn at random come as often as the model finds them likely."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch

from accord.data.vocabulary import EOS, PAD
from accord.inference.beam_search import BeamSearch, padded
from accord.inference.cuda_steps import FixedShapes
from accord.inference.results import SearchSettings
from search_models import TAGS, V, chain, gnmt

CPU = torch.device("cpu")
FORBIDDEN = torch.tensor(TAGS)
LANGUAGE = {"start": {4: 0.5, 5: 0.3, EOS: 0.2}, "t4": {4: 0.3, EOS: 0.7}, "t5": {4: 0.4, EOS: 0.6}}
SOURCE = [2, 7, 8, EOS]


def numbers(count, columns, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).random((count, columns)))


def drawn(model, count, limit, sample=1.0, forbidden=FORBIDDEN, draws=None):
    made = BeamSearch(model, SearchSettings(beam=1), forbidden, sample=sample)
    draws = numbers(count, limit + 1) if draws is None else draws
    limits = torch.tensor([limit] * count)
    found = made(*padded([SOURCE] * count, CPU), limits, draws_BT=draws)
    return [tuple(row[0].ids) if row else None for row in found]


def probability(ids, temperature):
    """Of a whole translation by the chain, each of its choices sharpened."""
    table, before, found = LANGUAGE, "start", 1.0
    for token in (*ids, EOS):
        row = {key: p ** (1 / temperature) for key, p in table[before].items()}
        found *= row.get(token, 0.0) / sum(row.values())
        before = f"t{token}"
    return found


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_each_translation_comes_as_often_as_it_is_likely(temperature):
    count, limit = 4000, 4
    found = Counter(drawn(chain(**LANGUAGE), count, limit, temperature))
    every = [
        ids
        for length in range(limit + 1)
        for ids in itertools.product((4, 5), repeat=length)
        if probability(ids, temperature)
    ]
    assert set(found) - {None} <= set(every)
    assert len(every) == 9
    lost = 1 - sum(probability(ids, temperature) for ids in every)
    for ids, p in [*((ids, probability(ids, temperature)) for ids in every), (None, lost)]:
        assert found[ids] == pytest.approx(count * p, abs=3 * math.sqrt(count * p * (1 - p)) + 1)


def test_what_is_drawn_hangs_on_its_own_numbers_alone():
    draws = numbers(30, 13)
    model = gnmt(3, ends=1.4)
    whole = drawn(model, 30, 12, draws=draws)
    assert [drawn(model, 1, 12, draws=draws[k : k + 1])[0] for k in range(30)] == whole
    assert len(set(whole)) > 15
    assert drawn(model, 30, 12, draws=draws.flip(0)) == whole[::-1]
    assert not {PAD, EOS, *TAGS} & {token for ids in whole if ids for token in ids}


def test_cold_draws_are_greedy_search():
    model = gnmt(3, ends=1.4)
    greedy = BeamSearch(model, SearchSettings(beam=1), FORBIDDEN)(*padded([SOURCE], CPU))[0][0]
    assert set(drawn(model, 20, 40, sample=1e-4)) == {greedy.ids}


def test_fixed_shapes_draw_the_same():
    model, draws = gnmt(3, ends=1.4), numbers(37, 21)
    made = BeamSearch(model, SearchSettings(beam=1), FORBIDDEN, sample=1.0)
    made._shapes = FixedShapes(made._advance, record=lambda step: step)
    limits = torch.tensor([20] * 37)
    found = made(*padded([SOURCE] * 37, CPU), limits, draws_BT=draws)
    assert [row[0].ids if row else None for row in found] == drawn(model, 37, 20, draws=draws)
    assert max(token for row in found if row for token in row[0].ids) < V


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_graphs_draw_what_single_steps_draw():
    device = torch.device("cuda")
    model, draws = gnmt(3, ends=1.4).to(device), numbers(100, 31)
    limits = torch.tensor([30] * 100)
    found = [
        BeamSearch(model, SearchSettings(beam=1), FORBIDDEN.to(device), sample=1.0, graphs=graphs)(
            *padded([SOURCE] * 100, CPU), limits, draws_BT=draws
        )
        for graphs in (False, True)
    ]
    said = [[row[0].ids if row else None for row in each] for each in found]
    assert said[0] == said[1]
    assert len(set(said[0])) > 50
