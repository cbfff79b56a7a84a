"""y is read by the best reader: the label that is sent, D_y, or one that learned on what is sent."""

from dataclasses import replace

import numpy as np
import pytest

from edgeveil.trainer.attacks.problem import BUDGETS, Released
from edgeveil.trainer.audit import readers
from edgeveil.trainer.audit.findings import FIXED
from edgeveil.trainer.datasets.base import Dataset, InputSpec, Slices

QUICK = replace(BUDGETS["quick"], epochs=2)


class Blind:
    """D_y that always names class 0."""

    inputs = ()

    def __call__(self, u, training=False):
        return np.tile([1.0, 0.0], (len(u), 1))

    def predict_on_batch(self, u):
        return self(u)


@pytest.fixture(autouse=True)
def blind(monkeypatch):
    """Networks here are functions: D_y, where it is asked."""
    monkeypatch.setattr(readers, "logits", lambda model, u: model(u))


def vectors(rows=900):
    """y is in the sign of the second feature of x', which D_y does not see."""
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, rows), rng.integers(0, 2, rows)
    x = rng.normal(size=(rows, 3)).astype(np.float32)
    x[:, 1] += 5 * y
    cut = np.array_split(rng.permutation(rows), 4)
    slices = Slices(cut[0], cut[1], cut[2], attack=cut[3])
    spec = InputSpec("vector", (3,), "float32", -4.0, 9.0)
    return Dataset("made", x, y, z, ("no", "yes"), ("a", "b"), np.full((2, 2), 0.5), spec, slices)


def read(dataset, x, labels=None, *, also=None, budget=QUICK):
    rows = dataset.slices.rows()
    released = Released(x[rows], dataset.y[rows], dataset.z[rows], also=also)
    return readers.read(dataset, released, labels or {}, Blind(), budget, 0)


def test_a_label_that_is_sent_is_read_as_it_is():
    dataset = vectors()
    rng = np.random.default_rng(1)
    label = np.where(rng.random(len(dataset.y)) < 0.1, 1 - dataset.y, dataset.y)[dataset.slices.rows()]
    found = read(dataset, np.zeros_like(dataset.x), {"label": label}, also=np.eye(2, dtype=np.float32)[label])
    test = len(dataset.slices.test)
    assert found[0].name == "the label that is sent"
    assert found[0].value == pytest.approx((label[-test:] == dataset.y[dataset.slices.test]).mean())
    assert found[0].interval[0] < found[0].value < found[0].interval[1]
    fixed = next(one for one in found if one.name == FIXED)
    assert fixed.value == pytest.approx((dataset.y[dataset.slices.test] == 0).mean())


def test_what_d_y_cannot_read_a_reader_that_learned_on_it_does():
    dataset = vectors()
    found = read(dataset, dataset.x)
    assert found[0].name not in (FIXED, "the label that is sent")
    assert found[0].value > 0.95
    assert found[0].learned_on == "both"
    assert {one.question for one in found} == {"y"}
    assert found[0].chosen_by == max(one.chosen_by for one in found)


def test_a_quick_audit_trains_no_reader_where_the_label_reads_nearly_all():
    dataset = vectors()
    label = dataset.y[dataset.slices.rows()]
    assert [one.name for one in read(dataset, dataset.x, {"label": label})] == ["the label that is sent", FIXED]
