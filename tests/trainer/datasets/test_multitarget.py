"""Vectors with several labels: what is refused, and the choice of the wanted ones."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.loaders.multitarget import MultiTarget

X, Y = np.arange(12.0).reshape(4, 3) ** 2, np.eye(4, 2)
FLAT = np.where(np.arange(3) == 1, 4.0, X)


def make(x=X, labels=Y):
    return MultiTarget.checked("mine", x, labels, ["a", "b", "c"], ["p", "q"])


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"x": FLAT}, "constant .the first is b"),
        ({"x": X[:3]}, "3 feature vectors and 4"),
        ({"x": X[:, :2]}, "2 features"),
        ({"x": np.where(X == 4, np.nan, X)}, "NaN"),
        ({"labels": np.full((4, 2), "x")}, "Labels must be numbers"),
        ({"labels": np.full((4, 2), np.inf)}, "Labels hold NaN"),
    ],
)
def test_bad_records_are_refused(change, word):
    with pytest.raises(BadInput, match=word):
        make(**change)


def test_desired_first():
    wanted, hidden = make().desired_first(1)
    np.testing.assert_array_equal(np.hstack([wanted, hidden]), Y)
    for count in (0, 2, -1):
        with pytest.raises(BadInput, match="can be wanted"):
            make().desired_first(count)
