"""The promises of `prepare` on real text, where the corpora are at hand."""

from pathlib import Path

import pytest

from accord.config.load import load
from accord.data.prepare import prepare
from toy_corpus import write_experiment

MULTI30K = Path(__file__).parents[1] / "../shared/data/multi30k"


@pytest.mark.data
@pytest.mark.skipif(not MULTI30K.is_dir(), reason="the real corpora are not here")
def test_multi30k_becomes_three_disjoint_corpora(tmp_path):
    path = write_experiment(
        tmp_path,
        languages=["en", "de", "fr", "cs"],
        corpora=[
            {"pair": f"en-{other}", "train": str(MULTI30K / "train.{lang}.xz")}
            for other in ("de", "fr", "cs")
        ],
        dev=str(MULTI30K / "dev.{lang}.xz"),
        test=str(MULTI30K / "test.{lang}.xz"),
        vocabulary={"size": 4000},
    )
    store = prepare(load(path)).store
    english: dict[str, str] = {}
    for corpus in store.corpora:
        assert 9000 < len(corpus) < 10500
        rows = [row.tolist() for row in corpus.side("en")]
        for text in store.vocabulary.decode(rows):
            assert english.setdefault(text, corpus.name) == corpus.name
    held_out = {
        line for split in ("dev", "test") for line in store.held_out.pair(split, "en", "de")[0]
    }
    assert not held_out & set(english)
    for entry in store.manifest["corpora"]:
        assert entry["read"] - sum(step["dropped"] for step in entry["steps"]) == entry["lines"]
