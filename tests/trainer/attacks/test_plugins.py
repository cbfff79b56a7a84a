"""A user's own adversary attacks beside the others; one that is none is refused by its name before anything runs."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.problem import BUDGETS, Problem, Released, cut
from edgeveil.trainer.attacks.registry import GROUPS, adversaries
from edgeveil.trainer.attacks.rows import Question
from edgeveil.trainer.attacks.run_all import attack_all
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.measures import attack_metrics
from tests.support.checkout import ROOT

PLUGIN = ROOT / "tests/support/plugins/nearest_attack"
MODULE = '''
import numpy as np

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


class Odd(FirstValue):
    """Of a kind there is not."""

    name = "odd"
    kind = "clever"


class Comma(FirstValue):
    """Members of an ensemble are listed with commas."""

    name = "one, two"


class Unfit(object):
    """It cannot learn."""

    name = "unfit"
    kind = "adaptive"
    seeded = False


class Taken(FirstValue):
    """Called as one of EdgeVeil's own is."""

    name = "CNN"


class Twin(FirstValue):
    """Called as another plugin is."""

    name = "first value"


class Fails(FirstValue):
    """It cannot be made without arguments."""

    name = "fails"

    def __init__(self, argument):
        pass


nameless = FirstValue()
'''
FIRST, LAST = "fixed D_z", "periods of sums"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """As if a package with these entry points were installed."""
    (tmp_path / "own_attacks.py").write_text(MODULE)
    (tmp_path / "own_attacks-1.dist-info").mkdir()

    def points(*values, group=GROUPS[0]):
        lines = "".join(f"own-{i} = own_attacks:{value}\n" for i, value in enumerate(values))
        (tmp_path / "own_attacks-1.dist-info/entry_points.txt").write_text(f"[{group}]\n{lines}")
        monkeypatch.syspath_prepend(str(tmp_path))

    yield points
    sys.modules.pop("own_attacks", None)


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


@pytest.mark.parametrize("group", GROUPS)
def test_an_installed_adversary_is_one_of_the_registry(install, group):
    before = [family.name for family in adversaries()]
    assert (before[0], before[-1]) == (FIRST, LAST)
    install("FirstValue", group=group)
    assert [family.name for family in adversaries()] == [*before, "first value"]
    found = attack_all(Question.alone(problem()), families=adversaries()[-1:])
    assert found.rows[0].right.estimate > 0.95
    assert found.curve is not None


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (["Odd"], r"'odd' \(own_attacks:Odd\) is no adversary: `kind` must be one of fixed, transfer, adaptive"),
        (["Comma"], r"'one, two' \(own_attacks:Comma\) is no adversary: `name` must be a text without commas"),
        (["Unfit"], "'unfit' .* it has no method `why_not`"),
        (["nameless"], "the entry point own-0 = own_attacks:nameless of edgeveil.attacks: expected MODULE:CLASS"),
        (["nowhere"], "the entry point own-0 = own_attacks:nowhere of edgeveil.attacks: expected MODULE:CLASS"),
        (["Taken"], r"'own-0' \(own_attacks:Taken\) is named as another adversary is"),
        (["FirstValue", "Twin"], r"'own-0' \(own_attacks:FirstValue\) is named as another adversary is"),
        (["Fails"], r"'fails' .* cannot be loaded \(TypeError"),
    ],
)
def test_what_is_no_adversary_is_one_sentence_that_names_it(install, values, says):
    install(*values)
    with pytest.raises(BadInput, match=says):
        adversaries()


def test_answers_that_are_no_probabilities_are_refused_and_diverged_ones_are_a_row(install):
    install("Diverging", "FirstValue", "Wrong")
    diverging, first, wrong = adversaries()[-3:]
    with pytest.raises(BadInput, match="'wrong' must answer with probabilities of shape"):
        attack_all(Question.alone(problem()), families=(wrong,))
    found = attack_all(Question.alone(problem()), families=(first, diverging))
    assert found.not_run[0].reason == "its training diverged"


def test_the_example_of_the_documentation_is_found_and_attacks(monkeypatch):
    example = (ROOT / "docs/explanation/adversaries.md").read_text().split("```python\n")[1].split("```")[0]
    assert (PLUGIN / "nearest_attack.py").read_text().endswith(example)
    monkeypatch.syspath_prepend(str(PLUGIN))
    family = adversaries()[-1]
    found = attack_all(Question.alone(problem()), families=(family,), curve=False)
    assert found.rows[0].name == "15 nearest"
    assert found.rows[0].right.estimate > 0.9
