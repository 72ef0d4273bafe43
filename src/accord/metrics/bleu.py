"""Scores of translations: sacreBLEU's BLEU and chrF, and simple rates that show what BLEU hides.

Every function takes lists of equal length with at least one sentence. Rates are shares from 0 to 1,
BLEU and chrF run from 0 to 100.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from accord.errors import AccordError

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF


Counts = npt.NDArray[np.int64]

# Languages written without spaces, or whose words carry their grammar glued on, need a tokeniser of
# their own: 13a would take a whole clause for one word.
_TOKENIZERS = {
    **dict.fromkeys(("zh", "zho", "chi", "cmn"), "zh"),
    **dict.fromkeys(("ja", "jpn"), "ja-mecab"),
    **dict.fromkeys(("ko", "kor"), "ko-mecab"),
}
_LONGEST_REPEATED = 4


def tokenizer_name(language: str) -> str:
    """What sacreBLEU calls the tokeniser for text in `language`; 13a for most."""
    return _TOKENIZERS.get(language.split("_")[0], "13a")


def bleu_metric(language: str, *, lowercase: bool = False) -> "BLEU":
    """sacreBLEU's BLEU with the tokeniser of the target language."""
    from sacrebleu.metrics.bleu import BLEU

    name = tokenizer_name(language)
    try:
        # `force` silences a remark about tokenised text; it changes no number.
        return BLEU(tokenize=name, lowercase=lowercase, force=True)
    except RuntimeError as error:
        raise AccordError(
            f"BLEU into {language} needs the tokeniser {name}, which is not installed",
            fix=f"pip install 'sacrebleu[{name[:2]}]'",
        ) from error


def chrf_metric() -> "CHRF":
    """sacreBLEU's chrF2: character 6-grams, no words, cased."""
    from sacrebleu.metrics.chrf import CHRF

    return CHRF()


def statistics(metric: "Metric", hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
    """What a metric counts in each sentence; a corpus score is a function of the column sums.

    BLEU: length, length of the reference, matches of 1- to 4-grams, 1- to 4-grams.
    chrF: for 1- to 6-grams of characters those of the hypothesis, of the reference, and matches.
    """
    # sacreBLEU keeps this step private, yet without it each resampling would count all anew.
    rows = metric._extract_corpus_statistics(hypotheses, [references])
    return np.array(rows, dtype=np.int64)


def bleu(hypotheses: Sequence[str], references: Sequence[str], language: str) -> float:
    """Cased corpus BLEU of text in `language`."""
    return float(bleu_metric(language).corpus_score(hypotheses, [references]).score)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Cased corpus chrF2."""
    return float(chrf_metric().corpus_score(hypotheses, [references]).score)


@lru_cache(maxsize=8)
def _tokenizing_metric(language: str) -> "BLEU":
    return bleu_metric(language)


def tokens(text: str, language: str) -> list[str]:
    """The words that BLEU would see."""
    return str(_tokenizing_metric(language).tokenizer(text.rstrip())).split()


def length_ratio(hypotheses: Sequence[str], references: Sequence[str], language: str) -> float:
    """Tokens of all hypotheses over tokens of all references."""
    found = sum(len(tokens(text, language)) for text in hypotheses)
    return found / max(sum(len(tokens(text, language)) for text in references), 1)


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Share of hypotheses equal to their reference, white space at the ends aside."""
    pairs = zip(hypotheses, references, strict=True)
    return _share(hypothesis.strip() == reference.strip() for hypothesis, reference in pairs)


def copy_rate(sources: Sequence[str], hypotheses: Sequence[str]) -> float:
    """Share of hypotheses equal to their source, case and white space at the ends aside.

    Numbers and names rightly stay as they are, so that zero is not always to be had.
    """
    pairs = zip(sources, hypotheses, strict=True)
    return _share(
        source.strip().casefold() == hypothesis.strip().casefold() for source, hypothesis in pairs
    )


def repetition_rate(hypotheses: Sequence[str], language: str) -> float:
    """Share of hypotheses with one to four tokens said three times or more in a row.

    What is repeated must hold a letter: rows of dots and groups of digits are normal text.
    """
    return _share(is_repetitive(tokens(text, language)) for text in hypotheses)


def is_repetitive(words: Sequence[str]) -> bool:
    """Whether an n-gram (n up to 4) with a letter occurs three times in a row, in any case."""
    words = [word.casefold() for word in words]
    for size in range(1, _LONGEST_REPEATED + 1):
        run = 0  # so many words in a row are the same as `size` places before
        for place in range(size, len(words)):
            run = run + 1 if words[place] == words[place - size] else 0
            if run >= 2 * size and any(map(_has_letter, words[place - size : place])):
                return True
    return False


def _has_letter(word: str) -> bool:
    return any(character.isalpha() for character in word)


def _share(marks: Iterable[bool]) -> float:
    seen = list(marks)
    return sum(seen) / len(seen)
