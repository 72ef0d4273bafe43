"""The Transformer's graphs against the model, number by number, and a run exported with them."""

import numpy as np
import pytest

from accord import SearchSettings, Translator
from accord.export.export_run import export_run
from accord.export.onnx.exporter import graphs
from accord.inference.backends.manifest import Manifest
from exportable import (
    TRANSFORMERS,
    D,
    assert_same_in_any_company,
    made_run,
    steps_beside_the_model,
    transformer,
)

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
LINES = ["the big house.", "", "a cat sees the old dog and likes green", "house " * 90]


@pytest.mark.parametrize("kind", TRANSFORMERS)
@pytest.mark.parametrize(("precision", "most"), [("fp32", 1e-5), ("int8", 1.0)])
def test_steps_say_what_the_model_says(kind, precision, most):
    for mine_RV, log_p_RV in steps_beside_the_model(transformer(*kind), precision):
        assert np.abs(mine_RV - log_p_RV).mean() < most  # logs from 0 down to -30


@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_a_sentence_is_read_the_same_in_any_company(kind):
    assert_same_in_any_company(transformer(*kind), 1e-5)


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
