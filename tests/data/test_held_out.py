from itertools import permutations

import pytest

from accord.config.schema import Cleaning, HeldOut, PairSet
from accord.data.held_out import EvaluationSet, join, read_held_out
from accord.errors import AccordError


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
