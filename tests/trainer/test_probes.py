"""Probes find what was planted, and say what they lack where data are too few."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from trainer.audit import probes
from trainer.audit.problem import BUDGETS, Released
from trainer.datasets.base import Dataset, InputSpec, Slices

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schemas" / "audit.schema.json").read_text())
VECTORS = InputSpec("vector", (6,), "float32", None, None)


def people(count: int, each: int, *, seed: int = 0, who: float = 1.0) -> tuple[Dataset, np.ndarray]:
    """Made-up readings in which every person has a mean of their own, ``who`` times the spread of their readings."""
    rng = np.random.default_rng(seed)
    subject = np.repeat(np.arange(count), each)
    y, z = rng.integers(0, 2, len(subject)), (subject % 2)
    x = rng.normal(size=(len(subject), 6)) + who * rng.normal(size=(count, 6))[subject]
    x[:, 0] += 3 * y
    place = np.array([0, 1, 2])[subject % 3] if count >= 3 else np.zeros(len(subject))
    slices = Slices(*(rng.permutation(np.flatnonzero(place == part)) for part in range(3)))
    dataset = Dataset(
        name="people",
        x=x.astype(np.float32),
        y=y,
        z=z,
        y_names=("a", "b"),
        z_names=("c", "d"),
        theta=np.full((2, 2), 0.5),
        input=VECTORS,
        slices=slices,
        cluster=subject,
        cluster_kind="subject",
    )
    return dataset, np.concatenate([slices.classifiers, slices.perturber, slices.test])


def sent(dataset: Dataset, rows: np.ndarray, x: np.ndarray) -> Released:
    """``x`` (n, 6) as what left for those rows."""
    part = dataset.rows(rows)
    return Released(x.astype(np.float32), part.y, part.z, part.cluster)


def asked(probe: str, dataset: Dataset, rows: np.ndarray, x: np.ndarray) -> dict:
    """The rows of a probe by name; each is of the schema."""
    found = probes.PROBES[probe].run(sent(dataset, rows, x), dataset, rows, BUDGETS["quick"], 0)
    validator = jsonschema.Draft202012Validator({"$ref": "#/$defs/probe_row", "$defs": SCHEMA["$defs"]})
    for one in found:
        validator.validate(json.loads(json.dumps(one, allow_nan=False)))
    return {one["name"]: one for one in found}


def test_a_hundredth_of_the_frames_copied_is_counted_as_that():
    dataset, rows = people(60, 40)
    x = np.zeros((len(rows), 6), np.float32)
    copied = np.random.default_rng(1).random(len(rows)) < 0.01
    x[copied] = dataset.x[rows][copied]
    found = asked("copies", dataset, rows, x)["test frames that leave unchanged"]
    assert found["value"] == pytest.approx(copied[-found["n"] :].mean())
    assert 0 < found["low"] < 0.01 < found["high"] < 0.03


def test_a_reading_of_somebody_else_is_counted_too():
    dataset, rows = people(60, 40)
    first = len(rows) - len(dataset.slices.test)
    x = np.resize(dataset.x[rows][:first], (len(rows), 6))
    found = asked("copies", dataset, rows, x)
    assert found["test frames that are some training reading"]["value"] == 1.0
    assert found["test frames that leave unchanged"]["value"] == 0.0
