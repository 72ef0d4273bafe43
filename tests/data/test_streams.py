import bz2
import errno
import gzip
import io
import lzma
import os
import random
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from accord.data.streams import MAX_LINE_BYTES, input_files, open_bytes, read_lines, read_text
from accord.errors import AccordError

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
TEXT = "Grüß Gott\nwie geht's\n".encode()
LINES = ["Grüß Gott", "wie geht's"]


def noise(size: int) -> bytes:
    return random.Random(7).randbytes(size)


def tar_bytes(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def peak_of(path: str) -> int:
    """The most memory held while all lines of a file are read."""
    tracemalloc.start()
    try:
        for _ in read_lines(path):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Compression


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_files_are_read_as_they_are(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a.de{suffix}"
    file.write_bytes(COMPRESS[suffix](TEXT))
    assert list(read_lines(str(file))) == LINES


@pytest.mark.parametrize("suffix", COMPRESS)
def test_all_streams_of_a_concatenated_file_are_read(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a.de{suffix.upper()}"
    file.write_bytes(COMPRESS[suffix](TEXT) + COMPRESS[suffix](b"") + COMPRESS[suffix](b"drei"))
    assert list(read_lines(str(file))) == [*LINES, "drei"]


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.999])
def test_a_truncated_file_is_damaged(tmp_path: Path, suffix: str, kept: float) -> None:
    file = tmp_path / f"a.de{suffix}"
    whole = COMPRESS[suffix](noise(100_000).hex().encode())
    file.write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(AccordError, match="damaged") as caught:
        list(read_lines(str(file)))
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_corrupt_file_is_damaged(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a.de{suffix}"
    file.write_bytes(noise(5000))
    with pytest.raises(AccordError, match="damaged"):
        list(read_lines(str(file)))


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("between", [b"garbage", b"X", b"\0\0\0X"])
def test_rubbish_between_streams_is_damage(tmp_path: Path, suffix: str, between: bytes) -> None:
    file = tmp_path / f"a.de{suffix}"
    packed = COMPRESS[suffix](TEXT)
    for data in (packed + between + packed, packed + between):
        file.write_bytes(data)
        with pytest.raises(AccordError, match="damaged"):
            list(read_lines(str(file)))


@pytest.mark.parametrize("zeros", [4, 8, 512])
def test_xz_streams_may_be_padded(tmp_path: Path, zeros: int) -> None:
    file = tmp_path / "a.xz"
    packed = lzma.compress(TEXT)
    file.write_bytes(packed + bytes(zeros) + packed + bytes(zeros))
    assert list(read_lines(str(file))) == LINES * 2


@pytest.mark.parametrize(("suffix", "zeros"), [(".xz", 3), (".xz", 513), (".bz2", 4)])
def test_wrong_padding_is_damage(tmp_path: Path, suffix: str, zeros: int) -> None:
    file = tmp_path / f"a{suffix}"
    for end in (b"", COMPRESS[suffix](TEXT)):
        file.write_bytes(COMPRESS[suffix](TEXT) + bytes(zeros) + end)
        with pytest.raises(AccordError, match="damaged"):
            list(read_lines(str(file)))


def test_a_zstd_frame_to_be_skipped_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "a.zst"
    skippable = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"
    file.write_bytes(skippable + COMPRESS[".zst"](TEXT))
    assert list(read_lines(str(file))) == LINES


def test_errors_of_the_caller_are_not_taken_for_damage(tmp_path: Path) -> None:
    file = tmp_path / "a.gz"
    file.write_bytes(gzip.compress(TEXT))
    with pytest.raises(EOFError, match="mine"), open_bytes(str(file)):
        raise EOFError("mine")


# Archives


@pytest.mark.parametrize("suffix", [".tar", ".tgz", *(f".tar{suffix}" for suffix in COMPRESS)])
@pytest.mark.parametrize("dots", ["", "./"])
def test_members_of_tar_archives(tmp_path: Path, suffix: str, dots: str) -> None:
    data = tar_bytes({f"{dots}x/other": noise(200_000), f"{dots}x/a.de": TEXT})
    pack = COMPRESS.get(".gz" if suffix == ".tgz" else suffix.removeprefix(".tar"), bytes)
    (tmp_path / f"c{suffix}").write_bytes(pack(data))
    for asked in ("x/a.de", "./x/a.de"):
        assert list(read_lines(f"{tmp_path}/c{suffix}::{asked}")) == LINES


def test_members_of_zip_archives(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "c.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/a.de", TEXT)
        archive.writestr("x/b.de.xz", lzma.compress(b"eins"))
    assert list(read_lines(f"{tmp_path}/c.zip::./x/a.de")) == LINES
    assert list(read_lines(f"{tmp_path}/c.zip::x/b.de.xz")) == ["eins"]


def test_a_member_may_be_compressed_itself(tmp_path: Path) -> None:
    (tmp_path / "c.tar").write_bytes(tar_bytes({"a/b.de.gz": gzip.compress(TEXT)}))
    assert list(read_lines(f"{tmp_path}/c.tar::a/b.de.gz")) == LINES


def test_a_missing_member_names_the_nearest(tmp_path: Path) -> None:
    members = {f"en-fr/text{i}.en": b"" for i in range(8)} | {"en-fr/UNv1.0.fr": b"x"}
    (tmp_path / "c.tar").write_bytes(tar_bytes(members))
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        for name in members:
            archive.writestr(name, b"")
    for archive_name in ("c.tar", "c.zip"):
        with (
            pytest.raises(AccordError, match="no member en-fr/UNv1") as caught,
            open_bytes(f"{tmp_path}/{archive_name}::en-fr/UNv1.0.en"),
        ):
            pass
        assert caught.value.fix is not None
        listed = caught.value.fix.split(" are ")[1].split(", ")
        assert listed[0] == "en-fr/UNv1.0.fr"
        assert len(listed) == 5


def test_damaged_archives(tmp_path: Path) -> None:
    whole = tar_bytes({"big": noise(100_000), "a.de": TEXT})
    (tmp_path / "short.tar").write_bytes(whole[:50_000])
    (tmp_path / "short.tar.gz").write_bytes(gzip.compress(whole)[:50_000])
    (tmp_path / "noise.tar").write_bytes(noise(5000))
    (tmp_path / "noise.zip").write_bytes(noise(5000))
    for name in ("short.tar", "short.tar.gz", "noise.tar", "noise.zip"):
        with pytest.raises(AccordError, match="damaged") as caught:
            list(read_lines(f"{tmp_path}/{name}::a.de"))
        assert name in str(caught.value)
    with pytest.raises(AccordError, match="damaged"):
        list(read_lines(f"{tmp_path}/short.tar::big"))


def test_a_zip_member_with_a_wrong_checksum_is_damaged(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.writestr("a.de", b"unmistakable")
    data = (tmp_path / "c.zip").read_bytes()
    (tmp_path / "c.zip").write_bytes(data.replace(b"unmistakable", b"unmistakenly", 1))
    with pytest.raises(AccordError, match="damaged"):
        list(read_lines(f"{tmp_path}/c.zip::a.de"))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("c.tar.gz", "archive"),
        ("c.zip", "archive"),
        ("c.tgz.00", "archive"),
        ("c.txt::a", "not an archive"),
        ("c.tar::", "not the name of a member"),
        ("c.tar::b.tar::a", "inside another"),
        ("c.tar.gz.01::a", r"c\.tar\.gz\.00"),
        ("c.zip.00::a", "split zip"),
    ],
)
def test_paths_that_make_no_sense(tmp_path: Path, path: str, message: str) -> None:
    with pytest.raises(AccordError, match=message):
        input_files(f"{tmp_path}/{path}")


# Volumes


def test_volumes_are_read_as_one_file(tmp_path: Path) -> None:
    whole = gzip.compress(tar_bytes({"en-fr/x": noise(50_000), "en-fr/a.de": TEXT}))
    size = len(whole) // 3 + 1
    for index in range(3):
        part = whole[index * size : (index + 1) * size]
        (tmp_path / f"UNv1.0.en-fr.tar.gz.0{index}").write_bytes(part)
    (tmp_path / "UNv1.0.en-fr.tar.gz.README").write_text("not a volume")
    first = f"{tmp_path}/UNv1.0.en-fr.tar.gz.00"
    assert list(read_lines(f"{first}::en-fr/a.de")) == LINES
    assert [file.name[-2:] for file in input_files(f"{first}::en-fr/a.de")] == ["00", "01", "02"]


def test_a_gap_between_volumes_is_an_error(tmp_path: Path) -> None:
    for index in (0, 1, 3):
        (tmp_path / f"a.gz.0{index}").write_bytes(b"x")
    with pytest.raises(AccordError, match=r"a\.gz\.02 is missing"):
        input_files(f"{tmp_path}/a.gz.00")


def test_a_number_at_the_end_of_another_name_is_no_volume(tmp_path: Path) -> None:
    (tmp_path / "dev.00").write_text("eins\n")
    (tmp_path / "dev.01").write_text("zwei\n")
    assert list(read_lines(f"{tmp_path}/dev.01")) == ["zwei"]


# Paths


def test_R11_a_missing_file_names_what_was_expected_and_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "europarl-v7.de-en.de").write_text("x")
    (tmp_path / "zzz").write_text("x")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AccordError) as caught:
        input_files("europarl-v7.de-en.d")
    assert str(tmp_path / "europarl-v7.de-en.d") in str(caught.value)
    assert "expected a file of this name" in str(caught.value)
    assert "nearest name" in str(caught.value)
    assert str(caught.value).endswith("europarl-v7.de-en.de")


def test_R11_a_missing_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "europarl").mkdir()
    with pytest.raises(AccordError) as caught:
        input_files(f"{tmp_path}/europarl7/training/a.de")
    assert f"{tmp_path} has no europarl7" in str(caught.value)
    assert str(caught.value).endswith("is europarl")
    with pytest.raises(AccordError, match="europarl is empty"):
        input_files(f"{tmp_path}/europarl/a.de")


def test_a_pipe_is_not_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.de")
    with pytest.raises(AccordError, match="pipe or device"):
        input_files(f"{tmp_path}/a.de")


def test_a_directory_that_may_not_be_entered_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path, **_: object) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "exists", denied)
    with pytest.raises(AccordError, match="cannot be read: Permission denied") as caught:
        input_files(f"{tmp_path}/a.de")
    assert caught.value.where == f"{tmp_path}/a.de"


def test_a_directory_that_may_not_be_listed_gives_no_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(_: object) -> list[str]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    (tmp_path / "b.de").touch()
    monkeypatch.setattr(os, "listdir", denied)
    with pytest.raises(AccordError, match="may not be listed"):
        input_files(f"{tmp_path}/a.de")


def test_a_directory_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(AccordError, match="directory"):
        input_files(str(tmp_path))


def test_home_and_variables_are_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.de").write_bytes(TEXT)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CORPORA", str(tmp_path))
    monkeypatch.delenv("NOWHERE", raising=False)
    assert list(read_lines("~/a.de")) == LINES
    assert input_files("${CORPORA}/a.de") == input_files("$CORPORA/a.de") == [tmp_path / "a.de"]
    for path in ("$NOWHERE/a.de", "${NOWHERE}/a.de"):
        with pytest.raises(AccordError, match="NOWHERE is not set"):
            input_files(path)


# Lines


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"\n\na", ["", "", "a"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"a\r\n  b\t\r\n", ["a", "b"]),
        ("a\u2028b\u0085c\x0bd\x0ce\x1cf\rg\n".encode(), ["a\u2028b\u0085c\x0bd\x0ce\x1cf\rg"]),
        ("\u3000x\u00a0\n".encode(), ["x"]),
    ],
)
def test_lines_end_at_line_feeds_only(tmp_path: Path, data: bytes, expected: list[str]) -> None:
    (tmp_path / "a").write_bytes(data)
    assert list(read_lines(f"{tmp_path}/a")) == expected


def test_lines_can_keep_their_white_space(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\t a \r\n\tb")
    assert list(read_lines(f"{tmp_path}/a", strip=False)) == ["\t a \r", "\tb"]


@pytest.mark.parametrize(
    ("data", "where", "byte", "encoding"),
    [
        (b"gut\nGr\xfc\xdf\n", "line 2, byte 3", "0xFC", "ISO-8859-1"),
        (b"\xef\xbb\xbfab\xff\n", "line 1, byte 6", "0xFF", "ISO-8859-1"),
        (b"gut\nabc\xc3", "line 2, byte 4", "0xC3", "ISO-8859-1"),
        ("gut".encode("utf-16"), "line 1, byte 1", "0xFF", "UTF-16"),
    ],
)
def test_invalid_utf8_is_located(
    tmp_path: Path, data: bytes, where: str, byte: str, encoding: str
) -> None:
    (tmp_path / "a").write_bytes(data)
    for read in (read_lines, read_text):
        with pytest.raises(AccordError) as caught:
            list(read(f"{tmp_path}/a"))
        assert caught.value.where == f"{tmp_path}/a, {where}"
        assert byte in caught.value.what
        assert encoding in str(caught.value.fix)


def test_invalid_utf8_is_located_far_into_a_long_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x\n" + "ü".encode() * 100_000 + b"z\xfc")
    for read in (read_lines, read_text):
        with pytest.raises(AccordError, match="line 2, byte 200002"):
            list(read(f"{tmp_path}/a"))


def test_a_line_above_the_limit_is_none(tmp_path: Path) -> None:
    sizes = [MAX_LINE_BYTES, MAX_LINE_BYTES + 1, 1_500_000, 2 * MAX_LINE_BYTES + 2]
    (tmp_path / "a").write_bytes(b"a\n" + b"".join(b"x" * size + b"\n" for size in sizes) + b"b")
    lines = list(read_lines(f"{tmp_path}/a"))
    assert lines == ["a", "x" * MAX_LINE_BYTES, None, None, None, "b"]


@given(st.lists(st.text(st.characters(exclude_characters="\n\ufeff", codec="utf-8")), min_size=1))
def test_any_text_comes_back_line_by_line(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    file = tmp_path_factory.getbasetemp() / "any_text"
    text = "".join(line + "\n" for line in lines)
    file.write_bytes(text.encode())
    assert list(read_lines(str(file), strip=False)) == lines
    assert "".join(read_text(str(file))) == text


# Memory


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst", ".tar.gz"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, suffix: str) -> None:
    lines = b"".join(b"%07d %s\n" % (i, b"word " * 180) for i in range(33_000))
    assert len(lines) > 29_000_000
    file = tmp_path / f"a{suffix}"
    if suffix == ".tar.gz":
        file.write_bytes(gzip.compress(tar_bytes({"x": lines, "a.de": lines}), 1))
        peak = peak_of(f"{file}::a.de")
    else:
        file.write_bytes(COMPRESS.get(suffix, bytes)(lines))
        peak = peak_of(str(file))
    assert peak < 3_000_000


@pytest.mark.parametrize("suffix", COMPRESS)
def test_memory_does_not_grow_with_a_line(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a{suffix}"
    file.write_bytes(COMPRESS[suffix](b"x" * 60_000_000))  # one kilobyte of zstd is all of it
    assert list(read_lines(str(file))) == [None]
    assert peak_of(str(file)) < 30_000_000
