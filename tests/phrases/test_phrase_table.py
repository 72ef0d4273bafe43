"""The phrase table: which phrases it has, how often each was seen, and files that are not there."""

import pytest

from accord.config.model_settings import AlignmentSettings, PhraseSettings
from accord.errors import AccordError
from accord.phrases import phrase_table
from accord.phrases.phrase_table import write_alignment, write_phrases

HMM = AlignmentSettings()
PAIRS = [
    *[(["a", "b"], ["A", "B"])] * 3,
    *[(["a"], ["A"])] * 2,
    (["b", "c"], ["B", "C"]),
]


def written(directory, pairs, **settings):
    write_alignment(directory, pairs, HMM, lambda: None)
    write_phrases(directory, directory, pairs, HMM, PhraseSettings(**settings))
    rows = (line.split(" ||| ") for line in (directory / "tm.ttable").read_text().splitlines())
    return {(source, target): counts for target, source, counts in rows}


def test_phrases_have_the_counts_of_the_whole_and_of_the_source(tmp_path):
    found = {key: [float(x) for x in counts.split()] for key, counts in
             written(tmp_path, PAIRS).items()}  # fmt: skip
    assert found == {
        ("a", "A"): [5, 5],
        ("b", "B"): [4, 4],
        ("c", "C"): [1, 1],
        ("a b", "A B"): [3, 3],
        ("b c", "B C"): [1, 1],
    }


def test_what_thot_reads_beside_it_is_there_and_nothing_else_is_left(tmp_path):
    written(tmp_path, PAIRS)
    ours = {x.name.removeprefix("tm."): x for x in tmp_path.iterdir() if x.name.startswith("tm.")}
    assert ours.keys() == {
        *("ttable", "lambda", "srcsegmlentable", "trgcutstable", "trgsegmlentable")
    }
    assert ours["lambda"].read_text() == "0.7 0.7"  # without it scores are others
    assert not (tmp_path / "alignment.giza").exists()  # as large as the corpus


def test_no_phrase_is_longer_than_it_may_be_on_either_side(tmp_path):
    pairs = [(["a", "b", "c"], ["X"]), (["d"], ["Y", "Z", "W"])] * 5
    sides = [
        tuple(len(side.split()) for side in phrase)
        for phrase in written(tmp_path, pairs, longest=2)
    ]
    assert all(length <= 2 for lengths in sides for length in lengths)


def test_a_file_that_cannot_be_written_or_read_is_named(tmp_path, monkeypatch):
    with pytest.raises(AccordError, match="could not write or read") as error:
        write_alignment(tmp_path / "nowhere", PAIRS, HMM, lambda: None)
    assert error.value.where.endswith("nowhere/tm_invswm")
    write_alignment(tmp_path, PAIRS, HMM, lambda: None)
    (tmp_path / "tm.ttable").mkdir()
    with pytest.raises(AccordError, match="could not write or read") as error:
        write_phrases(tmp_path, tmp_path, PAIRS, HMM, PhraseSettings())
    assert error.value.where.endswith("tm.ttable")

    def lost(*_):
        (tmp_path / "alignment.giza").unlink()
        yield ""

    monkeypatch.setattr(phrase_table, "alignment_lines", lost)
    with pytest.raises(AccordError, match="could not write or read") as error:
        write_phrases(tmp_path, tmp_path, PAIRS, HMM, PhraseSettings())
    assert error.value.where.endswith("alignment.giza")
