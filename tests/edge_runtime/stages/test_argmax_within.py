"""A code is taken within the group of the predicted class, and nowhere else."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BundleRefused, FrameDropped
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.manifest.schema import check_manifest
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline, load_pipeline
from tests.support import bundles

WITHIN = {"stage": "table", "op": "argmax_within", "input": "codes", "group": "label", "groups": 2, "output": "code"}


class Encoder:
    """Gives what it is told to."""

    def __init__(self, labels, codes):
        self.outputs = {"labels": np.asarray(labels, np.float32), "codes": np.asarray(codes, np.float32)}

    def run(self, inputs):
        return self.outputs


def pipeline(labels, codes, **changes):
    description = {
        "input": {"name": "x", "kind": "vector", "shape": [1], "dtype": "uint8", "low": 0.0, "high": 1.0},
        "stages": [
            {"stage": "preprocess", "input": "x", "output": "u", "low": 0.0, "high": 1.0},
            {
                "stage": "artefact",
                "model": "encoder",
                "inputs": {"features": "u"},
                "outputs": {"labels": "labels", "codes": "codes"},
            },
            {"stage": "table", "op": "argmax", "input": "labels", "output": "label"},
            {**WITHIN, **changes},
        ],
        "outputs": [{"name": "code", "kind": "code", "tensor": "code", "shape": [], "dtype": "int64"}],
    }
    return Pipeline(parse(description), tables={}, runners={"encoder": Encoder(labels, codes)})


def codes(labels, values, **changes):
    return pipeline(labels, values, **changes).run(np.zeros((len(labels), 1), np.uint8))["code"].tolist()


def test_the_code_is_the_largest_within_its_class_and_tells_the_class():
    values = [[0, 1, 9, 3, 2, 1], [0, 1, 9, 3, 2, 1], [5, 1, 2, 9, 9, 9]]
    assert codes([[0, 1], [1, 0], [1, 0]], values) == [3, 2, 0]
    assert codes([[0, 1]], [[0, 9, 0, 0, 0, 0]]) == [3]  # what is larger in another class is not seen


@pytest.mark.parametrize(
    ("values", "changes", "reason"),
    [
        ([[0, 1, 2, 3, 4]], {}, "shape"),  # no two equal groups
        ([[0, 1, 2, 3]], {"groups": 1}, "code-range"),  # class 1 of one group
    ],
)
def test_what_does_not_fit_drops_the_frame(values, changes, reason):
    with pytest.raises(FrameDropped) as caught:
        codes([[0, 1]], values, **changes)
    assert caught.value.reason == reason


def manifest(**changes):
    """The example without models, its code taken within four groups of one feature each."""
    text, members = bundles.numpy_example()
    stages = text["stages"]
    within = {**WITHIN, "input": "u", "groups": 4, **changes}
    stages[2:2] = [{key: value for key, value in within.items() if value is not None}]
    stages[3]["input"] = "code"
    return text, members


def test_the_manifest_takes_it_and_the_pipeline_runs_it():
    text, members = manifest()
    check_manifest(bundles.with_members(text, members))
    made = load_pipeline(parse(text), members, "numpy")
    x = np.array([[9, 1, 2, 3], [1, 2, 3, 4]], np.uint8)
    assert made.run(x)["label"].tolist() == [0, 3]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"groups": 3}, "wrong-value"),  # four values
        ({"groups": 0}, "bad-value"),
        ({"groups": 2.0}, "wrong-type"),
        ({"groups": None}, "missing-key"),
        ({"group": "u"}, "raw-passthrough"),
        ({"group": "nothing"}, "undefined-value"),
        ({"input": "x"}, "raw-passthrough"),
        ({"input": "label"}, "wrong-value"),
        ({"output": "label"}, "redefined-value"),
        ({"table": "means"}, "unknown-key"),
        ({"op": "argmax"}, "unknown-key"),
        ({"op": "argmin_within"}, "unsupported-stage"),
    ],
)
def test_the_manifest_refuses_what_does_not_fit(changes, reason):
    text, members = manifest(**changes)
    with pytest.raises(BundleRefused) as caught:
        check_manifest(bundles.with_members(text, members))
    assert caught.value.reason == reason
