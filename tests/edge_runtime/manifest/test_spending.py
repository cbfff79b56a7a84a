"""The promise of a manifest: what costs what, what is covered, and that a bundle cannot claim less than it spends."""

from __future__ import annotations

import copy
import hashlib
import io
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.manifest.capture import PARTS, pipeline_sha256
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.manifest.schema import check_manifest
from edgeveil.edge_runtime.manifest.spending import charged, epsilon_of, repeats, repeats_paid
from tests.support import bundles
from tests.support.promised import held_examples
from tests.support.promised import local_examples as local

PROMISE = {"micro_epsilon": 10**7, "unit": "track", "most_micro_epsilon": 10**8, "period_s": 60}


def read(manifest, members):
    return read_bundle(bundles.sealed(bundles.with_members(manifest, members), members), bundles.trust())


def refusal(manifest, members=None):
    """The word that a manifest, or with members a sealed bundle, is refused with."""
    check = (lambda: check_manifest(manifest, sealed=False)) if members is None else lambda: read(manifest, members)
    with pytest.raises(BundleRefused) as found:
        check()
    return found.value.reason


def spent(manifest, members):
    tables = {name: np.load(io.BytesIO(members[table["file"]])) for name, table in manifest["tables"].items()}
    return epsilon_of(manifest["stages"], manifest["outputs"], tables)


@pytest.mark.parametrize("op", local.OPS)
def test_a_claim_holds_to_the_last_step_and_no_further(op):
    manifest, members = local.example(op)
    claim = math.ceil(spent(manifest, members) * 10**6)
    assert claim <= 10**6
    manifest["spending"]["micro_epsilon"] = claim
    assert read(manifest, members).manifest.spending.micro_epsilon == claim
    manifest["spending"]["micro_epsilon"] = claim - 1
    assert refusal(manifest, members) == "spending-mismatch"


@pytest.mark.parametrize("op", ["duchi-linf", "duchi-l2", "hybrid", "hrr", "hcms"])
def test_one_unit_in_the_last_place_of_a_coin_is_seen(op):
    manifest, members = local.example(op)
    turn = next(stage for stage in manifest["stages"] if stage.get("output") == "turn")
    turn["numerator"] += 1
    assert refusal(manifest, members) == "spending-mismatch"
    turn["numerator"] = local.COIN - turn["numerator"]  # the other way round tells as much
    assert refusal(manifest, members) == "spending-mismatch"
    turn["numerator"] += 1
    read(manifest, members)


def test_one_unit_of_each_integer_of_the_piecewise_mechanism_is_seen():
    manifest, members = local.example("hybrid")
    for name, key, step in (("kept", "numerator", 1), ("within", "bound", -1), ("beyond", "bound", 1)):
        changed = copy.deepcopy(manifest)
        stage = next(stage for stage in changed["stages"] if stage.get("output") == name)
        stage[key] += step
        # Its other mechanism has its share too: that of the coin alone is not the larger one now.
        assert spent(changed, members) > spent(manifest, members)


@pytest.mark.parametrize(
    ("op", "name", "step"), [("oue", "own", 1), ("oue", "others", -1), ("rappor", "own", 1), ("cms", "kept", 1)]
)
def test_one_unit_of_the_coins_of_bits_is_seen(op, name, step):
    manifest, members = local.example(op)
    next(stage for stage in manifest["stages"] if stage.get("output") == name)["numerator"] += step
    assert refusal(manifest, members) == "spending-mismatch"


def test_laplace_costs_its_values_times_levels_over_scale():
    manifest, members = local.example("laplace", 2.0)
    steps = next(stage for stage in manifest["stages"] if stage.get("distribution") == "laplace")
    steps.update(numerator=4 * 256, denominator=2)
    assert spent(manifest, members) == 2
    steps["numerator"] -= 1
    assert refusal(manifest, members) == "spending-mismatch"


@pytest.mark.parametrize("entry", [0, 1])
def test_a_channel_with_a_zero_promises_nothing_and_a_smaller_number_less(entry):
    manifest, members = local.example("k-rr")
    table = local.channel(4, 1.0)
    table[2, 2] += table[2, 1] - entry
    table[2, 1] = entry
    members["tables/q.npy"] = bundles.npy(table)
    assert refusal(manifest, members) == "spending-mismatch"
    assert spent(manifest, members).is_infinite() == (entry == 0)


def test_a_category_that_is_never_sent_costs_nothing():
    manifest, members = local.example("k-rr")
    table = np.hstack([local.channel(4, 1.0), np.zeros((4, 1), np.uint32)])
    members["tables/q.npy"] = bundles.npy(table)
    assert spent(manifest, members) == spent(*local.example("k-rr"))


def test_a_table_is_read_as_numpy_reads_it_or_not_at_all():
    manifest, members = local.example("k-rr")
    table = local.channel(4, 1.0)
    for other in (
        b"no array",
        members["tables/q.npy"] + b"\0" * 4,
        members["tables/q.npy"][:-4],
        bundles.npy(np.asfortranarray(np.triu(table))),
        bundles.npy(table.astype(np.int32)),
        bundles.npy(table.astype(">u4")),
        bundles.npy(table.reshape(2, 8)),
        members["tables/q.npy"].replace(b"NUMPY\x01", b"NUMPY\x02"),
    ):
        assert refusal(manifest, {**members, "tables/q.npy": other}) == "wrong-value"


def twice(manifest):
    """A second mechanism on the same sample, both of which leave."""
    second = copy.deepcopy([stage for stage in manifest["stages"] if stage["stage"] in ("draw", "mechanism")])
    for stage in second:
        stage["output"] += "2"
        if "noise" in stage:
            stage["noise"] = [name + "2" for name in stage["noise"]]
    manifest["stages"] += second
    manifest["outputs"].append({**manifest["outputs"][0], "name": "second", "tensor": "report2"})


def test_reports_that_leave_add_up_and_others_do_not_count():
    manifest, _ = local.example("duchi-linf")
    one = epsilon_of(manifest["stages"], manifest["outputs"], {})
    twice(manifest)
    two = Fraction(epsilon_of(manifest["stages"], manifest["outputs"], {}))
    assert 0 <= two - 2 * Fraction(one) < Fraction(1, 10**45)  # as decimals, 28 digits would be left
    assert epsilon_of(manifest["stages"], manifest["outputs"][:1], {}) == one
    manifest["outputs"][1]["tensor"] = "report"  # the same report under another name
    assert epsilon_of(manifest["stages"], manifest["outputs"], {}) == one


def test_what_is_made_of_a_report_costs_nothing():
    manifest, _ = local.example("rappor")
    one = epsilon_of(manifest["stages"], manifest["outputs"], {})
    noise = [local.draw(name, "coin", [4], numerator=2**60) for name in ("a", "b")]
    manifest["stages"] += local.mechanism("rappor-again", "report", noise)
    manifest["stages"][-1]["output"] = manifest["outputs"][0]["tensor"] = "again"
    assert epsilon_of(manifest["stages"], manifest["outputs"], {}) == one
    assert [stage["op"] for stage in charged(manifest["stages"], manifest["outputs"])] == ["rappor"]


def test_added_noise_and_what_is_made_of_it_are_covered():
    manifest, members = bundles.laplace_example()
    manifest["spending"] = {**PROMISE, "micro_epsilon": 12 * 10**6}
    read(manifest, members)
    assert spent(manifest, members) == Decimal(12)  # 4 values, 16 levels, scale 16/3
    manifest["spending"]["micro_epsilon"] -= 1
    assert refusal(manifest, members) == "spending-mismatch"


def test_a_label_beside_its_noisy_self_is_not_covered():
    manifest, members = local.example("k-rr")
    manifest["outputs"].append({"name": "label", "kind": "label", "tensor": "label", "shape": [], "dtype": "int64"})
    members["golden/numpy.label.npy"] = members["golden/numpy.report.npy"]
    manifest["golden"]["outputs"]["numpy"]["label"] = "golden/numpy.label.npy"
    assert refusal(manifest, members) == "uncovered"
    del manifest["spending"]
    read(manifest, members)


def test_frames_without_noise_are_not_covered():
    for example in (bundles.numpy_example, bundles.artefact_example, bundles.held_example):
        manifest, _ = example()
        manifest["spending"] = PROMISE
        assert refusal(manifest) == "uncovered"


def test_a_code_held_by_a_majority_is_covered_and_by_the_class_of_a_frame_is_not():
    manifest, _ = bundles.held_example()
    manifest["spending"] = PROMISE
    manifest["outputs"] = manifest["outputs"][:1]
    del manifest["golden"]["outputs"]["numpy"]["label"]
    check_manifest(manifest, sealed=False)
    manifest["stream"] = {"hold": "period", "votes": None, "period_s": 60, "acknowledged": None}
    del manifest["stages"][2]
    manifest["stages"][2]["input"] = manifest["stages"][3]["by"] = "label"
    assert refusal(manifest) == "uncovered"
    manifest["stages"][3] = {"stage": "hold", "op": "first", "input": "drawn", "output": "kept"}
    check_manifest(manifest, sealed=False)


@pytest.mark.parametrize("stream", held_examples.STREAMS)
@pytest.mark.parametrize(("op", "again"), [("k-rr", False), ("oue", False), ("hrr", False), ("rappor", True)])
def test_a_kept_answer_is_charged_once(op, again, stream):
    manifest, members = held_examples.example(op, stream, again=again)
    opened = read(manifest, members).manifest
    assert repeats_paid(opened)
    assert spent(manifest, members) <= Decimal("1.000001")
    plain, members = local.example(op)
    assert not repeats_paid(read(plain, members).manifest)
    assert spent(plain, members) == spent(manifest, members)
    del manifest["spending"]
    check_manifest(manifest, sealed=False)
    assert not repeats_paid(parse(manifest))


def test_an_answer_given_anew_of_a_kept_class_is_charged_each_time():
    manifest, _ = held_examples.parts("k-rr", "track")
    *before, answer, hold = manifest["stages"]
    kept = {**hold, "input": "label", "output": "class"}
    outputs = [{**manifest["outputs"][0], "tensor": "report"}]
    assert not repeats([*before, kept, {**answer, "input": "class"}], outputs)
    # Beside a kept answer, too: what is charged each time would be free.
    twice = [*manifest["stages"], kept, {**answer, "input": "class", "output": "fresh"}]
    assert not repeats(twice, [*manifest["outputs"], {**outputs[0], "name": "fresh", "tensor": "fresh"}])
    assert repeats(twice, manifest["outputs"])


def test_what_is_kept_for_a_class_that_is_not_voted_is_charged_each_time():
    manifest, _ = bundles.held_example()
    majority, draw, keep = (stage for stage in manifest["stages"] if stage["stage"] in ("hold", "draw"))
    outputs = [{"tensor": keep["output"]}]
    before = manifest["stages"][: manifest["stages"].index(majority)]
    assert repeats([*before, majority, draw, keep], outputs)
    label = majority["input"]
    assert not repeats([*before, {**draw, "input": label}, {**keep, "by": label}], outputs)


def test_two_sums_of_one_noise_are_refused():
    manifest, _ = bundles.laplace_example()
    again = {"stage": "add", "input": "u", "noise": "noise", "levels": 8, "output": "w"}
    manifest["stages"].insert(3, again)
    check_manifest(manifest, sealed=False)  # it promises nothing
    manifest["spending"] = PROMISE
    assert refusal(manifest) == "reused-noise"


@pytest.mark.parametrize("change", [("micro_epsilon", 0), ("micro_epsilon", 1.5), ("micro_epsilon", True)])
def test_a_promise_is_whole_steps(change):
    manifest, _ = local.example("oue")
    manifest["spending"][change[0]] = change[1]
    assert refusal(manifest) in ("bad-value", "wrong-type")


@pytest.mark.parametrize(
    "change",
    [{"unit": "person"}, {"most_micro_epsilon": 10**6 - 1}, {"period_s": 0}, {"period_s": -1}, {"period_s": "60"}],
)
def test_a_promise_has_its_limits(change):
    manifest, _ = local.example("oue")
    manifest["spending"].update(change)
    assert refusal(manifest) in ("bad-value", "wrong-type")


def test_a_bundle_without_a_promise_keeps_its_hash():
    """As they were before promises; the parts are written out here, so that a new one cannot slip in."""
    assert PARTS == ("input", "stages", "outputs", "stream", "capture")
    manifest, _ = bundles.artefact_example()
    file = manifest["models"]["generator"]["artefacts"]["tflite-int8"]
    file["sha256"] = hashlib.sha256(b"not a model, int8").hexdigest()  # what the example's file then was
    before = pipeline_sha256(manifest, "tflite-int8", {})
    assert before == "fce61791af23ee3e80611118e030a5e0fac558e22545f4f47995c7a502ab0ca3"
    manifest["spending"] = PROMISE
    promised = pipeline_sha256(manifest, "tflite-int8", {})
    assert promised != before
    manifest["spending"] = {**PROMISE, "unit": "subject"}
    assert pipeline_sha256(manifest, "tflite-int8", {}) not in (before, promised)
