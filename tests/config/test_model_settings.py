"""Kinds of models: what is in force where little is given, and keys that do not go together."""

import pytest

from accord.config.load import dump, load
from accord.config.model_settings import ModelSettings
from accord.errors import AccordError

EXPERIMENT = 'languages: [en, de]\ncorpora: [{pair: en-de, train: "x.{lang}"}]\n'


def settings(tmp_path, text: str, *overrides: str) -> ModelSettings:
    path = tmp_path / "x.yaml"
    path.write_text(f"{EXPERIMENT}model: {text}\n", encoding="utf-8")
    found = load(path, overrides)
    (tmp_path / "again.yaml").write_text(dump(found), encoding="utf-8")
    assert load(tmp_path / "again.yaml").model == found.model
    return found.model


def test_what_was_in_force_without_a_kind_still_is(tmp_path):
    found = settings(tmp_path, "{}").model_dump(exclude_none=True)
    kind = {"kind": "gnmt", "preset": "paper", "tag": "source"}
    assert found == {**kind, "units": 512, "dropout": 0.2, "input_feeding": True}
    assert ModelSettings() == settings(tmp_path, "{}")


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("{kind: transformer}", (512, 6, 3, 8, 2048)),
        ("{kind: transformer, encoder_layers: null}", (512, 6, 3, 8, 2048)),
        ("{kind: transformer, preset: transformer-6+6}", (512, 6, 6, 8, 2048)),
        ("{kind: transformer, preset: transformer-small}", (256, 3, 2, 4, 1024)),
        ("{kind: transformer, preset: transformer-small, heads: 8}", (256, 3, 2, 8, 1024)),
    ],
)
def test_a_transformer_is_as_large_as_its_preset_says(tmp_path, text, sizes):
    found = settings(tmp_path, text)
    layers = (found.encoder_layers, found.decoder_layers)
    assert (found.units, *layers, found.heads, found.feed_forward) == sizes
    assert (found.dropout, found.norm, found.tables) == (0.1, "pre", "shared")
    assert found.encoder_residual is found.input_feeding is None


def test_a_gnmt_experiment_becomes_a_transformer_on_the_command_line(tmp_path):
    text = "{preset: paper, input_feeding: false}"
    changes = ("kind=transformer", "preset=transformer", "input_feeding=null")
    assert settings(tmp_path, text, *(f"model.{each}" for each in changes)).heads == 8


@pytest.mark.parametrize("kind", ["gnmt", "transformer"])
def test_the_tag_is_the_encoder_s_unless_said(tmp_path, kind):
    assert settings(tmp_path, f"{{kind: {kind}}}").tag == "source"
    assert settings(tmp_path, f"{{kind: {kind}, tag: both}}").tag == "both"


@pytest.mark.parametrize(
    ("text", "key", "remedy"),
    [
        ("{heads: 4}", "heads", "model.kind to transformer"),
        ("{encoder_residual: 1}", "encoder_residual", "model.kind to transformer"),
        ("{preset: transformer-small}", "preset", "model.kind to transformer"),
        ("{kind: transformer, input_feeding: false}", "input_feeding", "model.kind to gnmt"),
        ("{kind: transformer, preset: gnmt3}", "preset", "transformer-6+6"),
        ("{kind: transformer, heads: 3}", "heads", "multiple of heads"),
        ("{kind: transformer, units: 15, heads: 3}", "heads", "even"),
        ("{kind: transformer, encoder_residual: 7}", "encoder_residual", "from 1 to 6"),
        ("{kind: transformer, encoder_residual: 0}", "encoder_residual", "Liu"),
        ("{kind: rnn}", "kind", "transformer"),
        ("{kind: [transformer]}", "kind", "transformer"),
        ("{units: null}", "units", "Width"),
        ("{kind: transformer, units: 0}", "units", "Width"),
        ("{kind: transformer, heads: 0}", "heads", "share out the units"),
        ("{kind: transformer, units: 32, heads: 64}", "heads", "multiple of heads"),
        ("{kind: transformer, preset: transformer-small, heads: 6}", "heads", "multiple of heads"),
        ("{kind: transformer, feed_forward: -1}", "feed_forward", "inside the feed-forward"),
        ("{kind: transformer, decoder_layers: 0}", "decoder_layers", "decoder layers"),
        ("{kind: transformer, dropout: 1.0}", "dropout", "dropped"),
        ("{kind: transformer, norm: middle}", "norm", "before every sub-layer"),
        ("{kind: transformer, tables: both}", "tables", "one table of embeddings"),
        (
            "{kind: transformer, encoder_layers: 2, encoder_residual: 3}",
            "encoder_residual",
            "from 1 to 2",
        ),
        (
            "{kind: transformer, preset: transformer-small, encoder_residual: 4}",
            "encoder_residual",
            "from 1 to 3",
        ),
        ("{norm: post}", "norm", "model.kind to transformer"),
        ("{feed_forward: 64}", "feed_forward", "model.kind to transformer"),
        ("{tag: nowhere}", "tag", "encoder, before the sentence"),
        ("{tag: null}", "tag", "encoder, before the sentence"),
    ],
)
def test_keys_that_do_not_go_together_are_refused_with_a_remedy(tmp_path, text, key, remedy):
    with pytest.raises(AccordError) as caught:
        settings(tmp_path, text)
    assert f"key model.{key}: " in str(caught.value)
    assert remedy in str(caught.value)
    assert "problems" not in str(caught.value)
