"""The estimator: known laws are found again, ranges say who carried them, what lies too far is refused."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeveil.devices import profiles
from edgeveil.devices.latency.calibration import Row, measured, published
from edgeveil.devices.latency.estimate import FARTHEST, Network, by_reference, estimate, for_profile
from edgeveil.devices.latency.regression import Regression
from edgeveil.edge_runtime.errors import BadInput


def made(seed=0, networks=12, noise=0.05):
    """Two boards of one runtime, b three times as slow as a; time goes with MACs."""
    rng = np.random.default_rng(seed)
    rows = []
    for number, macs in enumerate(np.geomspace(1e8, 2e10, networks)):
        for group, times in (("a/tflite", 1.0), ("b/tflite", 3.0)):
            ms = macs / 1e8 * times * np.exp(rng.normal(0, noise))
            rows.append(Row(group, "int8", f"n{number}", "", ms, macs, 0, 4e6, 150528, 4, "made", "counted"))
    return rows


def test_a_known_law_is_found_and_the_range_holds_it():
    model = Regression(made())
    network = Network("mine", 1e9, 0, 4e6, 150528)
    a, b = (model.predict(network.on(group, "int8", 4)) for group in ("a/tflite", "b/tflite"))
    assert np.exp(a.middle) == pytest.approx(10, rel=0.15)
    assert np.exp(b.middle - a.middle) == pytest.approx(3, rel=0.1)
    low, high = a.range_ms(0.8)
    assert low < 10 < high
    assert high / low < 2


def test_ranges_hold_about_as_often_as_they_say():
    hits, rows = [], made(1, networks=10, noise=0.3)
    for left in {row.model for row in rows}:
        model = Regression([row for row in rows if row.model != left])
        for row in rows:
            if row.model == left:
                low, high = model.predict(row).range_ms(0.8)
                hits.append(low <= row.latency_ms <= high)
    assert 0.65 <= np.mean(hits) <= 0.97


def test_a_network_too_far_from_what_was_measured_is_refused_and_one_a_little_off_says_so():
    model = Regression(made())
    near = estimate(Network("n", 1e8 / 2, 0, 1e5, 784), "a/tflite", "int8", model)
    assert near.far == pytest.approx(2)
    assert near.refused is None
    far = estimate(Network("n", 1e8 / FARTHEST / 1.01, 0, 1e5, 784), "a/tflite", "int8", model)
    assert "times below" in far.refused
    assert (far.fps_low, far.fps_high, far.fps) == (None, None, None)
    assert near.fps_at_least is None
    assert "networks measured there" in estimate(Network("n", 1e9, 0, 1e5, 784), "nowhere/x", "int8", model).refused


def test_what_costs_less_in_every_respect_is_at_least_as_fast_and_nothing_else_is_said():
    model = Regression(made())
    small = Network("small", 1e6, 0, 1e5, 784)
    said = estimate(small, "a/tflite", "int8", model)
    # The smallest network measured there has 1e8 MACs and takes 1 ms on four threads.
    assert "n0" in said.because
    alike = replace(next(row for row in model.rows if row.group == "a/tflite"), threads=1)
    assert said.fps_at_least == pytest.approx(1000 / model.predict(alike).range_ms(0.8)[1])
    assert estimate(small, "b/tflite", "int8", model).fps_at_least < said.fps_at_least
    for more in ({"macs": 1e12}, {"depthwise_macs": 1e3}, {"parameters": 5e6}, {"input_values": 2e5}):
        assert estimate(replace(small, **more), "a/tflite", "int8", model).fps_at_least is None, more
    assert estimate(small, "nowhere/x", "int8", model).fps_at_least is None


def test_the_rows_that_carried_an_estimate_are_the_boards_own():
    model = Regression(made())
    said = estimate(Network("mine", 1e9, 0, 4e6, 150528), "b/tflite", "int8", model)
    assert said.carried_by
    assert all("on b/tflite" in row for row, _ in said.carried_by[:3])
    json.dumps(said.document(), allow_nan=False)


def test_table_fours_line_through_points_by_hand():
    low, middle, high = by_reference([(1, 12), (2, 22), (3, 32), (4, 42)], 10)
    assert (low, middle, high) == (pytest.approx(102), pytest.approx(102), pytest.approx(102))
    # Scatter of +-1 around y = x: residual variance 4/3 on 3 degrees of freedom, t(0.9, 3) = 1.638.
    pairs = [(1, 2), (2, 1), (3, 3), (4, 5), (5, 4)]
    low, middle, high = by_reference(pairs, 3)
    slope = 8 / 10
    residual = sum((y - 3 - slope * (x - 3)) ** 2 for x, y in pairs) / 3
    assert middle == pytest.approx(3)
    assert high - middle == pytest.approx(1.6377 * np.sqrt(residual * 1.2), rel=1e-3)
    assert by_reference(pairs[:2], 3) is None
    assert by_reference([(1, 1)] * 4, 3) is None


def test_the_published_table_is_sound_and_every_profile_points_into_it():
    rows = published()
    assert len(rows) > 100
    assert all(row.depthwise_macs <= row.macs for row in rows)
    # Nothing is guessed: MACs are counted, or the source is named.
    assert all(re.match("counted$|published: .{10}", row.cost_from) for row in rows)
    assert {row.macs for row in rows if row.model == "mobilenet_v2_1.0" and row.input == "224x224"} == {307_000_000}
    groups = {row.group for row in rows}
    for name in profiles.names():
        assert {c.group for c in profiles.load(name).calibration} <= groups


def test_a_profile_gets_a_range_for_each_board_and_the_edge_tpu_no_figure():
    network = Network("occu", 6.8e8, 0, 4e5, 32400)
    pis = for_profile({"tflite-int8": network}, profiles.load("raspberry-pi-cpu"), published())
    assert [one.group for one in pis] == [f"raspberry-pi-{n}/tflite" for n in (3, 4, 5)]
    assert pis[0].fps_low < pis[0].fps < pis[0].fps_high
    assert pis[1].fps > pis[0].fps
    (tpu,) = for_profile({"tflite-int8": network}, profiles.load("coral-dev-board"), published())
    assert tpu.fps is None
    assert tpu.fps_low < tpu.fps_high
    with pytest.raises(BadInput, match="--measured"):
        for_profile({"tflite-int8": network}, profiles.load("workstation"), published())
    with pytest.raises(BadInput, match="Export the run"):
        for_profile({"onnx-float32": network}, profiles.load("coral-dev-board"), published())


def test_ones_own_results_join_the_table():
    own = [replace(row, group="my board/tflite", threads=1) for row in made() if row.group == "a/tflite"]
    said = for_profile(
        {"tflite-int8": Network("m", 1e9, 0, 4e6, 150528)}, profiles.load("workstation"), published(), own
    )
    assert {one.group for one in said} == {"my board/tflite"}
    assert said[0].fps_low < 100 < said[0].fps_high


def test_results_of_another_kind_or_not_valid_are_refused(tmp_path):
    file = tmp_path / "r.json"
    for text, match in [
        ("{", "was expected"),
        ("[]", "was expected"),
        (json.dumps({"schema": 99}), "schema 2 or 3"),
        (json.dumps({"schema": 2, "latency_ms": {}, "verdict": "INVALID", "reasons": ["busy"]}), "INVALID .busy."),
    ]:
        file.write_text(text)
        with pytest.raises(BadInput, match=match):
            measured([file])


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ('[[calibration]]\ngroup = "a/b"\nartefact = "onnx-float32"\nprecision = "fp16"', "one of this board's"),
        ('[[calibration]]\ngroup = "a"\nartefact = "tflite-int8"\nprecision = "int8"', "jetson-nano/tensorrt"),
        ('[[calibration]]\ngroup = "a/b"\nartefact = "tflite-int8"\nprecision = "int4"', "fp16"),
        ('[sensors]\nclock = "/sys/x"', "sensors must be a table of clock_khz"),
        ("[sensors]\nclock_khz = 3", "clock_khz must be"),
    ],
)
def test_a_profile_that_is_wrong_about_sensors_or_rows_says_so(tmp_path, more, match):
    board = (Path(profiles.__file__).parent / "raspberry-pi-cpu.toml").read_text().partition("\n[[calibration]]")[0]
    (tmp_path / "own.toml").write_text(f"{board}\n{more}\n")
    with pytest.raises(BadInput, match=match):
        profiles.load(tmp_path / "own.toml")
