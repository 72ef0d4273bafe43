"""`accord prepare`: make a store, or find that it is up to date; never two at once, never half."""

import hashlib
import json
import re
import shlex
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import sentencepiece

import accord
from accord.config.load import store_directory
from accord.config.schema import DATA_KEYS, Experiment, pair_languages
from accord.data.build_store import Build, Built
from accord.data.formats import source_files
from accord.data.shards import SHARD_LINES
from accord.data.store import (
    FORMAT,
    Stamp,
    Store,
    checksum,
    read_stamps,
    stamp_of,
    write_stamps,
)
from accord.data.workers import Engine, Processes, WorkerEndedError
from accord.errors import AccordError
from accord.fetching.catalogue import DATASETS
from accord.files import exclusive, put_in_place, sync_directory, writing_errors
from accord.machine import cores, total_memory
from accord.progress import Progress, Silent

EngineName = Literal["local", "ray"]
_WORTH_A_PROCESS = 4_000_000  # bytes of input


@dataclass(frozen=True)
class Prepared:
    """The store, and whether anything had to be done for it."""

    store: Store
    built: bool


def prepare(
    experiment: Experiment,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    engine: EngineName = "local",
    address: str | None = None,
    shard_lines: int = SHARD_LINES,
) -> Prepared:
    """Make the experiment's store, or find that it is up to date. One process at a time.

    `engine` carries the work out: processes of this machine, or Ray (with `address`: a cluster).
    Neither it nor `workers` changes the result. `shard_lines` is for tests.
    """
    progress = progress or Silent()
    directory = store_directory(experiment)
    _refuse_strange(directory)
    inputs = _input_files(experiment)
    with exclusive(directory, "accord prepare"):
        known = read_stamps(directory)
        progress.start("reading checksums", len(inputs))
        sums = {}
        for done, name in enumerate(sorted(inputs), start=1):
            sums[name] = checksum(inputs[name], known)
            progress.reach(done)
        write_stamps(directory, known)  # before the store is opened, which adds its own files
        fingerprint = _fingerprint(experiment, sums)
        building = directory / f".building-{_work(fingerprint, shard_lines)}"
        current = _up_to_date(directory, experiment, sums)
        _clear_others(directory, building if current is None else None)
        if current is not None:
            return Prepared(current, built=False)
        count = workers or _few_or_all(inputs.values())
        with _workplace(building), _engine(engine, count, address) as team:
            build = Build(
                experiment,
                building,
                team,
                progress,
                memory=memory_for(experiment),
                shard_lines=shard_lines,
            )
            built = build.run(fingerprint, sums)
            store = _publish(built, directory, known, building)
        return Prepared(store, built=True)


def _few_or_all(inputs: Iterable[Path]) -> int:
    """All cores, unless there is so little to do that starting processes would take longer."""
    return min(cores(), 1 + sum(path.stat().st_size for path in inputs) // _WORTH_A_PROCESS)


def memory_for(experiment: Experiment) -> int:
    """Bytes that choosing among lines may take."""
    if experiment.prepare.memory is not None:
        return int(experiment.prepare.memory * 1e9)
    return (total_memory() or 8 << 30) // 4


def _engine(name: EngineName, workers: int, address: str | None) -> AbstractContextManager[Engine]:
    if name == "local":
        return Processes(workers)
    from accord.data.ray_engine import RayEngine

    return RayEngine(workers, address)


def _refuse_strange(directory: Path) -> None:
    """Leave a directory alone whose manifest.json someone else wrote: `prepare` leaves a lock."""
    if (directory / "manifest.json").exists() and not (directory / ".lock").exists():
        raise AccordError(
            "the manifest.json here was not written by `accord prepare` (there is no .lock)",
            where=str(directory),
            fix="choose another `store`; if it is a copied store, make an empty file .lock in it",
        )


def _work(fingerprint: str, shard_lines: int) -> str:
    """Names the folder in which a store is built: the next run may go on with what it holds."""
    facts = [fingerprint, accord.__version__, shard_lines]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _clear_others(directory: Path, building: Path | None) -> None:
    """Delete what ended runs have left, but for what this one can go on with."""
    for folder in directory.glob(".building-*"):
        if folder != building:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _workplace(building: Path) -> Iterator[None]:
    """The folder of a build: it stays where the work was ended from outside, and only then.

    An error of the user's is mended by other inputs or settings, which begin anew; and a disk that
    was full should not stay so.
    """
    with writing_errors(building):
        building.mkdir(exist_ok=True)
    try:
        yield
    except WorkerEndedError:
        raise
    except Exception:
        shutil.rmtree(building, ignore_errors=True)
        raise
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


def _up_to_date(directory: Path, experiment: Experiment, sums: dict[str, str]) -> Store | None:
    """The store that is there, if it holds what would be built.

    Those of format 2 hold the same lines and ids in fewer files, and are as good.
    """
    try:
        store = Store(directory)
    except AccordError:
        return None  # absent or damaged: it is built anew
    made = store.manifest["format"]
    if store.manifest["fingerprint"] != _fingerprint(experiment, sums, format=made):
        return None
    return None if made == 1 and _cut_among_equals(store.manifest) else store


def _cut_among_equals(manifest: Mapping[str, Any]) -> bool:
    """Whether a limit may have fallen on repeated pairs, of which format 1 took just any."""
    limited = any(
        step["step"] == "limit" and step["dropped"]
        for corpus in manifest["corpora"]
        for step in corpus["steps"]
    )
    return limited and not manifest["settings"]["cleaning"]["duplicates"]


def _publish(
    built: Built, directory: Path, known: dict[str, tuple[Stamp, str]], building: Path
) -> Store:
    """Make a finished and checked store the current one, and drop the one before."""
    name = built.manifest["data"]
    with writing_errors(directory):
        # From here on the notes in it would speak of files that have gone to their place.
        shutil.rmtree(building / "done")
        shutil.rmtree(building / "old", ignore_errors=True)
        put_in_place(built.data, directory / name, aside=building / "old")
        for file, entry in built.manifest["files"].items():
            path = (directory / name / file).resolve()
            known[str(path)] = (stamp_of(path), entry["sha256"])
        write_stamps(directory, {path: seen for path, seen in known.items() if Path(path).exists()})
        (building / "manifest.json").replace(directory / "manifest.json")
        sync_directory(directory)
    _drop_older(directory, name)
    return Store(directory)


def _drop_older(directory: Path, current: str) -> None:
    """Delete data folders that the manifest does not name: only what `prepare` itself made."""
    for folder in directory.iterdir():
        ours = re.fullmatch(r"[0-9a-f]{16}", folder.name) and (folder / "train").is_dir()
        if ours and folder.name != current:
            shutil.rmtree(folder, ignore_errors=True)
