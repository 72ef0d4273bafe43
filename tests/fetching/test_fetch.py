"""Whole datasets in small, from a server on this machine and from folders."""

import errno
import fcntl
import hashlib
import json
import shutil

import pytest

import accord.fetching.download
import accord.fetching.fetch
import accord.fetching.unpack
from accord.errors import AccordError
from accord.fetching.catalogue import dataset
from accord.fetching.fetch import fetch, missing
from accord.progress import Silent
from file_server import FileServer
from miniatures import ORIGINALS, line, pointed, tar_gz

NAMES = sorted(ORIGINALS)


class Told(Silent):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(accord.fetching.download, "_PAUSES", (0.0,))


@pytest.fixture(params=NAMES)
def served(request):
    """A server with one of the datasets, and that dataset pointing there."""
    yield from _serve(request.param)


@pytest.fixture
def europarl():
    yield from _serve("europarl")


def _serve(name):
    files = ORIGINALS[name]()
    with FileServer(files) as server:
        yield server, pointed(dataset(name), server.base, files)


def names_in(directory):
    return {path.name for path in directory.iterdir()}


def put(files, directory):
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).write_bytes(content)
    return directory


def test_all_files_arrive_and_nothing_else(served, tmp_path):
    server, wanted = served
    told = Told()
    result = fetch(wanted, tmp_path, progress=told)
    targets = {member.target for member in wanted.members}
    assert set(result.new) == targets
    assert names_in(tmp_path / wanted.name) == targets | {"fetched.json", ".lock"}
    assert {path.removeprefix("/") for path, *_ in server.log} == {
        part.name for archive in wanted.archives for part in archive.parts
    }
    record = json.loads((tmp_path / wanted.name / "fetched.json").read_text())
    for target in targets:
        content = (tmp_path / wanted.name / target).read_bytes()
        assert record["files"][target]["sha256"] == hashlib.sha256(content).hexdigest()


def test_what_is_there_is_not_fetched_again(served, tmp_path):
    server, wanted = served
    fetch(wanted, tmp_path)
    assert missing(wanted, tmp_path) == ()
    server.log.clear()
    assert fetch(wanted, tmp_path).new == ()
    assert server.log == []


def test_archives_and_plain_files_can_come_from_a_folder(served, tmp_path):
    server, wanted = served
    folder = put(server.files, tmp_path / "mine")
    before = names_in(folder)
    fetch(wanted, tmp_path / "data", source=folder)
    assert server.log == []
    assert missing(wanted, tmp_path / "data") == ()
    assert names_in(folder) == before


def test_unpacked_files_can_come_from_a_folder(served, tmp_path):
    """As `tar x` leaves them, with their folders; or flat."""
    _, wanted = served
    fetch(wanted, tmp_path / "first")
    for kind in ("deep", "flat"):
        for member in wanted.members:
            place = tmp_path / kind / (member.names[0] if kind == "deep" else member.target)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tmp_path / "first" / wanted.name / member.target, place)
        fetch(wanted, tmp_path / f"from-{kind}", source=tmp_path / kind)
        for member in wanted.members:
            first = (tmp_path / "first" / wanted.name / member.target).read_bytes()
            assert (tmp_path / f"from-{kind}" / wanted.name / member.target).read_bytes() == first


def test_the_older_archives_of_europarl_will_do(europarl, tmp_path):
    server, wanted = europarl
    files = {n: c for n, c in server.files.items() if not n.startswith("training-parallel")}
    fetch(wanted, tmp_path / "data", source=put(files, tmp_path / "mine"))
    assert missing(wanted, tmp_path / "data") == ()


def test_the_dev_sets_of_europarl_are_found_behind_their_links(europarl, tmp_path):
    _, wanted = europarl
    fetch(wanted, tmp_path)
    path = tmp_path / "europarl/devtest2006.de"
    assert not path.is_symlink()
    assert path.read_text("utf-8").splitlines()[0] == line(1200, "de")


def test_an_archive_of_the_year_before_will_do(europarl, tmp_path):
    server, wanted = europarl
    folders = {"dev2006": "wmt06/dev", "devtest2006": "wmt06/devtest"}
    server.files["devsets.tgz"] = tar_gz(
        {f"{f}/{n}.{x}": b"x\n" for n, f in folders.items() for x in ("de", "en", "es", "fr")}
    )
    fetch(wanted, tmp_path)
    assert (tmp_path / "europarl/dev2006.en").read_bytes() == b"x\n"


def test_what_a_folder_lacks_is_named(europarl, tmp_path):
    server, wanted = europarl
    folder = put({"devsets.tgz": server.files["devsets.tgz"]}, tmp_path / "mine")
    with pytest.raises(AccordError, match=r"nothing here gives europarl-v7\.de-en\.de and 5") as e:
        fetch(wanted, tmp_path / "data", source=folder)
    for part in ("training-parallel-europarl-v7.tgz", "de-en.tgz", "training/europarl-v7.de-en.de"):
        assert part in e.value.fix
    # What was there has been taken all the same.
    assert (tmp_path / "data/europarl/dev2006.en").exists()
    with pytest.raises(AccordError, match="no directory"):
        fetch(wanted, tmp_path / "data", source=tmp_path / "none")


def test_a_split_archive_lacks_a_volume(tmp_path):
    files = ORIGINALS["un"]()
    wanted = pointed(dataset("un"), "http://none", files)
    del files["UNv1.0.en-fr.tar.gz.01"]
    with pytest.raises(AccordError, match=r"UNv1\.0\.en-fr\.en and 1 more") as error:
        fetch(wanted, tmp_path / "data", source=put(files, tmp_path / "mine"))
    assert "put UNv1.0.en-fr.tar.gz.01 there" in error.value.fix


def test_a_wrong_file_in_a_folder_is_refused(served, tmp_path):
    server, wanted = served
    archive = wanted.archives[0]
    part = archive.parts[0]
    folder = put(server.files, tmp_path / "mine")
    (folder / part.name).write_bytes(server.files[part.name] + b"x")
    what = "not the published file" if part.checksum else "damaged or cut short"
    with pytest.raises(AccordError, match=what):
        fetch(wanted, tmp_path / "data", source=folder)
    assert not (tmp_path / "data" / wanted.name / archive.members[0].target).exists()


def test_a_file_that_has_moved_names_the_other_places(served, tmp_path):
    server, wanted = served
    server.files.clear()
    with pytest.raises(AccordError, match="the server says 404") as error:
        fetch(wanted, tmp_path)
    assert error.value.where == wanted.archives[0].parts[0].name
    for hint in (wanted.homepage, f"accord fetch {wanted.name} --files DIR", wanted.elsewhere):
        assert hint in error.value.fix
    if wanted.name == "europarl":
        assert f"{server.base}/de-en.tgz" in error.value.fix


def test_only_the_archive_of_a_deleted_file_is_fetched_again(europarl, tmp_path):
    server, wanted = europarl
    fetch(wanted, tmp_path)
    (tmp_path / "europarl/dev2006.de").unlink()
    untouched = tmp_path / "europarl/dev2006.en"
    time = untouched.stat().st_mtime_ns
    server.log.clear()
    assert fetch(wanted, tmp_path).new == ("dev2006.de",)
    assert [path for path, *_ in server.log] == ["/devsets.tgz"]
    assert untouched.stat().st_mtime_ns == time


def test_a_file_without_checksum_is_compared_with_its_first_version(europarl, tmp_path):
    server, wanted = europarl
    first = fetch(wanted, tmp_path)
    assert first.unconfirmed == ("devsets.tgz",)
    recorded = json.loads((tmp_path / "europarl/fetched.json").read_text())["downloads"]
    sha256 = hashlib.sha256(server.files["devsets.tgz"]).hexdigest()
    assert recorded["devsets.tgz"]["sha256"] == sha256
    (tmp_path / "europarl/dev2006.de").unlink()
    server.files["devsets.tgz"] = tar_gz({"wmt07/dev/dev2006.de": b"other\n"})
    with pytest.raises(AccordError, match="the file has changed") as error:
        fetch(wanted, tmp_path)
    assert sha256 in str(error.value)
    assert not (tmp_path / "europarl/dev2006.de").exists()


def test_a_damaged_archive_is_not_what_later_ones_are_compared_with(europarl, tmp_path):
    server, wanted = europarl
    good = server.files["devsets.tgz"]
    server.files["devsets.tgz"] = good[:-20]
    with pytest.raises(AccordError, match="damaged or cut short") as error:
        fetch(wanted, tmp_path)
    assert not any(
        name.startswith("dev") for name in names_in(tmp_path / "europarl") - {"downloads"}
    )
    assert not list((tmp_path / "europarl").glob(".unpacking-*"))
    server.files["devsets.tgz"] = good
    (tmp_path / "europarl/downloads/devsets.tgz").unlink()  # as the message says
    assert str(tmp_path / "europarl/downloads/devsets.tgz") in str(error.value)
    fetch(wanted, tmp_path)
    assert missing(wanted, tmp_path) == ()


def test_an_altered_file_is_left_alone_and_reported(europarl, tmp_path):
    _, wanted = europarl
    fetch(wanted, tmp_path)
    path = tmp_path / "europarl/dev2006.de"
    path.write_text("mine\n")
    with pytest.raises(AccordError, match="altered since it was fetched") as error:
        fetch(wanted, tmp_path)
    assert error.value.where == str(path)
    assert path.read_text() == "mine\n"


def test_a_touched_file_is_read_once_more_and_trusted(europarl, tmp_path):
    server, wanted = europarl
    fetch(wanted, tmp_path)
    (tmp_path / "europarl/dev2006.de").touch()
    server.log.clear()
    assert fetch(wanted, tmp_path).new == ()
    assert server.log == []


def test_files_put_there_by_hand_are_taken_as_they_are(europarl, tmp_path):
    _, wanted = europarl
    put({"dev2006.de": b"by hand\n"}, tmp_path / "europarl")
    told = Told()
    result = fetch(wanted, tmp_path, progress=told)
    assert (tmp_path / "europarl/dev2006.de").read_bytes() == b"by hand\n"
    assert "dev2006.de" not in result.new
    assert any("was there already" in note for note in told.notes)


def test_ctrl_c_keeps_the_part_and_the_next_run_goes_on(europarl, tmp_path):
    server, wanted = europarl

    class Impatient(Silent):
        def reach(self, done, detail=""):
            raise KeyboardInterrupt

    server.files["training-parallel-europarl-v7.tgz"] += bytes(200_000)
    wanted = pointed(dataset("europarl"), server.base, server.files)
    with pytest.raises(KeyboardInterrupt):
        fetch(wanted, tmp_path, progress=Impatient())
    part = tmp_path / "europarl/downloads/training-parallel-europarl-v7.tgz.part"
    size = part.stat().st_size
    assert size > 0
    fetch(wanted, tmp_path)
    assert server.asked("training-parallel-europarl-v7.tgz")[1][0] == f"bytes={size}-"
    assert missing(wanted, tmp_path) == ()


def test_a_finished_download_outlives_an_interrupted_unpacking(europarl, tmp_path, monkeypatch):
    server, wanted = europarl

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        real = accord.fetching.fetch.unpack
        patch.setattr(
            accord.fetching.fetch,
            "unpack",
            lambda *a, **k: (
                patch.setattr(accord.fetching.unpack.os, "fsync", full) or real(*a, **k)
            ),
        )
        with pytest.raises(AccordError, match="no space left"):
            fetch(wanted, tmp_path)
    assert not list((tmp_path / "europarl").glob(".unpacking-*"))
    server.log.clear()
    fetch(wanted, tmp_path)
    assert [path for path, *_ in server.log] == ["/devsets.tgz"]
    assert not (tmp_path / "europarl/downloads").exists()


def test_what_a_killed_run_left_behind_is_cleared_up(europarl, tmp_path):
    _, wanted = europarl
    put({"europarl-v7.de-en.de": b"half"}, tmp_path / "europarl/.unpacking-abcd")
    fetch(wanted, tmp_path)
    assert not (tmp_path / "europarl/.unpacking-abcd").exists()


def test_never_two_at_once(europarl, tmp_path):
    _, wanted = europarl
    (tmp_path / "europarl").mkdir()
    with (tmp_path / "europarl/.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(AccordError, match="another process is working here"):
            fetch(wanted, tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"downloads": {}, "files": {"a": {"x": 1}}}'])
def test_a_damaged_record_is_an_error_with_a_remedy(europarl, tmp_path, text):
    _, wanted = europarl
    put({"fetched.json": text.encode()}, tmp_path / "europarl")
    with pytest.raises(AccordError, match="not a record") as error:
        fetch(wanted, tmp_path)
    assert "delete it" in error.value.fix


def test_an_archive_that_climbs_out_leaves_no_trace(europarl, tmp_path):
    server, wanted = europarl
    members = {"wmt07/dev/dev2006.de": b"x\n", "../../../evil": b"evil"}
    server.files["devsets.tgz"] = tar_gz(members)
    with pytest.raises(AccordError, match="leads out of it"):
        fetch(wanted, tmp_path / "a/b/c")
    assert not [path for path in tmp_path.rglob("*") if path.name in ("evil", "dev2006.de")]
