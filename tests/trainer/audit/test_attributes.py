"""Each attribute of a joint y and of a joint z has its own figure, by the best reader and the best attack."""

from dataclasses import replace

import numpy as np
import pytest

from edgeveil.edge_runtime.bundle.audit_figures import HIDDEN, KEPT
from edgeveil.trainer.attacks.problem import BUDGETS, Released
from edgeveil.trainer.attacks.rows import question_of
from edgeveil.trainer.attacks.run_all import run
from edgeveil.trainer.audit import attributes, floor, readers
from edgeveil.trainer.audit.sections.other_attributes import COUNTING, section
from edgeveil.trainer.datasets.base import Dataset, InputSpec, Known, Slices
from edgeveil.trainer.datasets.joint import joint_of

QUICK = replace(BUDGETS["quick"], epochs=2)


def made(rows: int = 2400) -> Dataset:
    """y is of count and side, z of person and mood: all four are fair, and x is a code of several of them."""
    rng = np.random.default_rng(0)
    labels = {
        name: Known(rng.integers(0, classes, rows), tuple(f"{name}-{k}" for k in range(classes)))
        for name, classes in (("count", 2), ("side", 2), ("person", 3), ("mood", 2))
    }
    (y, y_joint), (z, z_joint) = (
        joint_of({name: labels[name] for name in names}) for names in (("count", "side"), ("person", "mood"))
    )
    cut = np.array_split(rng.permutation(rows), 4)
    slices = Slices(cut[0], cut[1], cut[2], attack=cut[3])
    spec = InputSpec("vector", (2,), "float32", 0.0, 9.0)
    x = np.stack([y.values, labels["mood"].values], axis=1).astype(np.float32)
    about = "made", x, y.values, z.values, y.names, z.names, np.full((4, 6), 1 / 6), spec, slices
    known = {"count and side": y, "person and mood": z, **labels}
    return Dataset(*about, known=known, joint={"y": y_joint, "z": z_joint})


def sent(dataset: Dataset, x: np.ndarray) -> Released:
    rows = dataset.slices.rows()
    return Released(x[rows], dataset.y[rows], dataset.z[rows])


def read_of(dataset: Dataset, x: np.ndarray) -> dict:
    """The figures of the attributes of z, by attribute and figure."""
    released = sent(dataset, x)
    attacks = run(question_of(dataset, released, QUICK, {"sensitive": None}, seed=0), families=COUNTING).kept
    found = section(dataset, released, QUICK, 0, of_z=attacks)
    if dataset.joint:
        assert "person-" not in str(found)  # classes of z are not named, and no other label is the worst
        assert "mood-" not in str(found)
        assert not any(one.more.get("worst") for one in found)
    return {(one.question, one.figure): one for one in found if one.kind == HIDDEN}


def test_the_attribute_that_leaks_is_read_and_the_other_is_not():
    dataset = made()
    found = read_of(dataset, dataset.x)
    assert {name for name, _ in found} == {"person", "mood"}
    assert found["mood", "right"].value == 1
    assert found["mood", "right"].null == pytest.approx(0.5, abs=0.06)
    assert found["mood", "bits-counted"].interval[0] > 0.9
    person = found["person", "right"]
    assert person.interval[0] <= person.null <= person.interval[1]
    assert person.null == pytest.approx(1 / 3, abs=0.06)
    assert abs(found["person", "bits-counted"].value) < 0.05
    assert all(one.rows == len(dataset.slices.test) for one in found.values() if one.figure == "right")


def test_no_part_of_the_rows_is_named_by_a_class_of_z():
    dataset = made()
    assert list(floor._attributes(dataset, dataset.slices.test)) == ["count", "side"]
    assert "mood" in floor._attributes(replace(dataset, joint={}), dataset.slices.test)


def test_nothing_is_said_of_attributes_where_z_is_one():
    dataset = replace(made(), joint={})
    assert read_of(dataset, dataset.x) == {}
    assert attributes.kept(None, [], np.ones((1, 4)) / 4) == []


def test_an_attack_on_the_attribute_alone_counts_where_it_is_better():
    dataset = made()
    released = sent(dataset, dataset.x * 0)
    attacks = run(question_of(dataset, released, QUICK, {"sensitive": None}, seed=0), families=COUNTING).kept
    mood = dataset.joint["z"].of[dataset.z][:, 1]
    about = replace(dataset, z=mood, z_names=("mood-0", "mood-1"), theta=np.full((4, 2), 0.5))
    better = run(question_of(about, sent(about, dataset.x), QUICK, {"sensitive": None}, seed=0), families=COUNTING)
    alone = attributes.hidden(dataset, attacks, {"mood": better.most_bits})
    without = attributes.hidden(dataset, attacks, {})
    assert [one.value for one in alone if (one.question, one.figure) == ("mood", "right")] == [1.0]
    assert next(one.value for one in without if (one.question, one.figure) == ("mood", "right")) < 0.6


def test_each_attribute_of_y_is_kept_by_the_best_reader(monkeypatch):
    dataset, rng = made(), np.random.default_rng(1)
    monkeypatch.setattr(readers, "logits", lambda _model, u: np.eye(4)[np.zeros(len(u), int)])
    rows = dataset.slices.rows()
    # A label that is right of count, and right of side in half of the rows.
    count, side = dataset.joint["y"].of[dataset.y].T
    label = 2 * count + np.where(rng.random(len(side)) < 0.5, side, 1 - side)
    found = readers.read(dataset, sent(dataset, dataset.x * 0), {"label": label[rows]}, None, QUICK, 0)
    kept = {one.question: one for one in found if one.kind == KEPT}
    assert list(kept) == ["count", "side"]
    assert (kept["count"].value, kept["count"].name) == (1.0, "the label that is sent")
    assert kept["side"].interval[0] <= 0.53
    assert kept["count"].null == pytest.approx(0.5, abs=0.06)
    assert [one.kind for one in found[:2]] == ["reader", "reader"]
