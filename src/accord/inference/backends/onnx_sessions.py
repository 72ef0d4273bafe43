"""The two graphs of an exported model, loaded into ONNX Runtime."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from accord.errors import AccordError
from accord.machine import some_cores

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Arrays = Mapping[str, npt.NDArray[Any]]
# Arrays that stay with the runtime between two steps.
Values = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """What a step says of each of R hypotheses.

    The likeliest next tokens with their log P, the likeliest first; log P of the end; the source
    position with most attention.
    """

    log_p_RC: Floats
    next_RC: Ints
    end_R: Floats
    seen_R: Ints


class Sessions:
    """An encoder and a decoder step. `memory` has a row a sentence, `state` one a hypothesis."""

    def __init__(
        self, encoder: Path | bytes, decoder: Path | bytes, *, threads: int | None = None
    ) -> None:
        self._onnx = runtime()
        self.threads = threads or some_cores()
        self._encoder, self._decoder = self._session(encoder), self._session(decoder)
        self._given = [output.name for output in self._encoder.get_outputs()]
        self._left = [output.name for output in self._decoder.get_outputs()]
        [shape] = [x.shape for x in self._decoder.get_inputs() if x.name == "penalty"]
        self.vocabulary_size: int = shape[1]

    def encode(self, source_BS: Ints, lengths_B: Ints) -> tuple[Values, Values]:
        """The memory of a batch, and the state before its first step: one row a sentence."""
        feed: Arrays = {"source": source_BS, "lengths": lengths_B.astype(np.int32)}
        found = self._encoder.run_with_ort_values(self._given, self._held(feed))
        values = dict(zip(self._given, found, strict=True))
        memory = {name: value for name, value in values.items() if name.startswith("memory.")}
        return memory, {name: values[name] for name in values.keys() - memory.keys()}

    def step(
        self,
        memory: Values,
        state: Values,
        token_R: Ints,
        parent_R: Ints,
        penalty_RV: Floats,
        count: int,
    ) -> tuple[Step, Values]:
        """Read a token with each hypothesis, which goes on from the row `parent_R` of the state.

        There are as many hypotheses for each sentence of the memory. The penalty, of one row or of
        R, is added to log P before the `count` likeliest tokens are looked for.
        """
        feed: Arrays = {
            "token": token_R,
            "parent": parent_R,
            "penalty": penalty_RV,
            "count": np.array([count], dtype=np.int64),
        }
        given = self._held(feed) | memory | state
        found = self._decoder.run_with_ort_values(self._left, given)
        values = dict(zip(self._left, found, strict=True))
        after = {
            name.replace("after.", "state."): value
            for name, value in values.items()
            if name.startswith("after.")
        }
        said = (values[name].numpy() for name in ("log_p", "next", "end", "seen"))
        return Step(*said), after

    def select(self, memory: Values, sentences_N: Ints) -> Values:
        """The memory of some of the sentences."""
        return self._held({name: value.numpy()[sentences_N] for name, value in memory.items()})

    def _held(self, arrays: Arrays) -> Values:
        hold = self._onnx.OrtValue.ortvalue_from_numpy
        return {name: hold(np.ascontiguousarray(array)) for name, array in arrays.items()}

    def _session(self, model: Path | bytes) -> Any:
        options = self._onnx.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        # Waiting threads are to sleep: on a busy machine, threads that spin take it from others.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # A plan of memory for every shape: of no use here, since hardly two steps have the same.
        options.enable_mem_pattern = False
        options.log_severity_level = 3
        source = model if isinstance(model, bytes) else str(model)
        return self._onnx.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def runtime() -> Any:
    """The package onnxruntime, or an error that says how to get it."""
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError:
        raise AccordError(
            "an exported model needs the package onnxruntime",
            fix="pip install 'accord[export]', or onnxruntime alone",
        ) from None
    return onnxruntime
