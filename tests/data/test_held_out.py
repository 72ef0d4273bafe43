import warnings
from itertools import permutations

import pytest

from accord.config.schema import Cleaning, Experiment, HeldOut, PairSet
from accord.data.held_out import EvaluationSet, held_out_sets, join, read_held_out
from accord.data.prepare import prepare
from accord.errors import AccordError, AccordWarning


def pair_set(pair, rows):
    first, second = pair.split("-")
    return EvaluationSet(pair, {first: [a for a, _ in rows], second: [b for _, b in rows]}, "x")


def test_join_pairs_lines_with_the_same_pivot_in_the_order_of_the_first():
    de = pair_set("en-de", [("a", "A1"), ("b", "B1"), ("c", "C1"), ("a", "A2")])
    fr = pair_set("en-fr", [("c", "C9"), ("x", "X9"), ("a", "A9")])
    joined = join(de, fr, "en")
    assert joined.name == "de-fr"
    assert joined.lines == {"de": ["A1", "C1"], "fr": ["A9", "C9"]}
    assert joined.origin == "joined on en: en-de (4) with en-fr (3)"


def test_join_pairs_repeated_sentences_occurrence_by_occurrence():
    de = pair_set("en-de", [("yes", "ja"), ("no", "nein"), ("yes", "doch")])
    fr = pair_set("en-fr", [("yes", "oui"), ("yes", "si"), ("yes", "mais oui")])
    assert join(de, fr, "en").lines == {"de": ["ja", "doch"], "fr": ["oui", "si"]}


@pytest.fixture
def files(tmp_path):
    def write(name, lines):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    write("t.en-de.en", ["one", "two", "three"])
    write("t.en-de.de", ["eins", "zwei", "drei"])
    write("t.en-fr.en", ["two", "four"])
    write("t.en-fr.fr", ["deux", "quatre"])
    return tmp_path


def test_pairs_without_a_set_are_joined(files):
    sets = tuple(
        PairSet(pair=pair, path=str(files / f"t.{pair}.{{lang}}")) for pair in ("en-de", "en-fr")
    )
    found = {s.name: s for s in read_held_out(HeldOut(sets=sets), ["en", "de", "fr"], Cleaning())}
    assert list(found) == ["en-de", "en-fr", "de-fr"]
    assert found["de-fr"].lines == {"de": ["zwei"], "fr": ["deux"]}
    assert len(found["en-de"]) == 3


def test_held_out_text_is_mended_but_no_line_is_dropped(tmp_path):
    for language, lines in {"en": ["a\u00a0b", ""], "de": ["e\u0301", "x"]}.items():
        (tmp_path / f"dev.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (found,) = read_held_out(HeldOut(path=str(tmp_path / "dev.{lang}")), ["en", "de"], Cleaning())
    assert found.lines == {"en": ["a b", ""], "de": ["é", "x"]}


@pytest.mark.parametrize(
    ("shared", "told"), [(100, "100 of the 100"), (2, "2 of the 100"), (1, None)]
)
def test_a_test_set_of_dev_lines_is_told(tmp_path, shared, told):
    for split, numbers in {"dev": range(100), "test": range(100 - shared, 200 - shared)}.items():
        for language in ("en", "de"):
            lines = (f"{language} {number}\n" for number in numbers)
            (tmp_path / f"{split}.{language}").write_text("".join(lines), encoding="utf-8")
    settings = {
        "name": "x",
        "languages": ["en", "de"],
        "corpora": [{"pair": "en-de", "train": "none.{lang}"}],
        "dev": str(tmp_path / "dev.{lang}"),
        "test": str(tmp_path / "test.{lang}"),
    }
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", AccordWarning)
        held_out_sets(Experiment.model_validate(settings))
    assert [told in str(note.message) for note in notes] == [True] * (told is not None)


def test_a_set_with_uneven_languages_is_refused(tmp_path):
    for language, count in {"en": 3, "de": 2}.items():
        (tmp_path / f"dev.{language}").write_text("x\n" * count)
    for languages in permutations(["en", "de"]):
        with pytest.raises(AccordError, match="en 3") as caught:
            read_held_out(HeldOut(path=str(tmp_path / "dev.{lang}")), languages, Cleaning())
        assert "de 2" in str(caught.value)


def test_one_multi_parallel_jsonl_file(tmp_path):
    (tmp_path / "dev.jsonl").write_text('{"en": "a", "de": "b"}\n{"en": "c", "de": "d"}\n')
    (found,) = read_held_out(HeldOut(path=str(tmp_path / "dev.jsonl")), ["en", "de"], Cleaning())
    assert found.lines == {"en": ["a", "c"], "de": ["b", "d"]}


# Lines that are split off the training corpora


def experiment(folder, corpora, **keys):
    """An experiment on corpora given as rows of pairs, en first."""
    for pair, rows in corpora.items():
        for side, language in enumerate(pair.split("-")):
            text = "".join(f"{row[side]}\n" for row in rows)
            (folder / f"{pair}.{language}").write_text(text, encoding="utf-8")
    return Experiment.model_validate(
        {
            "name": "x",
            "languages": list(dict.fromkeys(name for pair in corpora for name in pair.split("-"))),
            "corpora": [{"pair": p, "train": f"{folder}/{p}.{{lang}}"} for p in corpora],
            **keys,
        }
    )


def rows(language, numbers):
    return [(f"sentence {n}", f"{language} {n}") for n in numbers]


def texts(found, split, name):
    return next(item.lines for item in found[split] if item.name == name)


def test_lines_are_split_off_each_corpus_and_dev_and_test_share_none(tmp_path):
    corpora = {"en-de": rows("de", range(60)), "en-fr": rows("fr", range(1000, 1060))}
    found = held_out_sets(experiment(tmp_path, corpora, dev={"lines": 10}, test={"lines": 20}))
    assert list(found) == ["dev", "test"]
    assert [item.name for item in found["dev"]] == ["en-de", "en-fr"]  # nothing to join
    dev, test = texts(found, "dev", "en-de"), texts(found, "test", "en-de")
    assert (len(set(dev["en"])), len(set(test["en"]))) == (10, 20)
    assert not set(dev["en"]) & set(test["en"])
    for lines in (dev, test):
        pairs = zip(lines["en"], lines["de"], strict=True)
        assert all(pair in corpora["en-de"] for pair in pairs)
    assert found["dev"][0].origin == "split off the corpus en-de"


def test_the_choice_hangs_on_the_seed_and_not_on_the_order_of_lines(tmp_path):
    many = [*rows("de", range(6000)), ("sentence 7", "another"), ("", "empty"), ("a", "a")]

    def chosen(lines, seed=1):
        made = experiment(tmp_path, {"en-de": lines}, dev={"lines": 50}, seed=seed)
        return set(texts(held_out_sets(made), "dev", "en-de")["en"])

    first = chosen(many)
    assert chosen(many[::-1]) == first
    assert chosen(many, seed=2) != first


def test_what_corpora_share_is_chosen_in_all_of_them_and_joined(tmp_path):
    corpora = {
        "en-de": rows("de", range(400)),
        "fr-en": [(b, a) for a, b in rows("fr", range(400))],
    }
    made = experiment(tmp_path, corpora, test={"lines": 30})
    joined = texts(held_out_sets(made), "test", "de-fr")
    assert len(joined["de"]) == 30
    assert all(de[3:] == fr[3:] for de, fr in zip(joined["de"], joined["fr"], strict=True))


def test_lines_of_a_given_set_are_not_split_off_again(tmp_path):
    corpora = {"en-de": rows("de", range(30))}
    for language, side in (("en", "sentence"), ("de", "de")):
        text = "".join(f"{side} {n}\n" for n in range(20))
        (tmp_path / f"test.{language}").write_text(text)
    keys = {"test": f"{tmp_path}/test.{{lang}}", "overlap": {"matching": "normalised"}}
    found = held_out_sets(experiment(tmp_path, corpora, dev={"lines": 10}, **keys))
    assert {int(text.split()[1]) for text in texts(found, "dev", "en-de")["en"]} == set(
        range(20, 30)
    )
    with pytest.raises(AccordError, match="has 10 lines to choose from, but dev asks for 11"):
        held_out_sets(experiment(tmp_path, corpora, dev={"lines": 11}, **keys))


def test_a_set_that_is_split_off_is_not_trained_on(tmp_path):
    made = experiment(
        tmp_path,
        {"en-de": rows("de", range(300))},
        dev={"lines": 20},
        test={"lines": 30},
        vocabulary={"size": 300},
        store=f"{tmp_path}/store",
    )
    store = prepare(made, workers=1).store
    (corpus,) = store.corpora
    assert len(corpus) == 250
    trained = set(store.vocabulary.decode([ids.tolist() for ids in corpus.side("en")]))
    assert len(trained) == 250
    assert not trained & {*store.held_out.pair("dev", "en", "de")[0]}


def test_settings_without_lines_name_the_same_store_as_before():
    """The fingerprint of a store is made of its settings: a key that is not given is no part."""
    made = Experiment(name="x", languages=("en", "de"), corpora=[{"pair": "en-de", "train": "a"}])
    assert made.model_dump(mode="json")["dev"] == {"path": None, "format": "auto", "sets": []}
