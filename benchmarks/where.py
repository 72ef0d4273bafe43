"""Where a benchmark ran: commit, hardware, versions, date."""

import datetime
import platform
import subprocess
from pathlib import Path


def commit() -> str:
    """The commit of this checkout, marked if files differ from it; empty outside one."""
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip()


def where() -> str:
    """One line about the device that torch uses."""
    import torch

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    return f"{name}, torch {torch.__version__}, commit {commit()}, {datetime.date.today()}"
