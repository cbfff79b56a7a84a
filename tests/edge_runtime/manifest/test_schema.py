"""The manifest of schema 1: every place is guarded, not only those that the museum shows."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.manifest.capture import pipeline_sha256
from edgeveil.edge_runtime.manifest.schema import check_manifest, referenced_files
from tests.support import bundles
from tests.support.promised import local_examples

EXAMPLES = {
    "artefact": bundles.artefact_example,
    "numpy": bundles.numpy_example,
    "channel": bundles.channel_example,
    "laplace": bundles.laplace_example,
    "held": bundles.held_example,
    **{"mechanism " + op: functools.partial(local_examples.example, op) for op in local_examples.OPS},
}
Path = tuple[Any, ...]

# Objects whose keys the maker of the bundle chooses; everywhere else keys are fixed.
OPEN = {
    ("models",),
    ("profiles",),
    ("tables",),
    ("provenance", "packages"),
    ("golden", "draws"),
    ("golden", "outputs"),
    ("privacy", "speaks_of"),
    ("privacy", "pipeline"),
}


def audited_as_it_is(manifest: dict[str, Any]) -> None:
    """Have the audit speak of the pipeline as it was changed into."""
    for variant in manifest["privacy"]["pipeline"]:
        manifest["privacy"]["pipeline"][variant] = pipeline_sha256(manifest, variant, {})


def sealed(example: str) -> dict[str, Any]:
    manifest, members = EXAMPLES[example]()
    return bundles.with_members(manifest, members)


def places(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from places(inner, (*path, number))


def at(manifest: Any, path: Path) -> Any:
    for step in path:
        manifest = manifest[step]
    return manifest


def refusal(manifest: Any, sealed: bool = True) -> BundleRefused:
    with pytest.raises(BundleRefused) as caught:
        check_manifest(manifest, sealed=sealed)
    return caught.value


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_accepted(example):
    check_manifest(sealed(example))


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_export_folders_manifest_has_no_members_yet(example):
    manifest = sealed(example)
    assert refusal(manifest, sealed=False).reason == "unknown-key"
    del manifest["members"]
    check_manifest(manifest, sealed=False)
    assert refusal(manifest).reason == "missing-key"


def _is_open(path: Path) -> bool:
    return (
        path in OPEN
        or (len(path) == 3 and path[0] == "models" and path[2] == "artefacts")
        or (path[:1] == ("stages",) and path[2:] in (("inputs",), ("outputs",)))
        or (len(path) == 3 and path[:2] in (("golden", "outputs"), ("privacy", "speaks_of")))
    )


OF_ANY_KEYS = (("provenance", "packages"), ("profiles",))


@pytest.mark.parametrize("example", EXAMPLES)
def test_unknown_and_missing_keys_are_refused_at_every_level(example):
    manifest = sealed(example)
    levels = [(path, value) for path, value in places(manifest) if isinstance(value, dict)]
    assert len(levels) > 15
    for path, value in levels:
        value["surprise"] = 1
        error = refusal(manifest)
        del value["surprise"]
        assert _is_open(path) or error.reason == "unknown-key", path
        whole = dict(value)
        for key in whole:
            del value[key]
            error = None
            if path in OF_ANY_KEYS or (*path, key) == ("spending",):
                check_manifest(manifest)
            else:
                error = refusal(manifest)
            value.clear()
            value.update(whole)
            if error is None:
                continue
            assert _is_open(path) or error.reason == "missing-key", (path, key)
            assert _is_open(path) or f"'{key}'" in str(error)


WRONG = [None, True, 7, 1.5, 1e300, "", "Ünicode/..", "\x00", [], [[]], {}, {"a": {}}]


@pytest.mark.parametrize("example", EXAMPLES)
def test_whatever_stands_anywhere_is_refused_where_its_type_is_another_and_nothing_else_comes_out(example):
    manifest = sealed(example)
    before, count = json.dumps(manifest), 0
    for wrong in WRONG:
        refusal(wrong)
        for path, value in list(places(manifest))[1:]:
            owner, place = at(manifest, path[:-1]), path[-1]
            owner[place] = wrong
            try:
                check_manifest(manifest)
                error = None
            except BundleRefused as caught:
                error = caught
            owner[place] = value
            whole_for_real = isinstance(value, float) and type(wrong) is int
            for_ever = path == ("spending", "period_s") and type(wrong) in (int, float)
            if type(wrong) is type(value) or whole_for_real or (for_ever and wrong < 1e30):
                continue  # acceptance is as good an outcome here
            assert error is not None, (path, wrong)
            assert str(error).isprintable(), (path, wrong)
            if isinstance(value, str) and not isinstance(wrong, (str, dict)) and wrong is not None:
                assert error.reason in ("wrong-type", "unsupported-stage"), (path, wrong)
            count += 1
    assert count > 40 * len(WRONG)
    assert json.dumps(manifest) == before


@pytest.mark.parametrize(("name", "value"), [("low", -5), ("low", 15.999), ("high", 10**30)])
def test_ranges_may_be_whole_numbers_and_must_be_the_same_in_all_places(name, value):
    manifest = sealed("numpy")
    for owner in (manifest["input"], manifest["stages"][0], manifest["stages"][3]):
        assert owner is manifest["input"] or refusal(manifest).reason == "range-mismatch"
        owner[name] = value
    check_manifest(manifest)


def test_ranges_may_be_given_per_feature():
    manifest = sealed("numpy")
    for owner in (manifest["input"], manifest["stages"][0], manifest["stages"][3]):
        owner.update(low=[0, 1, 2, 3], high=[4.0, 5.0, 6.0, 7.0])
    check_manifest(manifest)
    for owner in (manifest["input"], manifest["stages"][0], manifest["stages"][3]):
        owner.update(high=[4.0, 5.0, 2.0, 7.0])
    assert refusal(manifest).reason == "bad-value"


def test_label_and_code_may_leave_alone():
    manifest = sealed("channel")
    manifest["outputs"].insert(
        0, {"name": "first-guess", "kind": "label", "tensor": "label", "shape": [], "dtype": "int64"}
    )
    manifest["golden"]["outputs"]["numpy"]["first-guess"] = "golden/numpy.code.npy"
    check_manifest(manifest)


def test_a_model_may_make_a_code():
    manifest = sealed("artefact")
    code = {"name": "embedding", "kind": "code", "tensor": "v", "shape": [8, 8, 1], "dtype": "float32"}
    manifest["outputs"].append(code)
    for recorded in manifest["golden"]["outputs"].values():
        recorded["embedding"] = recorded["frame"]
    audited_as_it_is(manifest)
    check_manifest(manifest)


def test_two_models_need_the_same_variants():
    manifest = sealed("artefact")
    second = copy.deepcopy(manifest["models"]["generator"])
    manifest["models"]["second"] = second
    stage = {
        "stage": "artefact",
        "model": "second",
        "inputs": {"image": "v", "noise": "noise"},
        "outputs": {"output": "w"},
    }
    manifest["stages"].insert(3, stage)
    for hashes in manifest["privacy"]["speaks_of"].values():
        hashes["second"] = hashes["generator"]
    audited_as_it_is(manifest)
    check_manifest(manifest)
    del second["artefacts"]["onnx-float32"]
    assert refusal(manifest).reason == "artefact-mismatch"


def test_no_reading_leaves_by_way_of_any_stage_that_only_rescales():
    """Every use of the raw or rescaled reading, but for the two that are meant, is refused with one word."""
    manifest = sealed("artefact")
    uses: list[Callable[[Any, str], None]] = [
        lambda m, name: m["outputs"][0].update(tensor=name),
        lambda m, name: m["stages"][3].update(input=name),
    ]
    for use in uses:
        for name in ("x", "u"):
            changed = copy.deepcopy(manifest)
            use(changed, name)
            assert refusal(changed).reason == "raw-passthrough"


def test_files_that_a_manifest_speaks_of():
    for example in EXAMPLES.values():
        manifest, members = example()
        assert referenced_files(manifest) == sorted(set(members) - {"runtime/edgeveil-edge.pyz"})


def test_messages_name_the_place_what_was_expected_and_what_came():
    manifest = sealed("artefact")
    manifest["models"]["generator"]["artefacts"]["tflite-int8"]["inputs"][1]["dtype"] = "complex64"
    message = str(refusal(manifest))
    assert "models.generator.artefacts.tflite-int8.inputs[1].dtype" in message
    assert "expected one of float16, float32, int16, int32, int64, int8, uint8" in message
    assert "got 'complex64'" in message
    assert message.endswith("Export and seal it again with this version of EdgeVeil.")


def test_members_are_sorted_and_distinct():
    manifest = sealed("numpy")
    for members in (manifest["members"][::-1], [manifest["members"][0], *manifest["members"]]):
        assert refusal({**manifest, "members": members}).reason == "member-order"


def test_long_values_are_cut_short_in_messages():
    manifest = sealed("numpy")
    manifest["perturber"]["target"] = "x" * 10**6
    assert len(str(refusal(manifest))) < 300


def test_the_examples_are_json():
    for example in EXAMPLES:
        assert json.loads(json.dumps(sealed(example))) == sealed(example)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["stages"].insert(0, m["stages"].pop(1)),
        lambda m: m["models"]["generator"]["artefacts"]["tflite-int8"]["outputs"][0].update(scale=0.5),
        lambda m: m["input"].update(low=1.0) or [m["stages"][i].update(low=1.0) for i in (0, 3)],
    ],
    ids=["stages in another order", "another scale of a tensor", "another range"],
)
def test_an_audit_of_another_pipeline_is_none(change):
    manifest = sealed("artefact")
    check_manifest(manifest)
    change(manifest)
    error = refusal(manifest)
    assert error.reason == "privacy-mismatch"
    assert "other stages or tables" in str(error)


@pytest.mark.parametrize("sensor", ["sonar", None, 3])
def test_a_sensor_is_one_of_those_there_are(sensor):
    manifest = sealed("numpy")
    manifest["input"]["sensor"] = sensor
    with pytest.raises(BundleRefused, match=r"input\.sensor"):
        check_manifest(manifest)


def test_a_bundle_may_name_its_sensor_or_not():
    manifest, members = EXAMPLES["numpy"]()
    assert check_manifest(bundles.with_members(manifest, members)).input.sensor is None
    manifest["input"]["sensor"] = "depth"
    assert check_manifest(bundles.with_members(manifest, members)).input.sensor == "depth"
