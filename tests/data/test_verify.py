"""What a store promises is proved on reading it back: every breach, be it of a single line."""

from types import SimpleNamespace

import numpy as np
import pytest

import accord.data.verify as module
from accord.data.dedup import Shared, hash_lines
from accord.data.shards import Shard
from accord.data.verify import CheckTask, check_shard, refuse_breaches, refuse_overlap
from accord.data.vocabulary import Vocabulary, train
from accord.data.word_cache import Encoder
from accord.errors import AccordError
from toy_corpus import sentence

EN = [sentence(i, "en") for i in range(7)]
DE = [sentence(i, "de") for i in range(7)]


@pytest.fixture(scope="module")
def model():
    text = [sentence(i, language) for language in ("en", "de") for i in range(300)]
    return train(text, ["en", "de"], 380)


class Written:
    """One shard of a store whose files hold EN and DE, and the hashes that they should have."""

    def __init__(self, folder, model):
        self.shard = Shard(folder, ("en", "de"), 3, 9)
        self.data = folder / "data"
        (self.data / "train").mkdir(parents=True)
        (self.data / "vocabulary.model").write_bytes(model)
        encoder = Encoder(Vocabulary(model, ["en", "de"]))
        for language, lines in (("en", EN), ("de", DE)):
            rows = encoder.encode(lines)
            ids, offsets = self.files(language)
            ids.write_bytes(b"".join(rows))
            ends = np.cumsum([0, *(len(row) // 2 for row in rows)])
            offsets.write_bytes(ends.astype("<i8").tobytes())
        self.keep = np.array([True] * 4 + [False] + [True] * 3 + [False])
        self.cleaned(EN, DE)
        self.held_out([], [])

    def files(self, language):
        return self.shard.store_files(self.data / "train", language)

    def cleaned(self, en, de, matching="exact"):
        """Set down the hashes of the clean text: two of its lines were left out later."""
        sides = []
        for lines in (en, de):
            whole = np.full(9, "left out", dtype=object)
            whole[self.keep] = lines
            sides.append(hash_lines(whole, matching))
        path = self.shard.hash_file(matching)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(np.stack(sides, axis=1).tobytes())
        self.shard.write_keep("encoded", self.keep)

    def held_out(self, en, de, matching="exact"):
        for language, lines in (("en", en), ("de", de)):
            hashes = np.sort(hash_lines(lines, matching))
            (self.shard.folder / language).write_bytes(hashes.tobytes())

    def check(self, matching="exact", report=lambda _: None):
        held_out = (self.shard.folder / "en", self.shard.folder / "de")
        languages = ("en", "de")
        task = CheckTask(self.shard, "encoded", self.data, languages, held_out, matching)
        return check_shard(task, report)


@pytest.fixture
def store(tmp_path, model):
    return Written(tmp_path, model)


def refused(store, *checked):
    with pytest.raises(AccordError) as caught:
        refuse_breaches(store.data, "en-de", checked or [store.check()])
    return str(caught.value)


def test_a_sound_shard_passes_and_its_files_are_known(store):
    facts = store.check()
    refuse_breaches(store.data, "en-de", [facts])
    names = {path.name for language in ("en", "de") for path in store.files(language)}
    assert set(facts["files"]) == {f"train/{name}" for name in names}
    from accord.files import sha256_of

    for name, entry in facts["files"].items():
        path = store.data / name
        assert entry == {"bytes": path.stat().st_size, "sha256": sha256_of(path)}


@pytest.mark.parametrize(("en", "de"), [([EN[2]], []), ([], [DE[6]])])
def test_a_single_held_out_line_is_a_breach(store, en, de):
    store.held_out(en, de)
    language = "en" if en else "de"
    assert f"1 {language} lines of corpus en-de are dev or test lines" in refused(store)


def test_lines_of_several_shards_are_added_up(store):
    store.held_out(EN[:2], [])
    facts = store.check()
    assert "4 en lines of corpus en-de" in refused(store, facts, facts)


def test_the_same_line_of_another_language_is_none(store):
    store.held_out([DE[2]], [EN[2]])
    refuse_breaches(store.data, "en-de", [store.check()])


def test_other_lines_than_those_cleaned_are_a_breach(store):
    store.cleaned(EN, [*DE[:-1], "anders"])
    assert "the de lines of corpus en-de are not those cleaned" in refused(store)


def test_so_is_another_order(store):
    store.cleaned([EN[1], EN[0], *EN[2:]], DE)
    assert "the en lines of corpus en-de are not those cleaned" in refused(store)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("change", ["flip", "longer"])
def test_so_is_a_changed_file(store, kind, change):
    path = store.files("de")[kind]
    data = bytearray(path.read_bytes())
    if change == "flip":
        data[8] ^= 1
    else:
        data += data[-8:]
    path.write_bytes(data)
    assert "the de lines of corpus en-de are not those cleaned" in refused(store)


def test_normalised_lines_are_compared_as_such(store):
    store.cleaned([line.upper() for line in EN], DE, "normalised")
    store.held_out([EN[0].replace(" ", "  ")], [], "normalised")
    (english, german) = store.check("normalised")["sides"]
    assert english == {"language": "en", "same": True, "leaked": 1}
    assert german == {"language": "de", "same": True, "leaked": 0}


def test_lines_are_read_back_block_by_block(store, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 3)
    seen = []
    refuse_breaches(store.data, "en-de", [store.check(report=seen.append)])
    assert seen == [3, 6, 7, 10, 13, 14]


def test_a_language_without_held_out_lines_has_none():
    experiment = SimpleNamespace(languages=("en", "de"), overlap=SimpleNamespace(matching="exact"))
    found = module.held_out_hashes(iter([("en", ["b", "a", "b"])]), experiment)
    assert {language: len(hashes) for language, hashes in found.items()} == {"en": 2, "de": 0}


def overlap(tmp_path, mode, strings=1, pairs=(), zero_shot=True):
    experiment = SimpleNamespace(overlap=SimpleNamespace(mode=mode, pairs=pairs))
    refuse_overlap(tmp_path, experiment, [Shared("en", "en-de", "en-fr", zero_shot, strings)])


@pytest.mark.parametrize("count", [1, 2])
def test_disjoint_allows_not_one_common_sentence(tmp_path, count):
    with pytest.raises(AccordError, match=f"{count} en sentences stand in both en-de and en-fr"):
        overlap(tmp_path, "disjoint", count)
    overlap(tmp_path, "disjoint", 0)
    overlap(tmp_path, "disjoint", zero_shot=False)


def test_pairwise_allows_none_in_the_pairs_listed(tmp_path):
    with pytest.raises(AccordError, match="1 en sentences stand in both"):
        overlap(tmp_path, "pairwise", pairs=("de-fr",))
    overlap(tmp_path, "pairwise", pairs=("de-es",))


def test_kept_overlap_is_allowed(tmp_path):
    overlap(tmp_path, "keep", 3)
