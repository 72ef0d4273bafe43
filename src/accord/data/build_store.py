"""Building one store, step by step: read, clean, remove overlap, encode, account, check."""

import os
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

import accord
from accord.config.schema import DATA_KEYS, Experiment, pair_languages
from accord.data.dedup import (
    HashedCorpus,
    Mask,
    lowest,
    make_disjoint,
    priority,
    repeated_pairs,
    shared_strings,
    split_pairwise,
)
from accord.data.encode import Spool, Task, encode_corpus, spool_corpus, vocabulary_sample
from accord.data.held_out import EvaluationSet, held_out_sets
from accord.data.store import FORMAT, Store, write_manifest
from accord.data.verify import held_out_hashes, verify, zero_shot_pairs
from accord.data.vocabulary import Vocabulary, train
from accord.data.workers import run_all
from accord.errors import AccordError
from accord.files import atomic_write, sha256_of, writing_errors
from accord.progress import Progress


class Build:
    """One building of a store, step by step; everything happens inside `directory`."""

    def __init__(
        self, experiment: Experiment, directory: Path, workers: int, progress: Progress
    ) -> None:
        self.experiment = experiment
        self.directory = directory
        self.workers = workers
        self.progress = progress
        self.zero_shot = zero_shot_pairs(experiment)
        self.steps: dict[str, list[tuple[str, int]]] = {}

    def run(self, fingerprint: str, sums: dict[str, str]) -> Store:
        """Read, clean, remove overlap, train the vocabulary, encode, write the manifest, check."""
        experiment = self.experiment
        data = self.directory / fingerprint
        with writing_errors(data):
            (data / "train").mkdir(parents=True)
        held_out = self._held_out(data)
        spools = self._spools()
        corpora = [self._hashed(spool) for spool in spools]
        self._drop_duplicates(spools, corpora)
        self._drop_held_out(corpora, held_out)
        before = shared_strings(corpora, self.zero_shot)
        self._remove_overlap(corpora)
        self._limit(spools, corpora)
        for spool, corpus in zip(spools, corpora, strict=True):
            self._refuse_empty(spool, int(corpus.keep.sum()))
        vocabulary = self._vocabulary(spools, [corpus.keep for corpus in corpora], data)
        entries = self._encode(spools, corpora, vocabulary, data)
        manifest: dict[str, Any] = {
            "format": FORMAT,
            "accord": accord.__version__,
            "experiment": experiment.name,
            "fingerprint": fingerprint,
            "data": fingerprint,
            "seed": experiment.seed,
            "languages": list(experiment.languages),
            "settings": experiment.model_dump(mode="json", include=set(DATA_KEYS)),
            "versions": {
                "sentencepiece": sentencepiece.__version__,
                "unicode": unicodedata.unidata_version,
            },
            "inputs": [{"path": path, "sha256": sha} for path, sha in sums.items()],
            "corpora": entries,
            "held_out": {
                split: [
                    {
                        "name": item.name,
                        "languages": list(item.lines),
                        "lines": len(item),
                        "origin": item.origin,
                    }
                    for item in items
                ]
                for split, items in held_out.items()
            },
            "vocabulary": {"size": len(vocabulary), "type": "sentencepiece bpe, byte fallback"},
            "overlap": {"before": [asdict(shared) for shared in before]},
            "files": self._checksums(data),
        }
        write_manifest(self.directory, manifest)
        after = verify(Store(self.directory), corpora, experiment, self.workers, self.progress)
        manifest["overlap"]["after"] = [asdict(shared) for shared in after]
        write_manifest(self.directory, manifest)
        return Store(self.directory)

    def _held_out(self, data: Path) -> dict[str, list[EvaluationSet]]:
        self.progress.start("reading dev and test sets")
        found = held_out_sets(self.experiment)
        for split, items in found.items():
            for item in items:
                for language, lines in item.lines.items():
                    with atomic_write(data / split / f"{item.name}.{language}.txt") as file:
                        file.writelines(f"{line}\n" for line in lines)
        return found

    def _spools(self) -> list[Spool]:
        experiment = self.experiment
        directory = self.directory / "spool"
        with writing_errors(directory):
            directory.mkdir()
        tasks = [
            Task(
                corpus,
                experiment.languages,
                experiment.cleaning,
                experiment.overlap.matching,
                directory,
            )
            for corpus in experiment.corpora
        ]
        self.progress.start("reading and cleaning")
        spools = run_all(spool_corpus, tasks, self.workers, self.progress)
        for item in spools:
            self.steps[item.corpus.pair] = [("read", 0), *item.dropped.items()]
        return spools

    def _hashed(self, spool: Spool) -> HashedCorpus:
        sides = spool.hashes(self.experiment.overlap.matching)
        return HashedCorpus(spool.corpus.languages, sides, np.ones(len(sides[0]), dtype=np.bool_))

    def _count(self, corpora: Sequence[HashedCorpus], step: str, before: Sequence[int]) -> None:
        for corpus, lines in zip(corpora, before, strict=True):
            self.steps[corpus.name].append((step, lines - int(corpus.keep.sum())))

    def _drop_duplicates(self, spools: Sequence[Spool], corpora: Sequence[HashedCorpus]) -> None:
        if not self.experiment.cleaning.duplicates:
            return
        before = [int(corpus.keep.sum()) for corpus in corpora]
        for spool, corpus in zip(spools, corpora, strict=True):
            corpus.keep &= ~repeated_pairs(*spool.hashes("exact"))
        self._count(corpora, "duplicates", before)

    def _drop_held_out(
        self, corpora: Sequence[HashedCorpus], held_out: dict[str, list[EvaluationSet]]
    ) -> None:
        lines_of = (
            (language, lines)
            for items in held_out.values()
            for item in items
            for language, lines in item.lines.items()
        )
        hashes = held_out_hashes(lines_of, self.experiment)
        before = [int(corpus.keep.sum()) for corpus in corpora]
        for corpus in corpora:
            for language in corpus.languages:
                corpus.remove(language, hashes[language])
        self._count(corpora, "held_out", before)

    def _remove_overlap(self, corpora: Sequence[HashedCorpus]) -> None:
        self.progress.start("removing overlap")
        overlap, seed = self.experiment.overlap, self.experiment.seed
        before = [int(corpus.keep.sum()) for corpus in corpora]
        if overlap.mode == "disjoint":
            make_disjoint(corpora, self.zero_shot, seed)
        elif overlap.mode == "pairwise":
            split_pairwise(corpora, [pair_languages(pair) for pair in overlap.pairs], seed)
        self._count(corpora, "overlap", before)

    def _limit(self, spools: Sequence[Spool], corpora: Sequence[HashedCorpus]) -> None:
        if not any(spool.corpus.limit for spool in spools):
            return
        before = [int(corpus.keep.sum()) for corpus in corpora]
        for spool, corpus in zip(spools, corpora, strict=True):
            if spool.corpus.limit is not None:
                first, second = spool.hashes("exact")
                order = priority(first + priority(second, 0), self.experiment.seed, "limit")
                corpus.keep[corpus.keep] = lowest(order[corpus.keep], spool.corpus.limit)
        self._count(corpora, "limit", before)

    def _refuse_empty(self, spool: Spool, left: int) -> None:
        if left:
            return
        steps = ", ".join(f"{step} dropped {n:,}" for step, n in self.steps[spool.corpus.pair][1:])
        raise AccordError(
            f"corpus {spool.corpus.pair} is empty after cleaning: {spool.read:,} lines read; "
            f"{steps or 'nothing was there to drop'}",
            where=", ".join(source.path for source in spool.corpus.train),
            fix="check that the files are the right ones and in the right order, or relax cleaning",
        )

    def _vocabulary(self, spools: Sequence[Spool], keeps: Sequence[Mask], data: Path) -> Vocabulary:
        settings = self.experiment.vocabulary
        self.progress.start("training the vocabulary")
        sample = vocabulary_sample(
            spools, keeps, settings.sample, settings.temperature, self.experiment.seed
        )
        model = train(sample, self.experiment.languages, settings.size)
        vocabulary = Vocabulary(model, self.experiment.languages)
        with atomic_write(data / "vocabulary.model", "wb") as file:
            file.write(model)
        return vocabulary

    def _encode(
        self,
        spools: Sequence[Spool],
        corpora: Sequence[HashedCorpus],
        vocabulary: Vocabulary,
        data: Path,
    ) -> list[dict[str, Any]]:
        entries = []
        for spool, hashed in zip(spools, corpora, strict=True):
            corpus = spool.corpus
            self.progress.start(f"encoding {corpus.pair}", int(hashed.keep.sum()))
            encoded = encode_corpus(
                spool,
                hashed.keep,
                vocabulary,
                data / "train",
                max_subwords=self.experiment.cleaning.max_subwords,
                threads=self.workers,
                progress=self.progress,
            )
            hashed.keep = encoded.keep
            self.steps[corpus.pair].append(("max_subwords", encoded.too_long))
            self._refuse_empty(spool, encoded.lines)
            left, steps = spool.read, []
            for step, dropped in self.steps[corpus.pair]:
                left -= dropped
                steps.append({"step": step, "dropped": dropped, "left": left})
            entries.append(
                {
                    "pair": corpus.pair,
                    "languages": list(corpus.languages),
                    "directions": [list(direction) for direction in corpus.supervised],
                    "read": spool.read,
                    "mended": spool.mended,
                    "steps": steps,
                    "lines": encoded.lines,
                    "tokens": encoded.tokens,
                    "histogram": encoded.histogram,
                }
            )
        return entries

    def _checksums(self, data: Path) -> dict[str, dict[str, Any]]:
        found = {}
        for path in sorted(p for p in data.rglob("*") if p.is_file()):
            with path.open("rb") as file:
                os.fsync(file.fileno())
            found[str(path.relative_to(data))] = {
                "bytes": path.stat().st_size,
                "sha256": sha256_of(path),
            }
        return found
