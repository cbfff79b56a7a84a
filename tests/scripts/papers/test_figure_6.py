"""Figure 6: how much of a sample is made out, and the committed pictures are the recorded ones."""

import hashlib
import json
from types import SimpleNamespace

import numpy as np
import pytest

from scripts.papers import figure_6
from tests.support.checkout import ROOT

RECORDS = sorted((ROOT / "docs/results/privacy/figure-6").glob("*.json"))


def test_the_class_mean_makes_nothing_out_and_the_sample_itself_everything():
    rng = np.random.default_rng(0)
    u, y = rng.random((40, 4, 4, 1)), np.arange(40) % 2
    dataset = SimpleNamespace(part=lambda _: SimpleNamespace(x=u, y=y), unit=lambda x: x, y_names=("a", "b"))
    means = np.stack([u[y == label].mean(axis=0) for label in (0, 1)])
    assert figure_6.explained(u, u, y, dataset) == 1.0
    assert figure_6.explained(u, means[y], y, dataset) == pytest.approx(0.0)
    assert figure_6.explained(u, 1 - u, y, dataset) < 0


def test_five_of_each_of_the_two_most_frequent_classes_are_shown():
    y = np.repeat([0, 1, 2], [9, 30, 20])
    assert y[figure_6.chosen(y, np.random.default_rng(0))].tolist() == [1] * 5 + [2] * 5


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_the_picture_is_the_recorded_one(path):
    record = json.loads(path.read_text())
    picture = (ROOT / figure_6.PICTURE.format(record["data"])).read_bytes()
    assert hashlib.sha256(picture).hexdigest() == record["picture_sha256"]
