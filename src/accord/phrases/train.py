"""Training the phrase-based system of one direction, stage by stage.

    directions/de-en/words.json            truecasing of either language
    directions/de-en/tm_swm.*, tm_invswm.* word alignment, one model for each way
    directions/de-en/tm.*                  the phrase table
    directions/de-en/lm, lm.*              the language model of the target language
    directions/de-en/weights.json          weights of the features, tuned on dev sentences
    directions/de-en/STAGE.note.json       what the stage read, and checksums of what it wrote

A stage writes its files into a folder of its own and gives them their names when all are whole, its
note last. So a killed run goes on with the first stage that has no note, or another one's.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from accord.config.model_settings import (
    AlignmentSettings,
    ModelSettings,
    PhraseSettings,
    TuningSettings,
)
from accord.data.store import Sentences, Store
from accord.errors import AccordError
from accord.files import atomic_write, sealed, sha256_of, sync_directory, writing_errors
from accord.graph import Direction
from accord.phrases.alignment import MOST_WORDS, Pairs, thot
from accord.phrases.decoder import FEATURES, FIRST_WEIGHTS, LANGUAGE_MODEL, PhraseDecoder
from accord.phrases.language_model import NgramCounts
from accord.phrases.phrase_table import write_alignment, write_phrases
from accord.phrases.tuning import tune
from accord.phrases.words import Truecaser, tokenise

STAGES = ("words", "alignment", "phrases", "language_model", "tuning")
_FORMAT = 1
_BLOCK = 1000  # sentences that are decoded at once
_REMEDY = "run `accord train` with the run's experiment again: it makes anew what is damaged"

Report = Callable[[int], None]


@dataclass(frozen=True)
class Task:
    """One direction to train: plain data, which goes to another process."""

    store: Path
    run: Path
    direction: Direction
    model: ModelSettings
    seed: int

    @property
    def directory(self) -> Path:
        """Where the direction's files lie."""
        return directory_of(self.run, self.direction)

    @property
    def steps(self) -> int:
        """How many steps its progress has."""
        alignment, _, tuning = settings_of(self.model)
        rounds = 2 * alignment.iterations * (2 if alignment.model == "hmm" else 1)
        return len(STAGES) + rounds + tuning.evaluations


def directory_of(run: Path, direction: Direction) -> Path:
    """The part of a run directory that holds the system of one direction."""
    return run / "directions" / str(direction)


def end_of(directory: Path) -> Path:
    """What the last stage of a direction writes last."""
    return _note_file(directory, STAGES[-1])


def settings_of(model: ModelSettings) -> tuple[AlignmentSettings, PhraseSettings, TuningSettings]:
    """The sections of a phrase-based model, each as it is in force."""
    return (
        model.alignment or AlignmentSettings(),
        model.phrases or PhraseSettings(),
        model.tuning or TuningSettings(),
    )


@dataclass(frozen=True)
class Outcome:
    """What came of training a direction."""

    seconds: Mapping[str, float]
    """CPU seconds of each stage, as they were noted when it was done."""
    left_out: int
    """Training pairs with a side that is empty, or too long to be aligned."""


def train_direction(task: Task, report: Report) -> Outcome:
    """Carry out the stages that are not done yet."""
    thot("alignment")  # before anything else: whether it is there at all
    return _Training(task, report).run()


class _Training:
    """The stages of one direction."""

    def __init__(self, task: Task, report: Report) -> None:
        self.task = task
        self.alignment, self.phrases, self.tuning = settings_of(task.model)
        self._report = report
        self._done = 0

    def run(self) -> Outcome:
        directory = self.task.directory
        with writing_errors(directory):
            directory.mkdir(parents=True, exist_ok=True)
        stages: dict[str, Callable[[Path], None]] = {
            "words": self._words,
            "alignment": self._alignment,
            "phrases": self._phrases,
            "language_model": self._language_model,
            "tuning": self._tuning,
        }
        seconds, inputs = {}, dict[str, Any]()
        for name in STAGES:
            inputs |= self._read_by(name)
            before = self._done
            if not _is_done(directory, name, inputs):
                with _stage(directory, name, inputs) as folder:
                    stages[name](folder)
            seconds[name] = float(_note(directory, name)["cpu_seconds"])
            self._done = before + self._length(name) - 1
            self._step()
        return Outcome(seconds, _read_words(directory)["left_out"])

    def _read_by(self, stage: str) -> dict[str, Any]:
        """What a stage depends on beside the stages before it."""
        alignment, phrases, tuning = self.alignment, self.phrases, self.tuning
        return {
            "words": {"format": _FORMAT, "data": self.store.manifest["fingerprint"]},
            "alignment": {"alignment": alignment.model_dump(), "thot": version("sil-thot")},
            "phrases": {"phrases": phrases.model_dump()},
            "language_model": {},
            "tuning": {
                "tuning": tuning.model_dump(),
                "reordering": self.task.model.reordering,
                "seed": self.task.seed,
            },
        }[stage]

    def _length(self, stage: str) -> int:
        """Steps of a stage: one for its end, and those that it reports itself."""
        within = {"tuning": self.tuning.evaluations}
        within["alignment"] = self.task.steps - len(STAGES) - self.tuning.evaluations
        return 1 + within.get(stage, 0)

    def _step(self) -> None:
        self._done += 1
        self._report(self._done)

    # --- what the stages read ------------------------------------------------------------------

    @cached_property
    def store(self) -> Store:
        return Store(self.task.store)

    @cached_property
    def _texts(self) -> list[tuple[list[str], list[str]]]:
        """The words of all training pairs of the direction, as they stand in the text."""
        source, target = self.task.direction
        corpus = next(each for each in self.store.corpora if (source, target) in each.directions)
        return list(zip(*(self._side(corpus.side(name)) for name in (source, target)), strict=True))

    def _side(self, sentences: Sentences) -> Iterator[list[str]]:
        for start in range(0, len(sentences), _BLOCK):
            rows = range(start, min(start + _BLOCK, len(sentences)))
            for text in self.store.vocabulary.decode([sentences[row].tolist() for row in rows]):
                yield tokenise(text)

    @cached_property
    def _truecasers(self) -> tuple[Truecaser, Truecaser]:
        return read_truecasers(self.task.directory)

    @cached_property
    def _pairs(self) -> Pairs:
        """Truecased training pairs; those with a side that cannot be aligned are left out."""
        first, second = self._truecasers
        pairs = [
            (first.truecase(source), second.truecase(target))
            for source, target in self._texts
            if _fits(source) and _fits(target)
        ]
        if not pairs:
            raise AccordError(
                f"no training pair of {self.task.direction} has 1 to {MOST_WORDS} words on "
                "either side",
                where=str(self.task.store),
                fix="give the corpus lines of single sentences",
            )
        return pairs

    def _dev(self) -> tuple[list[str], list[str]]:
        """The dev pairs of the direction that weights are tuned on, as the seed chooses them."""
        sources, references = self.store.held_out.pair("dev", *self.task.direction)
        if not sources:
            raise AccordError(
                f"there are no dev sentences of {self.task.direction} to tune the weights on",
                where="model.tuning, dev",
                fix="give `dev` a set of this pair, or set model.tuning.evaluations to 0",
            )
        count = min(self.tuning.sentences, len(sources))
        drawn = np.random.default_rng(self.task.seed).permutation(len(sources))[:count]
        return [sources[row] for row in drawn], [references[row] for row in drawn]

    # --- the stages themselves: each writes into the folder that it is given -------------------

    def _words(self, folder: Path) -> None:
        first, second = ([pair[side] for pair in self._texts] for side in (0, 1))
        words = {
            "source": dict(Truecaser.learn(first).forms),
            "target": dict(Truecaser.learn(second).forms),
            "left_out": sum(not (_fits(one) and _fits(other)) for one, other in self._texts),
        }
        with (folder / "words.json").open("w", encoding="utf-8") as file:
            json.dump(words, file, ensure_ascii=False)

    def _alignment(self, folder: Path) -> None:
        write_alignment(folder, self._pairs, self.alignment, self._step)

    def _phrases(self, folder: Path) -> None:
        write_phrases(folder, self.task.directory, self._pairs, self.alignment, self.phrases)

    def _language_model(self, folder: Path) -> None:
        second = self._truecasers[1]
        counts = NgramCounts.of([target for _, target in self._pairs])
        _, references = self.store.held_out.pair("dev", *self.task.direction)
        dev = [second.truecase(tokenise(text)) for text in references]
        counts.write(folder / LANGUAGE_MODEL, counts.fitted_weights(dev))

    def _tuning(self, folder: Path) -> None:
        weights: dict[str, Any] = {"weights": dict(zip(FEATURES, FIRST_WEIGHTS, strict=True))}
        if self.tuning.evaluations:
            sources, references = self._dev()
            found = tune(
                _loaded(self.task.directory, self.task.model, FIRST_WEIGHTS),
                sources,
                references,
                self.task.direction.target,
                self.tuning.evaluations,
                self._step,
            )
            weights["weights"] = dict(zip(FEATURES, found.weights, strict=True))
            weights |= {"first_bleu": found.first, "bleu": found.best}
        with (folder / "weights.json").open("w", encoding="utf-8") as file:
            json.dump(weights, file, indent=1)


# --- Reading a direction that is trained.


def open_decoder(directory: Path, model: ModelSettings, threads: int = 1) -> PhraseDecoder:
    """The trained system of a direction; a file that was altered is refused."""
    for stage in STAGES:
        for file in _altered(directory, _note(directory, stage)):
            raise AccordError("the file is missing or was altered", where=str(file), fix=_REMEDY)
    weights = json.loads((directory / "weights.json").read_text(encoding="utf-8"))["weights"]
    return _loaded(directory, model, [weights[name] for name in FEATURES], threads)


def _loaded(
    directory: Path, model: ModelSettings, weights: Sequence[float], threads: int = 1
) -> PhraseDecoder:
    alignment, phrases, _ = settings_of(model)
    return PhraseDecoder(
        directory,
        alignment,
        read_truecasers(directory)[0],
        longest=phrases.longest,
        choices=phrases.choices,
        reordering=model.reordering or 0,
        weights=weights,
        threads=threads,
    )


def read_truecasers(directory: Path) -> tuple[Truecaser, Truecaser]:
    """How words of the source and of the target language are written inside a sentence."""
    words = _read_words(directory)
    return Truecaser(words["source"]), Truecaser(words["target"])


def _read_words(directory: Path) -> dict[str, Any]:
    return dict(json.loads((directory / "words.json").read_text(encoding="utf-8")))


def _fits(words: Sequence[str]) -> bool:
    """Whether a sentence can be aligned."""
    return 0 < len(words) <= MOST_WORDS


# --- Notes of what is done.


def _note_file(directory: Path, stage: str) -> Path:
    return directory / f"{stage}.note.json"


def _note(directory: Path, stage: str) -> Mapping[str, Any]:
    """What a stage wrote down when it was done."""
    file = _note_file(directory, stage)
    try:
        found = json.loads(file.read_bytes())
        if found == sealed(found):
            return dict(found)
        what = "the file was altered"
    except FileNotFoundError:
        what = f"this direction is not trained to its end: its {stage} is missing"
        raise AccordError(
            what, where=str(directory), fix="run `accord train` again; it goes on where it stopped"
        ) from None
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        what = f"cannot be read: {error}"
    raise AccordError(what, where=str(file), fix=_REMEDY)


def _is_done(directory: Path, stage: str, inputs: Mapping[str, Any]) -> bool:
    """Whether a stage has a note, read the same, and left its files as they are."""
    try:
        note = _note(directory, stage)
    except AccordError:
        return False
    return note["inputs"] == json.loads(json.dumps(inputs)) and not _altered(directory, note)


def _altered(directory: Path, note: Mapping[str, Any]) -> list[Path]:
    """The files of a stage that are not as it left them, or not there."""
    files = {directory / name: checksum for name, checksum in note["files"].items()}
    return [file for file, sum_ in files.items() if not file.is_file() or sha256_of(file) != sum_]


@contextmanager
def _stage(directory: Path, stage: str, inputs: Mapping[str, Any]) -> Iterator[Path]:
    """A folder to write into; its files get their names when all are there, and then a note."""
    folder, begun = directory / f".{stage}", time.process_time()
    with writing_errors(directory):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        _note_file(directory, stage).unlink(missing_ok=True)
        yield folder
        files = {file.name: sha256_of(file) for file in sorted(folder.iterdir())}
        for name in files:
            _bring_to_disk(folder / name)
            (folder / name).replace(directory / name)
        sync_directory(directory)
        folder.rmdir()
        seconds = round(time.process_time() - begun, 2)
        note = sealed({"inputs": dict(inputs), "files": files, "cpu_seconds": seconds})
        with atomic_write(_note_file(directory, stage)) as out:
            json.dump(note, out, indent=1)


def _bring_to_disk(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
