"""What is worth keeping of runs in one archive: all but checkpoints and data.

Unpacked (`tar xzf results.tar.gz`, or `cat results.tar.gz.* | tar xz`), the runs can be reported
on and compared; they cannot be translated with. Test sets, the same in every evaluation,
are stored once: the others are hard links.
"""

import hashlib
import io
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path

# Names with a dot in front are of evaluations that are being written.
KEPT = (
    "experiment.yaml",
    "environment.json",
    "manifest.json",
    "metrics.jsonl",
    "evaluation/[!.]*/*",
)


def pack(runs: Iterable[Path], others: Sequence[Path], to: Path, volume: int | None = None) -> None:
    """Write the archive; where a `volume` (bytes) is given, cut into TO.00, TO.01 and so on.

    An earlier one is replaced by renaming alone, since the process may be killed at any time.
    """
    files = [(f"{run.name}/{path.relative_to(run)}", path) for run in runs for path in _kept(run)]
    packed = _archive([*files, *((path.name, path) for path in others)])
    parts = {to: packed}
    if volume is not None:
        starts = enumerate(range(0, len(packed), volume))
        parts = {
            to.with_name(f"{to.name}.{number:02d}"): packed[start : start + volume]
            for number, start in starts
        }
    to.parent.mkdir(parents=True, exist_ok=True)
    for path, part in parts.items():
        _fresh(path).write_bytes(part)
    for path in parts:
        _fresh(path).replace(path)


def _kept(run: Path) -> list[Path]:
    return [path for pattern in KEPT for path in sorted(run.glob(pattern)) if path.is_file()]


def _archive(files: Iterable[tuple[str, Path]]) -> bytes:
    buffer, seen = io.BytesIO(), dict[str, str]()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as archive:
        for name, path in files:
            data = path.read_bytes()  # at once: a log may grow meanwhile
            info = tarfile.TarInfo(name)
            info.mtime = path.stat().st_mtime
            first = seen.setdefault(hashlib.sha256(data).hexdigest(), name)
            if first == name:
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
            else:
                info.type, info.linkname = tarfile.LNKTYPE, first
                archive.addfile(info)
    return buffer.getvalue()


def _fresh(path: Path) -> Path:
    return path.with_name(f".{path.name}")
