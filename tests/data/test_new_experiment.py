"""The experiment file that `accord init` writes: loads, prepares, and says what was chosen."""

from pathlib import Path

import pytest
import yaml

from accord.config.sizes import held_out_lines, sizes_for
from accord.data.builtin import make
from accord.data.discover import discover
from accord.data.formats import read_corpus
from accord.data.new_experiment import Machine, draft
from accord.data.prepare import prepare
from accord.errors import AccordError
from accord.graph import Direction
from accord.progress import Silent

CPU, GPU = Machine(None, 2), Machine("A GPU", 16)


def drafted(*paths, machine=CPU, pairs=None):
    found = discover([Path(path) for path in paths] or [Path()])
    return draft(found, machine, name="experiment", pairs=pairs, progress=Silent())


def failure(*paths, **keys):
    with pytest.raises(AccordError) as caught:
        drafted(*paths, **keys)
    return caught.value


def write(name, lines):
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture(scope="module")
def phrases():
    """The same 600 phrases in five languages."""
    languages = ("en", "de", "fr", "es", "it")
    pairs = [Direction("en", other) for other in languages[1:]]
    corpus = make(languages, pairs, lines=300, held_out=300, overlap=0.0, seed=3)
    return {language: corpus.dev[language] + corpus.test[language] for language in languages}


@pytest.fixture
def here(tmp_path, monkeypatch, phrases):
    monkeypatch.chdir(tmp_path)

    def corpus(pattern, languages, start=0, count=300):
        for language in languages.split():
            name = pattern.replace("{lang}", language)
            write(name, phrases[language][start : start + count])

    return corpus


def test_two_corpora_become_an_experiment_that_prepares(here):
    here("c.en-de.{lang}", "en de")
    here("c.en-fr.{lang}", "en fr", start=300)
    made = drafted()
    experiment = made.experiment
    assert experiment.languages == ("en", "de", "fr")
    assert [corpus.pair for corpus in experiment.corpora] == ["en-de", "en-fr"]
    assert made.lines == {"en-de": 300, "en-fr": 300}
    assert {str(d) for d in experiment.graph.zero_shot} == {"de-fr", "fr-de"}
    assert (experiment.dev.lines, experiment.test.lines) == (14, 14)  # some lines are numbers only
    assert experiment.model.kind == "transformer"
    assert experiment.training.threads == 2
    assert made.example[0] == "en"
    assert made.notes == ()
    Path("experiment.yaml").write_text(made.text)
    store = prepare(experiment, workers=1).store  # the vocabulary fits, too
    assert len(store.held_out.pair("test", "de", "en")[0]) == 14
    assert len(store.vocabulary) == experiment.vocabulary.size == 500


def test_dev_and_test_files_are_taken_as_such(here):
    here("train.{lang}", "en de")
    here("dev.{lang}", "en de", start=300, count=20)
    here("test.en-de.{lang}", "en de", start=350, count=20)
    experiment = drafted().experiment
    assert experiment.dev.path == "dev.{lang}"
    assert experiment.test.path == "test.en-de.{lang}"


def test_sets_of_single_pairs(here):
    here("c.en-de.{lang}", "en de")
    here("c.en-fr.{lang}", "en fr", start=300)
    here("dev.en-de.{lang}", "en de", start=250, count=20)
    here("dev.de-it.{lang}", "de it", start=250, count=20)  # it is not trained on
    dev = drafted().experiment.dev
    assert [(item.pair, item.path) for item in dev.sets] == [("en-de", "dev.en-de.{lang}")]
    assert failure("dev.en-de.en", "dev.en-de.de").what.endswith("no text to train on")


def test_a_text_in_three_languages_is_trained_on_in_all_pairs(here):
    here("t.{lang}", "en de fr")
    made = drafted()
    assert [corpus.pair for corpus in made.experiment.corpora] == ["en-de", "en-fr", "de-fr"]
    assert not made.experiment.graph.zero_shot
    chosen = drafted(pairs=[("de", "en"), ("fr", "de")]).experiment
    assert chosen.languages == ("de", "en", "fr")
    assert [corpus.pair for corpus in chosen.corpora] == ["de-en", "de-fr"]
    error = failure(pairs=[("de", "it")])
    assert error.what == "no text was found for de-it"
    assert "de-en, de-fr, en-fr" in error.fix


def test_a_text_in_many_languages_is_trained_on_with_one(here):
    here("t.{lang}", "en de fr es it")
    made = drafted()
    assert [corpus.pair for corpus in made.experiment.corpora] == [
        "en-de",
        "en-es",
        "en-fr",
        "en-it",
    ]
    assert "its pairs with en are trained on" in made.notes[0]


def test_two_texts_of_a_pair_are_both_read_and_noted(here):
    here("a.{lang}", "en de")
    here("b.{lang}", "en de", start=300, count=100)
    made = drafted()
    (corpus,) = made.experiment.corpora
    assert [source.path for source in corpus.train] == ["a.{lang}", "b.{lang}"]
    assert made.lines == {"en-de": 400}
    assert "a.{lang}, b.{lang}; take those out of the file that are copies" in made.notes[0]


def test_columns_the_other_way_round_are_not_mixed_up(here, phrases):
    rows = zip(phrases["de"], phrases["en"], strict=True)
    write("memory.tsv", [f"{de}\t{en}" for de, en in rows])
    (corpus,) = drafted().experiment.corpora
    assert corpus.pair == "en-de"
    first = next(read_corpus(corpus))
    assert first == (phrases["en"][0], phrases["de"][0])


def test_columns_are_written_down(here, phrases):
    rows = zip(phrases["de"], phrases["en"], strict=True)
    write("memory.en-de.tsv", [f"{n}\t{de}\t{en}" for n, (de, en) in enumerate(rows)])
    made = drafted()
    assert made.experiment.corpora[0].train[0].columns == {"de": 1, "en": 2}
    assert made.lines == {"en-de": 600}


def test_files_of_unequal_length_are_refused(here, phrases):
    here("c.{lang}", "en de")
    write("c.de", phrases["de"][:290])
    error = failure()
    assert "en has 300 lines (c.en) but de has 290 lines (c.de)" in error.what
    here("c.{lang}", "en de")
    here("dev.{lang}", "en de", start=400, count=20)
    write("dev.de", phrases["de"][:19])
    assert "a multi-parallel set has the same lines in every language" in failure().what


def test_corpora_that_do_not_meet_are_refused(here):
    here("a.en-de.{lang}", "en de")
    here("b.fr-it.{lang}", "fr it")
    error = failure()
    assert "the corpora do not connect all languages: en de; fr it" in error.what
    assert "/" not in error.what.split("experiment.yaml")[0]  # no name of a temporary folder


def test_the_vocabulary_is_one_that_so_little_text_can_fill(here):
    here("a.{lang}", "en de", count=9)
    experiment = drafted().experiment
    assert experiment.vocabulary.size < 500
    assert len(prepare(experiment, workers=1).store.vocabulary) == experiment.vocabulary.size


def test_lines_that_repeat_themselves_are_not_counted_for_dev_and_test(here, phrases):
    for language in ("en", "de"):
        write(f"a.{language}", phrases[language][:40] * 10)
    experiment = drafted().experiment
    assert experiment.dev.lines == 2
    assert len(prepare(experiment, workers=1).store.corpora[0]) == 36


def test_too_little_text(here):
    write("a.en", ["a"])
    write("a.de", ["b"])
    assert failure().what == "the corpus en-de has 1 lines, of which 1 can be used"
    write("a.en", ["a b", "c d", "e f"])
    write("a.de", ["a b", "c d", "e f"])  # the same file twice
    assert failure().what == "the corpus en-de has 3 lines, of which 0 can be used"
    write("a.de", ["g h", "i j", "k l"])
    assert "too few to learn from" in failure().what


def test_a_language_that_yaml_would_read_as_false_is_quoted(here):
    here("t.{lang}", "en de")
    Path("t.de").rename("t.no")
    made = drafted()
    assert made.experiment.languages == ("en", "no")
    assert yaml.safe_load(made.text)["languages"] == ["en", "no"]


def test_sizes_grow_with_the_text_and_the_machine(here):
    for gpu in (False, True):
        found = [sizes_for(lines, gpu=gpu) for lines in (1000, 50_000, 500_000, 10**8)]
        assert [s.vocabulary for s in found] == sorted(s.vocabulary for s in found)
        assert [s.units for s in found] == sorted(s.units for s in found)
        assert all(s.units % s.heads == 0 for s in found)
        assert all((s.minutes is None) == gpu for s in found)
    assert [held_out_lines(n) for n in (10, 2000, 10**6)] == [1, 100, 1000]
    here("t.{lang}", "en de")
    made = drafted(machine=GPU)
    assert made.experiment.training.threads is None
    assert made.experiment.training.minutes is None
    assert made.experiment.model.units == 256
