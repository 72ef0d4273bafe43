"""Where a benchmark ran: commit, hardware, versions, date."""

import datetime
import platform

from accord.machine import commit


def where() -> str:
    """One line about the device that torch uses."""
    import torch

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    return f"{name}, torch {torch.__version__}, commit {commit()}, {datetime.date.today()}"
