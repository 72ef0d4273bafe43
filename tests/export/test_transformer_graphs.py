"""The Transformer's graphs against the model, number by number, and a run exported with them."""

import numpy as np
import pytest
import torch

from accord import SearchSettings, Translator
from accord.data.vocabulary import EOS, PAD
from accord.export.export_run import export_run
from accord.export.onnx.exporter import graphs
from accord.inference.backends.manifest import Manifest
from exportable import TRANSFORMERS, D, V, made_run, sessions, transformer

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
SOURCES = np.array([[2, 7, 9, 11, 30, 8, EOS], [3, 20, EOS] + [PAD] * 4, [2, 5, 6, 7, EOS, 0, 0]])
LENGTHS = np.array([7, 3, 5])
NO_PENALTY = np.zeros((1, V), dtype=np.float32)
LINES = ["the big house.", "", "a cat sees the old dog and likes green", "house " * 90]


@pytest.mark.parametrize("kind", TRANSFORMERS)
@pytest.mark.parametrize(("precision", "most"), [("fp32", 1e-5), ("int8", 1.0)])
def test_steps_say_what_the_model_says(kind, precision, most):
    model, rows = transformer(*kind), np.arange(3)
    made = sessions(model, precision)
    memory, state = made.encode(SOURCES, LENGTHS)
    token_R = np.full(3, PAD)
    with torch.no_grad():
        theirs = model.encode(torch.from_numpy(SOURCES), torch.from_numpy(LENGTHS))
        before = model.initial_state(theirs, steps=5)
        for _ in range(5):
            said, state = made.step(memory, state, token_R, rows, NO_PENALTY, V)
            token = model.embed_target(torch.from_numpy(token_R))
            hidden_RD, before = model.step(theirs, before, token)
            log_p_RV = torch.log_softmax(model.logits(hidden_RD), dim=1).numpy()
            mine_RV = np.empty_like(log_p_RV)
            np.put_along_axis(mine_RV, said.next_RC, said.log_p_RC, axis=1)
            assert np.abs(mine_RV - log_p_RV).mean() < most  # logs from 0 down to -30
            np.testing.assert_array_equal(said.end_R, mine_RV[:, EOS])
            if precision == "fp32":
                assert said.seen_R.tolist() == before.attention_BS.argmax(dim=1).tolist()
            token_R = log_p_RV.argmax(axis=1)


@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_a_sentence_is_read_the_same_in_any_company(kind):
    made = sessions(transformer(*kind))
    token_R, few = np.full(3, 9), np.full(1, 9)
    memory, state = made.encode(SOURCES, LENGTHS)
    said, _ = made.step(memory, state, token_R, np.arange(3), NO_PENALTY, 5)
    for row, length in enumerate(LENGTHS):
        memory, state = made.encode(SOURCES[row : row + 1, :length], LENGTHS[row : row + 1])
        alone, _ = made.step(memory, state, few, np.zeros(1, dtype=np.int64), NO_PENALTY, 5)
        np.testing.assert_allclose(alone.log_p_RC[0], said.log_p_RC[row], atol=1e-5)
        assert alone.next_RC[0].tolist() == said.next_RC[row].tolist()


def test_in_8_bits_all_matrices_and_tables_are():
    model = transformer("pre", "shared", None)
    exact, short = graphs(model, "fp32"), graphs(model, "int8")
    assert short == graphs(model, "int8")
    for name in ("encoder.onnx", "decoder.onnx"):
        found = onnx.load_from_string(short[name])
        matrices = [weight for weight in found.graph.initializer if np.prod(weight.dims) >= D * D]
        assert matrices
        assert {weight.data_type for weight in matrices} == {onnx.TensorProto.INT8}
        assert len(short[name]) < len(exact[name])


def test_a_run_is_exported_and_translates_as_before(tmp_path):
    run = made_run(
        tmp_path,
        kind="transformer",
        preset="transformer-small",
        heads=4,
        feed_forward=48,
        encoder_residual=2,
    )
    exported = export_run(run, to="onnx", compare=12, threads=1)
    assert exported.check.same == exported.check.sentences == 12
    facts = Manifest.read(exported.directory).model
    assert (facts.preset, facts.encoder_layers, facts.decoder_layers) == ("transformer-small", 3, 2)
    mine, theirs = Translator(exported.directory, threads=1), Translator(run, device="cpu")
    for settings in (
        SearchSettings(beam=4, nbest=3),
        SearchSettings(beam=2, no_repeat_ngram=2, vocabulary="target", window=20),
    ):
        found = mine.translate(LINES, "fr", via="de", settings=settings)
        expected = theirs.translate(LINES, "fr", via="de", settings=settings)
        for one, other in zip(found, expected, strict=True):
            for a, b in zip(one.hypotheses, other.hypotheses, strict=True):
                assert (a.text, a.ids, a.alignment) == (b.text, b.ids, b.alignment)
                assert a.score == pytest.approx(b.score, rel=1e-4)
