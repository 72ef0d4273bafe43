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
    kind = {"kind": "gnmt", "preset": "paper"}
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
    ],
)
def test_keys_that_do_not_go_together_are_refused_with_a_remedy(tmp_path, text, key, remedy):
    with pytest.raises(AccordError) as caught:
        settings(tmp_path, text)
    assert f"key model.{key}: " in str(caught.value)
    assert remedy in str(caught.value)
    assert "problems" not in str(caught.value)
