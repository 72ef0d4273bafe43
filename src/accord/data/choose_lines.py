"""Which lines stay: duplicates, dev and test lines, overlap, limits; over all shards, by hashes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from accord.config.schema import Corpus, Experiment, pair_languages
from accord.data.dedup import (
    Meeting,
    Shared,
    ZeroShotPairs,
    conflicts,
    kth_lowest,
    meeting_languages,
    pairwise_meetings,
)
from accord.data.hash_ranges import (
    DropTask,
    Gone,
    PivotTask,
    Range,
    RangeTask,
    SortTask,
    count_ranges,
    count_shared,
    drop_lines,
    find_duplicates,
    find_halves,
    find_overlap,
    gone_by_shard,
    order_common,
    sort_shard,
)
from accord.data.jobs import Facts, Report, Stages
from accord.data.shards import CLEAN, Shard
from accord.data.thresholds import CutTask, RankTask, cut_lines, cuts, mapped, rank_lines


@dataclass
class ShardedCorpus:
    """A corpus in shards: what was read of it, and what every step since has left."""

    settings: Corpus
    shards: list[Shard]
    read: int
    mended: dict[str, int]
    steps: list[tuple[str, int]]
    left: int
    state: str = CLEAN
    """The step whose marks hold now."""

    def take(self, step: str, left: int) -> None:
        """Note that a step is done and how many lines it left."""
        self.steps.append((step, self.left - left))
        self.left = left


class Chooser:
    """Takes lines out of the corpora, step by step, and counts them."""

    def __init__(
        self,
        stages: Stages,
        experiment: Experiment,
        zero_shot: ZeroShotPairs,
        corpora: Sequence[ShardedCorpus],
        memory: int,
    ) -> None:
        self.stages = stages
        self.experiment = experiment
        self.zero_shot = zero_shot
        self.corpora = corpora
        self.pairs = [corpus.settings.languages for corpus in corpora]
        lines = sum(corpus.left for corpus in corpora)
        count = count_ranges(lines, stages.engine.workers, memory)
        self.ranges = [Range(index, count) for index in range(count)]

    def drop_repeated_and_held_out(self, held_out: dict[str, Path]) -> None:
        """Pairs that stood earlier in their corpus; then whatever has a dev or test sentence."""
        self.stages.progress.start("removing duplicates")
        repeated = self.experiment.cleaning.duplicates
        gone = self._repeated() if repeated else [[[] for _ in c.shards] for c in self.corpora]
        tasks = [
            DropTask(
                shard,
                CLEAN,
                "held_out",
                tuple(lines),
                (held_out[shard.languages[0]], held_out[shard.languages[1]]),
                self.experiment.overlap.matching,
            )
            for corpus, own in zip(self.corpora, gone, strict=True)
            for shard, lines in zip(corpus.shards, own, strict=True)
        ]
        results = self.stages.run("held_out", drop_lines, tasks)
        for corpus, own in zip(self.corpora, self._by_corpus(results), strict=True):
            if repeated:
                corpus.take("duplicates", sum(facts["left"] for facts in own))
            corpus.take("held_out", sum(facts["left_at_last"] for facts in own))
            corpus.state = "held_out"

    def _by_corpus(self, results: Sequence[Facts]) -> list[list[Facts]]:
        """Results of one task per shard of every corpus."""
        left = iter(results)
        return [[next(left) for _ in corpus.shards] for corpus in self.corpora]

    def _repeated(self) -> list[list[list[Gone]]]:
        """For each corpus and shard the lines that stood earlier in the corpus."""
        ordered = [
            tuple(SortTask(shard, CLEAN, None, "exact") for shard in corpus.shards)
            for corpus in self.corpora
        ]
        self.stages.run("sort", sort_shard, list(chain.from_iterable(ordered)))
        tasks = [
            RangeTask(part, (own,), f"duplicates.{corpus.settings.pair}")
            for corpus, own in zip(self.corpora, ordered, strict=True)
            for part in self.ranges
        ]
        results = self.stages.run("ranges", find_duplicates, tasks)
        count = len(self.ranges)
        return [
            gone_by_shard(tasks[start : start + count], results[start : start + count])
            for start in range(0, len(tasks), count)
        ]

    def _sorted(self, members: Sequence[ShardedCorpus], pivot: str) -> "Ordered":
        """The shards of some corpora in the order of their pivot sentences."""
        ordered = tuple(
            tuple(
                SortTask(
                    shard,
                    corpus.state,
                    corpus.settings.languages.index(pivot),
                    self.experiment.overlap.matching,
                )
                for shard in corpus.shards
            )
            for corpus in members
        )
        self.stages.run("sort", sort_shard, list(chain.from_iterable(ordered)))
        return ordered

    def _members(self, pivot: str) -> list[ShardedCorpus]:
        return [corpus for corpus in self.corpora if pivot in corpus.settings.languages]

    def _pivot_tasks(
        self,
        step: str,
        pivot: str,
        ordered: "Ordered",
        meeting: Meeting | None = None,
        middle: int = 0,
    ) -> list[PivotTask]:
        return [
            PivotTask(
                part, ordered, step, pivot, self.zero_shot, self.experiment.seed, meeting, middle
            )
            for part in self.ranges
        ]

    def shared(self) -> list[Shared]:
        """The overlap of every two corpora that meet in a language, language by language."""
        self.stages.progress.start("counting overlap")
        found = []
        for pivot in meeting_languages(self.pairs):
            members = self._members(pivot)
            ordered = self._sorted(members, pivot)
            # Corpora that overlap removal has not touched are in another state than the others.
            step = f"shared.{pivot}.{'+'.join(sorted({corpus.state for corpus in members}))}"
            tasks = self._pivot_tasks(step, pivot, ordered)
            results = self.stages.run("ranges", count_shared, tasks)
            for same in zip(*(facts["shared"] for facts in results), strict=True):
                strings = sum(shared["strings"] for shared in same)
                found.append(Shared(**{**same[0], "strings": strings}))
        return found

    def remove_overlap(self) -> None:
        """What the experiment's mode asks for, pivot by pivot or pair by pair."""
        self.stages.progress.start("removing overlap")
        before = [corpus.left for corpus in self.corpora]
        overlap = self.experiment.overlap
        if overlap.mode == "disjoint":
            for pivot in sorted(meeting_languages(self.pairs)):
                members = self._members(pivot)
                pairs = [corpus.settings.languages for corpus in members]
                if conflicts(pairs, pivot, self.zero_shot).any():
                    tasks = self._pivot_tasks(
                        f"overlap.{pivot}", pivot, self._sorted(members, pivot)
                    )
                    self._drop(members, f"overlap.{pivot}", find_overlap, tasks)
        elif overlap.mode == "pairwise":
            pairs = [pair_languages(pair) for pair in overlap.pairs]
            for number, meeting in enumerate(pairwise_meetings(self.pairs, pairs)):
                self._halve(f"overlap.{number}", meeting)
        for corpus, lines in zip(self.corpora, before, strict=True):
            corpus.steps.append(("overlap", lines - corpus.left))

    def _halve(self, step: str, meeting: Meeting) -> None:
        members = [self.corpora[meeting.first], self.corpora[meeting.second]]
        ordered = self._sorted(members, meeting.pivot)
        tasks = self._pivot_tasks(f"common.{step}", meeting.pivot, ordered, meeting)
        results = self.stages.run("ranges", order_common, tasks)
        half = sum(facts["common"] for facts in results) // 2
        # The first that stays in the other corpus; where there is none, nothing is shared.
        middle = kth_lowest([mapped(task.file) for task in tasks], half + 1)
        tasks = self._pivot_tasks(step, meeting.pivot, ordered, meeting, middle)
        self._drop(members, step, find_halves, tasks)

    def _drop(
        self,
        members: Sequence[ShardedCorpus],
        step: str,
        function: Callable[[PivotTask, Report], Facts],
        tasks: Sequence[PivotTask],
    ) -> None:
        """Find the lines that go range by range, take them out shard by shard."""
        gone = iter(gone_by_shard(tasks, self.stages.run("ranges", function, tasks)))
        drops = [
            DropTask(shard, corpus.state, step, tuple(next(gone)))
            for corpus in members
            for shard in corpus.shards
        ]
        left = iter(self.stages.run(step, drop_lines, drops))
        for corpus in members:
            corpus.left = sum(next(left)["left"] for _ in corpus.shards)
            corpus.state = step

    def limit(self) -> None:
        """Of corpora with a limit, the lines of the lowest priorities."""
        if not any(corpus.settings.limit for corpus in self.corpora):
            return
        for corpus in self.corpora:
            most = corpus.settings.limit
            if most is not None:
                tasks = [
                    RankTask(shard, corpus.state, self.experiment.seed, ("limit",), (most,))
                    for shard in corpus.shards
                ]
                self.stages.run("rank.limit", rank_lines, tasks)
                found = cuts([mapped(task.file(0)) for task in tasks], corpus.left, most)
                cut = [CutTask(task, own, "limit") for task, own in zip(tasks, found, strict=True)]
                results = self.stages.run("limit", cut_lines, cut)
                left = sum(facts["left"] for facts in results)
                corpus.state = "limit"
            else:
                left = corpus.left
            corpus.take("limit", left)


Ordered = tuple[tuple[SortTask, ...], ...]
