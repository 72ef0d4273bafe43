"""benchmarks/cut_store.py: smaller stores that are as good as prepared ones."""

import json
import re

import numpy as np
import pytest

from accord.config.load import load, store_directory
from accord.data.encode import BUCKET
from accord.data.prepare import prepare
from accord.data.store import Store
from accord.errors import AccordError
from accord.training.begin import check_store
from accord.training.trainer import train
from scripts import script
from toy_training import prepared

cut_store = script("cut_store")


@pytest.fixture
def store(toy):
    return prepare(load(toy), workers=1).store


def texts(store, corpus):
    """The pairs of a corpus, in their order."""
    sides = [store.vocabulary.decode([row.tolist() for row in side]) for side in corpus.sides]
    return list(zip(*sides, strict=True))


def test_cuts_are_nested_and_keep_pairs_and_their_order(store, tmp_path):
    few = cut_store.cut(store, tmp_path / "few", 40)
    more = cut_store.cut(store, tmp_path / "more", 120)
    for whole, large, small in zip(store.corpora, more.corpora, few.corpora, strict=True):
        everything = texts(store, whole)
        assert (len(small), len(large)) == (40, 120)
        kept = {n: set(texts(made, cut)) for n, made, cut in ((0, few, small), (1, more, large))}
        assert kept[0] < kept[1] < set(everything)
        assert texts(few, small) == [pair for pair in everything if pair in kept[0]]
        assert texts(few, small) != everything[:40]


def test_everything_else_is_the_same_and_the_account_is_right(store, tmp_path):
    made = cut_store.cut(store, tmp_path / "cut", 40)
    assert made.vocabulary.model == store.vocabulary.model
    assert made.held_out.pair("test", "de", "fr") == store.held_out.pair("test", "de", "fr")
    assert made.manifest["fingerprint"] != store.manifest["fingerprint"]
    for entry, corpus, whole in zip(
        made.manifest["corpora"], made.corpora, store.corpora, strict=True
    ):
        assert entry["lines"] == 40
        assert entry["steps"][-1] == {"step": "cut", "dropped": len(whole) - 40, "left": 40}
        for language, side in zip(corpus.languages, corpus.sides, strict=True):
            assert entry["tokens"][language] == side.lengths().sum()
            bars = np.bincount(side.lengths() // BUCKET)
            assert entry["histogram"][language] == bars.tolist()


def test_a_corpus_with_fewer_pairs_stays_whole(store, tmp_path):
    made = cut_store.cut(store, tmp_path / "cut", 10_000)
    assert [len(corpus) for corpus in made.corpora] == [len(corpus) for corpus in store.corpora]
    assert texts(made, made.corpora[0]) == texts(store, store.corpora[0])


def test_training_asks_for_the_limit_that_is_printed(toy, store, tmp_path, capsys):
    cut_store.main([str(store.directory), str(tmp_path / "cut"), "--pairs", "40"])
    printed = re.findall(r"--set (\S+)", capsys.readouterr().out)
    made = Store(tmp_path / "cut")
    check_store(made, load(toy, printed))
    with pytest.raises(AccordError, match="another `corpora`"):
        check_store(made, load(toy, [f"store={tmp_path / 'cut'}"]))


def test_overlap_stays_as_it_was(toy, store, tmp_path):
    kept = load(toy, ["overlap=keep", "corpora.0.limit=500", f"store={tmp_path / 'keep'}"])
    whole = prepare(kept, workers=1).store
    made = cut_store.cut(whole, tmp_path / "cut", 40)
    first, second, third = ({pair[0] for pair in texts(made, c)} for c in made.corpora)
    assert second == third
    assert 25 < len(first & second) < 40  # the first corpus lacks a sixth of the sentences
    counts = [shared["strings"] for shared in made.manifest["overlap"]["after"]]
    assert counts == [len(first & second), len(first & third), 40]
    disjoint = cut_store.cut(store, tmp_path / "disjoint", 40)
    assert {shared["strings"] for shared in disjoint.manifest["overlap"]["after"]} == {0}


def test_a_cut_store_can_be_trained_on(tmp_path, tmp_path_factory):
    toy = prepared(tmp_path_factory.mktemp("whole"))
    whole = Store(store_directory(load(toy)))
    made = cut_store.cut(whole, tmp_path / "cut", 20)
    changes = [*cut_store.needed(made), f"run={tmp_path / 'run'}", "training.steps=2"]
    assert train(load(toy, changes)).step == 2
    manifest = json.loads((tmp_path / "run/manifest.json").read_text("utf-8"))
    assert manifest["cut"] == {"from": whole.manifest["fingerprint"], "pairs": 20}


def test_mistakes_are_told(store, tmp_path):
    def refused(source, out, pairs):
        with pytest.raises(SystemExit) as told:
            cut_store.main([str(source), str(out), "--pairs", str(pairs)])
        return str(told.value)

    cut_store.cut(store, tmp_path / "cut", 40)
    assert "is cut already" in refused(tmp_path / "cut", tmp_path / "again", 20)
    assert "there is a store here" in refused(store.directory, tmp_path / "cut", 20)
    assert "one pair at least" in refused(store.directory, tmp_path / "none", 0)
    assert "no prepared data" in refused(tmp_path / "nowhere", tmp_path / "out", 20)
    assert sorted(path.name for path in tmp_path.glob("*/manifest.json")) == ["manifest.json"] * 2
