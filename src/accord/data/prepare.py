"""`accord prepare`: make a store, or find that it is up to date; never two at once, never half."""

import hashlib
import json
import re
import shlex
import shutil
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import sentencepiece

from accord.config.load import store_directory
from accord.config.schema import DATA_KEYS, Experiment, pair_languages
from accord.data.build_store import Build
from accord.data.formats import source_files
from accord.data.store import (
    FORMAT,
    Stamp,
    Store,
    checksum,
    read_stamps,
    stamp_of,
    write_stamps,
)
from accord.errors import AccordError
from accord.fetching.catalogue import DATASETS
from accord.files import exclusive, put_in_place, sync_directory, writing_errors
from accord.machine import cores
from accord.progress import Progress, Silent


@dataclass(frozen=True)
class Prepared:
    """The store, and whether anything had to be done for it."""

    store: Store
    built: bool


def prepare(
    experiment: Experiment, *, workers: int | None = None, progress: Progress | None = None
) -> Prepared:
    """Make the experiment's store, or find that it is up to date. One process at a time."""
    progress = progress or Silent()
    workers = workers or cores()
    directory = store_directory(experiment)
    _refuse_strange(directory)
    inputs = _input_files(experiment)
    with exclusive(directory, "accord prepare"):
        for folder in directory.glob(".building-*"):
            shutil.rmtree(folder, ignore_errors=True)  # what a killed process left behind
        known = read_stamps(directory)
        progress.start("reading checksums", len(inputs))
        sums = {}
        for done, name in enumerate(sorted(inputs), start=1):
            sums[name] = checksum(inputs[name], known)
            progress.reach(done)
        write_stamps(directory, known)  # before the store is opened, which adds its own files
        fingerprint = _fingerprint(experiment, sums)
        current = _up_to_date(directory, fingerprint, _fingerprint(experiment, sums, format=1))
        if current is not None:
            return Prepared(current, built=False)
        with _workplace(directory) as building:
            store = Build(experiment, building, workers, progress).run(fingerprint, sums)
            return Prepared(_publish(store, directory, known, building), built=True)


def _refuse_strange(directory: Path) -> None:
    """Leave a directory alone whose manifest.json someone else wrote: `prepare` leaves a lock."""
    if (directory / "manifest.json").exists() and not (directory / ".lock").exists():
        raise AccordError(
            "the manifest.json here was not written by `accord prepare` (there is no .lock)",
            where=str(directory),
            fix="choose another `store`; if it is a copied store, make an empty file .lock in it",
        )


@contextmanager
def _workplace(directory: Path) -> Iterator[Path]:
    """A folder that no other run has, since a killed one's workers may still be writing."""
    with writing_errors(directory):
        building = Path(tempfile.mkdtemp(prefix=".building-", dir=directory))
    try:
        yield building
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _input_files(experiment: Experiment) -> dict[str, Path]:
    """Every file that is read, by its name as users write it."""
    try:
        return _found_files(experiment)
    except AccordError as error:
        # data/europarl/…, where there is no data/europarl
        parts = Path(error.where or "").parts
        for place, name in enumerate(parts):
            if name in DATASETS and not Path(*parts[: place + 1]).exists():
                to = Path(*parts[:place])
                fix = f"fetch it first: accord fetch {name} --data {shlex.quote(str(to))}"
                raise AccordError(error.what, where=error.where, fix=fix) from None
        raise


def _found_files(experiment: Experiment) -> dict[str, Path]:
    found = []
    for corpus in experiment.corpora:
        for source in corpus.train:
            found += source_files(source.path, corpus.languages, format=source.format)
    for held_out in experiment.held_out.values():
        if held_out.path:
            found += source_files(held_out.path, experiment.languages, format=held_out.format)
        for item in held_out.sets:
            found += source_files(item.path, pair_languages(item.pair), format=item.format)
    return {str(path): path for path in found}


def _fingerprint(experiment: Experiment, sums: dict[str, str], format: int = FORMAT) -> str:  # noqa: A002
    """Changes whenever the store would come out differently."""
    settings = experiment.model_dump(mode="json", include=set(DATA_KEYS))
    guesser = version("py3langid") if experiment.cleaning.wrong_language else None
    versions = [sentencepiece.__version__, unicodedata.unidata_version, guesser]
    facts = [format, settings, sums, versions]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _up_to_date(directory: Path, fingerprint: str, before: str) -> Store | None:
    """The store that is there, if it is what would be built; `before`: as format 1 named it."""
    try:
        store = Store(directory)
    except AccordError:
        return None  # absent or damaged: it is built anew
    found = store.manifest["fingerprint"]
    same = found == fingerprint or (found == before and not _cut_among_equals(store.manifest))
    return store if same else None


def _cut_among_equals(manifest: Mapping[str, Any]) -> bool:
    """Whether a limit may have fallen on repeated pairs, of which format 1 took just any."""
    limited = any(
        step["step"] == "limit" and step["dropped"]
        for corpus in manifest["corpora"]
        for step in corpus["steps"]
    )
    return limited and not manifest["settings"]["cleaning"]["duplicates"]


def _publish(
    store: Store, directory: Path, known: dict[str, tuple[Stamp, str]], building: Path
) -> Store:
    """Make a finished and checked store the current one, and drop the one before."""
    name = store.manifest["data"]
    with writing_errors(directory):
        put_in_place(store.data, directory / name, aside=building / "old")
        for file, entry in store.manifest["files"].items():
            path = (directory / name / file).resolve()
            known[str(path)] = (stamp_of(path), entry["sha256"])
        write_stamps(directory, {path: seen for path, seen in known.items() if Path(path).exists()})
        (store.directory / "manifest.json").replace(directory / "manifest.json")
        sync_directory(directory)
    _drop_older(directory, name)
    return Store(directory)


def _drop_older(directory: Path, current: str) -> None:
    """Delete data folders that the manifest does not name: only what `prepare` itself made."""
    for folder in directory.iterdir():
        ours = re.fullmatch(r"[0-9a-f]{16}", folder.name) and (folder / "train").is_dir()
        if ours and folder.name != current:
            shutil.rmtree(folder, ignore_errors=True)
