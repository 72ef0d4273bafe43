"""Work for processes that the tests start: it must be found by name in them."""

import os
import signal
import time
from pathlib import Path


def blocked(_, report):
    report(1)
    return signal.pthread_sigmask(signal.SIG_BLOCK, ())


def die(_, report):
    report(1)
    os.kill(os.getpid(), signal.SIGKILL)


def linger(_, report):
    for step in range(400):
        report(step)
        time.sleep(0.05)


def sleep_deaf(folder, _):
    """Hears no sign to stop, as a long step in C would not."""
    (Path(folder) / f"{os.getpid()}").touch()
    time.sleep(60)
