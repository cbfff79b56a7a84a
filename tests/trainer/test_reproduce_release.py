"""The record of a release over seeds: a paired test that says what the sample supports, and the worst seed named."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
from reproduce_release import over_seeds, paired


def test_the_paired_test_sees_a_loss_and_bounds_what_it_cannot_see():
    reference = np.arange(2000) % 50 != 0  # 98 % right
    worse = reference.copy()
    worse[1:60:2] = False  # 30 rows lost
    found = paired(worse, reference)
    assert (found["lost"], found["gained"]) == (30, 0)
    assert found["p_worse"] < 1e-6
    assert found["worse_by"] == pytest.approx(0.015)
    assert 0.015 < found["worse_by_at_most"] < 0.022
    even = reference.copy()
    even[[1, 2, 3]], even[[50, 100, 150]] = False, True  # three lost, three gained
    found = paired(even, reference)
    assert found["p_worse"] > 0.3
    assert found["worse_by"] == 0
    assert 0 < found["worse_by_at_most"] < 0.004
    assert paired(reference, reference)["p_worse"] == 1.0


def seed(attack: float, kept: float) -> dict:
    int8 = {
        "label_accuracy": 0.97,
        "chance": {"majority": 0.6},
        "code_counts": {"accuracy": attack, "auc": 0.52},
        "code_counts_crossed": {"accuracy": 0.6, "auc": 0.51},
        "bits_over_null": 0.003,
        "kept": {"ink": kept},
    }
    return {"artefacts": {"tflite-int8": int8}, "raw": {"target": {"accuracy": 0.98}}}


def test_over_seeds_the_worst_is_the_most_leak_and_the_least_kept():
    found = over_seeds([seed(0.61, 0.8), seed(0.59, 0.9)])
    assert found["attack_over_chance_points"]["worst"] == pytest.approx(1.0)
    assert found["attack"]["seeds"] == [0.61, 0.6]  # the stronger of two attacks
    assert found["kept.ink"]["worst"] == 0.8
    assert found["kept.ink"]["mean"] == pytest.approx(0.85)
    assert found["label_accuracy_of_raw"]["worst"] == pytest.approx(0.97 / 0.98)
