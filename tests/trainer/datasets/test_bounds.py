"""The range of x: given, of the data set, or of training rows, which an epsilon refuses."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.bounds import OF_RELEASES, input_spec
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.recipe.schema import Data

X = np.arange(12, dtype=np.float32).reshape(4, 3)
Y = np.zeros(4, np.int64)
ROWS = np.array([0, 1])


def spec(*, x=X, kind="vector", public=OF_RELEASES, ends=(None, None), **data):
    source = {"source": "wq", "target": "a", "sensitive": "b"}
    readings = Readings(x, Y, Y, ("a",), ("b",), kind, *ends)
    return input_spec(readings, ROWS, Data.model_validate({**source, **data}), public=public)


def test_one_number_is_for_all_features_and_a_list_for_each():
    assert spec(low=0, high=[1, 2, 3]).low == (0.0, 0.0, 0.0)
    assert spec(low=0, high=[1, 2, 3]).high == (1.0, 2.0, 3.0)


def test_without_a_promise_training_rows_say_it():
    found = spec(public=None)
    assert (found.low, found.high) == ((0.0, 1.0, 2.0), (3.0, 4.0, 5.0))


def test_with_one_the_data_sets_own_range_is_taken_before_training_rows():
    assert spec(ends=(0.0, 20.0)).high == (20.0, 20.0, 20.0)
    assert spec(bounds="from-training").high == (3.0, 4.0, 5.0)


def test_pictures_need_a_public_range_too():
    x = np.zeros((4, 4, 4, 1), np.float32)
    x[1] = 7
    with pytest.raises(BadInput, match="public bounds"):
        spec(x=x, kind="image")
    assert spec(x=x, kind="image", low=0, high=9).high == 9
    assert spec(x=x, kind="image", bounds="from-training").high == 7.0


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({}, "public bounds"),
        ({"low": 0}, "`data.high` is missing"),
        ({"low": 0, "high": [1, 2]}, "one number for each of 3 features; got 2"),
        ({"low": [0, 5, 0], "high": 3}, "`data.high` must be above `data.low`; got 3 and 5 of feature 1"),
        ({"x": X.astype(np.int8), "low": 0, "high": 300}, "values that int8 can hold"),
    ],
)
def test_bad_bounds_get_one_sentence(data, says):
    with pytest.raises(BadInput, match=says) as caught:
        spec(**data)
    assert "\n" not in str(caught.value)
