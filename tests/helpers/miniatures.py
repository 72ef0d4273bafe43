"""The corpora of the paper in small: archives, names, tags and quirks as in the originals."""

import gzip
import hashlib
import io
import tarfile
from dataclasses import replace
from itertools import combinations, permutations

from accord.fetching.catalogue import Dataset, Part
from toy_corpus import WORDS

_MORE = {
    "it": "il un grande piccolo casa gatto cane vede ama verde rosso vecchio nuovo e",
    "nl": "het een groot klein huis kat hond ziet houdt groen rood oud nieuw en",
    "ro": "casa un mare mic pisica câine vede iubește verde roșu vechi nou bătrân și",
    "ru": "этот один большой малый дом кот пёс видит любит зелёный красный старый новый и",
    "cs": "ten jeden velký malý dům kočka pes vidí miluje zelený červený starý nový a",
}
_WORDS = WORDS | {language: text.split() for language, text in _MORE.items()}
_ARABIC_AND_CHINESE = {"ar": "بيت", "zh": "房子"}


def line(number: int, language: str) -> str:
    """Sentence `number`, the same in meaning in every language."""
    if language in _ARABIC_AND_CHINESE:
        return f"{_ARABIC_AND_CHINESE[language]} {number}"
    words, out = _WORDS[language], []
    while number or len(out) < 3:
        number, digit = divmod(number, len(words))
        out.append(words[digit])
    return " ".join(out) + "."


def text(numbers, language: str) -> bytes:
    return "".join(f"{'' if n is None else line(n, language)}\n" for n in numbers).encode()


def tar_gz(members: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def split(name: str, content: bytes, volumes: int) -> dict[str, bytes]:
    size = -(-len(content) // volumes)
    return {f"{name}.{i:02d}": content[i * size : (i + 1) * size] for i in range(volumes)}


def europarl() -> dict[str, bytes]:
    """All English sides overlap; some lines are empty, as in the original."""
    numbers = [*range(60), None, *range(60, 120), None]
    pairs = {
        x: {
            f"europarl-v7.{x}-en.{x}": text(numbers, x),
            f"europarl-v7.{x}-en.en": text(numbers, "en"),
        }
        for x in ("cs", "de", "es", "fr")
    }
    training = {f"training/{n}": c for files in pairs.values() for n, c in files.items()}
    devsets = {
        f"wmt07/{folder}/{name}.{x}": text(range(start, start + 20), x)
        for folder, name, start in (
            ("dev", "dev2006", 1000),
            ("dev", "nc-dev2007", 1100),
            ("devtest", "devtest2006", 1200),
            ("devtest", "nc-devtest2007", 1300),
            ("devtest", "test2006", 1400),
        )
        for x in ("de", "en", "es", "fr")
    }
    # The folder of the year before is a link, and so is one of the files wanted.
    devsets["wmt07/devtest/devtest2006.raw.de"] = devsets.pop("wmt07/devtest/devtest2006.de")
    links = {"wmt06": "wmt07", "wmt07/devtest/devtest2006.de": "devtest2006.raw.de"}
    return {
        "training-parallel-europarl-v7.tgz": tar_gz(training),
        "devsets.tgz": tar_gz(devsets, links),
        **{f"{x}-en.tgz": tar_gz(files) for x, files in pairs.items()},
    }


def un() -> dict[str, bytes]:
    files = {}
    for number, (pair, volumes) in enumerate((("en-es", 2), ("en-fr", 3), ("en-ru", 3))):
        numbers = range(30 * number, 30 * number + 100)
        members = {f"{pair}/UNv1.0.{pair}.{x}": text(numbers, x) for x in pair.split("-")}
        members[f"{pair}/UNv1.0.{pair}.ids"] = b"add_1\tadd_1\n" * 100
        files |= split(f"UNv1.0.{pair}.tar.gz", tar_gz(members), volumes)
    testsets = {
        f"testsets/{name}/UNv1.0.{name}.{x}": text(range(start, start + 20), x)
        for name, start in (("devset", 1000), ("testset", 1100))
        for x in ("ar", "en", "es", "fr", "ru", "zh")
    }
    return files | {"UNv1.0.testsets.tar.gz": tar_gz(testsets)}


# Which sentences each corpus of IWSLT has, so that overlaps can be counted by hand.
IWSLT = {
    "en-de": range(0, 60),
    "en-nl": range(20, 100),  # 40 of them are in en-de
    "en-it": range(0, 70),
    "en-ro": range(40, 110),  # 30 of them are in en-it
}


def _tagged(numbers, language: str, talk: int) -> bytes:
    head = (
        f"<url>http://www.ted.com/talks/{talk}</url>\n<keywords>talks, x</keywords>\n"
        f"<speaker>A Speaker</speaker>\n<talkid>{talk}</talkid>\n"
        f"<title>{line(5000 + talk, language)}</title>\n"
        f"<description>TED Talk: {line(6000 + talk, language)}</description>\n"
    )
    foot = '<reviewer href="http://x">R</reviewer>\n<translator href="http://x">T</translator>\n'
    return head.encode() + text(numbers, language) + foot.encode()


def _xml(numbers, language: str, kind: str) -> bytes:
    segments = "".join(
        f'<seg id="{i}"> {line(n, language)} </seg>\n' for i, n in enumerate(numbers, 1)
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<mteval>\n<{kind} setid="iwslt2017" '
        f'srclang="x">\n<doc docid="1" genre="lectures">\n<url>http://x</url>\n'
        f"<title>A title</title>\n{segments}</doc>\n</{kind}>\n</mteval>\n"
    ).encode()


def iwslt17() -> dict[str, bytes]:
    """All twenty directions, each with its own files."""
    folder, members = "DeEnItNlRo-DeEnItNlRo", {}
    for source, target in permutations(("de", "en", "it", "nl", "ro"), 2):
        pair = f"{source}-{target}"
        numbers = IWSLT.get(pair) or IWSLT.get(f"{target}-{source}") or range(200, 240)
        for x, kind in ((source, "srcset"), (target, "refset")):
            members[f"{folder}/train.tags.{pair}.{x}"] = _tagged(numbers, x, 7)
            for year, start in (("dev2010", 1000), ("tst2010", 1100)):
                segments = _xml(range(start, start + 20), x, kind)
                members[f"{folder}/IWSLT17.TED.{year}.{pair}.{x}.xml"] = segments
    members[f"{folder}/README"] = b"Read me.\n"
    return {"DeEnItNlRo-DeEnItNlRo.tgz": tar_gz(members)}


def multi30k() -> dict[str, bytes]:
    return {
        f"{name}.{x}.gz": gzip.compress(text(range(start, start + lines), x), mtime=0)
        for name, start, lines in (
            ("train", 0, 150),
            ("val", 1000, 20),
            ("test_2016_flickr", 1100, 20),
        )
        for x in ("cs", "de", "en", "fr")
    }


ORIGINALS = {"europarl": europarl, "un": un, "iwslt17": iwslt17, "multi30k": multi30k}


def pointed(dataset: Dataset, base: str, files: dict[str, bytes]) -> Dataset:
    """The dataset with its addresses at `base`; checksums, where it has some, are of `files`."""

    def part(given: Part) -> Part:
        content, checksum = files.get(given.name, b""), given.checksum
        if checksum is not None:
            algorithm = checksum.partition(":")[0]
            checksum = f"{algorithm}:{hashlib.new(algorithm, content).hexdigest()}"
        size = None if given.size is None else len(content)
        return Part(given.name, (f"{base}/{given.name}",), size, checksum)

    def all_parts(archives):
        return tuple(replace(a, parts=tuple(part(p) for p in a.parts)) for a in archives)

    return replace(dataset, archives=all_parts(dataset.archives), others=all_parts(dataset.others))


def pairs_of(languages) -> set[frozenset[str]]:
    return {frozenset(pair) for pair in combinations(languages, 2)}
