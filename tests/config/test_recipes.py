"""Every recipe: what it trains, and that it prepares on data laid out like the originals."""

import os
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from accord.config.load import load
from accord.config.schema import DATA_KEYS
from accord.config.shipped import recipe
from accord.data.prepare import prepare
from accord.errors import AccordError
from accord.fetching.catalogue import dataset
from accord.fetching.fetch import fetch
from accord.models.build import build_model
from miniatures import IWSLT, ORIGINALS, pairs_of, pointed

# Recipe: the dataset it reads, supervised and zero-shot directions.
PAPER = {
    "europarl": ("europarl", 6, 6),
    "un1": ("un", 4, 2),
    "un2": ("un", 6, 6),
    "iwslt17": ("iwslt17", 16, 4),
    "iwslt17-star": ("iwslt17", 8, 12),
}
OURS = {"small-data": ("europarl", 6, 6), "multi30k": ("multi30k", 6, 6)}
TRANSFORMERS = {
    f"{name}-transformer": (PAPER | OURS)[name]
    for name in ("europarl", "un2", "iwslt17", "multi30k")
}
ALL = PAPER | OURS | {f"{name}-small": facts for name, facts in PAPER.items()} | TRANSFORMERS

# Lines of training data in the paper's table: IWSLT17 and IWSLT17*.
TABLE = {
    "en-de": (206_000, 124_000),
    "en-nl": (237_000, 155_000),
    "en-it": (231_000, 139_000),
    "en-ro": (220_000, 128_000),
}
DATA = Path(os.environ.get("ACCORD_DATA", Path(__file__).parents[1] / "../shared/data"))
REAL = DATA / "iwslt17"


def data_settings(experiment):
    return experiment.model_dump(include=set(DATA_KEYS))


def fetched(name, directory):
    """The dataset in small, brought to `directory` by the code that brings the real one."""
    files = ORIGINALS[name]()
    (directory / "originals").mkdir()
    for file, content in files.items():
        (directory / "originals" / file).write_bytes(content)
    wanted = pointed(dataset(name), "http://nowhere", files)
    fetch(wanted, directory / "data", source=directory / "originals")


def prepared(name, *overrides):
    small = ["vocabulary.size=360", *overrides]
    return prepare(load(recipe(name), small), workers=1).store


def lines_of(store):
    return {corpus.name: len(corpus) for corpus in store.corpora}


def shared_after(store):
    return {(s["first"], s["second"]): s["strings"] for s in store.manifest["overlap"]["after"]}


@pytest.mark.parametrize("name", ALL)
def test_directions_are_those_of_the_paper(name):
    """R18: 16 and 4 for the official IWSLT17, 8 and 12 for IWSLT17*."""
    graph = load(recipe(name)).graph
    assert (len(graph.supervised), len(graph.zero_shot)) == ALL[name][1:]
    assert graph.spans()
    if name.startswith("iwslt17") and "star" not in name:
        assert {str(d) for d in graph.zero_shot} == {"de-nl", "nl-de", "it-ro", "ro-it"}


def test_a_chain_has_two_pivots_and_full_supervision_none():
    chain, full = (load(recipe(name)).graph for name in ("multi30k-chain", "parliament-supervised"))
    assert (len(chain.supervised), len(chain.zero_shot)) == (6, 6)
    assert chain.pivot_path("en", "cs") == ("en", "de", "fr", "cs")
    assert (len(full.supervised), len(full.zero_shot)) == (12, 0)


@pytest.mark.parametrize("name", [*PAPER, "small-data"])
def test_settings_are_those_of_the_paper(name):
    experiment = load(recipe(name))
    training, agreement = experiment.training, experiment.objective.agreement
    assert training.steps == (200_000 if name == "small-data" else 500_000)
    assert (training.batch_tokens, training.precision) == (4096, "fp32")
    assert (training.label_smoothing, training.clip, training.temperature) == (0.1, 2.0, 1.0)
    optimizer = training.optimizer
    assert (optimizer.kind, optimizer.peak, optimizer.shape) == ("adafactor", 0.01, "paper")
    assert optimizer.warmup == 10_000
    assert (agreement.weight, agreement.normalize, agreement.start) == (0.01, "sum", 100_000)
    assert (agreement.decoding, agreement.max_length) == ("continuous", 40)
    assert (agreement.measure, agreement.feedback_gradient) == ("cross-entropy", True)
    assert (agreement.auxiliary, agreement.relative_length) == ("all", False)
    assert agreement.gradient_limit is None
    assert experiment.model.dropout == 0.2
    # Early stopping must leave agreement its turn.
    patience = training.validation.patience
    assert patience is None or patience * training.validation.every >= agreement.start


@pytest.mark.parametrize("name", PAPER)
def test_the_model_has_the_paper_s_size(name):
    experiment = load(recipe(name))
    with torch.device("meta"):
        model = build_model(experiment.model, experiment.vocabulary.size, 1)
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == 55_853_056


@pytest.mark.parametrize("name", PAPER)
def test_the_small_recipe_differs_in_training_only(name):
    """So one store serves both."""
    full, small = load(recipe(name)), load(recipe(f"{name}-small"))
    assert data_settings(small) == data_settings(full)
    assert small.store == f"stores/{name}"
    assert small.run == full.run == "runs/{name}"
    assert small.name != full.name
    assert small.training.optimizer.kind == "adam"
    assert not small.model.input_feeding
    assert 0 < small.objective.agreement.start < small.training.steps < 50_000


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_transformer_reads_the_same_store(name):
    plain = name.removesuffix("-transformer")
    mine, theirs = load(recipe(name)), load(recipe(plain))
    assert data_settings(mine) == data_settings(theirs)
    assert mine.store == f"stores/{plain}"
    assert (mine.run, theirs.run) == ("runs/{name}", "runs/{name}")
    assert mine.model.kind == "transformer"
    complete = mine.objective.complete
    assert 0 < complete.start < mine.training.steps


def test_every_data_set_has_a_transformer():
    assert {facts[0] for facts in TRANSFORMERS.values()} == set(ORIGINALS)


@pytest.mark.parametrize("name", [each for each in ALL if each not in TRANSFORMERS])
def test_what_trained_a_gnmt_still_does(name):
    """Published figures are those of these recipes."""
    assert load(recipe(name)).model.kind == "gnmt"


@pytest.mark.parametrize("name", ALL)
def test_basic_is_the_recipe_without_agreement(name):
    basic = load(recipe(name), ["objective.agreement=null"])
    assert basic.objective.agreement is None
    assert data_settings(basic) == data_settings(load(recipe(name)))


@pytest.mark.parametrize("name", ALL)
def test_a_recipe_prepares_on_data_like_the_originals(name, tmp_path, monkeypatch):
    """R11: fetched, unpacked and prepared as a user would, in small."""
    monkeypatch.chdir(tmp_path)
    fetched(ALL[name][0], tmp_path)
    experiment = load(recipe(name))
    store = prepared(name)
    assert all(count > 10 for count in lines_of(store).values())
    for split in ("dev", "test"):
        for pair in pairs_of(experiment.languages):
            source, reference = store.held_out.pair(split, *sorted(pair))
            assert len(source) == len(reference) == 20
    if experiment.overlap.mode == "disjoint":
        assert set(shared_after(store).values()) == {0}
    assert not prepare(load(recipe(name), ["vocabulary.size=360"])).built


def test_a_missing_file_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fetched("europarl", tmp_path)
    (tmp_path / "data/europarl/dev2006.fr").unlink()
    with pytest.raises(AccordError, match="does not exist") as error:
        prepared("europarl")
    assert str(error.value.where).endswith("data/europarl/dev2006.fr")
    assert "nearest name" in error.value.fix
    shutil.rmtree(tmp_path / "data/europarl")
    with pytest.raises(AccordError, match="does not exist") as error:
        prepared("europarl")
    assert error.value.fix == f"fetch it first: accord fetch europarl --data {tmp_path / 'data'}"


def test_empty_lines_go_and_nothing_else_but_overlap(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fetched("europarl", tmp_path)
    store = prepared("europarl")
    for entry in store.manifest["corpora"]:
        dropped = {s["step"]: s["dropped"] for s in entry["steps"] if s["dropped"]}
        assert dropped == {"empty": 2, "overlap": 120 - entry["lines"]}
    assert sum(lines_of(store).values()) == 120


def test_subsets_of_the_small_data_study_are_nested(tmp_path, monkeypatch):
    """R21, with a small stand-in for each size."""
    monkeypatch.chdir(tmp_path)
    fetched("europarl", tmp_path)
    subsets = []
    for size in (5, 15, 25):
        limits = [f"corpora.{i}.limit={size}" for i in range(3)]
        store = prepared("small-data", f"name=small-data-{size}", *limits)
        assert set(lines_of(store).values()) == {size}
        assert store.directory == Path(f"stores/small-data-{size}")
        sides = {c.name: [row.tolist() for row in c.side("en")] for c in store.corpora}
        subsets.append({(n, t) for n, s in sides.items() for t in store.vocabulary.decode(s)})
    assert all(small < large for small, large in pairwise(subsets))


def test_the_authors_removal_of_overlap_on_iwslt17_star_in_small(tmp_path, monkeypatch):
    """Halves of what de-nl and it-ro share go; what de shares with it or ro stays."""
    monkeypatch.chdir(tmp_path)
    fetched("iwslt17", tmp_path)
    store = prepared("iwslt17-star")
    # Besides its lines, every file has a title and a description, the same in all of them.
    extra = 2
    read = {entry["pair"]: entry["read"] for entry in store.manifest["corpora"]}
    assert read == {pair: len(numbers) + extra for pair, numbers in IWSLT.items()}
    for first, second in (("en-de", "en-nl"), ("en-it", "en-ro")):
        common = len(set(IWSLT[first]) & set(IWSLT[second])) + extra
        assert read[first] - lines_of(store)[first] == common // 2
        assert read[second] - lines_of(store)[second] == common - common // 2
    after = shared_after(store)
    assert after["en-de", "en-nl"] == after["en-it", "en-ro"] == 0
    assert all(count > 0 for pair, count in after.items() if pair[1] not in ("en-nl", "en-ro"))


def test_our_removal_of_overlap_on_iwslt17_star_in_small(tmp_path, monkeypatch):
    """`disjoint`: no English sentence in two corpora, and none lost."""
    monkeypatch.chdir(tmp_path)
    fetched("iwslt17", tmp_path)
    store = prepared("iwslt17-star", "overlap=disjoint")
    assert set(shared_after(store).values()) == {0}
    everything = set().union(*IWSLT.values())
    assert sum(lines_of(store).values()) == len(everything) + 2


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not REAL.is_dir(), reason="IWSLT17 is not here (ACCORD_DATA)")
@pytest.mark.parametrize("mode", ["pairwise", "disjoint"])
def test_iwslt17_star_has_the_sizes_of_the_paper(mode, tmp_path, monkeypatch):
    """The table has thousands of lines, and does not say whether it counts the titles and
    descriptions that are examples here as in the release: some 3,500 a corpus, hence 3 percent.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(DATA.resolve())
    overrides = ["dev={}", "test={}", "vocabulary.sample=20000", "vocabulary.size=600"]
    if mode == "disjoint":
        overrides.append("overlap=disjoint")
    store = prepare(load(recipe("iwslt17-star"), overrides)).store
    for entry in store.manifest["corpora"]:
        official, star = TABLE[entry["pair"]]
        left = {step["step"]: step["left"] for step in entry["steps"]}["overlap"]
        assert entry["read"] == pytest.approx(official, rel=0.03)
        if mode == "pairwise":
            assert left == pytest.approx(star, rel=0.03)
        else:
            assert left < star  # the pivots between the two pairs go as well
    after = shared_after(store)
    assert after["en-de", "en-nl"] == after["en-it", "en-ro"] == 0
    assert mode == "pairwise" or not any(after.values())
