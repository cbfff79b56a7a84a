"""Ctrl-C while TensorFlow works: one waits for the end of the step, two do not."""

import os
import signal
import threading

import pytest

from edgeveil.trainer.interrupts import WAITS, whole_steps


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_one_ends_after_the_step(capfd):
    before, done = signal.getsignal(signal.SIGINT), []

    def work():
        with whole_steps() as check:
            for step in (1, 2, 3):
                if step == 2:
                    press()
                done.append(step)
                check()

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [1, 2]
    assert WAITS in capfd.readouterr().err
    assert signal.getsignal(signal.SIGINT) is before


def test_the_second_one_ends_at_once():
    done = []

    def work():
        with whole_steps():
            press()
            press()
            done.append("step")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == []


def test_one_in_the_last_step_is_not_forgotten():
    with pytest.raises(KeyboardInterrupt), whole_steps():
        press()


def test_an_error_of_the_step_is_what_is_raised():
    def work():
        with whole_steps():
            press()
            raise ValueError("step")

    with pytest.raises(ValueError, match="step"):
        work()


def test_a_thread_leaves_the_handler_alone():
    seen = []

    def work():
        with whole_steps() as check:
            check()
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
