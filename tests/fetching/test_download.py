"""Downloads from a server on this machine: broken off, resumed, changed, refused, disk full."""

import errno
import gzip
import hashlib
import http.client
import random
import urllib.request
from collections import namedtuple
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import accord.fetching.download
from accord.errors import AccordError
from accord.fetching.catalogue import Part
from accord.fetching.download import EncryptedRedirects, Refusal, download
from accord.progress import Silent
from file_server import FileServer

CONTENT = gzip.compress(random.Random(1).randbytes(200_000), mtime=0)
OTHER = gzip.compress(random.Random(2).randbytes(210_000), mtime=0)


@pytest.fixture
def server():
    with FileServer({"a.tgz": CONTENT}) as running:
        yield running


class Told(Silent):
    """Keeps what it was told; `stop` is raised at the first sign of progress."""

    def __init__(self, stop=None):
        self.notes, self.stop = [], stop

    def note(self, text):
        self.notes.append(text)

    def reach(self, done, detail=""):
        if self.stop is not None:
            raise self.stop


def part(server, *paths, **facts):
    return Part("a.tgz", tuple(f"{server.base}/{path}" for path in paths or ("a.tgz",)), **facts)


def get(wanted, directory, *, most=10**6, progress=None):
    pauses = []
    url = download(
        wanted, directory / "a.tgz", most=most, progress=progress or Silent(), wait=pauses.append
    )
    return url, pauses


def left_in(directory):
    return {path.name for path in directory.iterdir()}


def test_a_file_comes_whole_with_nothing_left_beside_it(server, tmp_path):
    sha256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
    url, pauses = get(part(server, size=len(CONTENT), checksum=sha256), tmp_path)
    assert (tmp_path / "a.tgz").read_bytes() == CONTENT
    assert (url, pauses, left_in(tmp_path)) == (f"{server.base}/a.tgz", [], {"a.tgz"})


def test_a_broken_connection_is_taken_up_where_it_broke(server, tmp_path):
    server.breaks["a.tgz"] = [70_000, 150_000]
    _, pauses = get(part(server), tmp_path)
    assert (tmp_path / "a.tgz").read_bytes() == CONTENT
    etag = f'"{hashlib.md5(CONTENT).hexdigest()}"'
    assert server.asked("a.tgz") == [
        [None, None],
        ["bytes=70000-", etag],
        ["bytes=150000-", etag],
    ]
    assert pauses == [1.0, 1.0]  # something came each time, so patience begins anew


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(143)])
def test_an_interrupt_keeps_what_has_come(server, tmp_path, stop):
    with pytest.raises(type(stop)):
        get(part(server), tmp_path, progress=Told(stop))
    assert left_in(tmp_path) == {"a.tgz.part", "a.tgz.part.json"}
    size = (tmp_path / "a.tgz.part").stat().st_size
    assert 0 < size < len(CONTENT)
    get(part(server), tmp_path)
    assert server.asked("a.tgz")[1][0] == f"bytes={size}-"
    assert (tmp_path / "a.tgz").read_bytes() == CONTENT


def test_a_server_without_ranges_starts_over(server, tmp_path):
    server.ranges = False
    server.breaks["a.tgz"] = [70_000]
    told = Told()
    get(part(server), tmp_path, progress=told)
    assert (tmp_path / "a.tgz").read_bytes() == CONTENT
    assert any("starting over" in note for note in told.notes)


def test_two_versions_are_never_glued_together(server, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        get(part(server), tmp_path, progress=Told(KeyboardInterrupt()))
    server.files["a.tgz"] = OTHER
    get(part(server), tmp_path)
    assert server.asked("a.tgz")[1][0] is not None  # it did ask to go on
    assert (tmp_path / "a.tgz").read_bytes() == OTHER


@settings(max_examples=30, deadline=None)
@example([1], 0, "tag")
@given(
    st.lists(st.integers(0, len(CONTENT)), max_size=6),
    st.integers(0, 6),
    st.sampled_from(["tag", "date", "weak", "no ranges"]),
)
def test_wherever_it_breaks_off_one_version_comes_whole(breaks, change, kind):
    """The file may change on the server between two attempts."""
    with FileServer({"a.tgz": CONTENT}) as server, TemporaryDirectory() as folder:
        server.breaks["a.tgz"] = list(breaks)
        server.ranges = kind != "no ranges"
        date = "Tue, 15 May 2012 10:00:00 GMT"
        if kind != "tag":
            server.headers = {"ETag": 'W/"w"', "Last-Modified": date if kind == "date" else None}
            server.etags["a.tgz"] = date
        attempts = []

        def wait(seconds):
            attempts.append(seconds)
            if len(attempts) == change:
                server.files["a.tgz"] = OTHER
                if kind == "date":
                    date = "Wed, 16 May 2012 10:00:00 GMT"
                    server.etags["a.tgz"] = server.headers["Last-Modified"] = date

        try:
            download(part(server), Path(folder) / "a.tgz", most=10**6, progress=Silent(), wait=wait)
        except Refusal:
            assert len(attempts) >= 5  # it hung up before the first new byte, again and again
            return
        assert (Path(folder) / "a.tgz").read_bytes() == server.files["a.tgz"]
        assert left_in(Path(folder)) == {"a.tgz"}


@pytest.mark.parametrize("mark", ["ETag", "Last-Modified"])
def test_a_server_that_goes_on_with_another_version_is_not_believed(server, tmp_path, mark):
    """It was asked to go on only with the version that is here (If-Range), but does not care."""
    old = {"ETag": None, mark: '"old"' if mark == "ETag" else "Tue, 15 May 2012 10:00:00 GMT"}
    server.headers, server.breaks["a.tgz"] = old, [70_000]
    server.etags["a.tgz"] = old[mark]  # so it takes up any range

    class Changing(Told):
        def note(self, text):
            new = '"new"' if mark == "ETag" else "Wed, 16 May 2012 10:00:00 GMT"
            server.headers, server.files["a.tgz"] = {"ETag": None, mark: new}, OTHER

    get(part(server), tmp_path, progress=Changing())
    assert server.asked("a.tgz")[1][0] == "bytes=70000-"
    assert (tmp_path / "a.tgz").read_bytes() == OTHER


@pytest.mark.parametrize(
    ("status", "headers", "what"),
    [
        (302, {"Location": "http://[bad"}, "makes no sense"),
        (302, {"Location": f"http://{'a' * 70}.example/"}, "makes no sense"),
        (302, {"Location": "file:///etc/passwd"}, "not allowed"),
        (200, {"Content-Length": "9" * 5000}, "makes no sense"),
        (206, {"Content-Range": f"bytes 0-5/{'9' * 5000}"}, "makes no sense"),
        (200, {}, "broke off"),  # an empty file is none
        (204, {}, "broke off"),
    ],
)
def test_nonsense_is_an_answer_too(server, tmp_path, status, headers, what):
    server.answers["a.tgz"] = [(status, headers)] * 9
    with pytest.raises(Refusal, match=what):
        get(part(server), tmp_path)
    assert not (tmp_path / "a.tgz").exists()


def test_a_server_cannot_command_the_terminal():
    error = http.client.BadStatusLine("\x1b]0;title\x07\r\n" + "x" * 10_000)
    said = accord.fetching.download._reason(error)
    assert said.isprintable()
    assert len(said) < 300


@pytest.mark.parametrize("tag", [None, 'W/"weak"'])
def test_without_a_strong_mark_of_the_version_nothing_is_resumed(server, tmp_path, tag):
    server.headers = {"ETag": tag}
    server.breaks["a.tgz"] = [70_000]
    get(part(server), tmp_path)
    assert server.asked("a.tgz") == [[None, None], [None, None]]
    assert (tmp_path / "a.tgz").read_bytes() == CONTENT


def test_the_date_serves_where_the_tag_is_weak(server, tmp_path):
    date = "Tue, 15 May 2012 10:00:00 GMT"
    server.headers = {"ETag": 'W/"weak"', "Last-Modified": date}
    server.etags["a.tgz"] = date  # what this server compares If-Range with
    server.breaks["a.tgz"] = [70_000]
    get(part(server), tmp_path)
    assert server.asked("a.tgz")[1] == ["bytes=70000-", date]
    assert (tmp_path / "a.tgz").read_bytes() == CONTENT


def test_a_part_from_another_address_is_not_continued(server, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        get(part(server), tmp_path, progress=Told(KeyboardInterrupt()))
    server.files["mirror/a.tgz"] = CONTENT
    get(part(server, "mirror/a.tgz"), tmp_path)
    assert server.log[-1][1] is None
    assert (tmp_path / "a.tgz").read_bytes() == CONTENT


def test_a_part_that_is_already_everything_is_accepted(server, tmp_path):
    """The process was killed between the last byte and the rename."""
    with pytest.raises(KeyboardInterrupt):
        get(part(server), tmp_path, progress=Told(KeyboardInterrupt()))
    (tmp_path / "a.tgz.part").write_bytes(CONTENT)
    get(part(server), tmp_path)
    assert left_in(tmp_path) == {"a.tgz"}
    assert (tmp_path / "a.tgz").read_bytes() == CONTENT


def test_a_part_longer_than_the_file_starts_over(server, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        get(part(server), tmp_path, progress=Told(KeyboardInterrupt()))
    (tmp_path / "a.tgz.part").write_bytes(CONTENT + b"more")
    get(part(server), tmp_path)
    assert (tmp_path / "a.tgz").read_bytes() == CONTENT


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_a_wrong_checksum_leaves_nothing_and_shows_both(server, tmp_path, algorithm):
    expected = hashlib.new(algorithm, b"other").hexdigest()
    with pytest.raises(Refusal) as refusal:
        get(part(server, checksum=f"{algorithm}:{expected}"), tmp_path)
    assert expected in str(refusal.value)
    assert hashlib.new(algorithm, CONTENT).hexdigest() in str(refusal.value)
    assert left_in(tmp_path) == set()


def test_a_wrong_size_is_seen_before_anything_is_read(server, tmp_path):
    with pytest.raises(Refusal, match=f"{len(CONTENT):,} bytes there, not 12"):
        get(part(server, size=12), tmp_path)
    assert left_in(tmp_path) == set()


def test_a_page_instead_of_the_file_is_refused(server, tmp_path):
    server.headers = {"Content-Type": "text/html; charset=utf-8"}
    with pytest.raises(Refusal, match="a web page comes"):
        get(part(server), tmp_path)
    server.headers = {}
    server.files["a.tgz"] = b"\n<!DOCTYPE html><title>Moved</title>"
    with pytest.raises(Refusal, match="a web page comes"):
        get(part(server), tmp_path)
    server.files["a.tgz"] = b"PK\x03\x04"
    with pytest.raises(Refusal, match="not gzip"):
        get(part(server), tmp_path)


def test_later_volumes_begin_with_anything(server, tmp_path):
    server.files |= {"x.tar.gz.00": CONTENT[:9], "x.tar.gz.01": CONTENT[9:], "x.tar.gz.10": b"z"}
    for name in ("x.tar.gz.00", "x.tar.gz.01", "x.tar.gz.10"):
        wanted = Part(name, (f"{server.base}/{name}",))
        download(wanted, tmp_path / name, most=10**6, progress=Silent())
    server.files["x.tar.gz.00"] = b"none"
    with pytest.raises(Refusal):
        download(
            Part("x.tar.gz.00", (f"{server.base}/x.tar.gz.00",)),
            tmp_path / "again",
            most=10**6,
            progress=Silent(),
        )


def test_the_next_address_is_asked_when_one_fails(server, tmp_path):
    server.files["mirror/a.tgz"] = CONTENT
    url, pauses = get(part(server, "gone/a.tgz", "mirror/a.tgz"), tmp_path)
    assert (url, pauses) == (f"{server.base}/mirror/a.tgz", [])
    with pytest.raises(Refusal) as refusal:
        get(part(server, "gone/a.tgz", "lost/a.tgz"), tmp_path)
    for address in ("gone/a.tgz: the server says 404", "lost/a.tgz: the server says 404"):
        assert address in str(refusal.value)


def test_passing_trouble_is_waited_out_as_long_as_the_server_asks(server, tmp_path):
    server.answers["a.tgz"] = [(503, {"Retry-After": "7"}), (500, {}), (429, {"Retry-After": "x"})]
    told = Told()
    _, pauses = get(part(server), tmp_path, progress=told)
    assert pauses == [7.0, 2.0, 4.0]
    assert "the server says 503" in told.notes[0]
    assert (tmp_path / "a.tgz").read_bytes() == CONTENT


def test_trouble_that_does_not_pass_ends_the_attempts(server, tmp_path):
    server.answers["a.tgz"] = [(503, {"Retry-After": "100000"})] * 9
    with pytest.raises(Refusal, match="503 Service Unavailable, 6 times in a row"):
        get(part(server), tmp_path)
    assert len(server.log) == 6


def test_no_server_at_all(tmp_path):
    with FileServer() as gone:
        wanted = part(gone)
    with pytest.raises(Refusal, match="no connection"):
        get(wanted, tmp_path)


def test_redirects_are_followed_and_keep_the_range(server, tmp_path):
    server.breaks["a.tgz"] = [70_000]
    there = (302, {"Location": f"{server.base}/a.tgz"})
    server.answers["moved.tgz"] = [there, there]
    get(part(server, "moved.tgz"), tmp_path)
    assert server.asked("a.tgz")[1][0] == "bytes=70000-"
    assert (tmp_path / "a.tgz").read_bytes() == CONTENT


def test_no_redirect_leads_away_from_https():
    request = urllib.request.Request("https://example.org/a.tgz")
    for address in ("http://example.org/a.tgz", "ftp://example.org/a.tgz"):
        with pytest.raises(Refusal, match="away from https"):
            EncryptedRedirects().redirect_request(request, None, 302, "Found", {}, address)


def test_more_bytes_than_can_be_right_are_refused(server, tmp_path):
    with pytest.raises(Refusal, match="more than can be right"):
        get(part(server), tmp_path, most=1000)

    class Endless:
        def read(self, size):
            return b"\x1f\x8b" * (size // 2)

    transfer = accord.fetching.download._Transfer(
        server.base, part(server), tmp_path / "a.tgz", 100_000, Silent()
    )
    with pytest.raises(Refusal, match="more than 100,000 bytes come"):
        transfer._copy(Endless(), 0, None)


def test_a_full_disk_keeps_what_has_come_and_says_so(server, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    server.breaks["a.tgz"] = [70_000]
    with monkeypatch.context() as patch:
        patch.setattr(accord.fetching.download.os, "fsync", full)
        with pytest.raises(AccordError, match="no space left on the disk"):
            get(part(server), tmp_path)
    assert len(server.log) == 1  # and did not try again
    get(part(server), tmp_path)
    assert (tmp_path / "a.tgz").read_bytes() == CONTENT


def test_a_disk_that_is_too_small_is_noticed_beforehand(server, tmp_path, monkeypatch):
    usage = namedtuple("usage", "free")(1000)
    monkeypatch.setattr(accord.fetching.download.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(AccordError, match="GB free"):
        get(part(server), tmp_path)
    assert left_in(tmp_path) == set()
