"""The quick audit with hardly any effort: all attacks and readers run, and learn next to nothing.

For tests of the way from data to a page; what attacks find is tested in tests/trainer/attacks. As a program it runs
another with such audits: ``python -m tests.support.trial.short_audit SCRIPT|-m MODULE WORDS``.
"""

import runpy
import sys
from dataclasses import replace

import pytest

from edgeveil.trainer.attacks import problem
from edgeveil.trainer.audit.sections import retained


def shorten(patch, *, epochs=2, trees=5):
    """Until ``patch``, a ``pytest.MonkeyPatch``, is undone: so many epochs of networks, and trees."""
    patch.setitem(problem.BUDGETS, "quick", replace(problem.BUDGETS["quick"], epochs=epochs, trees=trees))
    patch.setitem(retained.EFFORT, "quick", retained.Effort(rows=200, epochs=2))


def main():
    """Run the program of the command line."""
    shorten(pytest.MonkeyPatch())
    if sys.argv[1] == "-m":
        sys.argv = sys.argv[2:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = sys.argv[1:]
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
