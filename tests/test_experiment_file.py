import json
from pathlib import Path

import pytest
import yaml

from accord.config import Experiment
from accord.errors import AccordError
from accord.experiment_file import dump, load, store_directory

GOOD = """\
languages: [en, de, fr]
corpora:
  - {pair: en-de, train: "data/train.{lang}"}
  - pair: en-fr
    train: ["a.{lang}.gz", {path: b.tmx, format: tmx}]
dev: dev.{lang}
test:
  - {pair: en-de, path: "test.de.{lang}"}
overlap: disjoint
"""


def experiment(tmp_path, text=GOOD, *overrides):
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path, overrides)


def complaint(tmp_path, text=GOOD, *overrides) -> str:
    with pytest.raises(AccordError) as caught:
        experiment(tmp_path, text, *overrides)
    return str(caught.value)


def test_shorthands_are_written_out(tmp_path):
    found = experiment(tmp_path)
    assert found.name == "x"
    assert found.corpora[0].train[0].path == "data/train.{lang}"
    assert [source.format for source in found.corpora[1].train] == ["auto", "tmx"]
    assert found.dev.path == "dev.{lang}"
    assert found.test.sets[0].pair == "en-de"
    assert found.overlap.mode == "disjoint"
    assert store_directory(found) == Path("stores/x")


def test_resolved_yaml_reads_back_as_the_same_experiment(tmp_path):
    found = experiment(tmp_path)
    (tmp_path / "again.yaml").write_text(dump(found), encoding="utf-8")
    assert load(tmp_path / "again.yaml") == found


def test_overrides_change_single_keys(tmp_path):
    found = experiment(
        tmp_path,
        GOOD,
        "vocabulary.size=500",
        "corpora.1.limit=10",
        "overlap.matching=normalised",
        "corpora.0.train=other.{lang}",
    )
    assert found.vocabulary.size == 500
    assert found.corpora[1].limit == 10
    assert (found.overlap.mode, found.overlap.matching) == ("disjoint", "normalised")
    assert found.corpora[0].train[0].path == "other.{lang}"


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        (
            "overlap: disjoint",
            "overlop: disjoint",
            ["line 9", "'overlop'", "did you mean 'overlap'"],
        ),
        ('train: "data', 'trian: "data', ["line 3", "did you mean 'train'", "known here: pair"]),
        (
            "overlap: disjoint",
            "overlap: disjunct",
            ["line 9", "overlap.mode", "'disjunct'", "'disjoint', 'pairwise' or 'keep'"],
        ),
        (
            "overlap: disjoint",
            "vocabulary:\n  size: many",
            ["line 10", "vocabulary.size", "'many'", "integer", "Number of entries"],
        ),
        ("overlap: disjoint", "vocabulary: {size: 70000}", ["70000", "65536"]),
        ("pair: en-fr", "pair: en-it", ["line 4", "'it'", "`languages`", "add it there"]),
        ("pair: en-fr", "pair: english", ["corpora.1.pair", "'english'"]),
        ("pair: en-fr", "pair: en-de", ["corpus 1 has the pair", "one `train`"]),
        (
            "languages: [en, de, fr]",
            "languages: [en, de, fr, es]",
            ["do not connect", "en de fr; es"],
        ),
        ("languages: [en, de, fr]", "languages: [en, de, en, fr]", ["line 1", "twice"]),
        ("languages: [en, de, fr]\n", "", ["'languages' is missing", "All languages to translate"]),
        (
            "overlap: disjoint",
            "languages: [en]",
            ["line 9", "'languages' was given before, in line 1"],
        ),
        ("overlap: disjoint", "overlap: pairwise", ["needs the pairs", "pairs: ["]),
        (
            "overlap: disjoint",
            "overlap: {mode: pairwise, pairs: [en-de]}",
            ["en-de is supervised", "zero-shot pairs: de-fr"],
        ),
        ("overlap: disjoint", "overlap: {mode: keep, pairs: [de-fr]}", ["takes no pairs"]),
        ("dev: dev.{lang}", "dev: {path: 'a.{lang}', sets: [{pair: en-de, path: b}]}", ["both"]),
        ("overlap: disjoint", "overlap: [", ["not a readable YAML file"]),
    ],
)
def test_every_mistake_names_place_value_and_remedy(tmp_path, old, new, parts):
    message = complaint(tmp_path, GOOD.replace(old, new))
    assert str(tmp_path / "x.yaml") in message
    for part in parts:
        assert part in message


def test_several_mistakes_are_shown_at_once(tmp_path):
    text = GOOD.replace("overlap: disjoint", "overlop: a\nseed: -1")
    message = complaint(tmp_path, text)
    assert "2 problems" in message
    assert "overlop" in message
    assert "seed" in message


def test_a_bad_override_is_named_as_such(tmp_path):
    assert "--set vocabulary.size=big" in complaint(tmp_path, GOOD, "vocabulary.size=big")
    assert "did you mean 'size'" in complaint(tmp_path, GOOD, "vocabulary.siez=1000")
    assert "key=value" in complaint(tmp_path, GOOD, "seed")
    assert "no place" in complaint(tmp_path, GOOD, "corpora.7.limit=1")


def test_pairwise_needs_a_pivot_between_the_pair(tmp_path):
    text = GOOD.replace("[en, de, fr]", "[en, de, fr, es]").replace(
        "dev:", "  - {pair: fr-es, train: 'c.{lang}'}\ndev:"
    )
    text = text.replace("overlap: disjoint", "overlap: {mode: pairwise, pairs: [de-es]}")
    assert "no corpora of de-es meet in a pivot language" in complaint(tmp_path, text)


def test_shorthands_inside_lists_make_room_for_overrides(tmp_path):
    found = experiment(tmp_path, GOOD, "corpora.1.train.0.format=iwslt")
    assert found.corpora[1].train[0].format == "iwslt"


def test_a_missing_file_proposes_the_nearest(tmp_path):
    (tmp_path / "europarl.yaml").write_text(GOOD, encoding="utf-8")
    with pytest.raises(AccordError, match=r"did you mean .*europarl\.yaml"):
        load(tmp_path / "europrl.yaml")


def test_the_schema_describes_every_key():
    schema = Experiment.model_json_schema(mode="validation")
    sections = [schema, *schema["$defs"].values()]
    for section in sections:
        for key, value in section["properties"].items():
            assert value.get("description"), f"{key} has no description"
    json.dumps(schema)


def test_values_of_the_wrong_shape_are_explained(tmp_path):
    assert "corpora" in complaint(
        tmp_path, yaml.safe_dump({"languages": ["en", "de"], "corpora": 3})
    )
    assert "mapping" in complaint(tmp_path, "- a\n- b\n")
