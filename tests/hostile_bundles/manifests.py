"""Bad manifests, each truly signed by a trusted key: what a careless signer could put in front of a runtime."""

from __future__ import annotations

import functools
import json
from typing import Any

from edgeveil.edge_runtime.manifest.schema import MAX_MANIFEST_BYTES
from tests.hostile_bundles import one_artefact, onnx_models
from tests.hostile_bundles.museum import changed, exhibit, exhibits, good, signed_text
from tests.support import bundles


def _text() -> str:
    return json.dumps(good()[0])


def _numpy(change: Any) -> bytes:
    return changed(change, example=bundles.numpy_example())


def _laplace(change: Any) -> bytes:
    return changed(change, example=bundles.laplace_example())


def _channel(change: Any) -> bytes:
    return changed(change, example=bundles.channel_example())


# The text itself


exhibits(
    None,
    ("json-duplicate-key", "duplicate_key", lambda: signed_text(_text()[:-1] + ', "name": "other"}')),
    (
        "json-duplicate-key",
        "duplicate_key_in_another_spelling",
        lambda: signed_text(_text()[:-1] + ', "n\\u0061me": "other"}'),
    ),
    (
        "json-duplicate-key",
        "duplicate_key_deep_inside",
        lambda: signed_text(_text().replace('"max_abs": 1.0', '"max_abs": 1.0, "max_abs": 100.0', 1)),
    ),
    ("json-number", "not_a_number", lambda: signed_text(_text().replace('"max_abs": 1.0', '"max_abs": NaN', 1))),
    ("json-number", "infinity", lambda: signed_text(_text().replace('"max_abs": 1.0', '"max_abs": Infinity', 1))),
    (
        "json-number",
        "number_that_overflows_to_infinity",
        lambda: signed_text(_text().replace('"max_abs": 1.0', '"max_abs": 1e999', 1)),
    ),
    (
        "json-number",
        "number_of_a_hundred_thousand_digits",
        lambda: signed_text(_text().replace('"security_version": 1', '"security_version": ' + "1" * 100_000)),
    ),
    (
        "json-depth",
        "nested_too_deep",
        lambda: signed_text('{"schema": 1, "stages": ' + "[" * 100_000 + "]" * 100_000 + "}"),
    ),
    ("json-syntax", "trailing_comma", lambda: signed_text(_text()[:-1] + ",}")),
    ("json-syntax", "comment_in_json", lambda: signed_text(_text() + " // trust me")),
    ("json-syntax", "two_documents", lambda: signed_text(_text() + _text())),
    ("json-syntax", "byte_order_mark", lambda: signed_text(b"\xef\xbb\xbf" + _text().encode())),
    ("json-syntax", "empty_manifest", lambda: signed_text("")),
    ("json-encoding", "utf_16", lambda: signed_text(_text().encode("utf-16"))),
    (
        "json-encoding",
        "broken_utf_8",
        lambda: signed_text(_text().replace("parity", "parit\udcff").encode("utf-8", "surrogateescape")),
    ),
    ("manifest-too-large", "manifest_too_large", lambda: signed_text(_text() + " " * MAX_MANIFEST_BYTES)),
    ("wrong-type", "manifest_is_a_list", lambda: signed_text("[]")),
)


# Keys, types and values


exhibits(
    changed,
    ("schema", "schema_of_tomorrow", lambda m: m.update(schema=2, wonder="yes")),
    ("wrong-type", "schema_is_true", lambda m: m.update(schema=True)),
    ("unknown-key", "unknown_key", lambda m: m.update(post_install="rm -rf /")),
    ("unknown-key", "unknown_key_deep_inside", lambda m: _artefact(m)["inputs"][0].update(axis=0)),
    ("unknown-key", "unknown_key_in_a_stage", lambda m: m["stages"][0].update(skip=True)),
    ("missing-key", "missing_key", lambda m: m.pop("security_version")),
    ("missing-key", "stage_without_a_name", lambda m: m["stages"][0].pop("stage")),
    ("wrong-type", "number_is_true", lambda m: m.update(security_version=True)),
    ("wrong-type", "whole_number_with_a_point", lambda m: m.update(security_version=1.0)),
    ("wrong-type", "truth_is_a_text", lambda m: m["perturber"].update(identity_allowed="false")),
    ("bad-value", "name_with_a_path", lambda m: m.update(name="../../boot")),
    ("bad-value", "text_that_plays_with_the_terminal", lambda m: m["perturber"].update(target="\x1b[2Jparity")),
    ("bad-value", "text_that_turns_the_line_around", lambda m: m["perturber"].update(sensitive="\u202eytirap")),
)
exhibits(None, ("bad-value", "half_of_a_surrogate_pair", lambda: signed_text(_text().replace('"parity"', '"\\ud800"'))))
exhibits(
    changed,
    ("bad-value", "hash_in_capitals", lambda m: m["provenance"].update(recipe_sha256="A" * 64)),
    ("bad-value", "hash_with_a_line_end", lambda m: m["provenance"].update(recipe_sha256="0" * 64 + "\n")),
    ("bad-value", "time_that_is_none", lambda m: m.update(created="yesterday")),
    ("bad-value", "negative_dimension", lambda m: m["input"].update(shape=[8, -8, 1])),
    ("bad-value", "dimension_zero", lambda m: m["input"].update(shape=[8, 0, 1])),
    ("bad-value", "shape_of_a_terabyte", lambda m: m["input"].update(shape=[2**20, 2**20, 1])),
    ("bad-value", "noise_of_a_terabyte", lambda m: m["stages"][1].update(shape=[2**20, 2**20])),
    ("bad-count", "image_of_two_dimensions", lambda m: m["input"].update(shape=[8, 8])),
    # NumPy would unpickle such an array.
    ("bad-value", "object_dtype", lambda m: m["input"].update(dtype="object")),
    ("bad-value", "empty_range", lambda m: m["input"].update(low=16.0)),
)


exhibits(
    _numpy,
    ("bad-count", "range_of_too_few_features", lambda m: m["input"].update(low=[0.0, 0.0], high=[1.0, 1.0])),
    ("raw-passthrough", "pipeline_that_only_rescales", lambda m: m["stages"][3].update(input="u")),
    ("unknown-table", "table_that_is_not_there", lambda m: m["stages"][2].update(table="other")),
    ("wrong-value", "table_of_the_wrong_type", lambda m: m["tables"]["means"].update(dtype="uint32")),
    ("output-mismatch", "table_of_the_wrong_width", lambda m: m["tables"]["means"].update(shape=[4, 5])),
    (
        "missing-member",
        "table_file_not_among_the_members",
        lambda m: m["tables"]["means"].update(file="tables/other.npy"),
    ),
)
exhibits(
    changed,
    ("bad-value", "scale_of_zero", lambda m: _artefact(m)["inputs"][0].update(scale=0)),
    ("bad-value", "zero_point_out_of_range", lambda m: _artefact(m)["inputs"][0].update(zero_point=128)),
    ("wrong-type", "scale_without_zero_point", lambda m: _artefact(m)["inputs"][0].update(zero_point=None)),
    ("bad-value", "negative_tolerance", lambda m: _artefact(m)["tolerance"].update(max_abs=-1)),
    ("tolerance", "tolerance_of_any_output", lambda m: _artefact(m)["tolerance"].update(max_abs=1e9)),
    ("bad-value", "format_that_nothing_runs", lambda m: _artefact(m).update(format="pickle")),
    ("bad-count", "ten_thousand_stages", lambda m: m.update(stages=m["stages"][:1] * 10_000)),
)


@exhibit("model")
def network_whose_weights_are_another_file() -> bytes:
    manifest, members = one_artefact.example("onnx", onnx_models.data_in_the_systems_files())
    return bundles.sealed(bundles.with_members(manifest, members), members)


# Stages and what leaves


exhibits(
    changed,
    ("unsupported-stage", "stage_of_tomorrow", lambda m: m["stages"][0].update(stage="shell")),
    ("unsupported-stage", "draw_from_another_distribution", lambda m: m["stages"][1].update(distribution="gaussian")),
    ("unsupported-stage", "stage_that_is_a_list", lambda m: m["stages"][0].update(stage=["preprocess"])),
    ("undefined-value", "value_before_it_is_made", lambda m: m["stages"].reverse()),
    ("redefined-value", "value_made_twice", lambda m: m["stages"][1].update(output="u")),
    ("redefined-value", "input_made_again", lambda m: m["stages"][1].update(output="x")),
    ("raw-passthrough", "raw_reading_as_output", lambda m: m["outputs"][0].update(tensor="x")),
)


@exhibit("raw-passthrough")
def rescaled_reading_as_code() -> bytes:
    code = {"name": "code", "kind": "code", "tensor": "u", "shape": [8, 8, 1], "dtype": "float32"}
    return changed(lambda m: m["outputs"].append(code))


@exhibit("wrong-value")
def noise_as_output() -> bytes:
    """Who knows the noise can take it off again."""
    code = {"name": "code", "kind": "code", "tensor": "noise", "shape": [16], "dtype": "float32"}
    return changed(lambda m: m["outputs"].append(code))


@exhibit("wrong-value")
def channel_over_something_that_is_no_code() -> bytes:
    def change(m: Any) -> None:
        noise = {"stage": "draw", "distribution": "uniform", "output": "noise", "shape": [4]}
        m["stages"].insert(2, noise)
        m["stages"][3]["input"] = "noise"

    return _channel(change)


@exhibit("wrong-value")
def steps_of_noise_as_output() -> bytes:
    code = {"name": "code", "kind": "code", "tensor": "noise", "shape": [4], "dtype": "int64"}
    return _laplace(lambda m: m["outputs"].append(code))


exhibits(
    _laplace,
    ("wrong-value", "steps_of_another_shape", lambda m: m["stages"][1].update(shape=[1])),
    ("raw-passthrough", "noise_that_is_drawn_and_not_added", lambda m: m["stages"][3].update(input="u")),
    ("bad-value", "noise_of_no_scale", lambda m: m["stages"][1].update(numerator=0)),
    ("bad-value", "grid_finer_than_a_float", lambda m: m["stages"][2].update(levels=2**21)),
)
exhibits(
    changed,
    ("redefined-value", "two_frames", lambda m: m["outputs"].append(m["outputs"][0])),
    ("output-mismatch", "frame_under_another_name", lambda m: m["outputs"][0].update(name="picture")),
    ("output-mismatch", "frame_of_another_shape", lambda m: m["outputs"][0].update(shape=[8, 8, 3])),
)


@exhibit("output-mismatch")
def frame_of_another_dtype() -> bytes:
    def change(m: Any) -> None:
        m["stages"][3]["dtype"] = m["outputs"][0]["dtype"] = "float32"

    return changed(change)


exhibits(
    changed,
    ("bad-count", "nothing_leaves", lambda m: m.update(outputs=[])),
    ("range-mismatch", "preprocess_with_another_range", lambda m: m["stages"][0].update(high=255.0)),
    ("range-mismatch", "output_with_another_range", lambda m: m["stages"][3].update(high=1e-9)),
)


# Whatever one place speaks of exists in another


exhibits(
    changed,
    ("unknown-model", "model_that_is_not_there", lambda m: m["stages"][2].update(model="other")),
    ("unused", "model_that_nothing_uses", lambda m: m["models"].update(spare=m["models"]["generator"])),
)
exhibits(
    _channel, ("wrong-value", "channel_table_of_three_dimensions", lambda m: m["tables"]["q"].update(shape=[4, 2, 2]))
)
exhibits(
    changed,
    (
        "tensor-mismatch",
        "stage_feeds_a_tensor_that_the_artefact_lacks",
        lambda m: m["stages"][2].update(inputs={"image": "u", "other": "noise"}),
    ),
    (
        "tensor-mismatch",
        "artefact_with_an_input_that_nothing_feeds",
        lambda m: m["stages"][2].update(inputs={"image": "u"}),
    ),
    ("redefined-value", "two_tensors_of_one_name", lambda m: _artefact(m)["inputs"].append(_artefact(m)["inputs"][0])),
    (
        "unknown-artefact",
        "preference_for_a_variant_that_is_not_there",
        lambda m: m["preference"].append("tflite-float32"),
    ),
    (
        "unknown-artefact",
        "profile_with_a_variant_that_is_not_there",
        lambda m: m["profiles"]["workstation"]["artefacts"].append("tflite-float32"),
    ),
    ("redefined-value", "preference_for_one_variant_twice", lambda m: m["preference"].append("tflite-int8")),
    ("artefact-mismatch", "variant_that_lies_about_its_precision", lambda m: _artefact(m).update(precision="float32")),
    (
        "artefact-hash",
        "artefact_hash_differs_from_its_member",
        lambda m: _artefact(m, "onnx-float32").update(sha256="0" * 64),
    ),
    ("golden-mismatch", "golden_output_missing", lambda m: m["golden"]["outputs"].pop("tflite-int8")),
    ("golden-mismatch", "golden_draw_missing", lambda m: m["golden"]["draws"].clear()),
    (
        "privacy-mismatch",
        "audit_of_another_artefact",
        lambda m: m["privacy"]["speaks_of"].update({"tflite-int8": {"generator": "0" * 64}}),
    ),
    (
        "privacy-mismatch",
        "audit_of_a_variant_that_is_not_there",
        lambda m: m["privacy"]["speaks_of"].update({"tflite-float32": {"generator": "0" * 64}}),
    ),
    ("privacy-mismatch", "audit_of_nothing", lambda m: m["privacy"].update(speaks_of={})),
    ("bad-value", "audit_under_another_name", lambda m: m["privacy"].update(file="privacy/summary.json")),
    ("privacy-mismatch", "card_without_an_audit", lambda m: m["privacy"].update(file=None)),
    (
        "privacy-mismatch",
        "audit_of_another_pipeline",
        lambda m: m["privacy"]["pipeline"].update({"tflite-int8": "0" * 64}),
    ),
    ("privacy-mismatch", "audit_of_no_pipeline", lambda m: m["privacy"]["pipeline"].clear()),
    ("bad-value", "page_under_another_name", lambda m: m["privacy"].update(page="privacy/index.html")),
    ("wrong-type", "audit_without_a_card", lambda m: m["privacy"].update(card=None)),
    ("privacy-mismatch", "audit_of_half_the_models", lambda m: m["privacy"]["speaks_of"].update({"tflite-int8": {}})),
)


@exhibit("missing-member")
def runtime_left_out() -> bytes:
    manifest, members = bundles.numpy_example()
    del members["runtime/edgeveil-edge.pyz"]
    return bundles.sealed(bundles.with_members(manifest, members), members)


@exhibit("extra-member")
def member_that_nothing_speaks_of() -> bytes:
    manifest, members = bundles.numpy_example()
    members["runtime/post-install.sh"] = b"#!/bin/sh"
    return bundles.sealed(bundles.with_members(manifest, members), members)


exhibits(
    changed,
    ("bad-value", "artefact_outside_its_folder", lambda m: _artefact(m).update(file="runtime/edgeveil-edge.pyz")),
    ("parent-path", "file_that_leads_out", lambda m: _artefact(m).update(file="artefacts/../../key")),
    ("absolute-path", "file_with_an_absolute_path", lambda m: m["golden"].update(input="/dev/zero")),
    ("member-order", "members_listed_twice", lambda m: m["members"].append(m["members"][-1])),
    ("hash-mismatch", "member_with_another_hash", lambda m: m["members"][-1].update(sha256="0" * 64)),
    ("size-mismatch", "member_with_another_size", lambda m: m["members"][-1].update(size=1)),
    ("bad-value", "empty_member", lambda m: m["members"][-1].update(size=0)),
)


def _artefact(manifest: Any, variant: str = "tflite-int8") -> Any:
    return manifest["models"]["generator"]["artefacts"][variant]


# Cleaners: vectors without a range, and codes with a decoder


def _cleaner(change: Any, *, code: bool = False) -> bytes:
    return changed(change, example=bundles.cleaner_example(code=code))


exhibits(
    _cleaner,
    ("wrong-type", "range_with_one_end", lambda m: m["input"].update(high=1.0)),
    ("bad-value", "whole_numbers_without_a_range", lambda m: m["input"].update(dtype="int16")),
    ("bad-value", "picture_without_a_range", lambda m: m["input"].update(kind="image", shape=[2, 3, 1])),
    (
        "bad-value",
        "unbounded_frame_that_must_not_pass_and_cannot_be_watched",
        lambda m: m["perturber"].update(identity_allowed=False),
    ),
    ("range-mismatch", "range_that_only_the_output_has", lambda m: m["stages"][2].update(low=0.0, high=1.0)),
)
exhibits(
    functools.partial(_cleaner, code=True),
    ("raw-passthrough", "reading_that_is_only_quantised", lambda m: m["stages"][2].update(input="u")),
    ("bad-value", "code_with_a_step_of_zero", lambda m: m["stages"][2].update(scale=0)),
    ("bad-value", "code_of_floats", lambda m: m["stages"][2].update(dtype="float32")),
    ("output-mismatch", "decoder_of_another_size", lambda m: m["outputs"][0].update(shape=[3])),
    ("output-mismatch", "decoder_of_a_frame", lambda m: m["outputs"][0].update(tensor="c", dtype="float32")),
    ("unknown-table", "decoder_that_is_not_there", lambda m: m["outputs"][0].update(decoder="other")),
    ("unused", "decoder_that_nothing_names", lambda m: m["outputs"][0].pop("decoder")),
    ("unknown-key", "decoder_on_a_label", lambda m: m["outputs"][0].update(decode="decoder")),
)


# Codes of which the receiver draws a sample, and tables of whole samples


def _whole_samples(change: Any) -> bytes:
    return changed(change, example=bundles.whole_samples_example())


@exhibit("output-mismatch")
def whole_samples_of_another_shape() -> bytes:
    return _whole_samples(lambda m: m["tables"]["means"].update(shape=[2, 8]))


@exhibit("wrong-value")
def whole_samples_that_an_output_stage_scales_again() -> bytes:
    def change(manifest: Any) -> None:
        manifest["stages"].append(
            {"stage": "output", "input": "x_out", "output": "again", "low": 0.0, "high": 16.0, "dtype": "uint8"}
        )

    return _whole_samples(change)


@exhibit("output-mismatch")
def pool_of_samples_of_another_shape() -> bytes:
    return _whole_samples(lambda m: m["outputs"][1].update(decoder="means"))


@exhibit("wrong-value")
def pool_of_another_type_than_the_input() -> bytes:
    def change(manifest: Any) -> None:
        manifest["tables"]["pool"] = {"file": "tables/means.npy", "shape": [4, 1, 4], "dtype": "float32"}
        manifest["outputs"][1]["decoder"] = "pool"

    return _whole_samples(change)


# Streams: what is to be held, and what would leave unheld


def _held(change: Any) -> bytes:
    return changed(change, example=bundles.held_example())


exhibits(
    _held,
    ("unheld", "label_of_every_frame_beside_a_held_code", lambda m: m["outputs"][1].update(tensor="label")),
    ("unheld", "draw_kept_by_what_changes", lambda m: m["stages"][4].update(by="label")),
    ("stream-mismatch", "hold_stages_without_a_stream", lambda m: m.update(stream=None)),
    (
        "stream-mismatch",
        "majority_of_a_clock_period",
        lambda m: m["stream"].update(hold="period", votes=None, period_s=600),
    ),
)


@exhibit("stream-mismatch")
def limit_of_draws_over_a_hold_that_keeps_none() -> bytes:
    return _held(lambda m: m["stream"].update(draws=2, acknowledged="two draws"))


@exhibit("bad-value")
def several_draws_of_a_track_that_no_one_acknowledged() -> bytes:
    return _held(lambda m: m["stream"].update(draws=2))


@exhibit("stream-mismatch")
def stream_that_nothing_holds() -> bytes:
    def change(manifest: Any) -> None:
        manifest["stream"] = {"hold": "track", "votes": 7, "period_s": None, "acknowledged": None}

    return changed(change)


@exhibit("bad-value")
def code_for_every_frame_that_nobody_acknowledged() -> bytes:
    def change(manifest: Any) -> None:
        manifest["stream"] = {"hold": "frame", "votes": None, "period_s": None, "acknowledged": ""}

    return changed(change)


@exhibit("bad-value")
def stream_with_votes_and_a_period() -> bytes:
    return _held(lambda m: m["stream"].update(period_s=600))


# Capture: frames that could not become the input, or a sensor that nobody has


def _captured(change: Any) -> bytes:
    return changed(lambda m: change(m["capture"]), example=bundles.captured_example())


exhibits(
    _captured,
    ("bad-value", "crop_larger_than_the_picture", lambda c: c["crop"].update(size=[425, 512])),
    ("bad-value", "people_in_a_colour_picture", lambda c: c["frame"].update(shape=[424, 512, 3])),
    ("bad-value", "depth_without_a_unit", lambda c: c["frame"].update(unit_mm=None)),
    ("bad-value", "depth_that_is_averaged", lambda c: c.update(resize="area")),
    ("bad-value", "height_without_crops", lambda c: c.update(crop=None, slots=1)),
    ("bad-value", "slots_without_crops", lambda c: c.update(crop=None, measure="depth")),
    ("bad-value", "capture_range_upside_down", lambda c: c.update(low=2200.0, high=0.0)),
    (
        "bad-value",
        "raw_values_of_another_type",
        lambda c: c.update(measure="value", low=None, high=None, crop=None, slots=1),
    ),
    ("bad-value", "window_around_people", lambda c: c.update(window=[0, 0, 424, 512])),
)


def _windowed(window: Any) -> bytes:
    plain = {"measure": "depth", "crop": None, "slots": 1, "window": window}
    return _captured(lambda c: c.update(plain))


exhibits(
    None,
    ("bad-value", "window_beyond_the_frame", lambda: _windowed([1, 0, 424, 512])),
    ("bad-value", "window_of_no_pixels", lambda: _windowed([0, 0, 0, 512])),
    ("bad-count", "window_without_a_height", lambda: _windowed([0, 0, 424])),
    ("bad-value", "window_left_of_the_frame", lambda: _windowed([0, -1, 424, 512])),
)
exhibits(
    _captured,
    ("bad-value", "ticks_faster_than_a_clock", lambda c: c.update(tick_hz=1e6)),
    ("bad-value", "fault_with_a_word_of_its_own", lambda c: c.update(on_fault="raw")),
)


@exhibit("redefined-value")
def access_point_named_twice() -> bytes:
    example = bundles.fingerprint_example()
    names = example[0]["capture"]["access_points"]
    return changed(lambda m: m["capture"].update(access_points=[names[0], *names[:3]]), example=example)


@exhibit("bad-value")
def access_point_by_its_name() -> bytes:
    example = bundles.fingerprint_example()
    names = example[0]["capture"]["access_points"]
    return changed(lambda m: m["capture"].update(access_points=["home", *names[1:]]), example=example)
