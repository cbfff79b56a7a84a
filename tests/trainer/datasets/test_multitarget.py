"""Vectors with several labels: what is refused, and the choice of the wanted ones."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.loaders.mulan import MultiTarget, checked_features, checked_labels

X, Y = np.arange(12.0).reshape(4, 3) ** 2, np.eye(4, 2)


@pytest.mark.parametrize(
    ("check", "values", "word"),
    [
        (checked_features, np.where(X == 4, np.nan, X), "NaN"),
        (checked_features, X[0], "must be a matrix"),
        (checked_labels, np.full((4, 2), "x"), "Labels must be numbers"),
        (checked_labels, np.full((4, 2), np.inf), "Labels hold NaN"),
    ],
)
def test_bad_values_are_refused(check, values, word):
    with pytest.raises(BadInput, match=word):
        check(values)


def test_the_first_labels_are_wanted():
    data = MultiTarget("mine", X, Y, ("P", "q"))
    found = data.readings(wanted=1, target="p", sensitive="Q")
    wanted, hidden = found.labels.parts(np.arange(4))
    np.testing.assert_array_equal(np.hstack([wanted, hidden]), Y)
    np.testing.assert_array_equal(np.stack([found.y, found.z], axis=1), Y)
    for count in (0, 2, -1):
        with pytest.raises(BadInput, match="can be wanted"):
            data.readings(wanted=count, target="p", sensitive="q")
    with pytest.raises(BadInput, match=r'`data.sensitive`: expected "q"; got "p"'):
        data.readings(wanted=1, target="p", sensitive="p")
