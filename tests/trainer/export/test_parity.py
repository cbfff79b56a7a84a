"""The parity table: errors in units of x' and in the unit cube, and whether D_y sees the same."""

import numpy as np
import pytest

from edgeveil.trainer.export import folder
from tests.support.export_runs import IMAGE, VECTOR, generator, label_only


class Brightness:
    """A D_y that says 1 for readings brighter than half."""

    def __call__(self, u, training):
        mean = u.reshape(len(u), -1).mean(axis=1)
        return np.stack([0.5 - mean, mean - 0.5], axis=1)


class Data:
    def __init__(self, spec):
        self.input = spec

    def unit(self, x):
        return (x - np.asarray(self.input.low, np.float32)) / np.subtract(self.input.high, self.input.low)


def test_errors_are_in_units_of_x_and_in_the_unit_cube():
    keras = {"frame": np.full((4, 8, 8, 1), 4, np.uint8)}
    artefact = {"frame": keras["frame"].copy()}
    artefact["frame"][0, 0, 0, 0] = 2  # below Keras: unsigned numbers must not wrap around
    row = folder.compare(generator(), Data(IMAGE), Brightness(), keras, artefact)
    assert row == {
        "frames": 4,
        "max_abs": 2.0,
        "mean_abs": 2 / 256,
        "max_abs_unit": 2 / 16,
        "mean_abs_unit": 2 / 256 / 16,
        "target_agreement": 1.0,
        "label_agreement": None,
    }


def test_features_of_different_ranges_are_compared_in_the_unit_cube():
    keras = {"frame": np.zeros((1, 5), np.float32)}
    artefact = {"frame": np.array([[0.5, 0, 0, 0, 20]], np.float32)}
    row = folder.compare(generator(VECTOR), Data(VECTOR), Brightness(), keras, artefact)
    assert row["max_abs"] == 20.0
    assert row["max_abs_unit"] == pytest.approx(0.5)


def test_agreement_is_that_of_d_y_and_of_the_label():
    keras = {"frame": np.full((4, 8, 8, 1), 16, np.uint8), "label": np.array([1, 1, 1, 1])}
    artefact = {"frame": keras["frame"].copy(), "label": np.array([1, 1, 0, 1])}
    artefact["frame"][2] = 0
    row = folder.compare(label_only(), Data(IMAGE), Brightness(), keras, artefact)
    assert (row["target_agreement"], row["label_agreement"]) == (0.75, 0.75)
    row |= {"artefact": "tflite-int8", "backend": "some 1.0"}
    assert "D_y agrees on 75.0 %" in folder.table([row])
