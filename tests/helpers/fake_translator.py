"""A model without a model: languages whose words are numbered, and errors made on purpose."""

import zlib
from pathlib import Path
from types import SimpleNamespace

from accord.data.store import HeldOutSets
from accord.evaluation.records import Origin
from accord.graph import Direction, TranslationGraph


def numbered(language: str, line: int, length: int = 6) -> str:
    """Line `line` of a language: `de4 de9 de14 ...`, the same numbers in every language."""
    return " ".join(f"{language}{(line * 7 + place * 5) % 97}" for place in range(length))


class FakeTranslator:
    """Replaces each word by the target's; zero-shot directions lose a word in some sentences."""

    needs_source = False
    directions = None
    has_likelihood = True
    reads_search_settings = True

    def __init__(self, graph, wrong=lambda text, source, to: False):
        self.graph = graph
        self.wrong = wrong
        self.calls = []
        self.asked = []
        self.together = []

    def translate(self, texts, to, *, source=None, via=None, settings=None):
        self.calls.append((to, tuple(via or ()), list(texts), settings))
        steps = [*(via or ()), to]
        found = list(texts)
        for step in steps:
            found = [self._one(text, step) for text in found]
        return [SimpleNamespace(text=text) for text in found]

    def translate_together(self, sources, to, *, languages, weights, settings):
        """The longest of the translations: a word that one source loses another may have kept."""
        self.together.append((to, [list(texts) for texts in sources], weights, settings))
        rows = zip(*sources, strict=True)
        said = [max((self._one(text, to) for text in row), key=len) for row in rows]
        return [SimpleNamespace(text=text) for text in said]

    def _one(self, text, to):
        words = text.split()
        source = words[0][:2]
        if self.wrong(text, source, to):
            words = words[:-1]
        return " ".join(to + word[2:] for word in words)

    def cross_entropy(self, sources, references, to, source=None):
        """One nat a token, three where there is no data; a token a word and one for the end."""
        self.asked.append((to, len(sources)))
        found = []
        for source, reference in zip(sources, references, strict=True):
            tokens = len(reference.split()) + 1
            cost = 1.0 if self.graph.is_supervised(source[:2], to) else 3.0
            found.append((cost * tokens, tokens))
        return found


def loses_words(graph, rate: int = 3):
    """Directions without data lose a word in every `rate`-th sentence or so."""

    def wrong(text, source, to):
        known = graph.is_supervised(source, to)
        return not known and zlib.crc32(f"{text} {to}".encode()) % rate == 0

    return wrong


def star(*languages: str) -> TranslationGraph:
    """All languages tied to the first."""
    first, *others = languages
    both = {Direction(first, x) for x in others} | {Direction(x, first) for x in others}
    return TranslationGraph(tuple(languages), frozenset(both))


class Tools:
    """All of the above, and a way to write held-out sets below a directory."""

    star = staticmethod(star)
    translator = FakeTranslator
    loses_words = staticmethod(loses_words)
    numbered = staticmethod(numbered)
    origin = Origin("toy", "best", 400, "05c46000a24ba6ae", "cpu", "fp32")

    def __init__(self, directory: Path):
        self.directory = directory / "held_out"

    def held_out(self, sets, split="test"):
        """Sets of (name, languages, numbers of lines)."""
        entries = []
        for name, languages, lines in sets:
            folder = self.directory / split
            folder.mkdir(parents=True, exist_ok=True)
            for language in languages:
                text = "".join(f"{numbered(language, line)}\n" for line in lines)
                (folder / f"{name}.{language}.txt").write_text(text, "utf-8")
            entries.append({"name": name, "languages": list(languages)})
        return HeldOutSets({split: entries}, self.directory)
