"""The model in a process of its own, so that what it computes never halts the event loop.

In one process the search and the event loop take turns at Python's lock: after each of its system
calls the loop waits for up to five milliseconds, and in a crowd every client waits for seconds.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from accord.errors import AccordError
from accord.graph import Direction, TranslationGraph
from accord.inference.alignments import Subwords
from accord.inference.model_card import Background
from accord.inference.results import SearchSettings, Translation
from accord.serving.opened_model import Opened
from accord.serving.settings import STOP_GRACE

_ENDING = (signal.SIGINT, signal.SIGTERM)


class TranslationError(Exception):
    """A translation failed; the words are the traceback from the model's process."""


@dataclass(frozen=True)
class _Ready:
    """What the process says of its model once it is open."""

    graph: TranslationGraph
    vocabulary: Subwords
    needs_source: bool
    directions: frozenset[Direction] | None
    about: Mapping[str, str | int | None]
    background: Background


class ModelProcess:
    """A process that holds a model, and the pipe to it; only one thread translates."""

    def __init__(self, process: BaseProcess, pipe: Connection, ready: _Ready) -> None:
        self.graph = ready.graph
        self.vocabulary = ready.vocabulary
        self.needs_source = ready.needs_source
        self.directions = ready.directions
        self._process = process
        self._pipe = pipe

    def translate(
        self,
        texts: Sequence[str],
        to: str,
        *,
        source: str | None = None,
        via: Sequence[str] | None = None,
        settings: SearchSettings = SearchSettings(),  # noqa: B008 (frozen)
    ) -> list[Translation]:
        """Translations in the order of the texts."""
        self._pipe.send((texts, to, source, via, settings))
        answer: list[Translation] | str = self._pipe.recv()
        if isinstance(answer, str):
            raise TranslationError(answer)
        return answer

    def wait(self) -> None:
        """Return when the process has ended."""
        wait([self._process.sentinel])

    def close(self) -> int | None:
        """End the process; returns its exit code if it had ended before."""
        code = self._process.exitcode
        self._pipe.close()
        self._process.join(STOP_GRACE)
        self._process.kill()
        return code


def open_in_process(open_model: Callable[[], Opened]) -> Opened:
    """Open a model in a process of its own, which ends when this one does.

    A worker must call it before it has threads: it is a fork of a process that has imported all
    that a model takes (see `Supervisor`), and forks once more.
    """
    alone = multiprocessing.parent_process() is None
    context = multiprocessing.get_context("spawn" if alone else "fork")
    pipe, theirs = multiprocessing.Pipe()
    process: BaseProcess = context.Process(  # type: ignore[attr-defined]
        target=_work, args=(open_model, theirs, pipe), name="accord-model"
    )
    start_shielded(process)
    theirs.close()
    try:
        word: _Ready | AccordError = pipe.recv()
    except EOFError:
        process.join()
        raise AccordError(
            f"the model's process ended with code {process.exitcode} before it could translate",
            fix="see what it wrote above; -9 often means that memory ran out",
        ) from None
    except BaseException:
        process.kill()
        raise
    if isinstance(word, AccordError):
        process.join()
        raise word
    made = ModelProcess(process, pipe, word)
    return Opened(made, word.about, made, word.background)


def _end_with_parent() -> None:
    """End at once where nobody is left to translate for, in the middle of a batch as well."""
    if parent := multiprocessing.parent_process():
        parent.join()
    os._exit(1)


def start_shielded(process: BaseProcess) -> None:
    """Start a process that signals to end do not reach: whoever started it tells it to end.

    Ctrl-C goes to all processes of a terminal, a service manager's SIGTERM to all of the service. A
    process begins with those signals blocked that are blocked where it is started.
    """
    resource_tracker.ensure_running()  # else it is started on the way, and unblocks signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(open_model: Callable[[], Opened], pipe: Connection, other_end: Connection) -> None:
    """What the process does, until the other end of the pipe is closed."""
    other_end.close()  # else it would never be while this process has it, too
    threading.Thread(target=_end_with_parent, name="accord-parent", daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        try:
            opened = open_model()
        except AccordError as error:
            pipe.send(error)
            return
        translator = opened.translator
        pipe.send(
            _Ready(
                translator.graph,
                translator.vocabulary,
                translator.needs_source,
                translator.directions,
                opened.about,
                opened.background,
            )
        )
        while True:
            texts, to, source, via, settings = pipe.recv()
            try:
                answer: object = translator.translate(
                    texts, to, source=source, via=via, settings=settings
                )
            except Exception:  # noqa: BLE001  # the process must outlive any failure
                answer = traceback.format_exc()
            pipe.send(answer)
