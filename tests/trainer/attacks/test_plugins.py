"""A user's own adversary attacks beside the others; one that is none is refused by its name before anything runs."""

from dataclasses import replace
from importlib import metadata

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks import registry
from edgeveil.trainer.attacks.problem import BUDGETS, Problem, Released, cut
from edgeveil.trainer.attacks.registry import BUILT_IN, adversaries
from edgeveil.trainer.attacks.rows import Question
from edgeveil.trainer.attacks.run_all import attack_all
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.measures import attack_metrics
from tests.support.checkout import ROOT


class FirstValue:
    """Guesses z from the sign of the first value."""

    name = "first value"
    kind = "adaptive"
    seeded = False

    def why_not(self, problem):
        return None

    def fit(self, problem, seed):
        self.train_samples = len(problem.fit)
        return self

    def probabilities(self, part):
        assert part.raw is None  # what only the one who perturbs knows
        p = 1 / (1 + np.exp(-4 * part.x[:, 0]))
        return np.stack([1 - p, p], axis=1)


class Wrong(FirstValue):
    """Answers with one number for each row."""

    name = "wrong"

    def probabilities(self, part):
        return np.zeros(len(part))


class Diverging(FirstValue):
    """Its training came to nothing."""

    name = "diverging"

    def probabilities(self, part):
        return np.full((len(part), 2), np.nan)


NOT_ONE = {"name": "not one", "kind": "adaptive"}


class Odd(FirstValue):
    """Of a kind there is not."""

    kind = "clever"


class Taken(FirstValue):
    """Called as one of EdgeVeil's own is."""

    name = "CNN"


def install(monkeypatch, *values):
    """As if a package with these entry points were installed."""
    points = [metadata.EntryPoint(f"own-{i}", f"{__name__}:{value}", registry.GROUP) for i, value in enumerate(values)]
    monkeypatch.setattr(registry.metadata, "entry_points", lambda group: points if group == registry.GROUP else [])
    monkeypatch.setattr(metadata.EntryPoint, "load", lambda point: globals()[point.value.rpartition(":")[2]])


def problem():
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, 900), rng.integers(0, 2, 900)
    x = (rng.normal(size=(900, 3)) + (2 * z - 1)[:, None] * np.array([2, 0, 0])).astype(np.float32)
    everything = Released(x, y, z, raw=x)
    fit, stop, choose = cut(everything.take(np.arange(600)), 0)
    counted = attack_metrics.counted_prior(y[:600], z[:600], (2, 2))
    spec = InputSpec("vector", (3,), "float32", None, None)
    test = everything.take(np.arange(600, 900))
    budget = replace(BUDGETS["quick"], epochs=2, trees=5)
    return Problem(spec, np.full((2, 2), 0.5), counted, fit, stop, choose, test, budget)


def test_an_installed_adversary_is_one_of_the_registry(monkeypatch):
    install(monkeypatch, "FirstValue")
    assert [family.name for family in adversaries()] == [*(family.name for family in BUILT_IN), "first value"]
    found = attack_all(Question.alone(problem()), families=adversaries()[-1:])
    assert found.rows[0].accuracy > 0.95
    assert found.curve is not None


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("Odd", "`kind` must be one of fixed, transfer, adaptive; got 'clever'"),
        ("NOT_ONE", "`name` must be a text"),
        ("Taken", "as another adversary is"),
        ("nowhere", "cannot be loaded (KeyError"),
    ],
)
def test_what_is_no_adversary_is_one_sentence_that_names_it(monkeypatch, value, says):
    install(monkeypatch, value)
    with pytest.raises(BadInput) as refused:
        adversaries()
    assert "'own-0'" in str(refused.value)
    assert says in str(refused.value)


def test_answers_that_are_no_probabilities_are_refused_and_diverged_ones_are_a_row(monkeypatch):
    install(monkeypatch, "Wrong", "Diverging")
    wrong, diverging = adversaries()[-2:]
    with pytest.raises(BadInput, match="'wrong' must answer with probabilities of shape"):
        attack_all(Question.alone(problem()), families=(wrong,))
    found = attack_all(Question.alone(problem()), families=(FirstValue(), diverging))
    assert found.not_run[0].reason == "its training diverged"


def test_the_example_of_the_documentation_attacks():
    page = (ROOT / "docs" / "explanation" / "adversaries.md").read_text()
    names: dict = {}
    exec(page.split("```python\n")[1].split("```")[0], names)  # noqa: S102
    family = names["Nearest"]()
    assert registry._defect(family) is None
    found = attack_all(Question.alone(problem()), families=(family,), curve=False)
    assert found.rows[0].name == "15 nearest"
    assert found.rows[0].accuracy > 0.9
