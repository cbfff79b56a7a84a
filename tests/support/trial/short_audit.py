"""Quick trainings and audits with hardly any effort: networks, attacks and readers run, and learn next to nothing.

For tests of the way from data to a page; what attacks find is tested in tests/trainer/attacks. As a program it runs
another so, with few families: ``python -m tests.support.trial.short_audit SCRIPT|-m MODULE WORDS``.
"""

import os
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgeveil.trainer.attacks import ahead, problem
from edgeveil.trainer.attacks.families.code_counts import CodeCounts
from edgeveil.trainer.attacks.families.fixed import Fixed
from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.audit.floor import Floor
from edgeveil.trainer.audit.sections import retained
from edgeveil.trainer.graphs.prediction import compile_built
from edgeveil.trainer.recipe.schema import Recipe
from tests.support import once

FLOOR_OF = Floor.__dict__["_path"].func
FEW = (Fixed(), Logistic(), CodeCounts())


def shorten(patch, *, epochs=2, trees=5, families=None):
    """Until ``patch`` (``pytest.MonkeyPatch``) is undone: so many epochs of attacks and trees; ``families`` alone.

    All is learned in this process: another would be without the patch, and measure the whole of label-only in vain.
    """
    patch.setattr(ahead, "cores", lambda: None)
    whole = Recipe.with_budget
    patch.setattr(Recipe, "with_budget", lambda recipe, budget: _cut(whole(recipe, budget), budget))
    patch.setitem(problem.BUDGETS, "quick", replace(problem.BUDGETS["quick"], epochs=epochs, trees=trees))
    patch.setitem(retained.EFFORT, "quick", retained.Effort(rows=64, epochs=1))
    # For so few steps, to trace one takes longer than all of them.
    patch.setattr(retained, "compile_built", lambda *built, **_: compile_built(*built, run_eagerly=True))
    if once.FOLDER in os.environ:  # named by all that it depends on, so that all tests may take it
        shared = Path(os.environ[once.FOLDER])
        patch.setattr(Floor, "_path", property(lambda floor: shared / FLOOR_OF(floor).name))
    if families:
        for module in ("audit.audit", "audit.floor", "attacks.run_all"):
            patch.setattr(f"edgeveil.trainer.{module}.adversaries", lambda: families)


def _cut(recipe, budget):
    if budget == "full":
        return recipe
    most = {"classifier_epochs": 25, "epochs": 15}
    fewer = {name: min(getattr(recipe.budget, name), epochs) for name, epochs in most.items()}
    return recipe.model_copy(update={"budget": recipe.budget.model_copy(update=fewer)})


def main():
    """Run the program of the command line."""
    shorten(pytest.MonkeyPatch(), families=FEW)
    if sys.argv[1] == "-m":
        sys.argv = sys.argv[2:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = sys.argv[1:]
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
