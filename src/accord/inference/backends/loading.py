"""Loading a model: the backend is that of an export's format, or of the kind of model of a run."""

from collections.abc import Callable
from pathlib import Path

from accord.errors import AccordError
from accord.inference.backends.base import Backend, LoadSettings
from accord.inference.backends.combined_backend import CombinedBackend, is_combined
from accord.inference.backends.ctranslate2_backend import CTranslate2Backend
from accord.inference.backends.manifest import NAME, Manifest, format_name, is_exported
from accord.inference.backends.onnx_backend import OnnxBackend
from accord.inference.backends.phrase_backend import PhraseBackend
from accord.run_directory import RunDirectory

# What translates from each format that `accord export` writes.
BACKENDS: dict[str, Callable[[Path, Manifest, LoadSettings], Backend]] = {
    "onnx": OnnxBackend,
    "ctranslate2": CTranslate2Backend,
}

# What translates with runs whose `model.kind` is none of PyTorch's.
RUN_BACKENDS: dict[str, Callable[[Path, LoadSettings], Backend]] = {
    "phrase-based": PhraseBackend,
}

_DEFAULT = LoadSettings()


def load_run(path: Path, settings: LoadSettings = _DEFAULT) -> Backend:
    """The model of a run directory, or those of several that `accord combine` put together."""
    if is_combined(path):
        return CombinedBackend(path, settings, load_run)
    kind = RunDirectory(path).experiment().model.kind  # says so if this is no run directory
    if kind in RUN_BACKENDS:
        return RUN_BACKENDS[kind](path, settings)
    # Seconds of PyTorch, which only such a run needs.
    from accord.inference.backends.torch_backend import TorchBackend

    return TorchBackend.load(path, settings)


def load_backend(path: Path, settings: LoadSettings = _DEFAULT) -> Backend:
    """The model in a run directory, or in what `accord export` made of one."""
    if not is_exported(path):
        return load_run(path, settings)
    found = format_name(path)  # before the rest: another format may say other things
    if found not in BACKENDS:
        raise AccordError(
            f"this was exported in another format: {found}",
            where=f"{path / NAME}, key format",
            fix=f"this version knows {', '.join(BACKENDS)}; export the run again, or use the "
            "version of Accord that wrote it",
        )
    return BACKENDS[found](path, Manifest.read(path), settings)
