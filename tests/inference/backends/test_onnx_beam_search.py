"""The search in NumPy finds what the search in PyTorch finds."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accord.data.vocabulary import EOS
from accord.inference.backends.onnx_beam_search import BeamSearch, repeating
from accord.inference.beam_search import BeamSearch as TorchSearch
from accord.inference.beam_search import padded
from accord.inference.results import SearchSettings
from exportable import KINDS, TAGS, TRANSFORMERS, V, sessions, small, transformer

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
CPU = torch.device("cpu")


def sources(count: int, seed: int) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    return [
        [TAGS[i % 2], *generator.integers(4, V, generator.integers(0, 9)).tolist(), EOS]
        for i in range(count)
    ]


def both(model, made, rows, asked: SearchSettings, limits=None):
    forbidden = torch.tensor(TAGS)
    limits_B = None if limits is None else torch.tensor(limits)
    theirs = TorchSearch(model, asked, forbidden)(*padded(rows, CPU), limits_B)
    return BeamSearch(made, asked, TAGS)(rows, limits), theirs


def assert_same(mine, theirs):
    for row, other in zip(mine, theirs, strict=True):
        assert [item.ids for item in row] == [item.ids for item in other]
        assert [item.alignment for item in row] == [item.alignment for item in other]
        for item, its in zip(row, other, strict=True):
            assert item.score == pytest.approx(its.score, rel=1e-5, abs=2e-5)
            assert item.log_probability == pytest.approx(its.log_probability, rel=1e-5, abs=2e-5)


LOADED = {}


def loaded(kind, seed, ends):
    if (kind, seed, ends) not in LOADED:
        made = transformer if kind in TRANSFORMERS else small
        model = made(*kind, seed=seed, ends=ends)
        LOADED[kind, seed, ends] = model, sessions(model)
    return LOADED[kind, seed, ends]


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,  # a near tie may fall either way: let it be the same one each time
    suppress_health_check=list(HealthCheck),
)
@given(
    kind=st.sampled_from([*KINDS, *TRANSFORMERS]),
    seed=st.integers(0, 2),
    ends=st.sampled_from([1.0, 1.5]),
    count=st.integers(1, 12),
    beam=st.sampled_from([1, 2, 4, 5]),
    nbest=st.integers(1, 5),
    penalty=st.sampled_from([0.0, 0.6, 1.0]),
    ngram=st.integers(0, 3),
)
def test_the_same_translations(kind, seed, ends, count, beam, nbest, penalty, ngram):
    model, made = loaded(kind, seed, ends)
    asked = SearchSettings(
        beam=beam, nbest=min(nbest, beam), length_penalty=penalty, no_repeat_ngram=ngram
    )
    assert_same(*both(model, made, sources(count, seed + count), asked))


@pytest.mark.parametrize("beam", [1, 4])
def test_limits_end_translations(beam):
    model, made = loaded(("paper", 1, True), 1, 1.0)
    rows = sources(8, 3)
    limits = [i % 4 for i in range(8)]
    mine, theirs = both(model, made, rows, SearchSettings(beam=beam), limits)
    assert_same(mine, theirs)
    assert all(len(row[0].ids) <= limit for row, limit in zip(mine, limits, strict=True))


def test_a_beam_wider_than_the_vocabulary():
    model, made = loaded(("gnmt3", 2, False), 1, 1.5)
    asked = SearchSettings(beam=V + 5, nbest=3)
    assert_same(*both(model, made, sources(3, 5), asked, [6, 5, 4]))


def test_company_makes_no_difference():
    _, made = loaded(("gnmt3", 3, True), 2, 1.5)
    search, rows = BeamSearch(made, SearchSettings(beam=3), TAGS), sources(12, 9)
    together = search(rows)
    assert_same(together, [search([row])[0] for row in rows])


def test_in_8_bits_translations_hardly_change():
    model = small("paper", 2, False, ends=1.5)
    rows = sources(60, 4)
    short = BeamSearch(sessions(model, "int8"), SearchSettings(), TAGS)(rows)
    exact = BeamSearch(sessions(model), SearchSettings(), TAGS)(rows)
    scores = [abs(a[0].score - b[0].score) for a, b in zip(short, exact, strict=True)]
    assert np.median(scores) < 0.1


def test_tokens_that_would_repeat():
    history_RT = np.array([[5, 6, 7, 5, 6], [5, 6, 5, 6, 8], [1, 1, 1, 1, 1]])
    assert pairs(repeating(history_RT, 3)) == {(0, 7), (2, 1)}
    assert pairs(repeating(history_RT, 2)) == {(0, 7), (2, 1)}
    assert pairs(repeating(history_RT[:, :1], 1)) == {(0, 5), (1, 5), (2, 1)}
    assert pairs(repeating(history_RT[:, :3], 3)) == {(2, 1)}


def pairs(found):
    return set(zip(*(array.tolist() for array in found), strict=True))
