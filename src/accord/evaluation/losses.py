"""How likely the model finds given translations: summed over sets of sentences."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accord.progress import Progress

if TYPE_CHECKING:
    from accord.translator import Translator


@dataclass(frozen=True)
class Given:
    """Sentences and the translations whose likelihood is asked for."""

    sources: tuple[str, ...]
    translations: tuple[str, ...]
    target: str


@dataclass(frozen=True)
class Loss:
    """Negative log-likelihood in nats, and the subwords (with ends of sentence) it is over."""

    nats: float
    tokens: int

    @property
    def per_token(self) -> float:
        """Nats a subword."""
        return self.nats / max(self.tokens, 1)


def losses(
    translator: "Translator", asked: Sequence[Given], progress: Progress, what: str
) -> list[Loss]:
    """The loss of each set; all sets of a target language go through the model together."""
    by_target: defaultdict[str, list[int]] = defaultdict(list)
    for index, given in enumerate(asked):
        by_target[given.target].append(index)
    progress.start(what, sum(len(given.sources) for given in asked))
    found: dict[int, Loss] = {}
    done = 0
    for target, indices in by_target.items():
        sources = [text for i in indices for text in asked[i].sources]
        translations = [text for i in indices for text in asked[i].translations]
        rows = iter(translator.cross_entropy(sources, translations, target))
        for i in indices:
            some = [next(rows) for _ in asked[i].sources]
            found[i] = Loss(sum(nats for nats, _ in some), sum(tokens for _, tokens in some))
        done += len(sources)
        progress.reach(done, f"into {target}")
    return [found[i] for i in range(len(asked))]
