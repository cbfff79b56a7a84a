"""The manifest's promise to the people behind the training data: its keys, its limits, and nothing else."""

import copy

import pytest

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.manifest.schema import check_manifest
from tests.support import bundles

PROMISE = {
    "epsilon": 8.0,
    "delta": 1e-5,
    "unit": "subject",
    "neighbours": "add or remove",
    "marks": {
        "models": {"classifier": "private: DP-SGD, 0.9 of the budget"},
        "tables": {"means": "data"},
        "range": "public",
        "calibration": "public",
    },
}


def check(promise):
    manifest, members = bundles.numpy_example()
    check_manifest(bundles.with_members({**manifest, "training": promise}, members))


def test_a_whole_promise_is_taken():
    check(PROMISE)


@pytest.mark.parametrize("at", [(), ("marks",)])
def test_every_key_is_needed_and_no_other_is_known(at):
    def level(promise):
        return promise["marks"] if at else promise

    for key in level(PROMISE):
        less = copy.deepcopy(PROMISE)
        del level(less)[key]
        with pytest.raises(BundleRefused, match=f"'{key}'"):
            check(less)
    more = copy.deepcopy(PROMISE)
    level(more)["surprise"] = 1
    with pytest.raises(BundleRefused, match="surprise"):
        check(more)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("epsilon", 0),
        ("epsilon", "8"),
        ("delta", 0),
        ("delta", 1.1),
        ("unit", "release"),
        ("neighbours", "none"),
        ("marks", {**PROMISE["marks"], "range": 1}),
        ("marks", {**PROMISE["marks"], "tables": {"means": "\x1b"}}),
        ("marks", {**PROMISE["marks"], "models": []}),
    ],
)
def test_a_value_that_means_nothing_is_refused(key, value):
    with pytest.raises(BundleRefused, match=f"training.{key}"):
        check({**PROMISE, key: value})
