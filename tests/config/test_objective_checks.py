"""Rules between the keys of `objective` where presets set some of them."""

import pytest

from accord.config.load import load
from accord.errors import AccordError

STAR = """\
languages: [en, de, fr]
corpora:
  - {pair: en-de, train: "train.{lang}"}
  - {pair: en-fr, train: "train.{lang}"}
"""


@pytest.mark.parametrize(
    ("given", "key", "what", "fix"),
    [
        (
            "{search: {sample: 1.0, beam: 4}}",
            "sample",
            "one translation is drawn, but a beam of 4 is asked for",
            "leave one of search.sample and search.beam out",
        ),
        (
            "{preset: word-sampling, search: {beam: 4}}",
            "beam",
            "drawn with preset word-sampling, which sets search.sample",
            "leave search.beam out, or take another preset",
        ),
        (
            "{preset: sentence-beam, search: {sample: 1.0}}",
            "sample",
            "a beam of 5 is asked for with preset sentence-beam, which sets search.beam",
            "leave search.sample out, or take another preset",
        ),
    ],
)
def test_a_preset_that_sets_half_of_a_contradiction_is_named(tmp_path, given, key, what, fix):
    """What the preset has set cannot be left out."""
    file = tmp_path / "x.yaml"
    file.write_text(STAR, "utf-8")
    with pytest.raises(AccordError) as caught:
        load(file, [f"objective.complete={given}"])
    message = str(caught.value)
    assert f"key objective.complete.search.{key}: " in message
    assert what in message
    assert f"fix: {fix}" in message
