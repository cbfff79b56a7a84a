"""manifest.mechanism_rules: what each mechanism takes is checked before a bundle runs."""

from __future__ import annotations

import pytest

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.manifest.schema import check_manifest
from tests.support import bundles
from tests.support.promised import local_examples as local


def stage_of(manifest, output):
    return next(stage for stage in manifest["stages"] if stage.get("output") == output)


def refused(manifest, reason, words=""):
    with pytest.raises(BundleRefused) as found:
        check_manifest(manifest, sealed=False)
    assert found.value.reason == reason, str(found.value)
    assert words in str(found.value)


@pytest.mark.parametrize(
    ("op", "output", "change", "reason"),
    [
        ("duchi-linf", "report", {"places": 3}, "wrong-value"),
        ("duchi-linf", "report", {"places": 5.0}, "wrong-type"),
        ("duchi-linf", "fair", {"shape": [2]}, "wrong-value"),
        ("duchi-linf", "rounding", {"shape": [1]}, "wrong-value"),
        ("duchi-linf", "turn", {"shape": [1]}, "wrong-value"),
        ("duchi-linf", "turn", {"numerator": 0}, "bad-value"),
        ("duchi-linf", "report", {"noise": ["rounding", "turn", "fair"]}, "wrong-value"),
        ("duchi-linf", "report", {"noise": ["rounding", "fair"]}, "wrong-value"),
        ("duchi-linf", "report", {"noise": []}, "bad-count"),
        ("duchi-linf", "report", {"noise": "rounding"}, "wrong-type"),
        ("duchi-linf", "report", {"noise": ["rounding", "fair", "u"]}, "raw-passthrough"),
        ("duchi-linf", "report", {"noise": ["rounding", "fair", "fair"]}, "reused-noise"),
        ("duchi-linf", "report", {"input": "x"}, "raw-passthrough"),
        ("duchi-linf", "report", {"input": "fair"}, "wrong-value"),
        ("duchi-l2", "direction", {"shape": [3]}, "wrong-value"),
        ("duchi-l2", "report", {"radius": 0}, "bad-value"),
        ("duchi-l2", "report", {"radius": 1e-7}, "bad-value"),
        ("laplace", "report", {"levels": 2**20 + 1}, "bad-value"),
        ("laplace", "report", {"levels": 0}, "bad-value"),
        ("laplace", "steps", {"shape": [3]}, "wrong-value"),
        ("hybrid", "places", {"of": 3}, "wrong-value"),
        ("hybrid", "places", {"shape": [2]}, "wrong-value"),
        ("hybrid", "places", {"shape": [5]}, "bad-value"),
        ("hybrid", "within", {"bound": 2**24 + 1}, "bad-value"),
        ("hybrid", "report", {"noise": ["places", "rounding", "turn", "which"]}, "wrong-value"),
        ("oue", "others", {"shape": [1]}, "wrong-value"),
        ("oue", "others", {"shape": [4097]}, "wrong-value"),
        ("oue", "others", {"shape": [2, 2]}, "wrong-value"),
        ("oue", "report", {"input": "u"}, "raw-passthrough"),
        ("hrr", "row", {"bound": 3}, "wrong-value"),
        ("hrr", "row", {"bound": 1}, "wrong-value"),
        ("hrr", "row", {"shape": [2]}, "wrong-value"),
        ("cms", "kept", {"shape": [12]}, "wrong-value"),
        ("cms", "kept", {"shape": [4]}, "wrong-value"),
        ("cms", "kept", {"shape": [8192]}, "wrong-value"),
        ("cms", "kept", {"shape": []}, "wrong-value"),
        ("cms", "kept", {"shape": [8, 8]}, "wrong-value"),
        ("cms", "row", {"bound": 2**16 + 1}, "wrong-value"),
        ("cms", "report", {"categories": 1}, "bad-value"),
        ("cms", "report", {"categories": 2**20 + 1}, "bad-value"),
        ("cms", "report", {"seed": -1}, "bad-value"),
        ("hcms", "entry", {"bound": 12}, "wrong-value"),
        ("hcms", "report", {"noise": ["row", "turn"]}, "wrong-value"),
    ],
)
def test_what_does_not_fit_is_refused(op, output, change, reason):
    manifest, _ = local.example(op)
    stage_of(manifest, output).update(change)
    refused(manifest, reason)


def test_a_vector_of_4096_values_is_taken_and_no_more():
    for d, taken in ((4096, True), (4097, False)):
        manifest, _ = bundles.numpy_example()
        parts, _ = local.document("duchi-linf", 1.0, d)
        manifest |= parts
        manifest["tables"] = {}
        draws = [stage["output"] for stage in parts["stages"] if stage["stage"] == "draw"]
        manifest["golden"]["draws"] = {name: f"golden/{name}.npy" for name in draws}
        manifest["golden"]["outputs"] = {"numpy": {"report": "golden/report.npy"}}
        if taken:
            check_manifest(manifest, sealed=False)
        else:
            refused(manifest, "wrong-value", "at most 4096")


def test_an_input_without_a_range_has_no_bounds():
    manifest, _ = local.example("duchi-linf")
    manifest["input"].update(dtype="float32", low=None, high=None)
    manifest["stages"][0].update(low=None, high=None)
    refused(manifest, "wrong-value", "no bounds")


def test_a_report_goes_nowhere_but_out():
    for stage in (
        {"stage": "table", "op": "argmax", "input": "report", "output": "i"},
        {"stage": "quantise", "input": "report", "output": "i", "scale": 1.0, "dtype": "int8"},
        {"stage": "output", "input": "report", "output": "i", "low": 0.0, "high": 16.0, "dtype": "uint8"},
    ):
        manifest, _ = local.example("duchi-linf")
        manifest["stages"].append(stage)
        refused(manifest, "wrong-value", "report")


def test_lots_are_used_up():
    manifest, _ = local.example("duchi-linf")
    again = {**manifest["stages"][-1], "output": "second"}
    manifest["stages"].append(again)
    refused(manifest, "reused-noise", "stages[5].noise[0]: 'rounding' is used already")


def test_noise_that_was_added_cannot_be_reported_with_too():
    manifest, _ = local.example("laplace")
    manifest["stages"].append({"stage": "add", "input": "u", "noise": "steps", "levels": 16, "output": "v"})
    refused(manifest, "reused-noise")


def test_the_first_report_is_held_in_a_stream_alone():
    manifest, _ = local.example("duchi-linf")
    manifest["stages"].append({"stage": "hold", "op": "first", "input": "report", "output": "kept"})
    refused(manifest, "stream-mismatch")
    manifest["stream"] = {"hold": "track", "votes": 3, "period_s": None, "acknowledged": None}
    refused(manifest, "unheld")
    manifest["outputs"][0]["tensor"] = "kept"
    check_manifest(manifest, sealed=False)


def test_a_report_may_have_the_linear_table_that_decodes_it():
    manifest, _ = local.example("hybrid")
    manifest["outputs"][0]["decoder"] = "decoder"
    for rows, taken in ((9, True), (8, False)):
        manifest["tables"] = {"decoder": {"file": "tables/d.npy", "shape": [rows, 4], "dtype": "float32"}}
        if taken:
            check_manifest(manifest, sealed=False)
        else:
            refused(manifest, "output-mismatch")
