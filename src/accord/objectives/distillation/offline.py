"""Offline distillation: a teacher's translations of a whole corpus as parallel text, in shards.

A shard is so many lines of the input: the input alone fixes it, not the processes that share the
work. Process `rank` of `size` makes the shards rank, rank + size, ...; each is one file that has
its name only when it is finished, and is not made again. When all are there, the first process
joins them into one text per language, which an experiment can name as a corpus. So a command that
died is simply run again, by any number of processes, and the result is the same.

    distil.json            what was asked for and, in the end, what came of it
    shards/00000017.tsv    finished lines: an account of the shard, then pairs
    de-fr.de, de-fr.fr     the result; the shards are deleted then
"""

import hashlib
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import IO, Any

from accord.data.formats import read_pair, read_side
from accord.data.store import Store
from accord.errors import AccordError
from accord.files import atomic_write, exclusive, names_in, reading_errors, sha256_of
from accord.inference.backends.base import LoadSettings
from accord.inference.backends.manifest import is_exported
from accord.inference.text import mended
from accord.inference.translator import Translator
from accord.objectives.distillation.filters import distinct_bigrams
from accord.objectives.distillation.offline_job import (
    Job,
    check,
    read_facts,
    refuse_strange,
    write_facts,
)
from accord.progress import Progress, Silent

_AT_ONCE = 8192  # lines that are translated between two words about progress
_LOOK_SECONDS = 0.5  # between two looks for the shards of other processes

Lines = Sequence[tuple[str | None, str | None]]
"""Of the text and of what its translation goes beside; None stands for a line that is too long."""


def distil(
    job: Job, *, rank: int = 0, size: int = 1, progress: Progress | None = None
) -> dict[str, Any] | None:
    """Make this process's shards; the first process then joins all and returns the account."""
    shown = progress or Silent()
    check(job)
    with ExitStack() as stack:
        if rank == 0:
            refuse_strange(job)
            stack.enter_context(exclusive(job.out, "accord distil-data"))
        wanted = job.wanted()
        # Before the account is read: the first process deletes shards when it has written that.
        there = set(names_in(job.out / "shards"))
        known = read_facts(job, wanted, bool(there))
        if "account" in known:
            return known["account"] if rank == 0 else None
        if rank == 0:
            write_facts(job, {"wanted": wanted})
        count = _make_shards(
            job, lambda number: number % size == rank and job.shard(number).name not in there, shown
        )
        if rank != 0:
            return None
        if count == 0:
            raise AccordError(
                "there is nothing to translate",
                where=job.text or str(job.store),
                fix="check the file: it has no line",
            )
        _wait_for(job, count, shown)
        account = _join(job, count, shown)
        sums = {path.name: sha256_of(path) for path in job.results()}
        write_facts(job, {"wanted": wanted, "account": account, "files": sums})
        shutil.rmtree(job.out / "shards", ignore_errors=True)
        return account


# --- Shards: lines that are read, translated and written together.


def _make_shards(job: Job, is_mine: Callable[[int], bool], progress: Progress) -> int:
    """Make what is this process's and not there yet; the number of shards of the whole input."""
    shards, lines = _shards(job, is_mine)
    progress.start("translating", lines)
    teacher, count, pace = None, 0, _Pace(progress)
    for count, found in enumerate(shards, start=1):
        if found is not None:
            teacher = teacher or Translator(job.model, **vars(_placed(job)))
            _write_shard(job, count - 1, found, teacher, pace)
    if teacher is not None:
        teacher.close()
    return count


class _Pace:
    """Lines that this process has translated, and how fast."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._done = 0
        self._began = time.monotonic()

    def add(self, lines: int, shard: int) -> None:
        """So many more are done."""
        self._done += lines
        rate = self._done / max(time.monotonic() - self._began, 1e-9)
        self._progress.reach(self._done, f"shard {shard}, {rate:,.0f} lines/s in this process")


def _shards(job: Job, is_mine: Callable[[int], bool]) -> tuple[Iterator[Lines | None], int | None]:
    """The lines of each shard, None for those of others; and how many lines there are, if known."""
    if job.store is not None:
        return _shards_of_store(job, Store(job.store), is_mine)
    return _shards_of_text(job, is_mine), None


def _shards_of_text(job: Job, is_mine: Callable[[int], bool]) -> Iterator[Lines | None]:
    text = job.text or ""
    pairs: Iterator[tuple[str | None, str | None]]
    if job.beside == job.source:
        pairs = ((line, line) for line in read_side(text, job.source))
    else:
        pairs = read_pair(text, (job.source, job.beside))
    number = 0
    while True:
        part = islice(pairs, job.shard_lines)
        if is_mine(number):
            lines: Lines | None = list(part)
            count = len(lines or ())
        else:
            lines, count = None, sum(1 for _ in part)
        if count == 0:
            return
        yield lines
        number += 1


def _shards_of_store(
    job: Job, store: Store, is_mine: Callable[[int], bool]
) -> tuple[Iterator[Lines | None], int]:
    named = {corpus.name: corpus for corpus in store.corpora}
    if job.corpus not in named:
        raise AccordError(
            f"the store has no corpus {job.corpus}",
            where=str(store.directory),
            fix=f"take one of {', '.join(named)}",
        )
    corpus = named[job.corpus]
    for language in (job.source, job.beside):
        if language not in corpus.languages:
            raise AccordError(
                f"the corpus {corpus.name} has no {language}",
                where=str(store.directory),
                fix=f"take {' or '.join(corpus.languages)}",
            )
    sides = [corpus.side(language) for language in (job.source, job.beside)]

    def texts(begin: int, end: int) -> Lines:
        rows = ([side[line].tolist() for line in range(begin, end)] for side in sides)
        return list(zip(*(store.vocabulary.decode(some) for some in rows), strict=True))

    starts = range(0, len(corpus), job.shard_lines)
    ends = (min(begin + job.shard_lines, len(corpus)) for begin in starts)
    shards = (
        texts(begin, end) if is_mine(number) else None
        for number, (begin, end) in enumerate(zip(starts, ends, strict=True))
    )
    return shards, len(corpus)


def _placed(job: Job) -> LoadSettings:
    """On several GPUs each process takes its own."""
    here = os.environ.get("LOCAL_RANK")
    if job.load.device is not None or here is None or is_exported(job.model):
        return job.load
    import torch

    if not torch.cuda.is_available():
        return job.load
    return LoadSettings(**vars(job.load) | {"device": f"cuda:{here}"})


def _write_shard(job: Job, number: int, lines: Lines, teacher: Translator, pace: _Pace) -> None:
    account: Counter[str] = Counter(lines=len(lines))
    pairs: list[str] = []
    for start in range(0, len(lines), _AT_ONCE):
        part = lines[start : start + _AT_ONCE]
        texts, others = ([mended(line or "") for line in side] for side in zip(*part, strict=True))
        found = teacher.translate(
            texts, job.to, source=job.source, via=job.via, settings=job.search
        )
        for line, text, other, translation in zip(part, texts, others, found, strict=True):
            best = translation.hypotheses[0]
            fate = "kept"
            if None in line:
                fate = "line_over_1_mb"
            elif not text or not other:
                fate = "empty"
            elif not best.text:
                fate = "no_translation"
            elif distinct_bigrams(best.ids) < job.least_bigrams:
                fate = "distinct_bigrams"
            else:
                pairs.append(f"{other}\t{best.text}\n")
            account[fate] += 1
        pace.add(len(part), number)
    with atomic_write(job.shard(number)) as out:
        text = "".join(pairs)
        out.write(json.dumps({"sha256": _sha256(text), "account": account}) + "\n" + text)


# --- All shards as one text per language.


def _wait_for(job: Job, count: int, progress: Progress) -> None:
    missing = [number for number in range(count) if not job.shard(number).exists()]
    if missing:
        progress.note(f"waiting for {len(missing)} shards of other processes")
    while missing := [number for number in missing if not job.shard(number).exists()]:
        time.sleep(_LOOK_SECONDS)


def _join(job: Job, count: int, progress: Progress) -> dict[str, Any]:
    account: Counter[str] = Counter()
    progress.start("joining shards", count)
    with ExitStack() as stack:
        outs = [stack.enter_context(atomic_write(path)) for path in job.results()]
        for number in range(count):
            account += _copy_shard(job.shard(number), outs)
            progress.reach(number + 1)
    return {"lines": 0, "kept": 0, **account, "shards": count}


def _copy_shard(file: Path, outs: Sequence[IO[str]]) -> Counter[str]:
    """Add the pairs of a shard to the texts; its account."""
    try:
        with reading_errors(file):
            head, _, text = file.read_bytes().decode("utf-8").partition("\n")
        known = json.loads(head)
        if known["sha256"] == _sha256(text):
            for line in text.split("\n")[:-1]:
                for out, side in zip(outs, line.split("\t"), strict=True):
                    out.write(side + "\n")
            return Counter(known["account"])
        damage = "its pairs are not what was written"
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        damage = str(error)
    raise AccordError(
        f"the shard is damaged: {damage}",
        where=str(file),
        fix="delete it and run the command again: it is made anew",
    )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
