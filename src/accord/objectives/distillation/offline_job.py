"""What offline distillation is asked for, and whether it is what was asked for here before."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from accord.config.objectives import CompleteFilters
from accord.data.formats import source_files
from accord.data.store import Store, stamp_of
from accord.errors import AccordError
from accord.files import atomic_write, reading_errors, sealed, sha256_of
from accord.inference.backends.base import LoadSettings
from accord.inference.backends.manifest import NAME, is_exported
from accord.inference.results import SearchSettings

_FACTS = "distil.json"
_STRANGE = ("manifest.json", "experiment.yaml", NAME)  # of a run, a store, an export


@dataclass(frozen=True)
class Job:
    """What is to be translated, by whom, and where the pairs go."""

    model: Path
    out: Path
    source: str
    """The language of the text."""
    to: str
    beside: str
    """The language that translations are paired with: the text's own, or the corpus's other one."""
    text: str | None = None
    """Files, as an experiment names them."""
    store: Path | None = None
    corpus: str | None = None
    """Of the store, for example en-de."""
    via: str | None = None
    """The pivot language to translate through, if any."""
    search: SearchSettings = field(default_factory=SearchSettings)
    load: LoadSettings = field(default_factory=LoadSettings)
    shard_lines: int = 65_536
    least_bigrams: float = CompleteFilters().distinct_bigrams
    """Translations with a smaller share of different neighbours loop, and are dropped."""

    @property
    def languages(self) -> tuple[str, str]:
        """Of the pairs that are made."""
        return self.beside, self.to

    def results(self) -> list[Path]:
        """The files that an experiment names as `results/pair.{lang}`."""
        return [self.out / f"{self.beside}-{self.to}.{language}" for language in self.languages]

    def shard(self, number: int) -> Path:
        """The file of a shard."""
        return self.out / "shards" / f"{number:08d}.tsv"

    def wanted(self) -> dict[str, Any]:
        """All that the result follows from, as plain data."""
        return {
            "weights": _weights(self.model, self.load),
            "precision": self.load.precision,
            "from": self.source,
            "to": self.to,
            "pair with": self.beside,
            "via": self.via,
            "input": _input_facts(self),
            **asdict(self.search),
            "lines of a shard": self.shard_lines,
            "distinct bigrams": self.least_bigrams,
        }


def check(job: Job) -> None:
    """Refuse a job whose languages or inputs contradict each other."""
    if job.beside == job.to or job.source == job.to:
        raise AccordError(
            f"a translation from {job.source} into {job.to}, paired with {job.beside}, was asked "
            "for",
            fix="translate into a language that neither the text nor its other side is in",
        )
    if (job.text is None) == (job.store is None) or (job.store is None) != (job.corpus is None):
        raise AccordError(
            "either a text or a corpus of a store is to be translated",
            fix="give --text 'corpus.{lang}', or --store STORE and --corpus en-de",
        )


def refuse_strange(job: Job) -> None:
    """Results are no part of a run, a store or an export, and overwrite nobody's text."""
    if (job.out / _FACTS).exists():
        return
    for path in (*(job.out / name for name in _STRANGE), *job.results()):
        if path.exists():
            raise AccordError(
                f"there is something else here already: {path.name}",
                where=str(job.out),
                fix="choose a directory of its own: --out DIR",
            )


def _weights(model: Path, load: LoadSettings) -> str:
    """A checksum of the weights that translate: they may change while a run is being trained."""
    if is_exported(model):
        return sha256_of(model / NAME)
    from accord.models.checkpoint import find_checkpoint  # PyTorch, which an export does without

    return str(find_checkpoint(model, load.checkpoint).state["files"]["model.safetensors"])


def _input_facts(job: Job) -> Any:
    if job.store is not None:
        return [Store(job.store).manifest["fingerprint"], job.corpus]
    files = source_files(job.text or "", sorted({job.source, job.beside}))
    return [[str(path), *stamp_of(path)] for path in files]


def _facts_file(job: Job) -> Path:
    return job.out / _FACTS


def read_facts(job: Job, wanted: dict[str, Any], begun: bool) -> dict[str, Any]:
    """What is known of earlier commands here; other ones than this are refused.

    One that had not `begun`, since something was wrong with it, is nothing to go by.
    """
    file = _facts_file(job)
    anew = "choose another --out, or delete this one to begin anew"
    if not file.exists():
        return {}
    with reading_errors(file):
        text = file.read_text(encoding="utf-8")
    try:
        known = json.loads(text)
        whole = bool(known == sealed(known))
    except (ValueError, TypeError, AttributeError, RecursionError):
        whole = False
    if not whole:
        raise AccordError("the account is damaged", where=str(file), fix=anew)
    plain = json.loads(json.dumps(wanted))
    changes = [
        f"{key}: {known['wanted'].get(key)}, now {plain[key]}"
        for key in plain
        if known["wanted"].get(key) != plain[key]
    ]
    if changes and not begun and "account" not in known:
        return {}
    if changes:
        raise AccordError(
            "other translations were begun here:\n  " + "\n  ".join(changes),
            where=str(job.out),
            fix=f"undo the change, {anew}",
        )
    for path in job.results() if "account" in known else ():
        if not path.is_file() or sha256_of(path) != known["files"][path.name]:
            raise AccordError("the file is not what was written", where=str(path), fix=anew)
    return dict(known)


def write_facts(job: Job, facts: dict[str, Any]) -> None:
    """Write the account of this job, in place of the one before."""
    with atomic_write(_facts_file(job)) as out:
        json.dump(sealed(facts), out, indent=1, ensure_ascii=False)
