"""Unpacking archives that are damaged, odd, or made with ill intent."""

import errno
import gzip
import io
import os
import tarfile
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accord.fetching.unpack
from accord.errors import AccordError
from accord.fetching.catalogue import Member
from accord.fetching.unpack import unpack
from accord.progress import Silent
from miniatures import tar_gz

TEXT = "Häuser und Katzen\n".encode() * 500
WANTED = (Member("out.de", ("in/a.de", "old/a.de")),)


def entry(name, kind=tarfile.REGTYPE, link="", content=b""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(content)
    return info, content


def packed(*entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for info, content in entries:
            archive.addfile(info, io.BytesIO(content) if content else None)
    return out.getvalue()


def run(directory, content, members=WANTED, most=10**8):
    (directory / "a.tgz").write_bytes(content)
    return unpack([directory / "a.tgz"], members, directory / "to", most=most, progress=Silent())


def outside(directory):
    return {str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()} - {"a.tgz"}


@pytest.mark.parametrize("name", ["in/a.de", "./in/a.de", "old/a.de"])
def test_only_what_is_wanted_is_written_under_our_own_name(tmp_path, name):
    content = tar_gz({"in/other": b"x", name: TEXT, "in/a.fr": b"y"})
    sums = run(tmp_path, content)
    assert list(sums) == ["out.de"]
    assert outside(tmp_path) == {"to/out.de"}
    assert (tmp_path / "to/out.de").read_bytes() == TEXT


@given(st.lists(st.integers(0, 600), max_size=4))
@settings(max_examples=25, deadline=None)
def test_an_archive_may_be_split_anywhere(tmp_path_factory, places):
    directory = tmp_path_factory.mktemp("split")
    content = tar_gz({"in/a.de": TEXT})
    cuts = [0, *sorted(min(place, len(content)) for place in places), len(content)]
    volumes = []
    for number, (start, end) in enumerate(pairwise(cuts)):
        volumes.append(directory / f"x.tar.gz.{number:02d}")
        volumes[-1].write_bytes(content[start:end])
    unpack(volumes, WANTED, directory / "to", most=10**8, progress=Silent())
    assert (directory / "to/out.de").read_bytes() == TEXT


@pytest.mark.parametrize("name", ["../evil", "in/../../evil", "/etc/evil", "in\\..\\evil"])
def test_a_member_that_leads_out_condemns_the_archive(tmp_path, name):
    for content in (
        packed(entry("in/a.de", content=TEXT), entry(name, content=b"evil")),
        packed(entry(name, tarfile.SYMTYPE, "x"), entry("in/a.de", content=TEXT)),
    ):
        with pytest.raises(AccordError, match="leads out of it"):
            run(tmp_path, content)
    assert not (tmp_path.parent / "evil").exists()
    assert not any("evil" in name for name in outside(tmp_path))


def test_a_wanted_name_that_leads_out_is_refused_all_the_same(tmp_path):
    with pytest.raises(AccordError, match="leads out of it"):
        run(tmp_path, tar_gz({"../a.de": TEXT}), [Member("out.de", ("../a.de",))])
    assert outside(tmp_path) == set()


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_and_pipes_condemn_the_archive(tmp_path, kind):
    with pytest.raises(AccordError, match="device or pipe"):
        run(tmp_path, packed(entry("in/null", kind), entry("in/a.de", content=TEXT)))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
@pytest.mark.parametrize("target", ["/etc/passwd", "../../../etc/passwd", "in/none"])
def test_links_that_nobody_asked_for_are_passed_over(tmp_path, kind, target):
    content = packed(entry("in/link", kind, target), entry("in/a.de", content=TEXT))
    run(tmp_path, content)
    assert outside(tmp_path) == {"to/out.de"}
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
@pytest.mark.parametrize("target", ["/etc/passwd", "../../../etc/passwd", "in/none", "a.de"])
def test_a_link_in_place_of_a_wanted_file_never_reaches_outside(tmp_path, kind, target):
    """The last one leads to itself."""
    target = "in/a.de" if (kind, target) == (tarfile.LNKTYPE, "a.de") else target
    with pytest.raises(AccordError, match=r"is a link to .*, which is not in it"):
        run(tmp_path, packed(entry("in/a.de", kind, target)))
    assert outside(tmp_path) == set()


@pytest.mark.parametrize(
    "links",
    [
        [("in/a.de", tarfile.SYMTYPE, "../dev/x.de")],
        [("in/a.de", tarfile.LNKTYPE, "dev/x.de")],
        [("in/a.de", tarfile.SYMTYPE, "b.de"), ("in/b.de", tarfile.LNKTYPE, "dev/x.de")],
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_link_inside_the_archive_is_followed(tmp_path, links, first):
    file = [entry("dev/x.de", content=TEXT)]
    made = [entry(*link) for link in links]
    run(tmp_path, packed(*(file + made if first else made + file)))
    assert (tmp_path / "to/out.de").read_bytes() == TEXT
    assert not (tmp_path / "to/out.de").is_symlink()


@pytest.mark.parametrize("where", ["in/a.de", "in/other"])
def test_a_bomb_is_defused(tmp_path, where):
    """50 MB of zeros in 50 KB: by the ratio, although the catalogue would allow as much."""
    content = tar_gz({where: bytes(50_000_000)})
    assert len(content) < 100_000
    with pytest.raises(AccordError, match="refused"):
        run(tmp_path, content)


def test_more_than_the_catalogue_allows_is_refused(tmp_path):
    noise = os.urandom(2_000_000)
    run(tmp_path, tar_gz({"in/a.de": noise}), most=3_000_000)
    with pytest.raises(AccordError, match="refused"):
        run(tmp_path, tar_gz({"in/a.de": noise, "in/b": noise}), most=3_000_000)


def test_a_header_that_claims_the_impossible_is_refused(tmp_path):
    info = tarfile.TarInfo("in/a.de")
    info.size = 10**12
    with pytest.raises(AccordError, match="claims 1,000,000,000,000 bytes"):
        run(tmp_path, gzip.compress(info.tobuf() + bytes(1024)))


def pax(**headers):
    """A header about the next member."""
    info = tarfile.TarInfo("x")
    info.pax_headers = headers
    return info.tobuf(tarfile.PAX_FORMAT)[:-512]


@pytest.mark.parametrize(
    ("headers", "what"),
    [
        (pax(path="in/a.de") * 3000, "damaged"),  # each is about the next: tarfile recurses
        (pax(comment="x" * 10**6), "a header of 1,000,0"),  # kept in memory as a whole
        (pax(**{"GNU.sparse.map": "1,x", "GNU.sparse.size": "5"}), "damaged"),
        (pax(**{"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}), "damaged"),
        (pax(size="-5"), "claims -5 bytes"),
    ],
    ids=["endless", "large", "no number", "no map", "negative"],
)
def test_headers_that_no_honest_archive_has(tmp_path, headers, what):
    info, content = entry("in/a.de", content=b"12345")
    member = info.tobuf(tarfile.USTAR_FORMAT) + content + bytes(512 - len(content))
    noise = os.urandom(20_000)  # so that it is not refused for what comes out of it
    more = entry("in/b", content=noise)[0].tobuf(tarfile.USTAR_FORMAT) + noise + bytes(480)
    with pytest.raises(AccordError, match=what):
        run(tmp_path, gzip.compress(headers + member + more + bytes(1024)))


def test_holes_in_a_file_are_not_blown_up(tmp_path):
    """Five bytes that say they are 50 MB, all but five of them a hole."""
    info, _ = entry("in/a.de", content=b"12345")
    info.pax_headers = {"GNU.sparse.size": "50000000", "GNU.sparse.map": "0,5"}
    with pytest.raises(AccordError, match="claims 50,000,000 bytes"):
        run(tmp_path, packed((info, b"12345")))


def test_too_many_members_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(accord.fetching.unpack, "_MOST_MEMBERS", 5)
    with pytest.raises(AccordError, match="more than 5 members"):
        run(tmp_path, tar_gz({f"in/{i}": b"x" for i in range(6)}))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_an_archive_cut_short_is_noticed(tmp_path, share):
    content = tar_gz({"in/a.de": TEXT, "in/b": os.urandom(20_000)})
    with pytest.raises(AccordError, match=r"damaged or cut short|has no in/a.de"):
        run(tmp_path, content[: int(share * len(content))])


def test_not_even_the_last_byte_may_be_missing_or_wrong(tmp_path):
    content = tar_gz({"in/a.de": TEXT})
    for bad in (content[:-1], content[:-6] + b"\0" + content[-5:], b"no archive at all"):
        with pytest.raises(AccordError, match="damaged or cut short"):
            run(tmp_path, bad)


def test_a_missing_member_is_named(tmp_path):
    with pytest.raises(AccordError, match=r"the archive has no in/a\.de") as error:
        run(tmp_path, tar_gz({"elsewhere/a.de": TEXT}))
    assert "--files" in error.value.fix


def test_a_full_disk_is_no_damage(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(accord.fetching.unpack.os, "fsync", full)
    with pytest.raises(AccordError, match="no space left on the disk"):
        run(tmp_path, tar_gz({"in/a.de": TEXT}))
