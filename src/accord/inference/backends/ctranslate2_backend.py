"""The CTranslate2 backend: an exported Transformer, searched by CTranslate2 itself.

Its greedy search is ours. Its beam search keeps and ends hypotheses by other rules than ours: it
stops when as many have ended as the beam is wide, not when no better one can follow. What it finds
is scored and ranked here, by our length penalty.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from accord.data.vocabulary import EOS, PAD
from accord.errors import AccordError
from accord.inference.backends.base import Backend, LoadSettings
from accord.inference.backends.exported_files import loading, read_vocabulary
from accord.inference.backends.manifest import Manifest
from accord.inference.backtrace import Found
from accord.inference.results import SearchSettings, Translation, length_penalty
from accord.inference.text import (
    Decoder,
    Search,
    fitting_on_cpu,
    mended,
    most_tokens,
    source_rows,
)
from accord.machine import some_cores

POSITIONS = 2048
"""As many have encodings in an exported model; the default window needs a quarter of them."""

# At once, as with ONNX: so much memory, and no more.
_HYPOTHESES = 128
# In one piece when translations are scored: log-probabilities of a whole vocabulary for each.
_SCORED_TOKENS = 1024
# Where all that may be said is used up, CTranslate2 says what it may not, with the least of floats.
_NEVER = -1e9

# Of its length ^ a' to our ((5 + length) / 6) ^ a: a' = 0.8 a has the same slope at 20 tokens.
_ALPHA_RATIO = 0.8

Row = Sequence[int]


class CTranslate2Engine:
    """A model in CTranslate2. It knows tokens by their names, which are `pieces`."""

    def __init__(self, directory: Path, pieces: Sequence[str], threads: int | None = None) -> None:
        self._pieces = pieces
        self._ids = {piece: i for i, piece in enumerate(pieces)}
        self._translator = runtime().Translator(
            str(directory), device="cpu", intra_threads=threads or some_cores()
        )

    def search(self, settings: SearchSettings, forbidden: Sequence[int]) -> Search:
        """A search that never generates the forbidden ids."""
        return CTranslate2Search(self, settings, forbidden)

    def fitting(self, longest: int, settings: SearchSettings) -> int:
        """How many rows to search at once."""
        return fitting_on_cpu(longest, settings.batch_tokens, settings.beam, _HYPOTHESES)

    def translate(self, rows: Sequence[Row], **options: Any) -> list[Any]:
        """CTranslate2's own answers, ends of sentences included where there are some."""
        found: list[Any] = self._translator.translate_batch(
            self._named(rows),
            max_input_length=0,
            min_decoding_length=0,
            return_end_token=True,
            return_scores=True,
            return_attention=True,
            **options,
        )
        return found

    def log_probabilities(self, rows: Sequence[Row], targets: Sequence[Row]) -> list[float]:
        """log P of each target with its end, which is not among its ids, in nats."""
        longest = max((len(row) + 1 for row in (*rows, *targets)), default=0)
        if longest > POSITIONS:
            raise AccordError(
                f"a model exported to ctranslate2 has {POSITIONS:,} positions, too few for a text "
                f"of {longest:,} subwords",
                fix="use the run that it was exported from",
            )
        found = self._translator.score_batch(
            self._named(rows),
            self._named(targets),
            max_input_length=0,
            max_batch_size=_SCORED_TOKENS,
            batch_type="tokens",
        )
        return [float(sum(each.log_probs)) for each in found]

    def ids(self, tokens: Sequence[str]) -> tuple[int, ...]:
        """The ids of named tokens."""
        return tuple(self._ids[token] for token in tokens)

    def _named(self, rows: Sequence[Row]) -> list[list[str]]:
        return [[self._pieces[i] for i in row] for row in rows]

    def names(self, ids: Row) -> list[list[str]]:
        """Each token as a sequence of its own."""
        return self._named([[i] for i in ids])


@dataclass(frozen=True)
class _Draft:
    """A hypothesis with CTranslate2's log P, which is not ours unless `exact`."""

    ids: tuple[int, ...]
    alignment: tuple[int, ...]
    log_p: float
    whole: bool
    """Whether it ended by itself, and not at its limit."""
    exact: bool


class CTranslate2Search:
    """A search with fixed settings, in which the forbidden ids are never generated."""

    def __init__(
        self, engine: CTranslate2Engine, settings: SearchSettings, forbidden: Sequence[int]
    ) -> None:
        self._engine = engine
        self._settings = settings
        # Scores are log P / length ^ alpha there. It decides which are handed over, nothing more.
        self._alpha = _ALPHA_RATIO * settings.length_penalty if settings.beam > 1 else 0.0
        # Short lists are faster than to forbid one by one what the target language lacks.
        listed = settings.vocabulary == "target"
        self._options = {
            "beam_size": settings.beam,
            "num_hypotheses": settings.beam,
            "length_penalty": self._alpha,
            "no_repeat_ngram_size": settings.no_repeat_ngram,
            "use_vmap": listed,
            "disable_unk": True,
            "suppress_sequences": [] if listed else engine.names([*forbidden, PAD]),
        }
        # CTranslate2 shares out the probability of what it may not say among the rest. That of
        # tags, padding and the unknown is next to nothing in a trained model; that of other
        # languages' subwords and of repetitions is not.
        self._exact = not listed and not settings.no_repeat_ngram

    def __call__(
        self,
        rows: Sequence[Row],
        limits: Sequence[int] | None = None,
        *,
        language: int | None = None,
    ) -> list[list[Found]]:
        """The best hypotheses of each row, best first, of at most `limits` tokens.

        There are `nbest`, but up to `beam` where more than one is asked for, since some may read
        the same. `language` is not read: no export holds a model that does.
        """
        limits = limits or [most_tokens(len(row)) for row in rows]
        self._check_positions(max(*map(len, rows), max(limits) + 1))
        # One more: the end.
        answers = self._engine.translate(rows, max_decoding_length=max(limits) + 1, **self._options)
        firsts = self._first_attention(rows)
        drafts = [self._drafts(*each) for each in zip(answers, limits, firsts, strict=True)]
        return self._scored(rows, drafts)

    def _first_attention(self, rows: Sequence[Row]) -> list[list[list[float]]]:
        """The attention of each row's first token, where the search's own answer is not right.

        In a beam, CTranslate2 4.8 gives row i the first attention of row i / beam (integer
        division); later ones are right. All hypotheses of a row begin alike, so one step tells.
        """
        if self._settings.beam == 1 or len(rows) == 1:
            return [[] for _ in rows]
        firsts = self._engine.translate(rows, beam_size=1, max_decoding_length=1)
        return [answer.attention[0] for answer in firsts]

    def _drafts(self, answer: Any, limit: int, first: list[list[float]]) -> list[_Draft]:
        """What was found for a row, the best first; at a limit nothing but the end may follow."""
        drafts = []
        for tokens, score, attention in zip(
            answer.hypotheses, answer.scores, answer.attention, strict=True
        ):
            log_p = score * len(tokens) ** self._alpha
            if log_p > _NEVER:
                ids = self._engine.ids(tokens)
                # A batch has one limit, a row its own.
                ended = ids[-1] == EOS
                kept = (ids[:-1] if ended else ids)[:limit]
                whole = ended and len(kept) == len(ids) - 1
                places = (first + attention[len(first) :])[: len(kept)]
                seen = tuple(int(np.argmax(weights)) for weights in places)
                drafts.append(_Draft(kept, seen, log_p, whole, whole and self._exact))
        # The log P of those that were cut lacks the end.
        drafts.sort(key=lambda draft: (not draft.whole, -self._score(draft.ids, draft.log_p)))
        return drafts[: 1 if self._settings.nbest == 1 else None]

    def _scored(self, rows: Sequence[Row], drafts: Sequence[list[_Draft]]) -> list[list[Found]]:
        """The same with our log P and score, the best first."""
        again = [
            (row, draft.ids)
            for row, of_row in zip(rows, drafts, strict=True)
            for draft in of_row
            if not draft.exact
        ]
        anew = iter(self._engine.log_probabilities(*zip(*again, strict=True)) if again else ())
        return [
            sorted(
                (
                    self._found(draft, draft.log_p if draft.exact else next(anew))
                    for draft in of_row
                ),
                key=lambda found: -found.score,
            )
            for of_row in drafts
        ]

    def _found(self, draft: _Draft, log_p: float) -> Found:
        return Found(draft.ids, draft.alignment, log_p, self._score(draft.ids, log_p))

    def _score(self, ids: Row, log_p: float) -> float:
        return log_p / length_penalty(len(ids) + 1.0, self._settings.length_penalty)

    def _check_positions(self, length: int) -> None:
        if length > POSITIONS:
            raise AccordError(
                f"a window of {self._settings.window} subwords asks for {length:,} positions; "
                f"a model exported to ctranslate2 has {POSITIONS:,}",
                fix=f"take a window of at most {(POSITIONS - 51) // 2}, or use the run itself",
            )


class CTranslate2Backend(Backend):
    """A model in CTranslate2, with its vocabulary and graph. No ensembles."""

    def __init__(self, directory: Path, manifest: Manifest, settings: LoadSettings) -> None:
        settings.check_exported(directory)
        runtime()
        self.graph = manifest.graph
        self.vocabulary, counts = read_vocabulary(directory, manifest)
        for name in ("model.bin", "config.json", "shared_vocabulary.json", "vmap.txt"):
            manifest.file(directory, name)
        with loading(directory):
            self._engine = CTranslate2Engine(
                directory, self.vocabulary.pieces(), threads=settings.threads
            )
        self.decoder = Decoder(self._engine, self.vocabulary, counts.__getitem__)

    def translate(
        self,
        texts: Sequence[str],
        to: str,
        settings: SearchSettings,
        source: str | None = None,
    ) -> list[Translation]:
        """Direct translations, by CTranslate2's search."""
        return self.decoder.translate(texts, to, settings, source)

    def cross_entropy(
        self, sources: Sequence[str], references: Sequence[str], to: str, source: str | None = None
    ) -> list[tuple[float, int]]:
        """-log P of each reference in nats, and its number of tokens; both include its end."""
        rows = source_rows(self.vocabulary, [mended(text) for text in sources], to)
        targets = self.vocabulary.encode([mended(text) for text in references])
        found = self._engine.log_probabilities(rows, targets)
        return [(-log_p, len(ids) + 1) for log_p, ids in zip(found, targets, strict=True)]


def runtime() -> Any:
    """The package ctranslate2, or an error that says how to get it."""
    try:
        import ctranslate2
    except ImportError:
        raise AccordError(
            "an exported model needs the package ctranslate2",
            fix="pip install 'accord[ct2]', or ctranslate2 alone",
        ) from None
    return ctranslate2
