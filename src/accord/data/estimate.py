"""`accord prepare --estimate`: lines, core-hours, memory and disk, from a sample of the data.

The first lines of every corpus are prepared as the whole would be, but for overlap and limits, and
what that took is scaled up to all lines. So the figures are upper bounds where corpora overlap.
"""

import tempfile
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from accord.config.schema import Corpus, Experiment, Overlap, Source
from accord.data.build_store import Build
from accord.data.formats import read_pair
from accord.data.hash_ranges import BYTES_PER_LINE
from accord.data.prepare import memory_for
from accord.data.shards import SHARD_LINES
from accord.data.streams import metered
from accord.data.workers import Processes
from accord.errors import AccordError
from accord.files import atomic_write
from accord.machine import cores
from accord.progress import Progress, Silent

if TYPE_CHECKING:
    from rich.console import Group

SAMPLE = 50_000  # lines of each corpus that are tried
_ENOUGH = 1 << 20  # bytes of a file to be read: it comes in pieces of 2^16, of which some lie ready
_SMALL_VOCABULARY = 2000  # where the sample has too few words for the one that is wanted
# Measured (docs/prepare.md): a process with its words and one shard; sentencepiece while it trains.
_WORKER_BYTES = 300_000_000
_SENTENCE_BYTES = 800


@dataclass(frozen=True)
class CorpusEstimate:
    """How large one corpus is."""

    pair: str
    lines: int
    counted: bool
    """Whether it was read to its end, and the number is exact."""


@dataclass(frozen=True)
class Estimate:
    """What preparing will take."""

    corpora: tuple[CorpusEstimate, ...]
    sampled: int
    """Lines that were tried."""
    core_seconds: dict[str, float]
    """By stage, on one core like this machine's."""
    workers: int
    hours: float
    """With so many workers: reading uses one core per file, training the vocabulary one in all."""
    memory: int
    disk_building: int
    disk_store: int

    @property
    def lines(self) -> int:
        """Of all corpora."""
        return sum(corpus.lines for corpus in self.corpora)


class _Stopwatch(Silent):
    """Processor seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._what, self._since = "", time.process_time()

    def start(self, what: str, total: int | None = None, keep: bool = True) -> None:
        now = time.process_time()
        if self._what:
            self.seconds[self._what] = self.seconds.get(self._what, 0.0) + now - self._since
        self._what, self._since = what, now


def estimate(
    experiment: Experiment,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    sample: int = SAMPLE,
) -> Estimate:
    """Try a sample, and scale up."""
    progress = progress or Silent()
    workers = workers or cores()
    with tempfile.TemporaryDirectory(prefix="accord-estimate-") as name:
        folder = Path(name)
        progress.start("reading samples", len(experiment.corpora))
        begun, samples = time.process_time(), list[_Sample]()
        for number, corpus in enumerate(experiment.corpora, start=1):
            samples.append(_sampled(corpus, folder, sample))
            progress.reach(number)
        reading = time.process_time() - begun
        progress.start("preparing the sample")
        tried = experiment.model_copy(
            update={
                "corpora": tuple(item.corpus for item in samples),
                "overlap": Overlap(mode="keep"),
            }
        )
        found = tuple(item.about for item in samples)
        sampled = sum(item.lines for item in samples)
        lines = sum(item.lines for item in found)
        watch, work = _prepared(tried, folder, whole=sampled == lines)
        sizes = {path.name: _size(path) for path in work.iterdir() if path.is_dir()}
    scale = lines / max(1, sampled)
    sentences = min(experiment.vocabulary.sample, 2 * lines)
    training = sentences / max(1, min(experiment.vocabulary.sample, 2 * sampled))
    seconds = {"reading": reading * lines / max(1, sum(item.read for item in samples))}
    for stage, spent in watch.seconds.items():
        if stage != "reading dev and test sets":
            factor = training if stage == "training the vocabulary" else scale
            seconds[stage] = seconds.get(stage, 0.0) + spent * factor
    alone = seconds.get("training the vocabulary", 0.0)
    longest = seconds["reading"] * max(item.lines for item in found) / max(1, lines)
    shared = (sum(seconds.values()) - alone - seconds["reading"]) / workers
    store = sizes.pop("store")
    ranges = min(memory_for(experiment), BYTES_PER_LINE * lines)
    return Estimate(
        found,
        sampled,
        {stage: round(spent, 3) for stage, spent in seconds.items()},
        workers,
        (max(longest, seconds["reading"] / workers) + shared + alone) / 3600,
        workers * _WORKER_BYTES + max(ranges, sentences * _SENTENCE_BYTES),
        # What was read is kept, compressed like the clean text, until that is written.
        int((sum(sizes.values()) + sizes.get("text", 0) + store) * scale),
        int(store * scale),
    )


@dataclass(frozen=True)
class _Sample:
    """The first lines of a corpus as a corpus of its own, how many they are, and were read."""

    corpus: Corpus
    about: CorpusEstimate
    lines: int
    read: int


def _sampled(corpus: Corpus, folder: Path, most: int) -> _Sample:
    """Read the beginning of every file of a corpus."""
    languages = corpus.languages
    share = max(1000, most // len(corpus.train))
    lines, tried, read, counted = 0, 0, 0, True
    paths = [folder / f"{corpus.pair}.{language}" for language in languages]
    with atomic_write(paths[0]) as first, atomic_write(paths[1]) as second:
        for source in corpus.train:
            with metered() as meter:
                pairs = read_pair(
                    source.path, languages, format=source.format, columns=source.columns
                )
                part = [(a or "", b or "") for a, b in islice(pairs, share)]
                first.writelines(f"{a}\n" for a, _ in part)
                second.writelines(f"{b}\n" for _, b in part)
                here, end = len(part), False
                # A file of which nobody says how long it is (total 0) is read to its end.
                while not end and (not meter.total or meter.read < _ENOUGH):
                    end = next(pairs, None) is None
                    here += not end
                read += here
                tried += len(part)
                lines += here if end else round(here * meter.total / meter.read)
                counted = counted and end
    source = Source(path=str(folder / f"{corpus.pair}.{{lang}}"), format="text")
    small = corpus.model_copy(update={"train": (source,), "limit": None})
    return _Sample(small, CorpusEstimate(corpus.pair, lines, counted), tried, read)


def _prepared(experiment: Experiment, folder: Path, *, whole: bool) -> tuple[_Stopwatch, Path]:
    """Prepare the sample in one process; what it took, and the folder with all that it wrote."""
    try:
        return _built(experiment, folder / "work")
    except AccordError as error:
        if whole or "vocabulary.size" not in error.what:
            raise
    settings = experiment.vocabulary.model_copy(update={"size": _SMALL_VOCABULARY})
    return _built(experiment.model_copy(update={"vocabulary": settings}), folder / "again")


def _built(experiment: Experiment, work: Path) -> tuple[_Stopwatch, Path]:
    work.mkdir()
    watch = _Stopwatch()
    build = Build(
        experiment,
        work,
        Processes(1),
        watch,
        memory=memory_for(experiment),
        shard_lines=SHARD_LINES,
    )
    build.run("store", {})
    watch.start("done")
    return watch, work


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def table(found: Estimate) -> "Group":
    """The estimate for people."""
    from rich.console import Group
    from rich.table import Table

    sizes = Table("corpus", "lines", box=None)
    for corpus in found.corpora:
        about = "" if corpus.counted else "about "
        sizes.add_row(corpus.pair, f"{about}{corpus.lines:,}")
    spent = Table("stage", "on one core", box=None)
    for stage, seconds in found.core_seconds.items():
        spent.add_row(stage, _time(seconds))
    spent.add_row("all", _time(sum(found.core_seconds.values())))
    return Group(
        sizes,
        "",
        spent,
        "",
        f"time            {_time(3600 * found.hours)} with {found.workers} workers",
        f"memory          {found.memory / 1e9:.1f} GB at most",
        f"disk            {found.disk_building / 1e9:.2f} GB while building, "
        f"{found.disk_store / 1e9:.2f} GB after",
        f"scaled up from {found.sampled:,} lines on this machine; overlap and limits not counted",
    )


def _time(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} hours" if seconds >= 3600 else f"{seconds:.0f} s"
