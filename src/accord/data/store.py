"""The prepared data on disk: token ids, held-out text, vocabulary and the manifest of it all.

A store directory holds `manifest.json` and one data folder that the manifest names:

    manifest.json                 what went in, what every step did, size and SHA-256 of every file
    stamps.json                   size and time of files whose checksum was seen to be right
    <fingerprint>/vocabulary.model
    <fingerprint>/train/en-de.en.00000.ids      uint16, the sentences of a shard end to end
    <fingerprint>/train/en-de.en.00000.offsets  int64, where each sentence starts, and the end
    <fingerprint>/dev/all.en.txt          one sentence a line

Replacing the manifest (one atomic rename) is what makes a new store the current one.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from accord.data.joined_array import JoinedArray
from accord.data.vocabulary import Vocabulary
from accord.errors import AccordError
from accord.files import atomic_write, read_checked, reading_errors, sealed, sha256_of

# --- Tokenised sentences as they lie on disk: flat token ids and offsets, memory-mapped.


Ids = npt.NDArray[np.uint16]
Offsets: TypeAlias = npt.NDArray[np.int64] | JoinedArray[np.int64]


@dataclass(frozen=True)
class Sentences:
    """Sentence i is `ids[offsets[i]:offsets[i + 1]]`: subwords only, no tag, no end of sentence.

    Where they lie in several files, both are read as if it were one.
    """

    ids: Ids | JoinedArray[np.uint16]
    offsets: Offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Ids:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[Ids]:
        return (self[index] for index in range(len(self)))

    def lengths(self, start: int = 0, stop: int | None = None) -> npt.NDArray[np.int64]:
        """The number of subwords of every sentence, or of those from `start` to `stop`."""
        return np.diff(self.offsets[start : len(self) + 1 if stop is None else stop + 1])

    @staticmethod
    def of(rows: Sequence[Sequence[int]]) -> "Sentences":
        """Sentences held in memory, for tests and small sets."""
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        flat = np.fromiter((i for row in rows for i in row), dtype=np.uint16, count=offsets[-1])
        return Sentences(flat, offsets)

    def token_counts(self, size: int) -> npt.NDArray[np.int64]:
        """Occurrences of every entry of a vocabulary of this size."""
        counts = np.zeros(size, dtype=np.int64)
        for start in range(0, len(self.ids), _COUNTED):
            counts += np.bincount(self.ids[start : start + _COUNTED], minlength=size)
        return counts


@dataclass(frozen=True)
class ParallelCorpus:
    """One training corpus: line i of both sides is the same sentence.

    `directions` are the (source, target) languages that are trained on it: normally both.
    """

    languages: tuple[str, str]
    sides: tuple[Sentences, Sentences]
    directions: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        if len(self.sides[0]) != len(self.sides[1]):
            raise ValueError(
                f"the sides of {self.name} have {len(self.sides[0])} and {len(self.sides[1])} lines"
            )

    def __len__(self) -> int:
        return len(self.sides[0])

    @property
    def name(self) -> str:
        """The pair as it is written everywhere, for example `en-de`."""
        return "-".join(self.languages)

    def side(self, language: str) -> Sentences:
        """The sentences of one of the two languages."""
        return self.sides[self.languages.index(language)]


def trained_corpora(
    corpora: Sequence[ParallelCorpus], directions: Collection[tuple[str, str]]
) -> tuple[ParallelCorpus, ...]:
    """The corpora with these of their directions; those that have none of them are left out."""
    kept = (
        replace(corpus, directions=tuple(d for d in corpus.directions if d in directions))
        for corpus in corpora
    )
    return tuple(corpus for corpus in kept if corpus.directions)


FORMAT = 3
# Of stores that are read. Up to 2 a corpus was one file per side; 3 has shards. In format 1, which
# of equal lines a limit kept hung on the processor.
FORMATS = (1, 2, 3)
IDS = np.dtype("<u2")
OFFSETS = np.dtype("<i8")
_REBUILD = "run `accord prepare` again; it rebuilds a damaged store"

_COUNTED = 1 << 22  # ids counted at once, as counting needs eight bytes for each
_MAPPED = 256  # files of shards that a store keeps mapped: each costs the process a descriptor

Stamp = tuple[int, int]


def stamp_of(path: Path) -> Stamp:
    """Size and modification time: what changes when a file is written to."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def read_stamps(directory: Path) -> dict[str, tuple[Stamp, str]]:
    """Files whose SHA-256 was computed here before, with their stamp at that time."""
    try:
        data = json.loads((directory / "stamps.json").read_text(encoding="utf-8"))
        if data.pop("seal") != sealed(data)["seal"]:
            return {}
        return {
            name: ((int(size), int(time)), str(sha)) for name, (size, time, sha) in data.items()
        }
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return {}  # a cache: without it every checksum is computed anew


def checksum(path: Path, known: dict[str, tuple[Stamp, str]]) -> str:
    """The SHA-256 of a file, from `known` if the file was not written to since."""
    with reading_errors(path):
        stamp, name = stamp_of(path), str(path.resolve())
        if name not in known or known[name][0] != stamp:
            known[name] = (stamp, sha256_of(path))
    return known[name][1]


def write_stamps(directory: Path, known: dict[str, tuple[Stamp, str]]) -> None:
    """Remember checksums; a store that cannot be written to is simply checked again each time."""
    try:
        with atomic_write(directory / "stamps.json") as file:
            data = {name: (*stamp, sha) for name, (stamp, sha) in known.items()}
            json.dump(sealed(data), file, indent=1)
    except AccordError:
        pass


@dataclass(frozen=True)
class HeldOutSet:
    """One dev or test set: the same lines in each of its languages."""

    name: str
    languages: tuple[str, ...]
    directory: Path
    sums: Mapping[str, str]
    fix: str

    def lines(self, language: str) -> list[str]:
        """All sentences in one language; a file that was altered is refused."""
        name = f"{self.name}.{language}.txt"
        data = read_checked(
            self.directory / name, self.sums.get(f"{self.directory.name}/{name}"), self.fix
        )
        # Not read_text(): a carriage return inside a line is not the end of it.
        return data.decode("utf-8").split("\n")[:-1]


@dataclass(frozen=True)
class HeldOutSets:
    """All dev and test sets, as the manifest lists them, below a directory."""

    entries: dict[str, list[dict[str, Any]]]
    directory: Path
    sums: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the files, by split/name; every read is compared."""
    fix: str = _REBUILD
    """What to do about a file that was altered."""

    def sets(self, split: str) -> list[HeldOutSet]:
        """The sets of `dev` or `test`."""
        return [
            HeldOutSet(
                entry["name"],
                tuple(entry["languages"]),
                self.directory / split,
                self.sums,
                self.fix,
            )
            for entry in self.entries.get(split, [])
        ]

    def pair(self, split: str, source: str, target: str) -> tuple[list[str], list[str]]:
        """Sentences and their references for one direction; empty where there is no set."""
        for item in self.sets(split):
            if source in item.languages and target in item.languages:
                return item.lines(source), item.lines(target)
        return [], []


class Store:
    """A store opened for reading: instant whatever its size, everything memory-mapped."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifest = read_manifest(directory)
        self.data = directory / self.manifest["data"]
        self.languages: tuple[str, ...] = tuple(self.manifest["languages"])
        self._map = lru_cache(_MAPPED)(_mapped)
        with reading_errors(self.data):
            self._check_files()
            # Read and small: compared each time, whatever the stamps say.
            sums = checksums(self.manifest)
            words = self.data / "vocabulary.model"
            self.vocabulary = Vocabulary.load(words, self.languages, sums[words.name], _REBUILD)
            self.corpora = tuple(self._corpus(entry) for entry in self.manifest["corpora"])

    def _check_files(self) -> None:
        """Find truncated or altered files.

        A file whose size and time are those at which its checksum was last seen to be right is
        trusted, so that opening costs nothing; any other file is read and compared once.
        """
        known = read_stamps(self.directory)
        before = dict(known)
        for name, entry in self.manifest["files"].items():
            path = self.data / name
            if not path.is_file():
                raise AccordError("a file of the store is missing", where=str(path), fix=_REBUILD)
            size = path.stat().st_size
            if size != entry["bytes"]:
                raise AccordError(
                    f"the file has {size:,} bytes and should have {entry['bytes']:,}",
                    where=str(path),
                    fix=_REBUILD,
                )
            if checksum(path, known) != entry["sha256"]:
                raise AccordError(
                    "the file was altered: its checksum is not the manifest's",
                    where=str(path),
                    fix=_REBUILD,
                )
        if known != before:
            write_stamps(self.directory, known)

    def token_counts(self) -> dict[str, npt.NDArray[np.int64]]:
        """Occurrences of every entry of the vocabulary, by language."""
        size = len(self.vocabulary)
        counts = {language: np.zeros(size, dtype=np.int64) for language in self.languages}
        for corpus in self.corpora:
            for language, side in zip(corpus.languages, corpus.sides, strict=True):
                counts[language] += side.token_counts(size)
        return counts

    def _corpus(self, entry: dict[str, Any]) -> ParallelCorpus:
        first, second = entry["languages"]
        sides = [self._side(entry, language) for language in (first, second)]
        directions = tuple((source, target) for source, target in entry["directions"])
        return ParallelCorpus((first, second), (sides[0], sides[1]), directions)

    def _side(self, entry: dict[str, Any], language: str) -> Sentences:
        files = side_files(self.data / "train", entry, language)
        if len(files) == 1:
            return Sentences(_mapped(files[0][0], IDS), _mapped(files[0][1], OFFSETS))
        tokens = [shard["tokens"][language] for shard in entry["shards"]]
        lines = [shard["lines"] for shard in entry["shards"]]
        # Each file ends with the place where its last sentence does; only the last one's counts.
        lines[-1] += 1
        return Sentences(
            JoinedArray(lambda shard: self._map(files[shard][0], IDS), tokens, IDS),
            JoinedArray(
                lambda shard: self._map(files[shard][1], OFFSETS),
                lines,
                OFFSETS,
                [0, *accumulate(tokens)],
            ),
        )

    @property
    def held_out(self) -> "HeldOutSets":
        """The dev and test sentences."""
        return HeldOutSets(self.manifest["held_out"], self.data, checksums(self.manifest))


def side_files(train: Path, entry: Mapping[str, Any], language: str) -> list[tuple[Path, Path]]:
    """The files of one side of a corpus, ids and offsets: of each shard, or of the whole."""
    if "shards" not in entry:  # before format 3
        whole = f"{entry['pair']}.{language}"
        return [(train / f"{whole}.ids", train / f"{whole}.offsets")]
    return [
        shard_files(train, entry["pair"], language, number)
        for number in range(len(entry["shards"]))
    ]


def shard_files(train: Path, pair: str, language: str, shard: int) -> tuple[Path, Path]:
    """The files of one shard of one side of a corpus: ids and offsets."""
    name = f"{pair}.{language}.{shard:05d}"
    return train / f"{name}.ids", train / f"{name}.offsets"


def _mapped(path: Path, kind: "np.dtype[Any]") -> npt.NDArray[Any]:
    # A side of empty sentences only has no ids, and nothing cannot be mapped.
    # A plain view: slices of a memmap itself take several times as long.
    return np.asarray(np.memmap(path, kind, "r")) if path.stat().st_size else np.zeros(0, kind)


def checksums(manifest: Mapping[str, Any]) -> dict[str, str]:
    """SHA-256 of the files that a manifest names."""
    return {name: str(entry["sha256"]) for name, entry in manifest.get("files", {}).items()}


def read_manifest(directory: Path, fix: str = _REBUILD) -> dict[str, Any]:
    """The manifest of a store or a run, or an error; `fix` says what to do about a damaged one."""
    path = directory / "manifest.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AccordError(
            "there is no prepared data here: no manifest.json",
            where=str(directory),
            fix="run `accord prepare` first" if fix == _REBUILD else fix,
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise AccordError(f"the manifest is damaged: {error}", where=str(path), fix=fix) from None
    if not isinstance(manifest, dict) or manifest.get("format") not in FORMATS:
        known = ", ".join(map(str, FORMATS))
        raise AccordError(f"the data has none of the formats {known}", where=str(path), fix=fix)
    if manifest != sealed(manifest):
        raise AccordError("the manifest was altered", where=str(path), fix=fix)
    return manifest


def write_manifest(directory: Path, manifest: dict[str, Any]) -> None:
    """Publish the data that the manifest names; what was there before is replaced as a whole."""
    with atomic_write(directory / "manifest.json") as file:
        json.dump(sealed(manifest), file, indent=1, ensure_ascii=False)
