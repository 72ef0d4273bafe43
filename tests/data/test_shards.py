"""Preparing by shards: the same store however it is cut, shared out, interrupted and resumed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy._core import _multiarray_umath

from accord.config.load import load
from accord.config.schema import Corpus
from accord.data.batches import BatchStream, gather
from accord.data.encode import encode_shard
from accord.data.prepare import prepare
from accord.data.shards import ReadTask, read_source, read_tasks
from accord.data.store import Store
from accord.data.subset import cut
from store_digests import contents, files
from toy_corpus import sentence, write_lines

SETTINGS = {
    "keep": ["overlap=keep", "corpora.1.limit=250", "cleaning.duplicates=false"],
    "disjoint": ["overlap.matching=normalised", "corpora.0.limit=40"],
    "pairwise": ["overlap={mode: pairwise, pairs: [de-fr, fr-es]}", "vocabulary.sample=700"],
}
# What the version before shards made of this text.
BEFORE = {
    "keep": "bef83ebe0e6dd1c354ad6d2ea10a23e00b89b082df2521f62401edcc650a4492",
    "disjoint": "37f97a123e65edd2371e3f6a95c21cbee9101c048b8051a65e00323b7904ba00",
    "pairwise": "3434a9ea77cc7a8e8fad05d9e06c15aa02921e183b936a8438254d015b66bff6",
}


@pytest.fixture
def repetitive(toy):
    """The toy corpus with repeated and nearly repeated lines, and one corpus in two files."""
    for language in ("en", "de", "fr", "es"):
        lines = [sentence(i * i % 500, language) for i in range(400)]
        lines += [line.upper() for line in lines[::7]]
        write_lines(toy.parent / f"train.{language}", lines)
        write_lines(toy.parent / f"more.{language}", lines[100:150])
    return toy


def changed(toy, mode, memory=1.0):
    folder = toy.parent
    two = f"corpora.2.train=['{folder}/train.{{lang}}', '{folder}/more.{{lang}}']"
    return load(toy, [*SETTINGS[mode], two, "vocabulary.size=380", f"prepare.memory={memory:.6f}"])


@pytest.mark.parametrize("mode", BEFORE)
def test_the_lines_and_ids_are_those_of_before_however_it_is_cut(repetitive, mode):
    for shard_lines, memory in ((1 << 20, 1), (90, 1e-5), (200, 3e-6)):
        experiment = changed(repetitive, mode, memory)
        store = prepare(experiment, workers=1, shard_lines=shard_lines).store
        assert contents(store) == BEFORE[mode], (shard_lines, memory)
        shards = [len(entry["shards"]) for entry in store.manifest["corpora"]]
        assert shards == {1 << 20: [1, 1, 1], 90: [6, 6, 6], 200: [3, 3, 3]}[shard_lines]
        shutil.rmtree(store.directory)


SCRIPT = """
import sys
from pathlib import Path
from accord.config.load import load
from accord.data.prepare import prepare
if __name__ == "__main__":
    prepare(load(Path(sys.argv[1]), sys.argv[3:]), workers=int(sys.argv[2]), shard_lines=150)
"""


def run(toy, workers, *changes, **environment):
    """A process of its own that prepares in small shards."""
    script = toy.parent / "prepare.py"
    script.write_text(SCRIPT)
    return subprocess.Popen(
        [sys.executable, str(script), str(toy), str(workers), *changes],
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        text=True,
    )


def made(toy, *changes):
    """The files of a store that this process makes, alone and in one range; it is gone after."""
    store = prepare(load(toy, changes), workers=1, shard_lines=150).store
    found = files(store.directory)
    shutil.rmtree(store.directory)
    return found


def ended(process):
    _, errors = process.communicate()
    assert process.returncode == 0, errors


@pytest.mark.timeout(600)
def test_every_file_is_the_same_for_any_number_of_workers_ranges_and_any_processor(repetitive):
    features = _multiarray_umath.__cpu_features__
    extras = [name for name in _multiarray_umath.__cpu_dispatch__ if features[name]]
    whole = made(repetitive, *SETTINGS["keep"])
    process = run(
        repetitive,
        2,
        *SETTINGS["keep"],
        "prepare.memory=0.000010",
        NPY_DISABLE_CPU_FEATURES=" ".join(extras),
    )
    ended(process)
    assert files(repetitive.parent / "store") == whole


def reached(toy, process, stage):
    """Wait until the first task of a stage is done; where the work is."""
    while not list(toy.parent.glob(f"store/.building-*/done/{stage}/*.json")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    (building,) = toy.parent.glob("store/.building-*")
    return building


@pytest.mark.timeout(600)
def test_after_kill_9_the_next_run_goes_on_where_the_last_one_was(repetitive, monkeypatch):
    whole = made(repetitive)
    process = run(repetitive, 1)
    building = reached(repetitive, process, "encode")
    process.kill()
    process.wait()
    assert not (repetitive.parent / "store" / "manifest.json").exists()
    encoded = {path.stem for path in building.glob("done/encode/*.json")}
    again = []
    for name in ("read_source", "clean_shard"):
        monkeypatch.setattr(f"accord.data.build_store.{name}", None)
    monkeypatch.setattr(
        "accord.data.build_store.encode_shard",
        lambda task, report: again.append(task.name) or encode_shard(task, report),
    )
    assert made(repetitive) == whole
    assert encoded
    assert not encoded & set(again)
    assert len(again) == len(set(again)) < 12


def test_ended_amid_publishing_it_is_made_anew(repetitive, monkeypatch):
    whole = made(repetitive)

    def ended_here(_):
        raise KeyboardInterrupt

    for _ in range(2):
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr("accord.data.prepare.stamp_of", ended_here)
            made(repetitive)
        assert list((repetitive.parent / "store").glob(".building-*"))
    assert made(repetitive) == whole


@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_killed_worker_loses_nothing_that_is_finished(repetitive):
    whole = made(repetitive)
    process = run(repetitive, 2)
    building = reached(repetitive, process, "read")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    (worker, *_) = [
        int(child)
        for child in children
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    os.kill(worker, signal.SIGKILL)
    _, errors = process.communicate()
    assert "a worker process was ended" in errors
    assert list(building.glob("done/read/*.json"))
    assert made(repetitive) == whole


def test_a_store_of_many_shards_is_read_like_one_of_few(repetitive):
    few = prepare(changed(repetitive, "keep"), workers=1).store
    shutil.move(few.directory, repetitive.parent / "few")
    few = Store(repetitive.parent / "few")
    many = prepare(changed(repetitive, "keep"), workers=1, shard_lines=70).store
    assert many.token_counts().keys() == few.token_counts().keys()
    for language, counts in many.token_counts().items():
        assert np.array_equal(counts, few.token_counts()[language])
    for one, other in zip(few.corpora, many.corpora, strict=True):
        lines = np.random.default_rng(1).integers(0, len(one), 50)
        for first, second in zip(one.sides, other.sides, strict=True):
            assert np.array_equal(first.lengths(), second.lengths())
            assert np.array_equal(first.lengths(60, 200), second.lengths(60, 200))
            assert [row.tolist() for row in first] == [row.tolist() for row in second]
            for a, b in zip(gather(first, lines), gather(second, lines), strict=True):
                assert np.array_equal(a, b)
    streams = (
        BatchStream(made.corpora, made.languages, made.vocabulary.tags, batch_tokens=300, seed=3)
        for made in (few, many)
    )
    for (_, one), (_, other) in islice(zip(*streams, strict=True), 10):
        assert np.array_equal(one.source_BS, other.source_BS)
        assert np.array_equal(one.target_BT, other.target_BT)
        assert one.update_target_tokens == other.update_target_tokens
    cuts = [cut(store, repetitive.parent / name, 60) for store, name in ((few, "a"), (many, "b"))]
    assert contents(cuts[0]) == contents(cuts[1])
    accounts = [[{**e, "shards": 0} for e in made.manifest["corpora"]] for made in cuts]
    assert accounts[0] == accounts[1]


# --- reading -----------------------------------------------------------------------------------


def test_small_files_are_read_together_and_large_ones_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("accord.data.shards._GROUP_BYTES", 60)
    for name, size in (("a", 10), ("b", 15), ("c", 10), ("d", 100), ("e", 5)):
        for language in ("en", "de"):
            write_lines(tmp_path / f"{name}.{language}", ["x" * (size - 1)])
    names = [str(tmp_path / f"{name}.{{lang}}") for name in "abcde"]
    corpus = Corpus.model_validate({"pair": "en-de", "train": names})
    groups = [
        "".join(source.path[len(str(tmp_path)) + 1] for source in task.sources)
        for task in read_tasks(corpus, tmp_path, 5)
    ]
    assert groups == ["ab", "c", "d", "e"]


def blocks(folder, lines, shard_lines):
    for language in ("en", "de"):
        write_lines(folder / f"text.{language}", lines)
    corpus = Corpus.model_validate({"pair": "en-de", "train": str(folder / "text.{lang}")})
    (task,) = read_tasks(corpus, folder, shard_lines)
    return task, read_source(task, lambda _: None)["blocks"]


@pytest.mark.parametrize(("lines", "sizes"), [(0, [0]), (1, [1]), (6, [3, 3]), (7, [3, 3, 1])])
def test_blocks_are_cut_by_lines(tmp_path, lines, sizes):
    _, found = blocks(tmp_path, [f"line {i}" for i in range(lines)], 3)
    assert [block["lines"] for block in found] == sizes


def test_lines_that_were_passed_over_are_known_by_their_place(tmp_path):
    lines = ["a", "b", "c" * 1_000_001, "d", "e" * 1_000_001, "f"]
    _, found = blocks(tmp_path, lines, 4)
    assert [block["too_long"] for block in found] == [[2], [0]]


def test_blocks_of_an_ended_run_are_not_written_again(tmp_path):
    lines = [f"line {i}" for i in range(7)]
    task, first = blocks(tmp_path, lines, 3)
    task.block(1).unlink()
    task.block(0).write_bytes(b"as it was")
    _, again = blocks(tmp_path, lines, 3)
    assert again == first
    assert task.block(0).read_bytes() == b"as it was"
    assert task.block(1).exists()


def test_a_reader_that_breaks_lines_is_found_out(tmp_path, monkeypatch):
    monkeypatch.setattr(ReadTask, "pairs", lambda _: iter([("two\nlines", "eine")]))
    with pytest.raises(ValueError, match="line break"):
        blocks(tmp_path, ["x"], 3)
