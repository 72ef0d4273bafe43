"""Building one store, stage by stage: read, clean, remove overlap, encode, check, account.

Every stage is a list of tasks that know nothing of each other; an engine carries them out, and what
is finished is found again by the next run (jobs.py). Here it is decided which tasks there are.
"""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import sentencepiece

import accord
from accord.config.schema import DATA_KEYS, Corpus, Experiment
from accord.data.choose_lines import Chooser, ShardedCorpus
from accord.data.encode import (
    EncodeTask,
    SampleTask,
    encode_shard,
    read_sample,
    sample_shard,
    sample_sizes,
)
from accord.data.held_out import EvaluationSet, held_out_sets
from accord.data.jobs import Facts, Stages, written
from accord.data.shards import CleanTask, Shard, clean_shard, read_source, read_tasks
from accord.data.store import FORMAT, write_manifest
from accord.data.thresholds import Cut, RankTask, cuts, mapped, rank_lines
from accord.data.verify import (
    CheckTask,
    check_shard,
    held_out_hashes,
    refuse_breaches,
    refuse_overlap,
    zero_shot_pairs,
)
from accord.data.vocabulary import Vocabulary, train
from accord.data.workers import Engine
from accord.errors import AccordError
from accord.files import atomic_write, sha256_of, sync_directory
from accord.progress import Progress


@dataclass(frozen=True)
class Built:
    """A finished and checked store, not yet in its place."""

    data: Path
    manifest: dict[str, Any]


class Build:
    """One building of a store, stage by stage; everything happens inside `folder`."""

    def __init__(
        self,
        experiment: Experiment,
        folder: Path,
        engine: Engine,
        progress: Progress,
        *,
        memory: int,
        shard_lines: int,
    ) -> None:
        self.experiment = experiment
        self.folder = folder
        self.progress = progress
        self.memory = memory
        self.shard_lines = shard_lines
        self.zero_shot = zero_shot_pairs(experiment)
        self.stages = Stages(engine, folder, progress)

    def run(self, fingerprint: str, sums: dict[str, str]) -> Built:
        """Read, clean, remove overlap, train the vocabulary, encode, check, write the manifest."""
        data = self.folder / fingerprint
        held_out = self._held_out(data)
        hashes = self._held_out_hashes(held_out)
        corpora = self._cleaned()
        chooser = Chooser(self.stages, self.experiment, self.zero_shot, corpora, self.memory)
        chooser.drop_repeated_and_held_out(hashes)
        before = chooser.shared()
        chooser.remove_overlap()
        chooser.limit()
        for corpus in corpora:
            _refuse_empty(corpus)
        vocabulary = self._vocabulary(corpora, data)
        encoded = self._encode(corpora, data)
        files = self._check(corpora, hashes, data)
        after = chooser.shared()
        refuse_overlap(self.folder, self.experiment, after)
        manifest: dict[str, Any] = {
            "format": FORMAT,
            "accord": accord.__version__,
            "experiment": self.experiment.name,
            "fingerprint": fingerprint,
            "data": fingerprint,
            "seed": self.experiment.seed,
            "languages": list(self.experiment.languages),
            "settings": self.experiment.model_dump(mode="json", include=set(DATA_KEYS)),
            "versions": {
                "sentencepiece": sentencepiece.__version__,
                "unicode": unicodedata.unidata_version,
            },
            "inputs": [{"path": path, "sha256": sha} for path, sha in sums.items()],
            "corpora": [_entry(*both) for both in zip(corpora, encoded, strict=True)],
            "held_out": _account(held_out),
            "vocabulary": {"size": len(vocabulary), "type": "sentencepiece bpe, byte fallback"},
            "overlap": {
                "before": [asdict(shared) for shared in before],
                "after": [asdict(shared) for shared in after],
            },
            "files": dict(sorted((_other_files(data) | files).items())),
        }
        write_manifest(self.folder, manifest)
        return Built(data, manifest)

    def _held_out(self, data: Path) -> dict[str, list[EvaluationSet]]:
        self.progress.start("reading dev and test sets")
        found = held_out_sets(self.experiment)
        for split, items in found.items():
            for item in items:
                for language, lines in item.lines.items():
                    with atomic_write(data / split / f"{item.name}.{language}.txt") as file:
                        file.writelines(f"{line}\n" for line in lines)
        return found

    def _held_out_hashes(self, held_out: dict[str, list[EvaluationSet]]) -> dict[str, Path]:
        """A file of sorted hashes for each language, which every shard is compared with."""
        lines_of = (
            (language, lines)
            for items in held_out.values()
            for item in items
            for language, lines in item.lines.items()
        )
        paths = {}
        for language, hashes in held_out_hashes(lines_of, self.experiment).items():
            paths[language] = self.folder / "held_out" / language
            with written(paths[language]) as file:
                file.write(hashes.tobytes())
        return paths

    def _cleaned(self) -> list[ShardedCorpus]:
        """Read all corpora and clean them, shard by shard."""
        experiment = self.experiment
        reading = [
            (number, task)
            for number, corpus in enumerate(experiment.corpora)
            for task in read_tasks(corpus, self.folder, self.shard_lines)
        ]
        self.progress.start("reading")
        read = self.stages.run("read", read_source, [task for _, task in reading])
        cleaning: list[tuple[int, CleanTask]] = []
        numbers = [0] * len(experiment.corpora)
        for (corpus, task), facts in zip(reading, read, strict=True):
            for number, block in enumerate(facts["blocks"]):
                shard = Shard(self.folder, task.languages, numbers[corpus], block["lines"])
                cleaning.append(
                    (
                        corpus,
                        CleanTask(
                            shard,
                            task.block(number),
                            tuple(block["too_long"]),
                            experiment.languages,
                            experiment.cleaning,
                            experiment.overlap.matching,
                        ),
                    )
                )
                numbers[corpus] += 1
        self.progress.start("cleaning", sum(task.shard.lines for _, task in cleaning))
        tasks = [task for _, task in cleaning]
        cleaned = self.stages.run("clean", clean_shard, tasks, [task.block for task in tasks])
        return [
            _sharded(
                settings,
                [
                    (replace(task.shard, lines=facts["lines"]), facts)
                    for (owner, task), facts in zip(cleaning, cleaned, strict=True)
                    if owner == number
                ],
            )
            for number, settings in enumerate(experiment.corpora)
        ]

    def _vocabulary(self, corpora: Sequence[ShardedCorpus], data: Path) -> Vocabulary:
        settings = self.experiment.vocabulary
        path = data / "vocabulary.model"
        if not path.exists():  # else an ended run had it ready
            self.progress.start("choosing sentences for the vocabulary")
            sample = read_sample(self._sample(corpora))
            self.progress.start("training the vocabulary")
            model = train(sample, self.experiment.languages, settings.size)
            with written(path) as file:
                file.write(model)
        return Vocabulary.load(path, self.experiment.languages)

    def _sample(self, corpora: Sequence[ShardedCorpus]) -> list[SampleTask]:
        """Set down the sentences that the vocabulary is trained on: what stayed, each line once."""
        settings, seed = self.experiment.vocabulary, self.experiment.seed
        available: Counter[str] = Counter()
        for corpus in corpora:
            for language in corpus.settings.languages:
                available[language] += corpus.left
        sizes = sample_sizes(dict(available), settings.sample, settings.temperature)
        ranked = [
            RankTask(
                shard,
                corpus.state,
                seed,
                ("vocabulary", corpus.settings.pair),
                (sizes[shard.languages[0]], sizes[shard.languages[1]]),
            )
            for corpus in corpora
            for shard in corpus.shards
        ]
        self.stages.run("rank.vocabulary", rank_lines, ranked)
        found: dict[tuple[str, str], Cut] = {}
        for language, size in sizes.items():
            own = [task for task in ranked if language in task.shard.languages]
            ordered = [mapped(task.file(task.shard.languages.index(language))) for task in own]
            for task, cut in zip(own, cuts(ordered, available[language], size), strict=True):
                found[task.name, language] = cut
        tasks = [
            SampleTask(task, (found[task.name, first], found[task.name, second]))
            for task in ranked
            for first, second in [task.shard.languages]
        ]
        self.stages.run("sample", sample_shard, tasks)
        return tasks

    def _encode(self, corpora: Sequence[ShardedCorpus], data: Path) -> list[list[Facts]]:
        self.progress.start("encoding", sum(corpus.left for corpus in corpora))
        tasks = [
            EncodeTask(
                shard,
                corpus.state,
                "encoded",
                data / "vocabulary.model",
                self.experiment.languages,
                data / "train",
                self.experiment.cleaning.max_subwords,
            )
            for corpus in corpora
            for shard in corpus.shards
        ]
        results = iter(self.stages.run("encode", encode_shard, tasks))
        found = []
        for corpus in corpora:
            own = [next(results) for _ in corpus.shards]
            corpus.take("max_subwords", sum(facts["lines"] for facts in own))
            corpus.state = "encoded"
            _refuse_empty(corpus)
            found.append(own)
        return found

    def _check(
        self, corpora: Sequence[ShardedCorpus], held_out: dict[str, Path], data: Path
    ) -> dict[str, Any]:
        """Read everything back; the size and checksum of every file of token ids."""
        self.progress.start("checking", sum(2 * corpus.left for corpus in corpora))
        tasks = [
            CheckTask(
                shard,
                corpus.state,
                data,
                self.experiment.languages,
                (held_out[shard.languages[0]], held_out[shard.languages[1]]),
                self.experiment.overlap.matching,
            )
            for corpus in corpora
            for shard in corpus.shards
        ]
        results = self.stages.run("check", check_shard, tasks)
        for corpus in corpora:
            own = [facts for task, facts in zip(tasks, results, strict=True)
                   if task.shard.languages == corpus.settings.languages]  # fmt: skip
            refuse_breaches(self.folder, corpus.settings.pair, own)
        return {name: facts for result in results for name, facts in result["files"].items()}


def _sharded(settings: Corpus, cleaned: Sequence[tuple[Shard, Facts]]) -> ShardedCorpus:
    mended: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    for _, facts in cleaned:
        mended.update(facts["mended"])
        dropped.update(facts["dropped"])
    return ShardedCorpus(
        settings,
        [shard for shard, _ in cleaned],
        sum(facts["read"] for _, facts in cleaned),
        dict(mended),
        [("read", 0), *dropped.items()],
        sum(shard.lines for shard, _ in cleaned),
    )


def _refuse_empty(corpus: ShardedCorpus) -> None:
    if corpus.left:
        return
    steps = ", ".join(f"{step} dropped {n:,}" for step, n in corpus.steps[1:])
    raise AccordError(
        f"corpus {corpus.settings.pair} is empty after cleaning: {corpus.read:,} lines read; "
        f"{steps or 'nothing was there to drop'}",
        where=", ".join(source.path for source in corpus.settings.train),
        fix="check that the files are the right ones and in the right order, or relax cleaning",
    )


def _entry(corpus: ShardedCorpus, encoded: Sequence[Facts]) -> dict[str, Any]:
    """What the manifest says about a corpus."""
    languages = corpus.settings.languages
    left, steps = corpus.read, []
    for step, dropped in corpus.steps:
        left -= dropped
        steps.append({"step": step, "dropped": dropped, "left": left})
    shards = [
        {
            "lines": facts["lines"],
            "tokens": {
                language: side["tokens"]
                for language, side in zip(languages, facts["sides"], strict=True)
            },
        }
        for facts in encoded
    ]
    return {
        "pair": corpus.settings.pair,
        "languages": list(languages),
        "directions": [list(direction) for direction in corpus.settings.supervised],
        "read": corpus.read,
        "mended": corpus.mended,
        "steps": steps,
        "lines": left,
        "tokens": {
            language: sum(shard["tokens"][language] for shard in shards) for language in languages
        },
        "histogram": {
            language: _added([facts["sides"][side]["histogram"] for facts in encoded])
            for side, language in enumerate(languages)
        },
        "shards": shards,
    }


def _added(histograms: Sequence[Sequence[int]]) -> list[int]:
    return [sum(bars) for bars in zip_longest(*histograms, fillvalue=0)]


def _account(held_out: dict[str, list[EvaluationSet]]) -> dict[str, list[dict[str, Any]]]:
    return {
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
    }


def _other_files(data: Path) -> dict[str, dict[str, Any]]:
    """Size and checksum of all files but those of training text, which were checked one by one."""
    for left in data.rglob(".*"):  # what killed tasks were writing
        left.unlink()
    for folder in (data, data / "train"):
        sync_directory(folder)
    return {
        str(path.relative_to(data)): {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
        for path in data.rglob("*")
        if path.is_file() and path.parent.name != "train"
    }
