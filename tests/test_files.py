import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from accord.errors import AccordError
from accord.files import (
    atomic_directory,
    atomic_write,
    check_writable,
    clear_leftovers_in,
    exclusive,
    reading_errors,
    sealed,
    sha256_of,
    writing_errors,
)


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), atomic_write(path) as file:
        file.write("half of the new")
        raise RuntimeError
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_write_takes_the_place_of_the_old_file(tmp_path):
    path = tmp_path / "new" / "a.txt"
    for text in ("one\n", "zwei ü\n"):
        with atomic_write(path) as file:
            file.write(text)
        assert path.read_bytes() == text.encode()
    assert os.listdir(path.parent) == ["a.txt"]


def test_new_files_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with atomic_write(tmp_path / "a") as file:
            file.write("x")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_disk_trouble_becomes_an_error_with_a_remedy(tmp_path, code):
    with pytest.raises(AccordError, match="cannot write") as caught, atomic_write(tmp_path / "a"):
        raise OSError(code, os.strerror(code))
    assert caught.value.fix
    assert os.listdir(tmp_path) == []


def test_a_really_full_disk(tmp_path):
    """/dev/full answers every write as a full disk does."""
    with (
        pytest.raises(AccordError, match="no space left"),
        writing_errors(tmp_path),
        open("/dev/full", "wb") as file,
    ):
        file.write(b"x" * 100_000)


def test_two_processes_cannot_hold_one_directory(tmp_path):
    code = (
        "import sys; from pathlib import Path; from accord.files import exclusive\n"
        "with exclusive(Path(sys.argv[1]), 'a test'): pass"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with exclusive(tmp_path, "the first"):
        second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert f"the first, process {os.getpid()}" in second.stderr
    assert subprocess.run(command, check=False).returncode == 0


def test_sha256(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256_of(tmp_path / "a").startswith("ba7816bf8f01cfea")


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to("far/target")
    for text in ("one", "two"):
        with atomic_write(tmp_path / "link") as file:
            file.write(text)
        assert (tmp_path / "far" / "target").read_text() == text
    assert (tmp_path / "link").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["far", "link"]


def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True)
    with atomic_write(pipe) as file:
        file.write("hello\n")
    assert reader.communicate(timeout=20)[0] == "hello\n"
    assert pipe.is_fifo()


@pytest.mark.parametrize("check", [check_writable, lambda path: atomic_write(path).__enter__()])
def test_places_that_cannot_be_written_to(tmp_path, check):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    for name, message in (
        (".", "this is a directory"),
        ("file/x", "a part of the path is a file"),
        ("loop", "lead in a circle"),
        ("x" * 300, "too long"),
    ):
        with pytest.raises(AccordError, match=message):
            check(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["file", "loop"]


def test_places_that_can_be_written_to_are_left_as_they_are(tmp_path):
    (tmp_path / "file").write_text("old")
    for name in ("new", "deep/down/new", "file"):
        check_writable(tmp_path / name)
    check_writable(Path("/dev/null"))
    assert os.listdir(tmp_path) == ["file"]


def test_a_directory_without_permission_is_found_out_beforehand(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(AccordError, match="permission denied"):
        check_writable(tmp_path / "a.json")


@pytest.mark.parametrize("code", [errno.EEXIST, errno.EISDIR, errno.EBUSY, errno.ELOOP])
def test_rarer_trouble_has_a_remedy_too(tmp_path, code):
    with pytest.raises(AccordError, match="cannot write") as caught, writing_errors(tmp_path):
        raise OSError(code, os.strerror(code))
    assert caught.value.fix


def test_reading_errors_name_the_file(tmp_path):
    with (
        pytest.raises(AccordError, match="cannot be read: No such file") as caught,
        reading_errors(tmp_path),
    ):
        (tmp_path / "a").read_bytes()
    assert caught.value.where == str(tmp_path / "a")


def test_a_directory_takes_its_place_whole_and_not_after_a_failure(tmp_path):
    place = tmp_path / "some" / "where"
    with atomic_directory(place) as fresh:
        (fresh / "a").write_text("first")
        assert not place.exists()
    with pytest.raises(KeyboardInterrupt), atomic_directory(place) as fresh:
        (fresh / "a").write_text("second")
        raise KeyboardInterrupt
    assert (place / "a").read_text() == "first"
    with atomic_directory(place) as fresh:
        (fresh / "b").write_text("third")
    assert [path.name for path in place.iterdir()] == ["b"]
    assert [path.name for path in place.parent.iterdir()] == ["where"]


def killed_while(code, *arguments):
    """Run a program that is killed in the middle of its writing."""
    program = (
        "import os, signal, sys; from pathlib import Path; from accord.files import *\n"
        f"kill = lambda: os.kill(os.getpid(), signal.SIGKILL)\nplace = Path(sys.argv[1])\n{code}"
    )
    ended = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], check=False)
    assert ended.returncode == -signal.SIGKILL


def age(path):
    os.utime(path, (1, 1))


def test_the_next_writer_of_a_file_clears_what_a_killed_one_left(tmp_path):
    path = tmp_path / "a.txt"
    killed_while("with atomic_write(place) as file:\n file.write('x'); file.flush(); kill()", path)
    (tmp_path / ".a.txt.justmade").touch()  # perhaps somebody is about to lock it
    (tmp_path / ".a.txt.abandon_").touch()
    age(tmp_path / ".a.txt.abandon_")
    (tmp_path / ".other.12345678").write_text("not of this file")
    assert len(os.listdir(tmp_path)) == 4
    with atomic_write(path) as living:
        living.write("first")
        living.flush()
        with atomic_write(path) as file:
            file.write("second")
        left = {name for name in os.listdir(tmp_path) if name.startswith(".a.txt")}
        assert len(left - {".a.txt.justmade"}) == 1  # what the living one holds
    assert path.read_text() == "first"
    assert sorted(os.listdir(tmp_path)) == [".a.txt.justmade", ".other.12345678", "a.txt"]


def test_a_directory_that_was_moved_aside_by_a_killed_process_comes_back(tmp_path):
    place = tmp_path / "there"
    place.mkdir()
    (place / "old").write_text("all of it")
    killed_while(
        "Path.rename = lambda old, new, plain=Path.rename: (plain(old, new), kill())\n"
        "with atomic_directory(place) as fresh: (fresh / 'new').touch()",
        place,
    )
    assert not place.exists()
    (tmp_path / ".there.abandon_").mkdir()
    age(tmp_path / ".there.abandon_")
    (tmp_path / ".there.justmade").mkdir()
    (tmp_path / ".mine.12345678").mkdir()
    (tmp_path / ".mine.12345678" / "file").touch()
    age(tmp_path / ".mine.12345678")
    with atomic_directory(tmp_path / "living") as fresh:
        clear_leftovers_in(tmp_path)
        assert fresh.is_dir()
    assert (place / "old").read_text() == "all of it"
    assert sorted(os.listdir(tmp_path)) == [".mine.12345678", ".there.justmade", "living", "there"]


def test_what_is_killed_while_it_clears_up_is_still_known(tmp_path):
    """The lock, by which a folder is known, goes last."""
    killed_while(
        "import shutil\n"
        "plain = os.unlink\n"
        "os.unlink = lambda name, **more: (plain(name, **more), kill())\n"
        "with atomic_directory(place) as fresh:\n"
        " for name in 'abc': (fresh / name).touch()\n"
        " raise KeyboardInterrupt",
        tmp_path / "there",
    )
    [work] = tmp_path.iterdir()
    assert (work / ".lock").exists()
    clear_leftovers_in(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_check_may_object_when_all_is_written(tmp_path):
    def taken():
        raise AccordError("somebody was quicker")

    with pytest.raises(AccordError, match="quicker"), atomic_directory(tmp_path / "x", taken):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_seal_tells_of_any_change():
    entries = sealed({"b": 1, "a": [2]})
    assert sealed(entries) == entries
    assert sealed(entries | {"b": 2})["seal"] != entries["seal"]
