"""The journal of a study, study.json: what its runs do not tell themselves about their training."""

import json
import threading
from pathlib import Path

from accord.errors import AccordError
from accord.evaluation.folder import write_json
from accord.files import sealed


class Journal:
    """How long each run has been trained, whether its time was up, and whether it shared the
    machine with others: in study.json."""

    def __init__(self, out: Path) -> None:
        self._file = out / "study.json"
        self._lock = threading.Lock()
        self._trained: dict[str, dict[str, float | bool]] = {}
        if self._file.is_file():
            try:
                found = json.loads(self._file.read_text("utf-8"))
                if found != sealed(found) and found.keys() != {"trained"}:  # of former versions
                    raise ValueError("it was altered since it was written")
                self._trained = dict(found["trained"])
            except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
                raise AccordError(
                    f"the study's journal cannot be read: {error}",
                    where=str(self._file),
                    fix="delete it: training that was ended by the clock then goes on",
                ) from None

    def seconds(self, run: str) -> float:
        """Training has had this much time."""
        return float(self._trained.get(run, {}).get("seconds", 0.0))

    def time_was_up(self, run: str) -> bool:
        """Whether training was ended by the clock, and counts as done."""
        return bool(self._trained.get(run, {}).get("time_was_up", False))

    def shared(self, run: str) -> bool | None:
        """Whether another run was trained or evaluated meanwhile; former versions do not say."""
        known = self._trained.get(run, {}).get("shared")
        return None if known is None else bool(known)

    def add(self, run: str, seconds: float, time_was_up: bool) -> None:
        """Training has had more time."""
        with self._lock:
            total, known = self.seconds(run) + seconds, self._trained.get(run, {"shared": False})
            mark = {"shared": known["shared"]} if "shared" in known else {}
            entry = {"seconds": round(total, 1), "time_was_up": time_was_up, **mark}
            self._write(run, entry)

    def share(self, run: str) -> None:
        """Another run is at work now. Written at once: training may fail or be killed, and the time
        that it took until then stands in its log all the same."""
        with self._lock:
            if not self.shared(run):
                fresh = {"seconds": 0.0, "time_was_up": False}
                self._write(run, {**self._trained.get(run, fresh), "shared": True})

    def _write(self, run: str, entry: dict[str, float | bool]) -> None:
        self._trained[run] = entry
        write_json(self._file, sealed({"format": 2, "trained": self._trained}))
