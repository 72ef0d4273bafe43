"""Reading a written store back and proving what it promises; a breach is always an error."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from accord.config.schema import Experiment, pair_languages
from accord.data.dedup import (
    Hashes,
    Matching,
    Shared,
    ZeroShotPairs,
    contains,
    distinct,
    hash_lines,
)
from accord.data.jobs import Facts, Report
from accord.data.shards import Shard
from accord.data.store import IDS, OFFSETS
from accord.data.vocabulary import Vocabulary
from accord.data.word_cache import Decoder
from accord.errors import AccordError

_BLOCK = 20_000


def zero_shot_pairs(experiment: Experiment) -> ZeroShotPairs:
    """The unordered pairs of languages without any training data of their own."""
    return frozenset(frozenset(pair) for pair in experiment.data_graph.zero_shot_pairs())


def held_out_hashes(
    lines_of: Iterator[tuple[str, list[str]]], experiment: Experiment
) -> dict[str, Hashes]:
    """The distinct dev and test lines of every language, as sorted hashes."""
    found: dict[str, list[Hashes]] = {language: [] for language in experiment.languages}
    for language, lines in lines_of:
        found[language].append(hash_lines(lines, experiment.overlap.matching))
    empty = np.zeros(0, dtype=np.uint64)
    return {language: distinct(np.concatenate([empty, *h])) for language, h in found.items()}


@dataclass(frozen=True)
class CheckTask:
    """A shard of a written store, and the clean text's hashes that its sentences must have."""

    shard: Shard
    state: str
    data: Path
    languages: tuple[str, ...]
    held_out: tuple[Path, Path]
    """Hashes of the dev and test lines of both sides."""
    matching: Matching

    @property
    def name(self) -> str:
        """For notes."""
        return self.shard.name


def check_shard(task: CheckTask, report: Report) -> Facts:
    """Decode every sentence from the store: it must be what was cleaned, and no other.

    Also the size and checksum of each file, as it was when it was found to be right.
    """
    shard = task.shard
    decoder = Decoder(Vocabulary.load(task.data / "vocabulary.model", task.languages))
    keep = shard.keep(task.state)
    done, result, files = 0, list[Facts](), dict[str, Facts]()
    sides = zip(shard.languages, shard.hashes(task.matching), task.held_out, strict=True)
    for language, cleaned, held_out in sides:
        ids_file, offsets_file = shard.store_files(task.data / "train", language)
        bounds = offsets_file.read_bytes()
        offsets = np.frombuffer(bounds, OFFSETS)
        sha, size = hashlib.sha256(), 0
        parts = [np.zeros(0, dtype="<u8")]
        with ids_file.open("rb") as file:
            for start in range(0, len(offsets) - 1, _BLOCK):
                own = offsets[start : start + _BLOCK + 1]
                data = file.read(int(own[-1] - own[0]) * IDS.itemsize)
                texts = decoder.decode(np.frombuffer(data, IDS), own)
                parts.append(hash_lines(texts, task.matching))
                sha.update(data)
                size += len(data)
                done += len(texts)
                report(done)
            whole = not file.read(1)
        hashes = np.concatenate(parts)
        result.append(
            {
                "language": language,
                "same": whole and np.array_equal(hashes, cleaned[keep]),
                "leaked": int(contains(np.fromfile(held_out, "<u8"), hashes).sum()),
            }
        )
        files[f"train/{ids_file.name}"] = {"bytes": size, "sha256": sha.hexdigest()}
        files[f"train/{offsets_file.name}"] = {
            "bytes": len(bounds),
            "sha256": hashlib.sha256(bounds).hexdigest(),
        }
    return {"sides": result, "files": files}


def refuse_breaches(directory: Path, corpus: str, checked: Sequence[Facts]) -> None:
    """Raise what the checks of the shards of a corpus have found."""
    for language in pair_languages(corpus):
        sides = [side for facts in checked for side in facts["sides"]]
        own = [side for side in sides if side["language"] == language]
        if not all(side["same"] for side in own):
            raise _breach(
                directory, f"the {language} lines of corpus {corpus} are not those cleaned"
            )
        if leaked := sum(side["leaked"] for side in own):
            raise _breach(
                directory,
                f"{leaked:,} {language} lines of corpus {corpus} are dev or test lines",
            )


def _breach(directory: Path, what: str) -> AccordError:
    return AccordError(
        what,
        where=str(directory),
        fix="this should not happen: please report it with the manifest",
    )


def refuse_overlap(directory: Path, experiment: Experiment, left: Sequence[Shared]) -> None:
    """Raise where sentences that corpora share are against what the experiment asks for."""
    overlap = experiment.overlap
    listed = {frozenset(pair_languages(pair)) for pair in overlap.pairs}
    for shared in left:
        if overlap.mode == "keep" or not shared.strings or not shared.zero_shot:
            continue
        ends = (set(pair_languages(shared.first)) | set(pair_languages(shared.second))) - {
            shared.pivot
        }
        if overlap.mode == "disjoint" or frozenset(ends) in listed:
            raise _breach(
                directory,
                f"{shared.strings:,} {shared.pivot} sentences stand in both {shared.first} and "
                f"{shared.second}",
            )
