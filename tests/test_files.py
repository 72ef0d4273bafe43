import errno
import os
import subprocess
import sys

import pytest

from accord.errors import AccordError
from accord.files import atomic_write, exclusive, sha256_of


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
    from accord.files import writing_errors

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
