"""A bundle of each mechanism: sealed, opened, run by the runtime; what it sends averages to what it took."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import DeviceFailed, FrameDropped, PrivacyStop
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.manifest import Stage, parse
from edgeveil.edge_runtime.pipeline.compiler import compile_stage
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
from tests.support import bundles
from tests.support.once import nightly_but
from tests.support.promised import local_examples as local


def opened(op, alpha=1.0, d=4, change=None):
    manifest, members = local.example(op, alpha, d)
    if change:
        change(manifest, members)
    return Perturber.open(bundles.sealed(bundles.with_members(manifest, members), members), trust=bundles.trust())


@pytest.mark.parametrize("op", local.OPS)
def test_it_opens_and_its_noise_is_fresh(op):
    with opened(op) as perturber:
        sent = [perturber.perturb(RawFrame(np.array([1, 9, 3, 3], np.uint8), i)).outputs["report"] for i in range(300)]
        assert len({report.tobytes() for report in sent}) > 3
        batch = perturber.perturb_batch([RawFrame(np.array([1, 9, 3, 3], np.uint8), i) for i in range(300)])
        assert not perturber.dropped
    # Each half has what the other has, within what 300 draws let it be apart.
    means = [np.mean(np.stack(half).astype(float), axis=0) for half in (sent, [one.outputs["report"] for one in batch])]
    spread = np.std(np.stack(sent).astype(float), axis=0) + 1e-9
    assert (np.abs(means[0] - means[1]) < 6 * spread * math.sqrt(2 / 300) + 1e-6).all()


def test_epsilon_bounds_what_a_report_can_carry():
    """A reading of 4 values of 4.1 bits: an epsilon of 1 is 1.4 bits, one of 12 is 17.3."""

    def hides(manifest, _members):
        manifest["perturber"]["identity_allowed"] = False

    opened("duchi-linf", change=hides).close()
    with pytest.raises(PrivacyStop, match="can carry 17 bits"):
        opened("laplace", 12.0, change=hides)


def constants(op, parts):
    drawn = {stage["output"]: stage for stage in parts["stages"] if stage["stage"] == "draw"}
    chance = {name: stage["numerator"] / local.COIN for name, stage in drawn.items() if "numerator" in stage}
    return drawn, chance


def estimate(op, parts, report, d):
    """v~ (n, d), or the share of each category (n, d), by the formulas of docs/reference/bundle-format.md."""
    drawn, p = constants(op, parts)
    report = report.astype(float)
    if op == "duchi-linf":
        odd = d + 1 - d % 2
        return report * 2 ** (odd - 1) / math.comb(odd - 1, (odd - 1) // 2) / (2 * p["turn"] - 1)
    if op == "duchi-l2":
        b = math.sqrt(math.pi) / 2 * d * math.gamma((d + 1) / 2) / math.gamma(d / 2 + 1) / (2 * p["turn"] - 1)
        return report * b * parts["stages"][-1]["radius"]
    if op == "laplace":
        return 2 * report / 256 - 1
    if op == "hybrid":
        found = report[:, d:] / (2 * p["turn"] - 1)
        if "kept" in p:
            inside, beyond = drawn["within"]["bound"], drawn["beyond"]["bound"]
            found += report[:, :d] / (p["kept"] * (inside + beyond) - inside)
        return found * d / drawn["places"]["shape"][0]
    if op == "hrr":
        row, bit = report.astype(int) // 2, report.astype(int) % 2
        ones = np.array([[bin(r & c).count("1") % 2 for c in range(d)] for r in range(drawn["row"]["bound"])])
        return (2 * bit - 1)[:, None] * (1 - 2 * ones[row]) / (2 * p["turn"] - 1)
    if op == "k-rr":
        table = local.channel(d, parts["spending"]["micro_epsilon"] * 1e-6).astype(float) / 2**32
        return (np.eye(d)[report.astype(int)] - table[0, 1]) / (table[0, 0] - table[0, 1])
    return (report - p["others"]) / (p["own"] - p["others"])


@pytest.mark.parametrize("d", [1, 2, 4, 11])
@pytest.mark.parametrize("alpha", nightly_but((1, 5), 5))
@pytest.mark.parametrize("op", ["duchi-linf", "duchi-l2", "laplace", "hybrid"])
def test_vectors_are_unbiased(op, alpha, d):
    parts, _ = local.document(op, alpha, d, radius=math.sqrt(d)) if op == "duchi-l2" else local.document(op, alpha, d)
    n, run = 60_000, local.pipeline(parts, {}).run
    for x in (np.zeros(d), np.full(d, 16), np.linspace(1, 15, d).round()):
        found = estimate(op, parts, run(np.tile(x.astype(np.uint8), (n, 1)))["report"], d)
        z = (found.mean(axis=0) - (x / 8 - 1)) / (found.std(axis=0) / math.sqrt(n))
        assert np.abs(z).max() < 6  # all of these together fail for nothing once in a million runs


@pytest.mark.parametrize("d", [2, 5, 16])
@pytest.mark.parametrize("op", ["k-rr", "oue", "rappor", "hrr"])
def test_categories_are_unbiased(op, d):
    parts, tables = local.document(op, 1, d)
    n, run = 60_000, local.pipeline(parts, tables).run
    for c in (0, d - 1):
        x = np.where(np.arange(d) == c, 16, 3).astype(np.uint8)
        found = estimate(op, parts, run(np.tile(x, (n, 1)))["report"], d)
        z = (found.mean(axis=0) - (np.arange(d) == c)) / (found.std(axis=0) / math.sqrt(n))
        assert np.abs(z).max() < 6


@pytest.mark.parametrize(
    ("op", "alpha", "expected"),
    [
        ("duchi-linf", 1, 77.03),
        ("duchi-l2", 1, 6.985),
        ("laplace", 1, 968),
        ("hybrid", 1, 50.09),
        ("duchi-linf", 5, 16.67),
        ("laplace", 5, 38.72),
        ("hybrid", 5, 4.870),
    ],
)
def test_variance_is_that_of_the_papers(op, alpha, expected):
    """Per value at d = 11; in the ball |x| = .7, for the others linspace(-.9, .8)."""
    parts, _ = local.document(op, alpha, 11)
    v = np.linspace(-0.9, 0.8, 11)
    if op == "duchi-l2":
        v *= 0.7 / np.linalg.norm(v)
    parts["input"].update(dtype="float32", low=-1.0, high=1.0)
    parts["stages"][0].update(low=-1.0, high=1.0)
    run = local.pipeline(parts, {}).run
    found = estimate(op, parts, run(np.tile(v.astype(np.float32), (150_000, 1)))["report"], 11)
    assert found.var(axis=0).mean() == pytest.approx(expected, rel=0.02)


def test_nothing_is_dropped_for_what_it_shows():
    """Far outside the bounds, infinite, or of a category that the mechanism has not: clipped. No number: dropped."""
    parts, _ = local.document("duchi-linf", 1, 3)
    parts["input"].update(dtype="float32")
    run = local.pipeline(parts, {}).run
    assert run(np.array([[np.inf, -np.inf, 1e30]], np.float32))["report"].shape == (1, 3)
    with pytest.raises(FrameDropped, match="not-finite"):
        run(np.array([[np.nan, 0, 0]], np.float32))
    few, tables = local.document("k-rr", 1, 4)
    wide = np.eye(4, dtype=np.uint8)[:, ::-1]
    tables["q"] = local.channel(3, 1)
    assert set(local.pipeline(few, tables).run(wide)["report"]) <= {0, 1, 2}
    del few["spending"]
    with pytest.raises(FrameDropped, match="code-range"):
        local.pipeline(few, tables).run(wide)
    bits, _ = local.document("oue", 1, 4)
    bits["stages"][3]["shape"] = bits["outputs"][0]["shape"] = [3]
    assert local.pipeline(bits, {}).run(wide)["report"].shape == (4, 3)


def test_a_permanent_answer_is_held_and_an_instantaneous_one_is_not():
    parts, _ = local.document("rappor", 1, 4)
    parts["stream"] = {"hold": "track", "votes": 1, "period_s": None, "acknowledged": None}
    noise = [local.draw("a", "coin", [4], numerator=local.COIN * 3 // 4), local.draw("b", "coin", [4], numerator=2**60)]
    parts["stages"].append({"stage": "hold", "op": "first", "input": "report", "output": "kept"})
    parts["stages"] += [
        {**s, "output": "again"} if s["stage"] == "mechanism" else s
        for s in local.mechanism("rappor-again", "kept", noise)
    ]
    parts["outputs"] = [{**parts["outputs"][0], "tensor": name, "name": name} for name in ("kept", "again")]
    pipeline = local.pipeline(parts, {})
    x = np.tile(np.array([0, 16, 0, 0], np.uint8), (1600, 1))
    out = pipeline.run(x, tracks=[0, 1] * 800)
    for track in (0, 1):
        assert (out["kept"][track::2] == out["kept"][track]).all()
        assert len({bits.tobytes() for bits in out["again"][track::2]}) > 4
        share = out["again"][track::2].mean(axis=0)
        np.testing.assert_allclose(share, np.where(out["kept"][track], 0.75, 0.25), atol=0.16)  # 10 deviations
    pipeline.forget(0)
    later = [pipeline.run(x[:1], tracks=[0])["kept"].tobytes() for _ in range(5)]
    assert len(set(later)) == 1
    assert pipeline.run(x[:1], tracks=[1])["kept"].tobytes() == out["kept"][1].tobytes()


def test_a_report_of_laplace_noise_saturates():
    stage = {"stage": "mechanism", "op": "laplace", "input": "u", "noise": ["s"], "levels": 4, "output": "r"}
    flow = {"u": np.array([[0.0, 0.5, 1.0]], np.float32), "s": np.array([[-(2**63), -3, 2**63 - 1]])}
    compile_stage(Stage(stage), None)(flow)
    assert flow["r"].tolist() == [[-(2**24), -1, 2**24]]
    assert flow["r"].dtype == np.int32


class Broken:
    """A model whose answer for a dark sample is no number."""

    def run(self, inputs):
        u = inputs["image"]
        return {"output": np.where(u.sum(axis=1, keepdims=True) > 0, u, np.float32(np.nan))}


def test_a_model_that_gives_no_number_does_not_drop_the_frame():
    parts, tables = local.document("k-rr", 1, 4)
    model = {"stage": "artefact", "model": "m", "inputs": {"image": "u"}, "outputs": {"output": "v"}}
    parts["stages"].insert(1, model)
    parts["stages"][2]["input"] = "v"
    x = np.array([[0, 0, 0, 0], [0, 3, 0, 0]], np.uint8)
    assert len(Pipeline(parse(parts), tables=tables, runners={"m": Broken()}).run(x)["report"]) == 2
    del parts["spending"]
    with pytest.raises(FrameDropped, match="not-finite"):
        Pipeline(parse(parts), tables=tables, runners={"m": Broken()}).run(x)


@pytest.mark.parametrize(("error", "opens"), [(1e-7, True), (1e-3, False)])
def test_the_self_test_bears_other_last_bits_of_a_direction_and_no_more(error, opens):
    def differ(_manifest, members):
        name = "golden/numpy.report.npy"
        members[name] = bundles.npy(np.load(io.BytesIO(members[name])) + np.float32(error))

    if opens:
        opened("duchi-l2", change=differ).close()
    else:
        with pytest.raises(DeviceFailed, match="golden self-test"):
            opened("duchi-l2", change=differ)
