"""The figures of an evaluation, as they stand in evaluation.json."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from accord.data.held_out import EvaluationSet, GivenSet
from accord.data.store import HeldOutSet, HeldOutSets
from accord.errors import AccordError
from accord.files import sealed
from accord.graph import Direction
from accord.metrics.bleu import Counts, Score

# --- What is scored: sentences, their translations and references in one direction.


@dataclass(frozen=True)
class ParallelText:
    """The sentences of one direction and what they should become."""

    name: str
    sources: tuple[str, ...]
    references: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.sources)


@dataclass(frozen=True)
class Lines:
    """One direction, translated directly, through the languages of `via`, or by an ensemble."""

    direction: Direction
    kind: str
    test_set: str
    sources: tuple[str, ...]
    hypotheses: tuple[str, ...]
    references: tuple[str, ...]
    via: tuple[str, ...] = ()
    nats: float | None = None
    """Negative log-likelihood of all references; there is none for a chain of translations."""
    tokens: int = 0
    """The subwords it was summed over, ends of sentence included."""
    ensemble: str = ""
    """What was searched with together, for example `direct,via:en`."""

    @property
    def name(self) -> str:
        """As in file names: `de-fr`, or `de-fr.via-en`."""
        return row_name(self.direction, self.via, self.ensemble)

    @property
    def is_direct(self) -> bool:
        """Whether the sentences were translated directly and alone."""
        return not self.via and not self.ensemble


def row_name(direction: Direction, via: Sequence[str], ensemble: str = "") -> str:
    """`de-fr` for a direct translation, `de-fr.via-en` for one through another language.

    That of an ensemble is `de-fr.ensemble-direct-via-en`.
    """
    if ensemble:
        return f"{direction}.ensemble-{ensemble.replace(',', '-').replace(':', '-')}"
    return f"{direction}.via-{'-'.join(via)}" if via else str(direction)


def parse_lines(text: str) -> tuple[int, int]:
    """First and last line, counted from 1, of `1001-2000`."""
    found = re.fullmatch(r"([0-9]+)-([0-9]+)", text)
    first, last = (int(number) for number in found.groups()) if found else (0, 0)
    if not 1 <= first <= last:
        raise AccordError(
            f"{text!r} are no lines",
            where="--lines",
            fix="give the first and the last, counted from 1: 1001-2000",
        )
    return first, last


def parse_split(text: str) -> tuple[str, str | None]:
    """Name and, for a set that the run does not have, path: of `dev`, or `news=news.{lang}.gz`."""
    name, given, path = text.partition("=")
    if not given:
        return name, None
    if name in ("dev", "test") or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.]*", name) or not path:
        raise AccordError(
            f"{text!r} names no set",
            where="--split",
            fix="give a name of letters and digits, other than dev and test, and a path: "
            "news=news.{lang}.gz",
        )
    return name, path


def find_sets(
    held_out: HeldOutSets | GivenSet,
    split: str,
    directions: Sequence[Direction],
    limit: int | None,
    lines: tuple[int, int] | None = None,
) -> dict[Direction, ParallelText]:
    """The test set of every direction that has one, its first `limit` sentences, or its `lines`.

    A set that has fewer lines than are asked for is refused.
    """
    part = slice(limit) if lines is None else slice(lines[0] - 1, lines[1])
    sets: Sequence[HeldOutSet | EvaluationSet] = held_out.sets(split)
    names = {
        (source, target): item.name
        for item in reversed(sets)  # the first that has both languages counts
        for source in item.languages
        for target in item.languages
    }
    found = {}
    for direction in directions:
        sources, references = held_out.pair(split, *direction)
        if not sources:
            continue
        name = names[direction]
        if lines is not None and lines[1] > len(sources):
            raise AccordError(
                f"the {split} set '{name}' has {len(sources):,} lines of {direction}",
                where=f"--lines {lines[0]}-{lines[1]}",
                fix=f"give lines from 1 to {len(sources)}",
            )
        found[direction] = ParallelText(name, tuple(sources[part]), tuple(references[part]))
    return found


FORMAT = 3
_WRITE_ANEW = "run `accord evaluate` again; it writes the file anew"


@dataclass(frozen=True)
class DirectionScores:
    """One direction, translated directly, through other languages (`via`), or by an ensemble."""

    source: str
    target: str
    kind: str
    """`supervised` or `zero-shot`."""
    via: tuple[str, ...]
    test_set: str
    sentences: int
    bleu: Score
    bleu_lowercase: Score
    chrf: Score
    off_target: float | None
    """Share of the hypotheses long enough to tell that are in another language than the target.

    A lower bound: half a sentence in another language mostly passes; see `mixed`."""
    off_target_checked: int
    """How many were long enough."""
    length_ratio: float
    copy_rate: float
    repetition_rate: float
    exact_match: float
    cross_entropy: float | None
    """Nats a target subword, ends of sentence included; None for all but direct translations, and
    where the model gives no likelihood."""
    cross_entropy_per_sentence: float | None
    """Nats a sentence: the expected loss of the paper's Definition 1."""
    ensemble: str = ""
    """What was searched with together, for example `direct,via:en`."""
    mixed: float | None = None
    """Share of the hypotheses long enough to tell whose parts are in more than one language."""
    mixed_checked: int = 0
    """How many were long enough; older evaluations have none."""
    comet: float | None = None
    """COMET, where a model was given."""

    @property
    def direction(self) -> str:
        """For example `de-fr`."""
        return f"{self.source}-{self.target}"

    @property
    def name(self) -> str:
        """For example `de-fr`, or `de-fr.via-en`."""
        return row_name(Direction(self.source, self.target), self.via, self.ensemble)

    @property
    def is_direct(self) -> bool:
        """Whether the sentences were translated directly and alone."""
        return not self.via and not self.ensemble


@dataclass(frozen=True)
class Average:
    """Unweighted means over directions; a rate that is unknown for a direction is left out."""

    directions: tuple[str, ...]
    bleu: float
    bleu_confidence: float
    """Half the width of the 95 % interval of this mean, sentences resampled jointly."""
    bleu_lowercase: float
    chrf: float
    chrf_confidence: float
    off_target: float | None
    length_ratio: float
    copy_rate: float
    repetition_rate: float
    exact_match: float
    cross_entropy: float | None
    mixed: float | None = None
    comet: float | None = None


@dataclass(frozen=True)
class Bounds:
    """The two bounds of Definition 1, measured: the largest losses and where they occur."""

    epsilon: float
    epsilon_direction: str
    kappa: float
    kappa_direction: str
    ratio: float
    """kappa over epsilon: how much worse the worst direction without data is."""


@dataclass(frozen=True)
class Consistency:
    """Largest supervised and zero-shot cross-entropies, in nats."""

    per_token: Bounds
    per_sentence: Bounds


@dataclass(frozen=True)
class AgreementScores:
    """How far the translations of parallel sentences in two languages into a third agree."""

    languages: tuple[str, str]
    target: str
    kind: str
    """`supervised` if there is data for both directions, else `zero-shot`."""
    sentences: int
    bleu: float
    """Mean of BLEU either way round."""
    cross_entropy: float | None
    """Nats a subword of each side's translation given the other side, mean of both ways; None where
    the model gives no likelihood."""


@dataclass(frozen=True)
class Agreement:
    """Agreement without references, and its means over the rows of each kind."""

    rows: tuple[AgreementScores, ...]
    bleu: dict[str, float]
    cross_entropy: dict[str, float]


@dataclass(frozen=True)
class Origin:
    """What was evaluated."""

    run: str
    """The name of the run directory."""
    checkpoint: str
    """As it was asked for: best, last, average or step-00001000."""
    step: int
    fingerprint: str
    """Of the data that the run was trained on."""
    device: str
    precision: str


@dataclass(frozen=True)
class Evaluation:
    """Everything measured in one go."""

    format: int
    name: str
    accord: str
    date: str
    origin: Origin
    split: str
    limit: int | None
    search: dict[str, Any]
    """The search settings that applied: none of them where the model has a search of its own."""
    languages: tuple[str, ...]
    min_words: int
    """Hypotheses with fewer words are not asked for their language."""
    directions: tuple[DirectionScores, ...]
    via_pivot: tuple[DirectionScores, ...]
    missing: tuple[str, ...]
    """Directions without a test set."""
    notes: tuple[str, ...]
    averages: dict[str, Average]
    consistency: Consistency | None
    """None unless the losses of both supervised and zero-shot directions are known."""
    agreement: Agreement | None
    seconds: float
    seconds_searching: float
    by_ensemble: tuple[DirectionScores, ...] = ()
    """Zero-shot directions once more, each sentence searched with together with its pivots."""
    lines: tuple[int, int] | None = None
    """The first and last line of each set that was scored, counted from 1; None for `limit`."""
    comet_signature: str = ""
    """The model behind the COMET figures, if there are any."""

    @property
    def rows(self) -> tuple[DirectionScores, ...]:
        """All translations that were scored: direct ones, those through pivots, ensembles."""
        return (*self.directions, *self.via_pivot, *self.by_ensemble)

    @property
    def by_direction(self) -> tuple[DirectionScores, ...]:
        """A row for each direction: the direct one or, where there is none, another one."""
        direct = {row.direction for row in self.directions}
        others = {row.direction: row for row in reversed(self.rows) if row.direction not in direct}
        return (*self.directions, *reversed(others.values()))

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    @staticmethod
    def load(path: Path) -> "Evaluation":
        """Read evaluation.json, or the one in a directory."""
        return load_with_sums(path)[0]


def load_with_sums(path: Path) -> tuple[Evaluation, dict[str, str]]:
    """An evaluation, and SHA-256 of the files beside it, if evaluation.json is as it was written.

    Former versions wrote other formats. Those of format 1 have neither seal nor checksums; up to
    format 2, `search` held settings also of systems that are no networks, and read none.
    """
    file = path / "evaluation.json" if path.is_dir() else path
    try:
        data = file.read_bytes()
        found = TypeAdapter(Evaluation).validate_json(data)
        entries = json.loads(data)
        altered = entries != sealed(entries) if "seal" in entries else found.format != 1
    except FileNotFoundError:
        raise AccordError(
            "there is no evaluation here", where=str(path), fix="run `accord evaluate` first"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise AccordError(
            f"the evaluation cannot be read: {what}", where=str(file), fix=_WRITE_ANEW
        ) from None
    if altered:
        raise AccordError(
            "the evaluation was altered since it was written", where=str(file), fix=_WRITE_ANEW
        )
    if found.format < 3 and not found.origin.step:
        found = replace(found, search={})
    return found, entries.get("files", {})


# --- An evaluation with all that it was computed from.


@dataclass(frozen=True)
class Statistics:
    """What BLEU (cased) and chrF count in each sentence of a direction: [sentences, columns].

    They are kept because counting is slow and all else, resampling included, is quick.
    """

    bleu: Counts
    chrf: Counts


@dataclass(frozen=True)
class Evaluated:
    """Figures, texts, and by the name of each row the statistics of its sentences."""

    evaluation: Evaluation
    lines: tuple[Lines, ...]
    statistics: dict[str, Statistics]
