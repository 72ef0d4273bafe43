"""The subword vocabulary that all languages share: sentencepiece BPE with byte fallback."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import sentencepiece

from accord.errors import AccordError
from accord.files import read_checked

PAD = 0
EOS = 1
FIRST_TAG = 2  # the other tags follow, in the order of the languages


def tag_piece(language: str) -> str:
    """How a target-language tag is written inside the vocabulary; users never type it."""
    return f"<2{language}>"


def train(sentences: Iterable[str], languages: Sequence[str], size: int) -> bytes:
    """A sentencepiece model, bit for bit the same for the same sentences.

    Tags are control symbols: text that contains `<2de>` is never taken for one. Text is not
    normalised, so that encoding loses nothing. PAD is 0, EOS is 1, tags start at 2.
    """
    model, failures = io.BytesIO(), list[BaseException]()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_watched(sentences, failures),
            model_writer=model,
            model_type="bpe",
            vocab_size=size,
            # The rarest characters are spelled in bytes rather than given an entry each.
            character_coverage=0.9999,
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            # Longer lines would be left out without a word; cleaning.max_characters is far below.
            max_sentence_length=1_000_000,
            pad_id=PAD,
            eos_id=EOS,
            bos_id=-1,
            unk_id=FIRST_TAG + len(languages),
            control_symbols=[tag_piece(language) for language in languages],
            # The model file stores its arguments, so this must not follow the machine.
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        if failures:
            raise failures[0] from None
        raise _explained(error, size, len(languages)) from error
    return model.getvalue()


def _watched(sentences: Iterable[str], failures: list[BaseException]) -> Iterator[str]:
    """The sentences; what goes wrong here, sentencepiece would pass on as words of its own."""
    try:
        yield from sentences
    except BaseException as error:
        failures.append(error)
        raise


_FEWEST = 100  # entries for text with which a vocabulary is of any use


def _explained(error: RuntimeError, size: int, languages: int) -> AccordError:
    limit = re.search(r"value <= (\d+)", str(error))
    # Bytes, padding, end, the unknown and tags are entries, too.
    learnt = int(limit[1]) - 256 - 3 - languages if limit else 0
    if limit and learnt < _FEWEST:
        return AccordError(
            f"vocabulary.size = {size} is too large for this text, which is too small for any: "
            f"{max(0, learnt)} subwords could be learnt from it",
            where="vocabulary.size",
            fix="give more training text: thousands of lines at least",
        )
    if limit:
        return AccordError(
            f"vocabulary.size = {size} is too large for this text",
            fix=f"set vocabulary.size to at most {limit[1]}",
        )
    needed = re.search(r"required_chars|too small|vocab_size\(\).*larger", str(error))
    if needed:
        return AccordError(
            f"vocabulary.size = {size} is too small for the characters of this text",
            fix="raise vocabulary.size",
        )
    return AccordError(f"sentencepiece could not train a vocabulary: {error}")


class Vocabulary:
    """Text to ids and back; knows the tag of every language."""

    def __init__(self, model: bytes, languages: Sequence[str]) -> None:
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            size = self._processor.vocab_size()
        except RuntimeError as error:
            raise AccordError(f"this is no vocabulary: {error}") from None
        if not size:  # of no bytes, sentencepiece makes an empty one
            raise AccordError("this is no vocabulary: it has no entries")
        self.model = model
        self.languages = tuple(languages)
        self.tags = {
            language: int(self._processor.piece_to_id(tag_piece(language)))
            for language in languages
        }
        # Characters without an entry are spelled in bytes, so no text has this one.
        self.unknown = int(self._processor.unk_id())
        missing = [language for language, tag in self.tags.items() if tag == self.unknown]
        if missing:
            raise AccordError(f"the vocabulary has no tag for {', '.join(missing)}")

    @staticmethod
    def load(
        path: Path, languages: Sequence[str], sha256: str | None = None, fix: str = "copy it anew"
    ) -> "Vocabulary":
        """The vocabulary in a file that `train` made, if its checksum is the one noted."""
        model = read_checked(path, sha256, fix)
        try:
            return Vocabulary(model, languages)
        except AccordError as error:
            what = f"cannot be loaded: {error.what}"
            raise AccordError(what, where=str(path), fix=fix) from None

    def __len__(self) -> int:
        return int(self._processor.vocab_size())

    def encode(self, texts: Sequence[str], *, threads: int = 1) -> list[list[int]]:
        """Subword ids of each text, without tag and end of sentence."""
        ids: list[list[int]] = self._processor.encode(list(texts), num_threads=threads)
        return ids

    def decode(self, rows: Sequence[Sequence[int]], *, threads: int = 1) -> list[str]:
        """The text of each row of ids; tags, PAD and EOS add nothing to it."""
        texts: list[str] = self._processor.decode([list(row) for row in rows], num_threads=threads)
        return texts

    def pieces(self) -> list[str]:
        """All entries, in the order of their ids."""
        return [str(self._processor.id_to_piece(i)) for i in range(len(self))]
