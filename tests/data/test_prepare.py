"""The whole of `prepare` on small corpora: invariants, accounting, and what can go wrong."""

import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import accord.data.build_store
from accord.config.load import load
from accord.data.prepare import _fingerprint, prepare
from accord.data.shards import Shard
from accord.data.store import Store, write_manifest
from accord.errors import AccordError
from store_digests import files
from toy_corpus import sentence, write_experiment, write_lines

LANGUAGES = ["en", "de", "fr", "es"]


def texts(store, pair, language):
    corpus = next(c for c in store.corpora if c.name == pair)
    return store.vocabulary.decode([row.tolist() for row in corpus.side(language)])


def left_behind(directory: Path) -> set[str]:
    return {p.name for p in directory.iterdir()} if directory.exists() else set()


def test_three_overlapping_corpora_become_disjoint_and_lose_nothing(toy):
    """R1, R2, T7: every pair of corpora is disjoint, and the manifest shows what was removed."""
    store = prepare(load(toy)).store
    sides = {c.name: texts(store, c.name, "en") for c in store.corpora}
    everything = [line for side in sides.values() for line in side]
    assert sorted(everything) == sorted(sentence(i, "en") for i in range(600))
    for entry in store.manifest["corpora"]:
        steps = {step["step"]: step["dropped"] for step in entry["steps"]}
        assert steps["overlap"] > 300
        assert entry["read"] - sum(steps.values()) == entry["lines"] == len(sides[entry["pair"]])
    assert all(shared["strings"] == 600 for shared in store.manifest["overlap"]["before"])
    assert all(shared["strings"] == 0 for shared in store.manifest["overlap"]["after"])
    assert len(store.manifest["overlap"]["after"]) == 3


def test_the_sides_stay_aligned(toy):
    store = prepare(load(toy)).store
    number = {sentence(i, "en"): i for i in range(600)}
    for corpus in store.corpora:
        first, second = corpus.languages
        pairs = zip(
            texts(store, corpus.name, first), texts(store, corpus.name, second), strict=True
        )
        assert all(other == sentence(number[english], second) for english, other in pairs)


def test_pairwise_halves_the_listed_pair_and_leaves_the_others(toy):
    """Only de-fr is split, as the paper splits only de-nl and it-ro: es keeps all its lines."""
    overlap = "overlap={mode: pairwise, pairs: [de-fr]}"
    store = prepare(load(toy, [overlap])).store
    lines = {c.name: len(c) for c in store.corpora}
    assert lines == {"en-de": 300, "en-fr": 300, "en-es": 600}
    after = {(s["first"], s["second"]): s["strings"] for s in store.manifest["overlap"]["after"]}
    assert after == {("en-de", "en-fr"): 0, ("en-de", "en-es"): 300, ("en-fr", "en-es"): 300}


def test_keep_keeps_the_overlap_and_says_so(toy):
    store = prepare(load(toy, ["overlap=keep"])).store
    assert {len(c) for c in store.corpora} == {600}
    assert {s["strings"] for s in store.manifest["overlap"]["after"]} == {600}


def test_normalised_matching_finds_what_exact_matching_misses(tmp_path):
    english = ["The house is red.", "A cat sees me!", "Dogs bark"]
    write_lines(tmp_path / "a.en", english)
    write_lines(tmp_path / "b.en", ["the  house is RED", "a cat sees me", "Another line here"])
    for name, language in (("a", "de"), ("b", "fr")):
        write_lines(tmp_path / f"{name}.{language}", [f"{language} satz {i}" for i in range(3)])
    path = write_experiment(
        tmp_path,
        languages=["en", "de", "fr"],
        corpora=[
            {"pair": "en-de", "train": str(tmp_path / "a.{lang}")},
            {"pair": "en-fr", "train": str(tmp_path / "b.{lang}")},
        ],
        vocabulary={"size": 300},
    )
    assert sum(len(c) for c in prepare(load(path)).store.corpora) == 6
    normalised = prepare(load(path, ["overlap.matching=normalised"])).store
    assert sum(len(c) for c in normalised.corpora) == 4


def test_dev_and_test_lines_are_taken_out_of_training(toy):
    directory = toy.parent
    write_lines(directory / "dev.de", [sentence(i, "de") for i in range(20)])
    write_lines(directory / "test.fr", [sentence(i, "fr") for i in range(100, 120)])
    store = prepare(load(toy, ["overlap=keep"])).store
    dropped = {
        entry["pair"]: {step["step"]: step["dropped"] for step in entry["steps"]}["held_out"]
        for entry in store.manifest["corpora"]
    }
    assert dropped == {"en-de": 20, "en-fr": 20, "en-es": 0}
    assert not {sentence(i, "de") for i in range(20)} & set(texts(store, "en-de", "de"))


def test_every_dropped_line_is_accounted_for(toy):
    directory = toy.parent
    extra = [
        ("", "leer"),
        ("same text", "same text"),
        ("short", "x" * 100),
        ("y" * 3000, "y z" * 999),
        (sentence(3, "en"), sentence(3, "de")),
        ("z" * 1_500_000, "kurz"),
        ("ab\tc d", "ab c de"),
    ]
    for side, language in enumerate(("en", "de")):
        lines = [sentence(i, language) for i in range(600)] + [pair[side] for pair in extra]
        write_lines(directory / f"dirty.{language}", lines)
    store = prepare(load(toy, [f"corpora.0.train={directory}/dirty.{{lang}}"])).store
    (entry,) = (e for e in store.manifest["corpora"] if e["pair"] == "en-de")
    dropped = {step["step"]: step["dropped"] for step in entry["steps"]}
    for step in (
        "line_over_1_mb",
        "empty",
        "identical",
        "max_ratio",
        "max_characters",
        "duplicates",
    ):
        assert dropped.pop(step) == 1, step
    assert entry["mended"] == {"control_characters": 1}
    assert entry["lines"] == 607 - 6 - dropped["overlap"]
    assert entry["steps"][-1]["left"] == entry["lines"]


def test_too_many_subwords(toy):
    store = prepare(load(toy, ["cleaning.max_subwords=6"])).store
    assert all(side.lengths().max() <= 6 for c in store.corpora for side in c.sides)
    assert any(
        step["dropped"] for e in store.manifest["corpora"] for step in e["steps"]
        if step["step"] == "max_subwords"
    )  # fmt: skip


def test_limits_give_nested_subsets(toy):
    """R21: the small-data study needs subsets that lie inside each other."""
    found = {}
    for limit in (50, 100):
        store = prepare(load(toy, [f"corpora.0.limit={limit}"])).store
        found[limit] = set(texts(store, "en-de", "en"))
        assert len(found[limit]) == limit
    assert found[50] < found[100]


def made_as_before(store, fingerprint, store_format):
    """Make a store what a former version would have written: one file per side and kind."""
    manifest = json.loads(json.dumps(store.manifest))
    manifest |= {"format": store_format, "fingerprint": fingerprint, "data": fingerprint}
    for entry in manifest["corpora"]:
        assert len(entry.pop("shards")) == 1
    data = store.data.rename(store.directory / fingerprint)
    for path in (data / "train").iterdir():
        path.rename(path.with_name(path.name.replace(".00000.", ".")))
    manifest["files"] = {
        name.replace(".00000.", "."): entry for name, entry in manifest["files"].items()
    }
    write_manifest(store.directory, manifest)


@pytest.mark.parametrize("store_format", [1, 2])
@pytest.mark.parametrize(("duplicates", "limit"), [(True, 50), (False, 50), (False, None)])
def test_a_store_of_before_is_read_and_kept_unless_the_processor_had_a_say(
    toy, duplicates, limit, store_format
):
    """In format 1, a limit among repeated pairs kept just any of the equal ones."""
    changes = [f"cleaning.duplicates={str(duplicates).lower()}"]
    experiment = load(toy, [*changes, f"corpora.0.limit={limit or 'null'}"])
    store = prepare(experiment).store
    sums = {entry["path"]: entry["sha256"] for entry in store.manifest["inputs"]}
    before = _fingerprint(experiment, sums, format=store_format)
    assert before != store.manifest["fingerprint"]
    expected = texts(store, "en-de", "de")
    made_as_before(store, before, store_format)
    assert Store(store.directory).manifest["format"] == store_format
    assert texts(Store(store.directory), "en-de", "de") == expected
    built = prepare(experiment).built
    assert built == (store_format == 1 and not duplicates and limit is not None)
    assert Store(store.directory).manifest["format"] == (3 if built else store_format)


def test_an_up_to_date_store_is_cleared_of_what_a_killed_process_left(toy):
    store = prepare(load(toy)).store
    (store.directory / ".building-12345678" / "spool").mkdir(parents=True)
    assert not prepare(load(toy)).built
    assert not list(store.directory.glob(".building-*"))


def test_a_damaged_stamp_is_not_believed(toy):
    """A wrong checksum of an input there would be a wrong account of where the data came from."""
    first = prepare(load(toy))
    stamps = first.store.directory / "stamps.json"
    sha = first.store.manifest["inputs"][0]["sha256"]
    stamps.write_text(stamps.read_text().replace(sha, "0" + sha[1:]))
    again = prepare(load(toy))
    assert not again.built
    assert again.store.manifest == first.store.manifest


def test_a_rotted_vocabulary_is_built_anew(toy):
    """Its size and time are those of before, so that only its bytes tell."""
    store = prepare(load(toy)).store
    path = store.data / "vocabulary.model"
    status, data = path.stat(), path.read_bytes()
    for rotten in (b"\xff" * len(data), data[:-9] + b"\0" * 9, bytes([data[0] ^ 1]) + data[1:]):
        path.write_bytes(rotten)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        with pytest.raises(AccordError, match="altered"):
            Store(store.directory)
        assert prepare(load(toy)).built
        assert path.read_bytes() == data


def test_the_vocabulary_sees_the_filtered_training_text_each_sentence_once(toy, monkeypatch):
    """R20."""
    seen = []
    real = accord.data.build_store.train

    def spy(sentences, *rest):
        seen.extend(sentences)
        return real(seen, *rest)

    monkeypatch.setattr("accord.data.build_store.train", spy)
    store = prepare(load(toy)).store
    expected = [
        text for c in store.corpora for language in c.languages
        for text in texts(store, c.name, language)
    ]  # fmt: skip
    assert sorted(seen) == sorted(expected)


def test_the_vocabulary_sample_is_balanced_by_temperature(toy, monkeypatch):
    counts = {}
    monkeypatch.setattr(
        "accord.data.build_store.train",
        lambda sentences, *_: (
            counts.update(n=len(list(sentences))) or (_ for _ in ()).throw(OSError)
        ),
    )
    with pytest.raises(OSError):  # noqa: PT011
        prepare(load(toy, ["vocabulary.sample=200"]))
    assert 196 <= counts["n"] <= 200


def test_text_that_looks_like_tags_stays_text(toy):
    directory = toy.parent
    for language in ("en", "de"):
        lines = [f"<2de> </s> {sentence(i, language)} <2fr>" for i in range(50)]
        write_lines(directory / f"tags.{language}", lines)
    store = prepare(load(toy, [f"corpora.0.train={directory}/tags.{{lang}}"])).store
    assert texts(store, "en-de", "de")[0].startswith("<2de> </s> ")
    tags = set(store.vocabulary.tags.values())
    assert not any(
        tags & set(np.unique(side.ids).tolist()) for c in store.corpora for side in c.sides
    )


def test_the_second_time_nothing_is_done(toy, monkeypatch):
    first = prepare(load(toy))
    before = files(first.store.directory)
    monkeypatch.setattr("accord.data.prepare.Build", None)
    second = prepare(load(toy))
    assert (first.built, second.built) == (True, False)
    assert files(second.store.directory) == before


def test_changed_inputs_or_settings_build_anew_and_leave_one_store(toy):
    first = prepare(load(toy)).store
    other_seed = prepare(load(toy, ["seed=2"]))
    assert other_seed.built
    with (toy.parent / "train.de").open("a") as de, (toy.parent / "train.en").open("a") as en:
        de.write("etwas ganz neues\n")
        en.write("something quite new\n")
    for side in ("fr", "es"):
        with (toy.parent / f"train.{side}").open("a") as file:
            file.write("nouveau nuevo\n")
    changed = prepare(load(toy, ["seed=2"]))
    assert changed.built
    assert not first.data.exists()
    names = left_behind(changed.store.directory)
    assert names == {"manifest.json", "stamps.json", ".lock", changed.store.manifest["data"]}


@pytest.mark.timeout(600)
def test_the_same_bytes_for_any_hash_seed_and_number_of_workers(toy):
    """R3: two processes with different PYTHONHASHSEED give byte-identical output."""
    found = []
    for seed, workers in (("1", "1"), ("2", "2")):
        subprocess.run(
            [sys.executable, "-m", "accord", "prepare", str(toy), "-q", "--workers", workers],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        )
        found.append(files(toy.parent / "store"))
        shutil.rmtree(toy.parent / "store")
    assert found[0] == found[1]
    assert len(found[0]) == 1 + 1 + 3 * 4 + 2 * 4  # manifest, vocabulary, ids and offsets, text


def test_held_out_sets_are_kept_as_text(toy):
    store = prepare(load(toy)).store
    sources, references = store.held_out.pair("test", "de", "fr")
    assert sources == [sentence(i, "de") for i in range(1100, 1120)]
    assert references == [sentence(i, "fr") for i in range(1100, 1120)]
    assert store.held_out.pair("test", "de", "xx") == ([], [])


# --- what goes wrong -------------------------------------------------------------------------


def refused(path, *overrides) -> str:
    """The complaint of a prepare that must fail and leave nothing behind."""
    experiment = load(path, overrides)
    with pytest.raises(AccordError) as caught:
        prepare(experiment)
    assert left_behind(path.parent / "store") <= {".lock", "stamps.json"}
    return str(caught.value)


def test_a_missing_file_is_named_with_its_nearest(toy):
    message = refused(toy, f"dev={toy.parent}/dve.{{lang}}")
    assert "dve.en" in message
    assert "dev.en" in message


def test_sides_of_different_length(toy):
    write_lines(toy.parent / "train.de", [sentence(i, "de") for i in range(590)])
    message = refused(toy)
    assert "600" in message
    assert "590" in message
    assert "line" in message


def test_invalid_utf8_names_file_line_and_byte(toy):
    path = toy.parent / "train.fr"
    lines = path.read_bytes().split(b"\n")
    lines[41] = b"caf\xe9 noir"
    path.write_bytes(b"\n".join(lines))
    message = refused(toy)
    assert str(path) in message
    assert "line 42" in message
    assert "byte" in message


def test_a_corpus_that_cleaning_empties(toy):
    shutil.copy(toy.parent / "train.en", toy.parent / "train.de")
    message = refused(toy)
    assert "en-de is empty after cleaning" in message
    assert "identical dropped 600" in message


def test_a_vocabulary_that_is_too_large(toy):
    assert "vocabulary.size" in refused(toy, "vocabulary.size=30000")


def test_a_full_disk(toy, monkeypatch):
    """The disk fills up while token ids are written."""

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("accord.data.encode._SideWriter.write", full)
    assert "no space left" in refused(toy)


def test_a_full_disk_does_not_harm_the_store_that_is_there(toy, monkeypatch):
    before = files(prepare(load(toy)).store.directory)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("accord.data.encode._SideWriter.write", full)
    with pytest.raises(AccordError, match="no space left"):
        prepare(load(toy, ["seed=9"]))
    assert files(toy.parent / "store") == before
    assert Store(toy.parent / "store").manifest["seed"] == 1


def test_a_directory_that_cannot_be_made(toy):
    (toy.parent / "file").write_text("")
    with pytest.raises(AccordError, match="cannot write"):
        prepare(load(toy, [f"store={toy.parent}/file/store"]))


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_read_only_directory(toy, monkeypatch, code):
    """Faked, since root (as which many containers run tests) may write anywhere."""
    real = Path.open

    def open_file(path, *arguments, **options):
        if path.name == ".lock":
            raise OSError(code, os.strerror(code), str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", open_file)
    with pytest.raises(
        AccordError, match=r"cannot write: (permission denied|.*read-only)"
    ) as caught:
        prepare(load(toy))
    assert "choose a directory that you may write to" in str(caught.value)


def test_two_at_once(toy):
    from accord.files import exclusive

    with (
        exclusive(toy.parent / "store", "accord prepare"),
        pytest.raises(AccordError, match="another process is working here: accord prepare"),
    ):
        prepare(load(toy))


def start(toy, *options):
    return subprocess.Popen(
        [sys.executable, "-m", "accord", "prepare", str(toy), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.timeout(600)  # a busy machine is no failure
@pytest.mark.parametrize(("signal_number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_it_leaves_what_is_finished_and_nothing_else(toy, signal_number, code):
    for language in LANGUAGES:  # enough lines that the signal finds it at work
        lines = [sentence(i, language) for i in range(60_000)]
        write_lines(toy.parent / f"train.{language}", lines)
    process = start(toy, "--workers", "2")
    noted = (toy.parent / "store").glob
    while not list(noted(".building-*/done/read/*.json")):
        assert process.poll() is None, process.communicate()  # its workers have not begun yet
        time.sleep(0.01)
    for _ in range(3):  # impatience must not break into the clearing up
        process.send_signal(signal_number)
        time.sleep(0.02)
    _, errors = process.communicate()
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    (building,) = noted(".building-*")
    assert left_behind(toy.parent / "store") <= {".lock", "stamps.json", building.name}
    assert not list(building.glob("done/check/*"))


def test_what_a_run_cannot_go_on_with_is_cleared_away(toy):
    building = toy.parent / "store" / ".building-1234abcd"
    building.mkdir(parents=True)
    (building / "rubbish").write_text("x")
    assert prepare(load(toy)).built
    assert not building.exists()


def test_an_overlap_that_slips_through_is_an_error_not_a_warning(toy, monkeypatch):
    monkeypatch.setattr("accord.data.hash_ranges.make_disjoint", lambda *_: None)
    message = refused(toy)
    assert "en sentences stand in both en-de and en-fr" in message


def test_a_held_out_line_that_slips_through_is_an_error(toy, monkeypatch):
    write_lines(toy.parent / "dev.de", [sentence(i, "de") for i in range(20)])
    monkeypatch.setattr("accord.data.hash_ranges.contains", lambda _, values: values != values)
    assert "de lines of corpus en-de are dev or test lines" in refused(toy)


def test_text_that_is_not_what_was_cleaned_is_an_error(toy, monkeypatch):
    """As when somebody writes into the files of this run."""
    real = Shard.pairs
    monkeypatch.setattr(
        Shard, "pairs", lambda shard: ((a.replace("house", "mouse"), b) for a, b in real(shard))
    )
    assert "the en lines of corpus en-de are not those cleaned" in refused(toy)


def test_what_is_verified_leaves_out_pairs_of_too_many_subwords(toy):
    store = prepare(load(toy, ["cleaning.max_subwords=5", "overlap=keep"])).store
    assert 0 < min(len(c) for c in store.corpora) < 600
    after = {s["strings"] for s in store.manifest["overlap"]["after"]}
    english = {c.name: set(texts(store, c.name, "en")) for c in store.corpora}
    assert len(english["en-de"] & english["en-fr"]) in after


def test_a_directory_with_a_manifest_of_another_is_left_alone(toy):
    store = toy.parent / "store"
    store.mkdir()
    (store / "manifest.json").write_text('{"name": "my browser extension"}')
    with pytest.raises(AccordError, match=r"not written by `accord prepare`"):
        prepare(load(toy))
    assert left_behind(store) == {"manifest.json"}


def test_an_input_that_may_not_be_read_is_named(toy, monkeypatch):
    def denied(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr("accord.data.store.sha256_of", denied)
    message = refused(toy)
    assert f"{toy.parent}/dev.de: cannot be read: Permission denied" in message


def test_a_side_without_any_text(toy):
    write_lines(toy.parent / "empty.en", [sentence(i, "en") for i in range(50)])
    write_lines(toy.parent / "empty.de", [""] * 50)
    train = f"corpora.0.train={toy.parent}/empty.{{lang}}"
    store = prepare(load(toy, [train, "cleaning.empty=false", "overlap=keep"])).store
    assert texts(store, "en-de", "de") == [""] * 50


@pytest.mark.parametrize(
    "text", ["{broken", '{"x": 5}', '{"x": null}', '{"x": ["a", 1, "b"]}', "[" * 100_000, "[]"]
)
def test_unreadable_json_in_stamps_is_only_a_lost_cache(toy, text):
    prepare(load(toy))
    (toy.parent / "store" / "stamps.json").write_text(text)
    assert not prepare(load(toy)).built


def test_manifest_is_plain_json_with_the_inputs_hashes(toy):
    store = prepare(load(toy)).store
    manifest = json.loads((store.directory / "manifest.json").read_text())
    path = toy.parent / "train.de"
    sums = {entry["path"]: entry["sha256"] for entry in manifest["inputs"]}
    assert sums[str(path)] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert len(sums) == 4 * 3
