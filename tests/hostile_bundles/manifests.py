"""Bad manifests, each truly signed by a trusted key: what a careless signer could put in front of a runtime."""

from __future__ import annotations

import json
from typing import Any

from edgeveil.edge_runtime.manifest.schema import MAX_MANIFEST_BYTES
from tests.hostile_bundles.museum import changed, exhibit, good, signed_text
from tests.support import bundles


def _text() -> str:
    return json.dumps(good()[0])


# The text itself


@exhibit("json-duplicate-key")
def duplicate_key() -> bytes:
    return signed_text(_text()[:-1] + ', "name": "other"}')


@exhibit("json-duplicate-key")
def duplicate_key_in_another_spelling() -> bytes:
    return signed_text(_text()[:-1] + ', "n\\u0061me": "other"}')


@exhibit("json-duplicate-key")
def duplicate_key_deep_inside() -> bytes:
    return signed_text(_text().replace('"max_abs": 1.0', '"max_abs": 1.0, "max_abs": 100.0', 1))


@exhibit("json-number")
def not_a_number() -> bytes:
    return signed_text(_text().replace('"max_abs": 1.0', '"max_abs": NaN', 1))


@exhibit("json-number")
def infinity() -> bytes:
    return signed_text(_text().replace('"max_abs": 1.0', '"max_abs": Infinity', 1))


@exhibit("json-number")
def number_that_overflows_to_infinity() -> bytes:
    return signed_text(_text().replace('"max_abs": 1.0', '"max_abs": 1e999', 1))


@exhibit("json-number")
def number_of_a_hundred_thousand_digits() -> bytes:
    return signed_text(_text().replace('"security_version": 1', '"security_version": ' + "1" * 100_000))


@exhibit("json-depth")
def nested_too_deep() -> bytes:
    return signed_text('{"schema": 1, "stages": ' + "[" * 100_000 + "]" * 100_000 + "}")


@exhibit("json-syntax")
def trailing_comma() -> bytes:
    return signed_text(_text()[:-1] + ",}")


@exhibit("json-syntax")
def comment_in_json() -> bytes:
    return signed_text(_text() + " // trust me")


@exhibit("json-syntax")
def two_documents() -> bytes:
    return signed_text(_text() + _text())


@exhibit("json-syntax")
def byte_order_mark() -> bytes:
    return signed_text(b"\xef\xbb\xbf" + _text().encode())


@exhibit("json-syntax")
def empty_manifest() -> bytes:
    return signed_text("")


@exhibit("json-encoding")
def utf_16() -> bytes:
    return signed_text(_text().encode("utf-16"))


@exhibit("json-encoding")
def broken_utf_8() -> bytes:
    return signed_text(_text().replace("parity", "parit\udcff").encode("utf-8", "surrogateescape"))


@exhibit("manifest-too-large")
def manifest_too_large() -> bytes:
    return signed_text(_text() + " " * MAX_MANIFEST_BYTES)


@exhibit("wrong-type")
def manifest_is_a_list() -> bytes:
    return signed_text("[]")


# Keys, types and values


@exhibit("schema")
def schema_of_tomorrow() -> bytes:
    return changed(lambda m: m.update(schema=2, wonder="yes"))


@exhibit("wrong-type")
def schema_is_true() -> bytes:
    return changed(lambda m: m.update(schema=True))


@exhibit("unknown-key")
def unknown_key() -> bytes:
    return changed(lambda m: m.update(post_install="rm -rf /"))


@exhibit("unknown-key")
def unknown_key_deep_inside() -> bytes:
    return changed(lambda m: _artefact(m)["inputs"][0].update(axis=0))


@exhibit("unknown-key")
def unknown_key_in_a_stage() -> bytes:
    return changed(lambda m: m["stages"][0].update(skip=True))


@exhibit("missing-key")
def missing_key() -> bytes:
    return changed(lambda m: m.pop("security_version"))


@exhibit("missing-key")
def stage_without_a_name() -> bytes:
    return changed(lambda m: m["stages"][0].pop("stage"))


@exhibit("wrong-type")
def number_is_true() -> bytes:
    return changed(lambda m: m.update(security_version=True))


@exhibit("wrong-type")
def whole_number_with_a_point() -> bytes:
    return changed(lambda m: m.update(security_version=1.0))


@exhibit("wrong-type")
def truth_is_a_text() -> bytes:
    return changed(lambda m: m["perturber"].update(identity_allowed="false"))


@exhibit("bad-value")
def name_with_a_path() -> bytes:
    return changed(lambda m: m.update(name="../../boot"))


@exhibit("bad-value")
def text_that_plays_with_the_terminal() -> bytes:
    return changed(lambda m: m["perturber"].update(target="\x1b[2Jparity"))


@exhibit("bad-value")
def text_that_turns_the_line_around() -> bytes:
    return changed(lambda m: m["perturber"].update(sensitive="\u202eytirap"))


@exhibit("bad-value")
def half_of_a_surrogate_pair() -> bytes:
    return signed_text(_text().replace('"parity"', '"\\ud800"'))


@exhibit("bad-value")
def hash_in_capitals() -> bytes:
    return changed(lambda m: m["provenance"].update(recipe_sha256="A" * 64))


@exhibit("bad-value")
def hash_with_a_line_end() -> bytes:
    return changed(lambda m: m["provenance"].update(recipe_sha256="0" * 64 + "\n"))


@exhibit("bad-value")
def time_that_is_none() -> bytes:
    return changed(lambda m: m.update(created="yesterday"))


@exhibit("bad-value")
def negative_dimension() -> bytes:
    return changed(lambda m: m["input"].update(shape=[8, -8, 1]))


@exhibit("bad-value")
def dimension_zero() -> bytes:
    return changed(lambda m: m["input"].update(shape=[8, 0, 1]))


@exhibit("bad-value")
def shape_of_a_terabyte() -> bytes:
    return changed(lambda m: m["input"].update(shape=[2**20, 2**20, 1]))


@exhibit("bad-value")
def noise_of_a_terabyte() -> bytes:
    return changed(lambda m: m["stages"][1].update(shape=[2**20, 2**20]))


@exhibit("bad-count")
def image_of_two_dimensions() -> bytes:
    return changed(lambda m: m["input"].update(shape=[8, 8]))


@exhibit("bad-value")
def object_dtype() -> bytes:
    """NumPy would unpickle such an array."""
    return changed(lambda m: m["input"].update(dtype="object"))


@exhibit("bad-value")
def empty_range() -> bytes:
    return changed(lambda m: m["input"].update(low=16.0))


@exhibit("bad-count")
def range_of_too_few_features() -> bytes:
    def change(m: Any) -> None:
        m["input"].update(low=[0.0, 0.0], high=[1.0, 1.0])

    return changed(change, example=bundles.numpy_example())


@exhibit("bad-value")
def scale_of_zero() -> bytes:
    return changed(lambda m: _artefact(m)["inputs"][0].update(scale=0))


@exhibit("bad-value")
def zero_point_out_of_range() -> bytes:
    return changed(lambda m: _artefact(m)["inputs"][0].update(zero_point=128))


@exhibit("wrong-type")
def scale_without_zero_point() -> bytes:
    return changed(lambda m: _artefact(m)["inputs"][0].update(zero_point=None))


@exhibit("bad-value")
def negative_tolerance() -> bytes:
    return changed(lambda m: _artefact(m)["tolerance"].update(max_abs=-1))


@exhibit("bad-value")
def format_that_nothing_runs() -> bytes:
    return changed(lambda m: _artefact(m).update(format="pickle"))


@exhibit("bad-count")
def ten_thousand_stages() -> bytes:
    return changed(lambda m: m.update(stages=m["stages"][:1] * 10_000))


# Stages and what leaves


@exhibit("unsupported-stage")
def stage_of_tomorrow() -> bytes:
    return changed(lambda m: m["stages"][0].update(stage="shell"))


@exhibit("unsupported-stage")
def draw_from_another_distribution() -> bytes:
    return changed(lambda m: m["stages"][1].update(distribution="gaussian"))


@exhibit("unsupported-stage")
def stage_that_is_a_list() -> bytes:
    return changed(lambda m: m["stages"][0].update(stage=["preprocess"]))


@exhibit("undefined-value")
def value_before_it_is_made() -> bytes:
    return changed(lambda m: m["stages"].reverse())


@exhibit("redefined-value")
def value_made_twice() -> bytes:
    return changed(lambda m: m["stages"][1].update(output="u"))


@exhibit("redefined-value")
def input_made_again() -> bytes:
    return changed(lambda m: m["stages"][1].update(output="x"))


@exhibit("raw-passthrough")
def raw_reading_as_output() -> bytes:
    return changed(lambda m: m["outputs"][0].update(tensor="x"))


@exhibit("raw-passthrough")
def rescaled_reading_as_code() -> bytes:
    code = {"name": "code", "kind": "code", "tensor": "u", "shape": [8, 8, 1], "dtype": "float32"}
    return changed(lambda m: m["outputs"].append(code))


@exhibit("raw-passthrough")
def pipeline_that_only_rescales() -> bytes:
    def change(m: Any) -> None:
        m["stages"][3]["input"] = "u"

    return changed(change, example=bundles.numpy_example())


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

    return changed(change, example=bundles.channel_example())


@exhibit("wrong-value")
def steps_of_noise_as_output() -> bytes:
    code = {"name": "code", "kind": "code", "tensor": "noise", "shape": [4], "dtype": "int64"}
    return changed(lambda m: m["outputs"].append(code), example=bundles.laplace_example())


@exhibit("wrong-value")
def steps_of_another_shape() -> bytes:
    return changed(lambda m: m["stages"][1].update(shape=[1]), example=bundles.laplace_example())


@exhibit("raw-passthrough")
def noise_that_is_drawn_and_not_added() -> bytes:
    def change(m: Any) -> None:
        m["stages"][3]["input"] = "u"

    return changed(change, example=bundles.laplace_example())


@exhibit("bad-value")
def noise_of_no_scale() -> bytes:
    return changed(lambda m: m["stages"][1].update(numerator=0), example=bundles.laplace_example())


@exhibit("bad-value")
def grid_finer_than_a_float() -> bytes:
    return changed(lambda m: m["stages"][2].update(levels=2**21), example=bundles.laplace_example())


@exhibit("redefined-value")
def two_frames() -> bytes:
    return changed(lambda m: m["outputs"].append(m["outputs"][0]))


@exhibit("output-mismatch")
def frame_under_another_name() -> bytes:
    return changed(lambda m: m["outputs"][0].update(name="picture"))


@exhibit("output-mismatch")
def frame_of_another_shape() -> bytes:
    return changed(lambda m: m["outputs"][0].update(shape=[8, 8, 3]))


@exhibit("output-mismatch")
def frame_of_another_dtype() -> bytes:
    def change(m: Any) -> None:
        m["stages"][3]["dtype"] = m["outputs"][0]["dtype"] = "float32"

    return changed(change)


@exhibit("bad-count")
def nothing_leaves() -> bytes:
    return changed(lambda m: m.update(outputs=[]))


@exhibit("range-mismatch")
def preprocess_with_another_range() -> bytes:
    return changed(lambda m: m["stages"][0].update(high=255.0))


@exhibit("range-mismatch")
def output_with_another_range() -> bytes:
    return changed(lambda m: m["stages"][3].update(high=1e-9))


# Whatever one place speaks of exists in another


@exhibit("unknown-model")
def model_that_is_not_there() -> bytes:
    return changed(lambda m: m["stages"][2].update(model="other"))


@exhibit("unused")
def model_that_nothing_uses() -> bytes:
    return changed(lambda m: m["models"].update(spare=m["models"]["generator"]))


@exhibit("unknown-table")
def table_that_is_not_there() -> bytes:
    return changed(lambda m: m["stages"][2].update(table="other"), example=bundles.numpy_example())


@exhibit("wrong-value")
def table_of_the_wrong_type() -> bytes:
    return changed(lambda m: m["tables"]["means"].update(dtype="uint32"), example=bundles.numpy_example())


@exhibit("wrong-value")
def channel_table_of_three_dimensions() -> bytes:
    return changed(lambda m: m["tables"]["q"].update(shape=[4, 2, 2]), example=bundles.channel_example())


@exhibit("output-mismatch")
def table_of_the_wrong_width() -> bytes:
    return changed(lambda m: m["tables"]["means"].update(shape=[4, 5]), example=bundles.numpy_example())


@exhibit("tensor-mismatch")
def stage_feeds_a_tensor_that_the_artefact_lacks() -> bytes:
    return changed(lambda m: m["stages"][2].update(inputs={"image": "u", "other": "noise"}))


@exhibit("tensor-mismatch")
def artefact_with_an_input_that_nothing_feeds() -> bytes:
    return changed(lambda m: m["stages"][2].update(inputs={"image": "u"}))


@exhibit("redefined-value")
def two_tensors_of_one_name() -> bytes:
    return changed(lambda m: _artefact(m)["inputs"].append(_artefact(m)["inputs"][0]))


@exhibit("unknown-artefact")
def preference_for_a_variant_that_is_not_there() -> bytes:
    return changed(lambda m: m["preference"].append("tflite-float32"))


@exhibit("unknown-artefact")
def profile_with_a_variant_that_is_not_there() -> bytes:
    return changed(lambda m: m["profiles"]["workstation"]["artefacts"].append("tflite-float32"))


@exhibit("redefined-value")
def preference_for_one_variant_twice() -> bytes:
    return changed(lambda m: m["preference"].append("tflite-int8"))


@exhibit("artefact-mismatch")
def variant_that_lies_about_its_precision() -> bytes:
    return changed(lambda m: _artefact(m).update(precision="float32"))


@exhibit("artefact-hash")
def artefact_hash_differs_from_its_member() -> bytes:
    return changed(lambda m: _artefact(m, "onnx-float32").update(sha256="0" * 64))


@exhibit("golden-mismatch")
def golden_output_missing() -> bytes:
    return changed(lambda m: m["golden"]["outputs"].pop("tflite-int8"))


@exhibit("golden-mismatch")
def golden_draw_missing() -> bytes:
    return changed(lambda m: m["golden"]["draws"].clear())


@exhibit("privacy-mismatch")
def audit_of_another_artefact() -> bytes:
    return changed(lambda m: m["privacy"]["speaks_of"].update({"tflite-int8": {"generator": "0" * 64}}))


@exhibit("privacy-mismatch")
def audit_of_a_variant_that_is_not_there() -> bytes:
    return changed(lambda m: m["privacy"]["speaks_of"].update({"tflite-float32": {"generator": "0" * 64}}))


@exhibit("privacy-mismatch")
def audit_of_nothing() -> bytes:
    return changed(lambda m: m["privacy"].update(speaks_of={}))


@exhibit("bad-value")
def audit_under_another_name() -> bytes:
    return changed(lambda m: m["privacy"].update(file="privacy/summary.json"))


@exhibit("privacy-mismatch")
def card_without_an_audit() -> bytes:
    return changed(lambda m: m["privacy"].update(file=None))


@exhibit("privacy-mismatch")
def audit_of_another_pipeline() -> bytes:
    return changed(lambda m: m["privacy"]["pipeline"].update({"tflite-int8": "0" * 64}))


@exhibit("privacy-mismatch")
def audit_of_no_pipeline() -> bytes:
    return changed(lambda m: m["privacy"]["pipeline"].clear())


@exhibit("bad-value")
def page_under_another_name() -> bytes:
    return changed(lambda m: m["privacy"].update(page="privacy/index.html"))


@exhibit("wrong-type")
def audit_without_a_card() -> bytes:
    return changed(lambda m: m["privacy"].update(card=None))


@exhibit("privacy-mismatch")
def audit_of_half_the_models() -> bytes:
    return changed(lambda m: m["privacy"]["speaks_of"].update({"tflite-int8": {}}))


@exhibit("missing-member")
def table_file_not_among_the_members() -> bytes:
    def change(m: Any) -> None:
        m["tables"]["means"]["file"] = "tables/other.npy"

    return changed(change, example=bundles.numpy_example())


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


@exhibit("bad-value")
def artefact_outside_its_folder() -> bytes:
    return changed(lambda m: _artefact(m).update(file="runtime/edgeveil-edge.pyz"))


@exhibit("parent-path")
def file_that_leads_out() -> bytes:
    return changed(lambda m: _artefact(m).update(file="artefacts/../../key"))


@exhibit("absolute-path")
def file_with_an_absolute_path() -> bytes:
    return changed(lambda m: m["golden"].update(input="/dev/zero"))


@exhibit("member-order")
def members_listed_twice() -> bytes:
    return changed(lambda m: m["members"].append(m["members"][-1]))


@exhibit("hash-mismatch")
def member_with_another_hash() -> bytes:
    return changed(lambda m: m["members"][-1].update(sha256="0" * 64))


@exhibit("size-mismatch")
def member_with_another_size() -> bytes:
    return changed(lambda m: m["members"][-1].update(size=1))


@exhibit("bad-value")
def empty_member() -> bytes:
    return changed(lambda m: m["members"][-1].update(size=0))


def _artefact(manifest: Any, variant: str = "tflite-int8") -> Any:
    return manifest["models"]["generator"]["artefacts"][variant]


# Cleaners: vectors without a range, and codes with a decoder


def _cleaner(change: Any, *, code: bool = False) -> bytes:
    return changed(change, example=bundles.cleaner_example(code=code))


@exhibit("wrong-type")
def range_with_one_end() -> bytes:
    return _cleaner(lambda m: m["input"].update(high=1.0))


@exhibit("bad-value")
def whole_numbers_without_a_range() -> bytes:
    return _cleaner(lambda m: m["input"].update(dtype="int16"))


@exhibit("bad-value")
def picture_without_a_range() -> bytes:
    return _cleaner(lambda m: m["input"].update(kind="image", shape=[2, 3, 1]))


@exhibit("bad-value")
def unbounded_frame_that_must_not_pass_and_cannot_be_watched() -> bytes:
    return _cleaner(lambda m: m["perturber"].update(identity_allowed=False))


@exhibit("range-mismatch")
def range_that_only_the_output_has() -> bytes:
    return _cleaner(lambda m: m["stages"][2].update(low=0.0, high=1.0))


@exhibit("raw-passthrough")
def reading_that_is_only_quantised() -> bytes:
    return _cleaner(lambda m: m["stages"][2].update(input="u"), code=True)


@exhibit("bad-value")
def code_with_a_step_of_zero() -> bytes:
    return _cleaner(lambda m: m["stages"][2].update(scale=0), code=True)


@exhibit("bad-value")
def code_of_floats() -> bytes:
    return _cleaner(lambda m: m["stages"][2].update(dtype="float32"), code=True)


@exhibit("output-mismatch")
def decoder_of_another_size() -> bytes:
    return _cleaner(lambda m: m["outputs"][0].update(shape=[3]), code=True)


@exhibit("output-mismatch")
def decoder_of_a_frame() -> bytes:
    def change(manifest: Any) -> None:
        manifest["outputs"][0].update(tensor="c", dtype="float32")

    return _cleaner(change, code=True)


@exhibit("unknown-table")
def decoder_that_is_not_there() -> bytes:
    return _cleaner(lambda m: m["outputs"][0].update(decoder="other"), code=True)


@exhibit("unused")
def decoder_that_nothing_names() -> bytes:
    return _cleaner(lambda m: m["outputs"][0].pop("decoder"), code=True)


@exhibit("unknown-key")
def decoder_on_a_label() -> bytes:
    return _cleaner(lambda m: m["outputs"][0].update(decode="decoder"), code=True)


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


@exhibit("unheld")
def label_of_every_frame_beside_a_held_code() -> bytes:
    return _held(lambda m: m["outputs"][1].update(tensor="label"))


@exhibit("unheld")
def draw_kept_by_what_changes() -> bytes:
    return _held(lambda m: m["stages"][4].update(by="label"))


@exhibit("stream-mismatch")
def hold_stages_without_a_stream() -> bytes:
    return _held(lambda m: m.update(stream=None))


@exhibit("stream-mismatch")
def majority_of_a_clock_period() -> bytes:
    return _held(lambda m: m["stream"].update(hold="period", votes=None, period_s=600))


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


@exhibit("bad-value")
def crop_larger_than_the_picture() -> bytes:
    return _captured(lambda c: c["crop"].update(size=[425, 512]))


@exhibit("bad-value")
def people_in_a_colour_picture() -> bytes:
    return _captured(lambda c: c["frame"].update(shape=[424, 512, 3]))


@exhibit("bad-value")
def depth_without_a_unit() -> bytes:
    return _captured(lambda c: c["frame"].update(unit_mm=None))


@exhibit("bad-value")
def depth_that_is_averaged() -> bytes:
    return _captured(lambda c: c.update(resize="area"))


@exhibit("bad-value")
def height_without_crops() -> bytes:
    return _captured(lambda c: c.update(crop=None, slots=1))


@exhibit("bad-value")
def slots_without_crops() -> bytes:
    return _captured(lambda c: c.update(crop=None, measure="depth"))


@exhibit("bad-value")
def capture_range_upside_down() -> bytes:
    return _captured(lambda c: c.update(low=2200.0, high=0.0))


@exhibit("bad-value")
def raw_values_of_another_type() -> bytes:
    return _captured(lambda c: c.update(measure="value", low=None, high=None, crop=None, slots=1))


@exhibit("bad-value")
def window_around_people() -> bytes:
    return _captured(lambda c: c.update(window=[0, 0, 424, 512]))


def _windowed(window: Any) -> bytes:
    plain = {"measure": "depth", "crop": None, "slots": 1, "window": window}
    return _captured(lambda c: c.update(plain))


@exhibit("bad-value")
def window_beyond_the_frame() -> bytes:
    return _windowed([1, 0, 424, 512])


@exhibit("bad-value")
def window_of_no_pixels() -> bytes:
    return _windowed([0, 0, 0, 512])


@exhibit("bad-count")
def window_without_a_height() -> bytes:
    return _windowed([0, 0, 424])


@exhibit("bad-value")
def window_left_of_the_frame() -> bytes:
    return _windowed([0, -1, 424, 512])


@exhibit("bad-value")
def ticks_faster_than_a_clock() -> bytes:
    return _captured(lambda c: c.update(tick_hz=1e6))


@exhibit("bad-value")
def fault_with_a_word_of_its_own() -> bytes:
    return _captured(lambda c: c.update(on_fault="raw"))


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
