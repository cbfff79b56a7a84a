"""Quick trainings and audits with hardly any effort: networks, attacks and readers run, and learn next to nothing.

For tests of the way from data to a page; what attacks find is tested in tests/trainer/attacks. As a program it runs
another so, with few families: ``python -m tests.support.trial.short_audit SCRIPT|-m MODULE WORDS``.
"""

import os
import runpy
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import sklearn.ensemble

from edgeveil.trainer import demo
from edgeveil.trainer.attacks import ahead, problem, run_all
from edgeveil.trainer.attacks.families.code_counts import CodeCounts
from edgeveil.trainer.attacks.families.fixed import Fixed
from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.audit.floor import Floor
from edgeveil.trainer.audit.probes import artefact_membership
from edgeveil.trainer.audit.sections import retained
from edgeveil.trainer.graphs import fitting
from edgeveil.trainer.measures import attack_metrics
from edgeveil.trainer.recipe.schema import Recipe
from tests.support import once

FLOOR_OF = Floor.__dict__["_path"].func
FEW = (Fixed(), Logistic(), CodeCounts())
SHORT = {"bench": ("--min-seconds", "0.2")}
# Enough for a p-value below 0.01 in a few tests together.
SHUFFLES = {
    attack_metrics.permutation_test: 399,
    attack_metrics.permuted: 399,
    run_all.counting_test: 399,
    attack_metrics.sequential_test: 999,
}


def shorten(patch, *, epochs=2, trees=5, families=None):
    """Until ``patch`` (``pytest.MonkeyPatch``) is undone: so many epochs of attacks and trees; ``families`` alone.

    All is learned in this process: another would be without the patch, and measure the whole of label-only in vain.
    """
    patch.setattr(ahead, "cores", lambda: None)
    whole = Recipe.with_budget
    patch.setattr(Recipe, "with_budget", lambda recipe, budget: _cut(whole(recipe, budget), budget))
    patch.setitem(problem.BUDGETS, "quick", replace(problem.BUDGETS["quick"], epochs=epochs, trees=trees))
    patch.setitem(artefact_membership.SHADOWS, "quick", 4)
    read_little(patch)
    few_trees(patch)
    if once.FOLDER in os.environ:  # named by all that it depends on, so that all tests may take it
        shared = Path(os.environ[once.FOLDER])
        patch.setattr(Floor, "_path", property(lambda floor: shared / FLOOR_OF(floor).name))
    measure = demo.edge
    patch.setattr(demo, "edge", lambda pyz, verb, *words: measure(pyz, verb, *words, *SHORT.get(verb, ())))
    if families:
        for module in ("audit.audit", "audit.floor", "attacks.run_all"):
            patch.setattr(f"edgeveil.trainer.{module}.adversaries", lambda: families)


def read_little(patch):
    """Readers of what x' retains that learn next to nothing, and permutation tests of fewer shuffles."""
    patch.setitem(retained.EFFORT, "quick", retained.Effort(rows=16, epochs=1))
    # For so few steps, to trace one takes longer than all of them.
    patch.setattr(retained, "fitting", SimpleNamespace(fit=_fit_eagerly, total=fitting.total))
    # Not imported here: it imports TensorFlow, which would log before its log level is set.
    patch.setitem(sys.modules, "edgeveil.models.property_readers", SimpleNamespace(reader=_linear_reader))
    shuffle_less(patch)


def shuffle_less(patch):
    """Permutation tests of fewer shuffles."""
    for test, most in SHUFFLES.items():
        patch.setitem(test.__kwdefaults__, "shuffles" if "shuffles" in test.__kwdefaults__ else "most", most)


def few_trees(patch):
    """A first look at data by a forest of ten trees."""
    forest = sklearn.ensemble.RandomForestClassifier
    patch.setattr(sklearn.ensemble, "RandomForestClassifier", lambda trees, **asked: forest(min(trees, 10), **asked))


def _fit_eagerly(*given, **settings):
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it does not apply to tf.data
            fitting.fit(*given, **settings)
    finally:
        tf.config.run_functions_eagerly(False)


def _linear_reader(shape, outputs):
    import keras

    x = keras.Input(shape, name="reading")
    flat = keras.layers.Flatten()(x)
    return keras.Model(x, {name: keras.layers.Dense(units, name=f"to_{name}")(flat) for name, units in outputs.items()})


def _cut(recipe, budget):
    if budget == "full":
        return recipe
    most = {"classifier_epochs": 25, "epochs": 8}
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
