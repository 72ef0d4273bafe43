"""`accord prepare --from-store`: smaller stores that are as good as prepared ones."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from accord.cli import app
from accord.config.load import load, store_directory
from accord.data.encode import BUCKET
from accord.data.prepare import prepare
from accord.data.store import Store
from accord.data.subset import cut, needed
from accord.errors import AccordError
from accord.training.begin import check_store
from accord.training.trainer import train
from toy_training import prepared


def prepare_from(experiment, source, out, pairs, *more, code=0):
    line = ["prepare", experiment, "--from-store", source, "--pairs", pairs, *more]
    result = CliRunner().invoke(app, [*map(str, line), "--set", f"store={out}"])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def store(toy):
    return prepare(load(toy), workers=1).store


def texts(store, corpus):
    """The pairs of a corpus, in their order."""
    sides = [store.vocabulary.decode([row.tolist() for row in side]) for side in corpus.sides]
    return list(zip(*sides, strict=True))


def test_cuts_are_nested_and_keep_pairs_and_their_order(store, tmp_path):
    few = cut(store, tmp_path / "few", 40)
    more = cut(store, tmp_path / "more", 120)
    for whole, large, small in zip(store.corpora, more.corpora, few.corpora, strict=True):
        everything = texts(store, whole)
        assert (len(small), len(large)) == (40, 120)
        kept = {n: set(texts(made, cut)) for n, made, cut in ((0, few, small), (1, more, large))}
        assert kept[0] < kept[1] < set(everything)
        assert texts(few, small) == [pair for pair in everything if pair in kept[0]]
        assert texts(few, small) != everything[:40]


def test_everything_else_is_the_same_and_the_account_is_right(store, tmp_path):
    made = cut(store, tmp_path / "cut", 40)
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
    made = cut(store, tmp_path / "cut", 10_000)
    assert [len(corpus) for corpus in made.corpora] == [len(corpus) for corpus in store.corpora]
    assert texts(made, made.corpora[0]) == texts(store, store.corpora[0])


def test_training_asks_for_the_limit_that_is_printed(toy, store, tmp_path):
    result = prepare_from(toy, store.directory, tmp_path / "cut", 40)
    printed = re.findall(r"--set (\S+)", result.stdout)
    made = Store(tmp_path / "cut")
    check_store(made, load(toy, printed))
    with pytest.raises(AccordError, match="another `corpora`"):
        check_store(made, load(toy, [f"store={tmp_path / 'cut'}"]))


def test_overlap_stays_as_it_was(toy, store, tmp_path):
    kept = load(toy, ["overlap=keep", "corpora.0.limit=500", f"store={tmp_path / 'keep'}"])
    whole = prepare(kept, workers=1).store
    made = cut(whole, tmp_path / "cut", 40)
    first, second, third = ({pair[0] for pair in texts(made, c)} for c in made.corpora)
    assert second == third
    assert 25 < len(first & second) < 40  # the first corpus lacks a sixth of the sentences
    counts = [shared["strings"] for shared in made.manifest["overlap"]["after"]]
    assert counts == [len(first & second), len(first & third), 40]
    disjoint = cut(store, tmp_path / "disjoint", 40)
    assert {shared["strings"] for shared in disjoint.manifest["overlap"]["after"]} == {0}


def test_a_cut_store_can_be_trained_on(tmp_path, tmp_path_factory):
    toy = prepared(tmp_path_factory.mktemp("whole"))
    whole = Store(store_directory(load(toy)))
    made = cut(whole, tmp_path / "cut", 20)
    changes = [*needed(made), f"run={tmp_path / 'run'}", "training.steps=2"]
    assert train(load(toy, changes)).step == 2
    manifest = json.loads((tmp_path / "run/manifest.json").read_text("utf-8"))
    assert manifest["cut"] == {"from": whole.manifest["fingerprint"], "pairs": 20}


def test_mistakes_are_told(toy, store, tmp_path):
    def refused(source, out, pairs, experiment=toy):
        return str(prepare_from(experiment, source, out, pairs, code=1).exception)

    cut(store, tmp_path / "cut", 40)
    assert "is cut already" in refused(tmp_path / "cut", tmp_path / "again", 20)
    assert "there is a store here" in refused(store.directory, tmp_path / "cut", 20)
    assert "one pair at least" in refused(store.directory, tmp_path / "none", 0)
    assert "no prepared data" in refused(tmp_path / "nowhere", tmp_path / "out", 20)
    other = tmp_path / "other.yaml"
    other.write_text(toy.read_text("utf-8").replace("size: 400", "size: 420"), "utf-8")
    assert "prepared with another `vocabulary`" in refused(
        store.directory, tmp_path / "out", 20, other
    )
    assert sorted(path.name for path in tmp_path.glob("*/manifest.json")) == ["manifest.json"] * 2


def test_the_statistics_of_a_cut_are_written_as_json(toy, store, tmp_path):
    result = prepare_from(toy, store.directory, tmp_path / "a", 40, "--json", tmp_path / "a.json")
    facts = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert [corpus["lines"] for corpus in facts["corpora"]] == [40, 40, 40]
    assert result.stdout.startswith("--set store=")
    result = prepare_from(toy, store.directory, tmp_path / "b", 40, "--json", "-")
    assert json.loads(result.stdout) == facts
    assert "--set store=" in result.stderr


def test_the_store_and_the_number_of_pairs_go_together(toy):
    for given in (["--pairs", "5"], ["--from-store", "x"]):
        assert CliRunner().invoke(app, ["prepare", str(toy), *given]).exit_code == 2
