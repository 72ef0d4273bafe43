import json
from pathlib import Path

import pytest
import yaml

from accord.config.load import dump, load, store_directory
from accord.config.schema import Experiment
from accord.errors import AccordError

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
        ("overlap: disjoint", "name: 2024-13-45", ["not a readable YAML file"]),
        ("overlap: disjoint", f"x: {'[' * 3000}{']' * 3000}", ["not a readable YAML file"]),
        (
            '  - {pair: en-de, path: "test.de.{lang}"}',
            "  - {pair: en-de, path: 'a.{lang}'}\n  - {pair: de-en, path: 'b.{lang}'}",
            [
                "line 9",
                "test.sets.1.pair",
                "de-en (b.{lang})",
                "en-de (a.{lang})",
                "one set a pair",
            ],
        ),
        ("dev: dev.{lang}", "dev: ''", ["line 6", "dev.path", "''"]),
        ("data/train.{lang}", "", ["corpora.0.train.0.path", "''"]),
        ("overlap: disjoint", "store: ''", ["line 9", "store"]),
        ("overlap: disjoint", 'run: "a\\nb"', ["line 9", "run"]),
        ("overlap: disjoint", "name: ..", ["line 9", "name"]),
        ("overlap: disjoint", "name: -x", ["line 9", "name"]),
        ("overlap: disjoint", "cleaning: {max_characters: null}", ["max_characters"]),
        ("overlap: disjoint", "cleaning: {max_characters: 20001}", ["20001", "20000"]),
        ("overlap: disjoint", "vocabulary: {sample: 99}", ["99", "100"]),
        ("overlap: disjoint", "seed: yes", ["line 9", "True", "integer"]),
        ("overlap: disjoint", "cleaning: {max_ratio: true}", ["max_ratio", "True"]),
        ("overlap: disjoint", "cleaning: {max_subwords: on}", ["max_subwords", "True"]),
        ("pair: en-fr", "pair: en-fr\n    limit: yes", ["corpora.1.limit", "True"]),
        ("overlap: disjoint", "on: 1", ["True", "Keys should be strings", "in quotes"]),
        (
            "overlap: disjoint",
            "objective: {denoise: {languges: all}}",
            ["line 9, key objective.denoise.languges", "did you mean 'languages'"],
        ),
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


def test_what_an_override_leaves_out_is_missing_beside_it(tmp_path):
    """No line of the file has such a section."""
    dual = "key objective.dual.language_model: the key 'language_model' is missing"
    item = "objective.dual.alpha=0.5"
    assert complaint(tmp_path, GOOD, item).startswith(f"beside --set {item}, {dual}")
    near = complaint(tmp_path, GOOD, "objective.denoise.mask=0.2", item)
    assert near.startswith(f"beside --set {item}, {dual}")
    other = GOOD + "objective: {denoise: {}}\n"
    assert complaint(tmp_path, other, "seed=3", item).startswith(f"beside --set {item}, {dual}")
    given = GOOD + "objective:\n  dual: {weight: 1.0}\n"
    assert complaint(tmp_path, given, item).startswith(f"{tmp_path / 'x.yaml'}, line 11, {dual}")


def test_what_a_shorthand_says_is_in_the_file_whatever_is_set_beside_it(tmp_path):
    text = GOOD.replace('train: "data/train.{lang}"', "train: {path: 'a.{lang}', format: zip}")
    found = complaint(tmp_path, text, "corpora.0.train.0.columns={en: 0, de: 1}")
    assert found.startswith(f"{tmp_path / 'x.yaml'}, line 3, key corpora.0.train.0.format: ")


def test_an_override_without_a_value_shows_how(tmp_path):
    said = complaint(tmp_path, GOOD, "seed")
    assert "not of the form key=value: 'seed'" in said
    assert "--set training.steps=800" in said


def test_pairwise_needs_a_pivot_between_the_pair(tmp_path):
    text = GOOD.replace("[en, de, fr]", "[en, de, fr, es]").replace(
        "dev:", "  - {pair: fr-es, train: 'c.{lang}'}\ndev:"
    )
    text = text.replace("overlap: disjoint", "overlap: {mode: pairwise, pairs: [de-es]}")
    assert "no corpora of de-es meet in a pivot language" in complaint(tmp_path, text)


def test_shorthands_make_room_for_overrides(tmp_path):
    found = experiment(
        tmp_path,
        GOOD,
        "corpora.0.train.0.format=iwslt",
        "corpora.1.train.0.format=iwslt",
        "test.sets.0.format=sgm",
    )
    assert [corpus.train[0].format for corpus in found.corpora] == ["iwslt", "iwslt"]
    assert found.corpora[0].train[0].path == "data/train.{lang}"
    assert found.test.sets[0].format == "sgm"
    assert "no place 1" in complaint(tmp_path, GOOD, "corpora.0.train.1.format=iwslt")
    assert "no place 'sets'" in complaint(tmp_path, GOOD, "languages.sets=1")


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


def test_the_norway_problem_is_explained_once(tmp_path):
    """YAML takes `no` for false; the list is then too short, which only follows from it."""
    text = "languages: [en, no]\ncorpora: [{pair: en-no, train: 'a.{lang}'}]\n"
    message = complaint(tmp_path, text)
    assert "languages.1" in message
    assert "put the word in quotes" in message
    assert "problems" not in message
    assert "at least 2" not in message
    assert "at least 2" in complaint(tmp_path, text.replace("en, no", "en"))


@pytest.mark.parametrize(
    ("item", "fix"),
    [
        ("training.optimizer={kind: adam, learning_rate: 1e-3}", "reads 1e-3 as text: write 0.001"),
        ("training.optimizer={kind: adam, learning_rate: 1e-7}", "write 1.0e-07"),
        ("training.steps=1e3", "write 1000"),
        ("training.steps='5'", "write 5"),
    ],
)
def test_numbers_that_yaml_takes_for_text_are_explained(tmp_path, item, fix):
    assert fix in complaint(tmp_path, GOOD, item)


def test_whole_numbers_serve_where_a_number_is_wanted(tmp_path):
    found = experiment(tmp_path, GOOD, "cleaning.max_ratio=3", "vocabulary.temperature=5")
    assert (found.cleaning.max_ratio, found.vocabulary.temperature) == (3.0, 5.0)


@pytest.mark.parametrize(
    "item",
    [
        "filters.round_trip=-.inf",
        "weight=.inf",
        "filters.length_ratio=[0,.inf]",
        "teacher.tolerance=.nan",
    ],
)
def test_numbers_have_an_end(tmp_path, item):
    assert "should be a finite number" in complaint(tmp_path, GOOD, f"objective.complete.{item}")


def test_aliases_are_followed_once(tmp_path):
    """Each list of ten is ten times the one before: all of them would be a billion visits."""
    lists = ["x0: &x0 [{a: 1}, {a: 1}]"]
    lists += [f"x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * 10)}]" for i in range(1, 10)]
    assert "unknown key 'x9'" in complaint(tmp_path, GOOD + "\n".join(lists))
    assert "unknown key 'x'" in complaint(tmp_path, "&a\n" + GOOD + "x: *a\n")


@pytest.mark.parametrize("part", ["²", "٣", "-1"])
def test_items_are_numbered_in_plain_digits(tmp_path, part):
    assert f"no place '{part}'" in complaint(tmp_path, GOOD, f"corpora.{part}.limit=5")


def test_an_override_nested_too_deeply(tmp_path):
    assert "not YAML" in complaint(tmp_path, GOOD, f"seed={'[' * 3000}")


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("dev: {lang}.dev", ["line 6", "in quotes", "dev: {lang}.dev"]),
        ("dev: {lang}", ["line 6", "key dev.lang", "in quotes"]),
        ("store: {name}/store", ["line 6", "in quotes"]),
        ("dev: [", ["line 7", "the one before", "not a readable YAML file"]),
        ("dev: \x0b", ["not a readable YAML file"]),
        ("languages: [en, deutsch]", ["languages.1", "'deutsch'", "written as en, or pt_BR"]),
        ("languages: en", ["a list is needed here"]),
        ("corpora: []", ["a list", "at least 1 are needed"]),
        ("training: 5", ["key training", "a section of keys with values is needed"]),
        ("training: {steps: -5}", ["key training.steps", "give 1 or more", "Updates in all"]),
        ("training: {threads: 100000}", ["give 1024 or less"]),
        ("training: {keep: 1.5}", ["a whole number (integer) is needed"]),
        ("cleaning: {nfc: 3}", ["true or false is needed"]),
        ("name: -x", ["key name", "letters and digits"]),
        ("overlap: {pairs: [ende]}", ["a pair is written as en-de"]),
    ],
)
def test_complaints_are_in_words_that_users_know(tmp_path, line, parts):
    key = line.partition(":")[0]
    good = {
        "languages": "[en, de]",
        "corpora": '[{pair: en-de, train: "x.{lang}"}]',
        "seed": "1",
        "run": "r",
        "model": "{}",
    }
    lines = [f"{name}: {value}" for name, value in good.items() if name != key]
    text = "\n".join([*lines, *["# filled up"] * (5 - len(lines)), line, ""])
    message = complaint(tmp_path, text)
    for part in (str(tmp_path), *parts):
        assert part in message
    for foreign in ("<unicode string>", "pattern", "instance of", "Tuple", "dictionary"):
        assert foreign not in message


def test_a_directory_is_no_experiment_file(tmp_path):
    with pytest.raises(AccordError, match="cannot be read: Is a directory") as caught:
        load(tmp_path)
    assert caught.value.where == str(tmp_path)


@pytest.mark.parametrize(
    ("given", "key", "said"),
    [
        ("al", "languages", "'al' is not allowed: should be 'all', or a list is needed here"),
        ("[en, 5]", "languages.1", "5 is not allowed: a text is needed here"),
        ("[]", "languages", "a list is not allowed: should be 'all', or it has 0 items"),
    ],
)
def test_a_value_that_may_be_this_or_that_is_one_problem(tmp_path, given, key, said):
    """pydantic has one for either, under names such as `languages.literal['all']`."""
    found = complaint(tmp_path, f"{GOOD}objective: {{denoise: {{languages: {given}}}}}\n")
    assert f"line 10, key objective.denoise.{key}: {said}" in found
    assert "fix: languages: Whose sentences are used" in found
    assert "problems" not in found
