"""The range of x: given, of the data set, or of training rows, which an epsilon refuses."""

from types import SimpleNamespace

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.audit.audit import _shipped
from edgeveil.trainer.audit.card import card
from edgeveil.trainer.datasets import prior
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.datasets.ranges import EXTREMES, OF_RELEASES, _outward, input_spec
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.recipe.data_section import Data
from tests.support import audit_documents, bundles

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


def measured(x, kind):
    """The range of x, all of whose rows are in training."""
    rows = np.arange(len(x))
    data = Data(source="wq", target="a", sensitive="b")
    return input_spec(Readings(x, rows * 0, rows * 0, ("a",), ("b",), kind), rows, data)


def test_one_outlier_does_not_press_all_others_into_a_corner():
    x = np.random.default_rng(0).normal(size=(2000, 3)).astype(np.float32)
    x[:, 1], x[:, 2] = 0, np.arange(2000) == 7
    x[0, 0] = 1e6
    found = measured(x, "vector")
    assert x[1:, 0].max() < found.high[0] < x[1:, 0].max() + 0.1
    assert x[1:, 0].min() - 0.1 < found.low[0] < x[1:, 0].min()  # it reaches no further in training
    assert (found.low[1], found.high[1]) == (0.0, 1.0)  # a column that never varies
    assert (found.low[2], found.high[2]) == (0.0, 1.0)  # a rare label is no outlier


@pytest.mark.parametrize(
    ("kind", "shape", "dtype", "data", "ends"),
    [
        ("vector", (1,), np.float32, {}, ((52000.0,), (88000.0,))),
        ("vector", (1,), np.int32, {}, ((52000.0,), (88000.0,))),
        ("vector", (1,), np.float32, {"bounds": "from-training"}, ((52000.0,), (88000.0,))),
        ("vector", (1,), np.float32, {"low": 0, "high": 87311.27}, ((0.0,), (87311.27,))),
        ("series", (1, 1), np.float32, {}, ((52000.0,), (88000.0,))),
        ("image", (1, 1, 1), np.float32, {}, (52000.0, 88000.0)),
        ("image", (1, 1, 1), np.float32, {"low": 52013.5}, (52013.5, 88000.0)),
        ("image", (1, 1, 1), np.uint16, {"high": 60000}, (0.0, 60000.0)),
    ],
)
def test_nobodys_own_value_is_an_end_of_the_range(kind, shape, dtype, data, ends):
    """Finding 14 of the review: one salary of training was the manifest's ``input.high``."""
    x = np.array([52013, 60000, 60000 if dtype == np.uint16 else 87311], dtype)
    rows = np.arange(3)
    given = Data.model_validate({"source": "wq", "target": "a", "sensitive": "b", **data})
    found = input_spec(Readings(x.reshape(3, *shape), rows * 0, rows * 0, ("a",), ("b",), kind), rows, given)
    assert (found.low, found.high) == ends
    assert found.extremes is ("high" not in data)
    assert "extremes" not in found.as_json()
    assert InputSpec.from_json({"name": "x", **found.as_json()}) == found


@pytest.mark.parametrize("extremes", [True, False])
def test_audit_and_card_say_once_that_extremes_of_training_ship(extremes):
    about = SimpleNamespace(
        dataset=SimpleNamespace(input=InputSpec("vector", (1,), "float32", 0.0, 1.0, None, extremes))
    )
    promised = {"question": "z", "name": "law", "more": {"kind": "spending", "bounds": "from-training"}}
    found = {**audit_documents.document(), "warnings": _shipped(about)}
    for one in (found, {**found, "findings": [*found["findings"], *[promised] * extremes]}):
        warnings = card(one, bundles.artefact_example()[0])["warnings"]
        assert [line for line in warnings if "extremes" in line] == [EXTREMES] * extremes


@pytest.mark.parametrize("ends", [(0, 255), (-3e-9, 7e-9), (1013.21, 1013.873), (0.29, 0.57), (-1, 1e9 + 1), (5, 6)])
@pytest.mark.parametrize("dtype", [np.float64, np.uint8])
def test_ends_are_rounded_outward_to_two_digits_of_the_width(ends, dtype):
    low, high = (float(one[0]) for one in _outward(*map(np.atleast_1d, map(float, ends)), np.dtype(dtype)))
    if dtype == np.uint8:
        assert 0 <= low <= high <= 255
        return
    width = ends[1] - ends[0]
    assert low <= ends[0] < ends[1] <= high
    assert high - low <= 1.2 * width
    step = 10.0 ** (np.floor(np.log10(width)) - 1)
    assert [one / step for one in (low, high)] == pytest.approx([round(one / step) for one in (low, high)], abs=1e-6)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_unit_cube_does_not_know_the_unit(scale):
    x = np.random.default_rng(0).normal(3, 2, size=(500, 2))
    one, other = measured(x, "vector"), measured(x * scale, "vector")
    assert np.multiply(one.low, scale) == pytest.approx(other.low, rel=1e-6)
    assert np.multiply(one.high, scale) == pytest.approx(other.high, rel=1e-6)


def test_long_tails_are_cut_for_few_values_alone():
    x = np.random.default_rng(0).exponential(size=(4000, 1)).astype(np.float32) ** 3
    x[::2] = 0
    found = measured(x, "vector")
    assert found.low[0] == 0.0
    assert 0 < (x > found.high[0]).mean() < 0.04


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_measured_pictures_are_standardised_and_those_of_whole_numbers_are_not(dtype):
    x = np.random.default_rng(0).integers(0, 100, (1000, 4, 4, 1)).astype(dtype)
    x[1, 0, 0] = 30_000
    found = measured(x, "image")
    assert (found.low, found.high) == (0.0, 30_000.0 if dtype == np.int16 else 99.0)


# MED(z|y) of eq. (3), with the paper's two worked examples, and priors that cannot be.


WOMEN = ["f1", "f2", "f3", "f4"]
NAMES = {"y_names": ["female"], "z_names": WOMEN}


def test_without_knowledge_it_is_a_quarter_each():
    """Section 4.1: four female subjects, nothing known."""
    np.testing.assert_allclose(prior.med({}, **NAMES), [[0.25] * 4])


def test_half_known_leaves_a_sixth_each():
    """Section 4.1: half of all images of a female subject belong to f1."""
    np.testing.assert_allclose(prior.med({"female": {"f1": 0.5}}, **NAMES), [[1 / 2, 1 / 6, 1 / 6, 1 / 6]])


def test_zero_is_knowledge_too():
    """Section 4.1: an identity that belongs to another gender is crossed off."""
    known = {"female": {"m1": 0.0}}
    theta = prior.med(known, y_names=["female"], z_names=["f1", "f2", "m1"])
    np.testing.assert_allclose(theta, [[0.5, 0.5, 0.0]])


def test_a_whole_prior_is_kept_and_thirds_may_be_rounded():
    third = {"female": dict.fromkeys(("f1", "f2", "f3"), 0.3333)}
    theta = prior.med(third, y_names=["female"], z_names=["f1", "f2", "f3"])
    np.testing.assert_allclose(theta, [[1 / 3] * 3])


@pytest.mark.parametrize(
    ("known", "says"),
    [
        ({"female": {"f1": 0.7, "f2": 0.6}}, 'The prior of y "female" must sum to at most 1; got 1.3'),
        ({"female": {"f1": -0.1}}, r"P\(f1\|female\) must lie between 0 and 1; got -0.1"),
        ({"female": {"f9": 0.5}}, 'names the z "f9"; the classes of z are "f1", "f2", "f3", "f4"'),
        ({"femal": {"f1": 0.5}}, 'names the y "femal"; the classes of y are "female"'),
        ({"female": dict.fromkeys(WOMEN, 0.2)}, "names every z and must sum to 1; got 0.8"),
    ],
)
def test_an_impossible_prior_gets_one_sentence(known, says):
    with pytest.raises(BadInput, match=says):
        prior.med(known, **NAMES)


def test_counted_and_even_priors():
    y, z = np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 0, 1, 2, 2])
    np.testing.assert_allclose(prior.counted(y, z, classes=(2, 3)), [[0.75, 0.25, 0], [0, 0, 1]])
    np.testing.assert_allclose(prior.even_over_seen(y, z, classes=(2, 3)), [[0.5, 0.5, 0], [0, 0, 1]])


def test_a_prior_that_rules_out_what_is_there_is_refused():
    theta = np.array([[1.0, 0.0]])
    y, z = np.zeros(3, int), np.array([0, 1, 1])
    with pytest.raises(BadInput, match=r'z "b" never comes with y "a"; 2 training rows'):
        prior.check_possible(theta, y, z, names=(["a"], ["a", "b"]))
    prior.check_possible(theta, y[:1], z[:1], names=(["a"], ["a", "b"]))
