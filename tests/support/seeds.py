"""Moves the random seeds of the tests, all by the same number: ``EDGEVEIL_TEST_SEED=1 scripts/test`` is another draw,
and hypothesis then draws at random; without it, its examples are the same in each run.

A test that needs one draw for its own sake, or the same one in two processes, seeds with a list (``default_rng([5])``),
which is left as it is.
"""

import os
import sys
from pathlib import Path

import numpy as np
from hypothesis import settings

MOVED_BY = int(os.environ.get("EDGEVEIL_TEST_SEED", "0"))
_TESTS = str(Path(__file__).resolve().parents[1]) + os.sep
_default_rng = np.random.default_rng


def seed(number=0):
    """The seed to take where ``number`` is written: for recipes, Keras, ``random.Random``."""
    return number + MOVED_BY


def move():
    """``np.random.default_rng(number)`` in a file of the tests takes ``seed(number)`` from now on; elsewhere nothing
    changes."""
    settings.register_profile("seeded", derandomize=not MOVED_BY)
    settings.load_profile("seeded")
    if MOVED_BY:
        np.random.default_rng = _moved


def _moved(number=None):
    by_a_test = sys._getframe(1).f_code.co_filename.startswith(_TESTS)
    return _default_rng(seed(number) if by_a_test and isinstance(number, (int, np.integer)) else number)
