"""Samples to windows: what comes out is what went in, and what breaks a window drops it, by its cause."""

import numpy as np
import pytest

from edgeveil.edge_runtime.sources.series import BACK, GAP, LATE, SATURATED, STUCK, Windower
from tests.edge_runtime.sources.series_example import RATE_HZ, SPEC, STEPS, recording, rules


def fed(windower, time, values):
    """Windows and reasons, in order."""
    return [result for t, row in zip(time, values, strict=True) for result in windower.push(t, row)]


def reasons(results):
    return [one for one in results if isinstance(one, str)]


def windows(results):
    return [one for one in results if not isinstance(one, str)]


@pytest.mark.parametrize("hop", [1, 3, 4, STEPS])
def test_windows_of_a_sensor_of_the_same_rate_are_its_samples(hop):
    time, values = recording(50)
    found = fed(Windower(SPEC, SPEC.series, rules(hop)), time, values)
    expected = np.lib.stride_tricks.sliding_window_view(values, STEPS, axis=0)[::hop].swapaxes(1, 2)
    assert not reasons(found)
    assert len(found) == len(expected)
    np.testing.assert_allclose(np.stack(found), expected, atol=1e-5)
    assert found[0].dtype == np.float32


@pytest.mark.parametrize("rate_hz", [20.0, 37.0, 200.0, 1000.0])
def test_a_sensor_of_another_rate_is_resampled(rate_hz):
    time = np.arange(int(rate_hz * 2)) / rate_hz
    line = np.stack([3 * time, -time], axis=1)  # which linear interpolation gives back exactly
    found = windows(fed(Windower(SPEC, SPEC.series, rules()), time, line))
    assert len(found) == (int(time[-1] * RATE_HZ + 1e-6) + 1 - STEPS) // 4 + 1
    for number, window in enumerate(found):
        at = (number * 4 + np.arange(STEPS)) / RATE_HZ
        np.testing.assert_allclose(window, np.stack([3 * at, -at], axis=1), atol=1e-5)


def test_jitter_of_the_clock_does_not_move_the_steps():
    time, values = recording(400, 200.0)
    jittered = time + np.random.default_rng(1).uniform(-0.001, 0.001, len(time))
    found = windows(fed(Windower(SPEC, SPEC.series, rules()), jittered, values))
    plain = windows(fed(Windower(SPEC, SPEC.series, rules()), time, values))
    assert abs(len(found) - len(plain)) <= 1
    for one, other in zip(found, plain, strict=False):
        np.testing.assert_allclose(one, other, atol=0.08)


def test_no_rounding_adds_up_over_a_day():
    time, values = recording(100, start_s=86_400.0)
    found = fed(Windower(SPEC, SPEC.series, rules()), time, values)
    assert not reasons(found)
    np.testing.assert_allclose(found[-1], values[92:100], atol=1e-4)


def broken(change, **kwargs):
    """The results of 60 samples, changed; after any fault windows come again, and none spans it."""
    time, values = recording(60)
    time, values = change(time.copy(), values.copy())
    found = fed(Windower(SPEC, SPEC.series, rules(**kwargs)), time, values)
    assert len(windows(found)) > 5
    known = {tuple(row) for row in np.round(values, 4)}
    for window in windows(found):
        places = [tuple(row) in known for row in np.round(window.astype(float), 4)]
        assert sum(places) >= STEPS - 1
    return reasons(found)


def gap(time, values):
    time[30:] += 0.5
    return time, values


def back(time, values):
    time[30:] -= 100.0
    return time, values


def late(time, values):
    time[30], time[29] = time[29], time[30]
    values[[29, 30]] = values[[30, 29]]
    return time, values


def twice(time, values):
    time[30] = time[29]
    return time, values


@pytest.mark.parametrize(("change", "reason"), [(gap, GAP), (back, BACK), (late, LATE), (twice, LATE)])
def test_what_breaks_the_time_drops_a_window_and_is_counted(change, reason):
    assert broken(change) == [reason]


def test_a_gap_within_the_limit_is_bridged():
    found = fed(Windower(SPEC, SPEC.series, rules(longest_gap_s=1.0)), *gap(*recording(60)))
    assert reasons(found) == []
    assert len(found) == (60 + 25 - STEPS) // 4 + 1


def test_where_a_promise_is_made_what_a_window_shows_drops_none():
    time, values = recording(60)
    values[30, 0] = -2.0
    values[40:] = values[40]
    for total, dropped in ((False, {SATURATED, STUCK}), (True, set())):
        windower = Windower(SPEC, SPEC.series, rules(full_scale=[2.0, 4.0]))
        windower.total = total
        found = fed(windower, time, values)
        assert set(reasons(found)) == dropped
        assert len(found) == (60 - STEPS) // 4 + 1


def test_a_saturated_sensor_drops_every_window_that_has_its_sample():
    def clip(time, values):
        values[30, 0] = -2.0
        return time, values

    assert broken(clip) == []
    assert broken(clip, full_scale=[2.0, 4.0]) == [SATURATED, SATURATED]


def test_a_stuck_sensor_drops_what_it_gives():
    def stick(time, values):
        values[24:44] = values[24]
        return time, values

    assert broken(stick) == [STUCK] * 4


def test_one_channel_that_rests_is_no_stuck_sensor():
    def rest(time, values):
        values[:, 0] = 1.0
        return time, values

    assert broken(rest) == []


def test_a_window_is_a_copy_that_later_samples_do_not_change():
    windower = Windower(SPEC, SPEC.series, rules(STEPS))
    time, values = recording(4 * STEPS)
    (first,) = fed(windower, time[:STEPS], values[:STEPS])
    before = first.copy()
    fed(windower, time[STEPS:], values[STEPS:])
    assert np.array_equal(first, before)
