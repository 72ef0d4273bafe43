"""Work in a thread: its result, its errors, and its end."""

import sys
import threading
import time

import pytest
import torch

from accord.objectives.distillation.background import Worker

CPU = torch.device("cpu")


def test_results_come_one_after_the_other():
    worker = Worker(CPU)
    for value in range(3):
        worker.start(lambda value=value: value)
        assert worker.result() == value
    with pytest.raises(ValueError, match="no work"):
        worker.result()


def test_an_error_is_raised_where_the_result_is_wanted():
    worker = Worker(CPU)
    worker.start(lambda: 1 / 0)
    time.sleep(0.01)
    with pytest.raises(ZeroDivisionError):
        worker.result()
    worker.start(lambda: "well again")
    assert worker.result() == "well again"


def test_the_thread_is_no_place_to_learn():
    worker = Worker(CPU)
    worker.start(lambda: (torch.is_grad_enabled(), threading.current_thread().name))
    assert worker.result() == (False, "pool")
    assert torch.is_grad_enabled()


def test_training_waits_for_python_code_only_briefly():
    before = sys.getswitchinterval()
    worker = Worker(CPU)
    worker.start(sys.getswitchinterval)
    assert worker.result() < before / 10
    assert sys.getswitchinterval() == before
    worker.start(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        worker.result()
    assert sys.getswitchinterval() == before


def test_work_that_nobody_wants_ends():
    worker = Worker(CPU)

    def work():
        while not worker.stopped():
            time.sleep(0.001)

    worker.start(work)
    worker.close()
    assert not any(thread.name == "pool" for thread in threading.enumerate())
