"""A subset of a prepared store: the same vocabulary, dev and test sets, fewer pairs.

Every corpus keeps at most so many of its pairs, chosen by the store's seed and the sentence in the
language that most corpora have. So a smaller cut is part of a larger one, and what overlapped still
does. For studies of size, or where the text is not at hand; otherwise give `corpora.limit` to
`accord prepare`, which also trains a vocabulary on the fewer lines.

The manifest says `limit: PAIRS` of every corpus, and training asks the experiment to say so too.
"""

import copy
import hashlib
import json
import shutil
from collections import Counter
from dataclasses import asdict
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from accord.config.schema import DATA_KEYS, Experiment
from accord.data.dedup import HashedCorpus, Mask, hash_lines, lowest, priority, shared_strings
from accord.data.encode import BUCKET
from accord.data.store import (
    IDS,
    OFFSETS,
    ParallelCorpus,
    Sentences,
    Store,
    side_files,
    write_manifest,
)
from accord.data.verify import zero_shot_pairs
from accord.errors import AccordError
from accord.files import atomic_write, sha256_of, writing_errors

_BLOCK = 1 << 16  # sentences looked at together


def check_same_data(store: Store, experiment: Experiment) -> None:
    """Refuse an experiment that could not be trained on a cut of this store."""
    wanted = experiment.model_dump(mode="json", include=set(DATA_KEYS))
    for key, value in store.manifest["settings"].items():
        if _without_limits(wanted[key]) != _without_limits(value):
            raise AccordError(
                f"the store was prepared with another `{key}`: {value}, now {wanted[key]}",
                where=str(store.directory),
                fix="name the experiment that the store was prepared by",
            )


def _without_limits(value: Any) -> Any:
    """Settings of corpora but for how many lines are read, which is what a cut changes."""
    if not isinstance(value, list):
        return value
    return [item | {"limit": None} if isinstance(item, dict) else item for item in value]


def cut(store: Store, out: Path, pairs: int) -> Store:
    """Write the smaller store; the manifest comes last, and makes it one."""
    _check(store, out, pairs)
    manifest = copy.deepcopy(store.manifest)
    facts = json.dumps([manifest["fingerprint"], "cut", pairs])
    name = hashlib.sha256(facts.encode()).hexdigest()[:16]
    data = out / name
    with writing_errors(data):
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(store.data, data, ignore=shutil.ignore_patterns("train"))
    pivot = Counter(language for corpus in store.corpora for language in corpus.languages)
    for entry, corpus in zip(manifest["corpora"], store.corpora, strict=True):
        common = max(corpus.languages, key=lambda language: pivot[language])
        keep = chosen(corpus.side(common), pairs, manifest["seed"])
        _write_corpus(corpus, keep, entry, data / "train")
    for corpus in manifest["settings"]["corpora"]:
        corpus["limit"] = min(pairs, corpus["limit"] or pairs)
    manifest |= {
        "fingerprint": name,
        "data": name,
        "cut": {"from": manifest["fingerprint"], "pairs": pairs},
        "files": {file: _checked(data / file) for file in manifest["files"]},
    }
    write_manifest(out, manifest)
    made = Store(out)
    # What had nothing in common has not now: the rest is counted anew.
    if any(shared["strings"] for shared in manifest["overlap"]["after"]):
        manifest["overlap"]["after"] = _overlap(made)
        write_manifest(out, manifest)
    return Store(out)


def needed(store: Store) -> list[str]:
    """What an experiment for the larger store has to change for this one."""
    limits = enumerate(corpus["limit"] for corpus in store.manifest["settings"]["corpora"])
    return [
        f"store={store.directory}",
        *(f"corpora.{number}.limit={limit}" for number, limit in limits),
    ]


def _check(store: Store, out: Path, pairs: int) -> None:
    if pairs < 1:
        raise AccordError(f"--pairs is {pairs}", fix="keep one pair at least")
    if "cut" in store.manifest:
        raise AccordError(
            "the store is cut already", where=str(store.directory), fix="cut the whole one"
        )
    if (out / "manifest.json").exists():
        raise AccordError("there is a store here", where=str(out), fix="choose another place")


def chosen(side: Sentences, pairs: int, seed: int) -> Mask:
    """The lines to keep, by their sentences; of equal ones the first, so that cuts are nested."""
    hashes = [np.zeros(0, dtype="<u8")]
    for start in range(0, len(side), _BLOCK):
        offsets = side.offsets[start : min(start + _BLOCK, len(side)) + 1]
        data = side.ids[int(offsets[0]) : int(offsets[-1])].tobytes()
        bounds = ((offsets - offsets[0]) * IDS.itemsize).tolist()
        digests = (hashlib.blake2b(data[a:b], digest_size=8).digest() for a, b in pairwise(bounds))
        hashes.append(np.frombuffer(b"".join(digests), dtype="<u8"))
    return lowest(priority(np.concatenate(hashes), seed, "cut"), pairs)


def _write_corpus(corpus: ParallelCorpus, keep: Mask, entry: dict[str, Any], to: Path) -> None:
    """Write both sides in the same shards, and bring the manifest's account up to date."""
    shards: list[dict[str, Any]] = entry.get("shards") or [{"lines": len(corpus), "tokens": {}}]
    starts = [0, *accumulate(shard["lines"] for shard in shards)]
    for language, side in zip(corpus.languages, corpus.sides, strict=True):
        tokens, bars = 0, np.zeros(0, dtype=np.int64)
        files = side_files(to, entry, language)
        for shard, start, (ids, offsets) in zip(shards, starts, files, strict=False):
            stop = start + shard["lines"]
            lengths, own = side.lengths(start, stop), keep[start:stop]
            first, last = (int(side.offsets[line]) for line in (start, stop))
            _write_array(ids, side.ids[first:last][np.repeat(own, lengths)], IDS)
            kept = lengths[own]
            _write_array(offsets, np.concatenate(([0], np.cumsum(kept))), OFFSETS)
            shard["tokens"][language] = int(kept.sum())
            tokens += int(kept.sum())
            more = np.bincount(kept // BUCKET, minlength=len(bars))
            more[: len(bars)] += bars
            bars = more
        entry["tokens"][language] = tokens
        entry["histogram"][language] = bars.tolist()
    for shard, start in zip(shards, starts, strict=False):
        shard["lines"] = int(keep[start : start + shard["lines"]].sum())
    left = int(keep.sum())
    entry["lines"] = left
    entry["steps"].append({"step": "cut", "dropped": len(keep) - left, "left": left})


def _write_array(path: Path, values: npt.NDArray[Any], kind: "np.dtype[Any]") -> None:
    with atomic_write(path, "wb") as file:
        file.write(values.astype(kind).tobytes())


def _checked(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": sha256_of(path)}


def _overlap(store: Store) -> list[dict[str, Any]]:
    settings = store.manifest["settings"]
    experiment = Experiment(name=store.manifest["experiment"], **settings)
    matching = experiment.overlap.matching
    hashed = []
    for corpus in store.corpora:
        texts = (store.vocabulary.decode([row.tolist() for row in side]) for side in corpus.sides)
        first, second = (hash_lines(lines, matching) for lines in texts)
        keep = np.ones(len(corpus), dtype=np.bool_)
        hashed.append(HashedCorpus(corpus.languages, (first, second), keep))
    return [asdict(shared) for shared in shared_strings(hashed, zero_shot_pairs(experiment))]
