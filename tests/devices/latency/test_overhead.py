"""Far below what was measured: a known overhead and rate are found again, with the error on networks left out."""

from dataclasses import replace

import numpy as np
import pytest

from edgeveil.devices.latency.calibration import Row
from edgeveil.devices.latency.estimate import Network, estimate
from edgeveil.devices.latency.overhead import Point, error, left_out, line, overhead
from edgeveil.devices.latency.regression import Regression

FIXED, SLOPE = 20.0, 50.0  # ms, ms per GMAC


def rows(noise=0.0, networks=8):
    rng = np.random.default_rng(0)
    return [
        Row(
            "a/tflite", "int8", f"n{number}", "", ms * np.exp(rng.normal(0, noise)), macs, 0, 4e6, 150528, 1, "made", ""
        )
        for number, macs in enumerate(np.geomspace(2e8, 2e10, networks))
        for ms in [FIXED + SLOPE * macs / 1e9]
    ]


def small(macs=1e6, group="a/tflite"):
    return Network("small", macs, 0, 1e4, 784).on(group, "int8", 1.0)


def test_a_line_is_found_again_and_neither_part_is_below_zero():
    exact = [Point(str(g), g * 1e9, FIXED + SLOPE * g) for g in (0.1, 1, 10)]
    assert line(exact) == (pytest.approx(FIXED), pytest.approx(SLOPE))
    steeper = [Point(str(g), g * 1e9, g**1.5) for g in (0.1, 1, 10)]
    assert line(steeper)[0] == 0
    assert line([Point(str(g), g * 1e9, 5 / g) for g in (1, 2, 3)])[1] == 0


def test_a_small_network_is_mostly_overhead_and_a_rate_alone_would_promise_far_too_much():
    found = overhead(small(), Regression(rows()))
    assert found.overhead_ms == pytest.approx(FIXED, rel=1e-3)
    assert found.ms_per_gmac == pytest.approx(SLOPE, rel=1e-3)
    assert found.fps == pytest.approx(1000 / (FIXED + SLOPE * 1e-3), rel=1e-3)
    assert (found.networks, found.error.networks) == (8, 4)
    assert found.error.worst == pytest.approx(1, abs=1e-3)


def test_the_error_is_that_of_networks_predicted_from_larger_ones_alone():
    # The smallest network takes three times as long as the line of the others says.
    odd = [replace(row, latency_ms=3 * row.latency_ms) if row.model == "n0" else row for row in rows()]
    model = Regression(odd)
    ratios = {row.model: ratio for row, ratio, _ in left_out("a/tflite", model)}
    assert set(ratios) == {"n0", "n1", "n2", "n3"}
    assert ratios["n0"] == pytest.approx(1 / 3, rel=1e-3)
    # n0 is smaller than n1, so that it has no part in what is said of n1.
    assert ratios["n1"] == pytest.approx(1, rel=1e-3)
    found = error("a/tflite", model)
    assert found.worst == pytest.approx(3, rel=1e-3)
    assert found.median < 1.1
    assert found.far == pytest.approx(100 ** (1 / 7))


def test_no_answer_without_three_networks_or_where_they_show_no_overhead():
    assert overhead(small(), Regression(rows(networks=2))) is None
    steep = [replace(row, latency_ms=(row.macs / 1e9) ** 1.3) for row in rows()]
    assert overhead(small(), Regression(steep)) is None
    assert overhead(small(group="nowhere/x"), Regression(rows())) is None


def test_it_is_given_below_what_was_measured_and_nowhere_else():
    model = Regression(rows(0.05))
    assert estimate(Network("s", 1e6, 0, 1e4, 784), "a/tflite", "int8", model).by_overhead.fps < 1000 / FIXED * 1.3
    for macs, only in ((1e12, False), (1e9, False), (1e6, True)):
        asked = Network("n", macs, 0, 1e4, 784)
        assert estimate(asked, "a/tflite", "int8", model, range_only=only).by_overhead is None, macs
