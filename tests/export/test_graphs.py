"""The graphs against the model they were made from, number by number."""

import numpy as np
import pytest
import torch

from accord.data.vocabulary import EOS, PAD
from accord.export.onnx.exporter import graphs
from exportable import (
    KINDS,
    LENGTHS,
    NO_PENALTY,
    SOURCES,
    D,
    V,
    assert_same_in_any_company,
    sessions,
    small,
    steps_beside_the_model,
)

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def arrays(values):
    return {name: value.numpy() for name, value in values.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_reading_gives_what_the_model_reads(kind):
    model = small(*kind)
    found = sessions(model).encode(SOURCES, LENGTHS)
    memory, state = map(arrays, found)
    with torch.no_grad():
        expected = model.encode(torch.from_numpy(SOURCES), torch.from_numpy(LENGTHS))
    real_BS = expected.mask_BS.numpy()
    assert np.array_equal(np.isfinite(memory["memory.bias"][:, 0]), real_BS)
    keys_BSD = memory["memory.keys"].transpose(0, 2, 1)
    for mine, theirs in (
        (keys_BSD, expected.keys_BSD),
        (memory["memory.values"], expected.values_BSD),
    ):
        np.testing.assert_allclose(mine[real_BS], theirs.numpy()[real_BS], atol=2e-6)
    for number, (h_BD, c_BD) in enumerate(expected.layers):
        np.testing.assert_allclose(state[f"state.h{number}"], h_BD.numpy(), atol=2e-6)
        np.testing.assert_allclose(state[f"state.c{number}"], c_BD.numpy(), atol=2e-6)
    assert ("state.feed" in state) is kind[2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("precision", "most"), [("fp32", 5e-6), ("int8", 0.5)])
def test_steps_say_what_the_model_says(kind, precision, most):
    for mine_RV, log_p_RV in steps_beside_the_model(small(*kind), precision):
        np.testing.assert_allclose(mine_RV, log_p_RV, atol=most)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_is_read_the_same_in_any_company(kind):
    assert_same_in_any_company(small(*kind), 2e-6)


def test_hypotheses_share_the_memory_and_go_on_from_any_row():
    made = sessions(small("paper", 1, True))
    memory, state = made.encode(SOURCES, LENGTHS)
    first, state = made.step(memory, state, np.full(3, PAD), np.arange(3), NO_PENALTY, 2)
    tokens = first.next_RC.ravel()  # two hypotheses a sentence from one row each
    both, after = made.step(memory, state, tokens, np.repeat(np.arange(3), 2), NO_PENALTY, 2)
    for place in (0, 1):
        alone, _ = made.step(
            memory, state, first.next_RC[:, place].copy(), np.arange(3), NO_PENALTY, 2
        )
        np.testing.assert_allclose(alone.log_p_RC, both.log_p_RC[place::2], atol=2e-6)
    # Some sentences only, and the other of their hypotheses.
    kept = np.array([2, 0])
    again, _ = made.step(
        made.select(memory, kept), after, np.array([8, 8]), np.array([5, 1]), NO_PENALTY, 2
    )
    all_of_them, _ = made.step(memory, after, np.full(3, 8), np.array([1, 3, 5]), NO_PENALTY, 2)
    np.testing.assert_allclose(again.log_p_RC, all_of_them.log_p_RC[kept], atol=2e-6)


def test_a_penalty_forbids_tokens_but_no_ends():
    made = sessions(small("gnmt3", 2, False))
    memory, state = made.encode(SOURCES, LENGTHS)
    penalty_1V = NO_PENALTY.copy()
    penalty_1V[0, [EOS, *range(10, V)]] = -np.inf
    free, _ = made.step(memory, state, np.full(3, PAD), np.arange(3), NO_PENALTY, V)
    bound, _ = made.step(memory, state, np.full(3, PAD), np.arange(3), penalty_1V, 9)
    assert bound.next_RC.max() < 10
    np.testing.assert_array_equal(bound.end_R, free.end_R)
    at = free.next_RC.tolist()
    for row in range(3):
        for token, log_p in zip(bound.next_RC[row], bound.log_p_RC[row], strict=True):
            assert log_p == free.log_p_RC[row, at[row].index(token)]


@pytest.mark.parametrize("kind", KINDS)
def test_in_8_bits_all_lstms_and_tables_are(kind):
    model = small(*kind)
    exact, short = graphs(model, "fp32"), graphs(model, "int8")
    for name in ("encoder.onnx", "decoder.onnx"):
        found = onnx.load_from_string(short[name])
        operators = [node.op_type for node in found.graph.node]
        of_exact = [node.op_type for node in onnx.load_from_string(exact[name]).graph.node]
        assert "LSTM" not in operators
        assert operators.count("DynamicQuantizeLSTM") == of_exact.count("LSTM") > 0
        matrices = [weight for weight in found.graph.initializer if np.prod(weight.dims) >= D * D]
        assert matrices
        assert {weight.data_type for weight in matrices} == {onnx.TensorProto.INT8}
        assert len(short[name]) < len(exact[name])


def test_exports_are_the_same_bit_by_bit():
    model = small("paper", 2, True)
    assert graphs(model, "int8") == graphs(model, "int8")


def test_weights_have_names_of_their_own():
    from accord.export.onnx.nodes import Graph  # needs onnx

    graph = Graph("x")
    graph.weight("a", np.zeros(2))
    with pytest.raises(ValueError, match="a"):
        graph.weight("a", np.ones(2))
