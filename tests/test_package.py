"""What `import accord` offers, and what it costs."""

import subprocess
import sys

import pytest

import accord


def test_importing_the_package_imports_nothing_heavy():
    code = (
        "import sys, accord\n"
        "heavy = {'torch', 'numpy', 'pydantic', 'sentencepiece', 'accord.inference.translator'}\n"
        "assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()\n"
        "from accord import Translator\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_name_is_there():
    for name in accord.__all__:
        assert getattr(accord, name) is not None
        assert name in dir(accord)
    with pytest.raises(AttributeError, match="no attribute 'Tranlsator'"):
        _ = accord.Tranlsator
