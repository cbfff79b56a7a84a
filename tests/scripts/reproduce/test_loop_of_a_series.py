"""The loop at 200 Hz: each window is found again, and none is lost uncounted on record."""

import json
import time

import numpy as np
import pytest

from edgeveil.edge_runtime.manifest.manifest import Input, Sampling, Windows
from edgeveil.edge_runtime.sources.series.source import open_samples
from scripts.reproduce.series import loop_200_hz
from scripts.reproduce.series.arrivals import CONTROL, SERVICE, Receiver, times
from scripts.reproduce.series.wheel import CHANNELS, EIGHTHS, HOP, LENGTH, RATE_HZ, Wheel, last_sample, samples
from tests.support.checkout import ROOT


class Form:
    """The format of records that are labels alone."""

    def decode(self, payload):
        return type("Record", (), {"outputs": {"label": int(payload)}})


def receiver(wheel):
    """One that hears nothing but what the test says."""
    made = Receiver.__new__(Receiver)
    made._form, made._wheel, made.repeated = Form(), wheel, 0
    made.came_s = {SERVICE: {}, CONTROL: {}}
    return made


def test_the_windows_of_a_line_are_those_whose_end_is_written_down():
    names = tuple("abcdef")
    sampling = Sampling(float(RATE_HZ), names, ("g",) * CHANNELS)
    spec = Input("x", "series", (LENGTH, CHANNELS), "float32", [-2.0] * 6, [2.0] * 6, None, sampling)
    found = []
    with (
        loop_200_hz.lines(1) as (ends, paths),
        open_samples("serial", f"{paths[0]},{loop_200_hz.SPEED},lines", spec, Windows(HOP, 0.1, None)) as source,
    ):
        wheel = Wheel(ends)
        wheel.start()
        while len(found) < 3:
            found.append(source.next()._data)  # a line that is not taken would raise
        wheel.stop()
    assert len(wheel.written_s) >= 3
    for number, window in enumerate(found):
        first = last_sample(number) - LENGTH + 1
        np.testing.assert_allclose(window, samples(first, LENGTH), atol=0.4)


def test_a_label_is_the_latest_window_of_its_eighth_and_comes_once():
    wheel = Wheel([])
    now = time.monotonic()
    wheel.written_s = [now - (20 - number) * HOP / RATE_HZ for number in range(20)]
    heard = receiver(wheel)
    for payload in (b"3", b"3", b"2"):  # windows 19, again, and 18
        heard._take(SERVICE, payload)
    for payload in (b"18", b"19"):
        heard._take(CONTROL, payload)
    assert sorted(heard.came_s[SERVICE]) == [18, 19]
    assert heard.repeated == 1
    assert 19 % EIGHTHS == 3
    found = times(wheel, heard)
    assert found["wheel_ms"]["most"] == pytest.approx(250, abs=20)
    assert abs(found["added_ms"]["p50"]) < 20


@pytest.mark.parametrize("name", ["loop", "loop-beside-others"])
def test_every_window_on_record_came_or_was_counted_and_the_memory_stayed(name):
    record = json.loads((ROOT / loop_200_hz.RESULT).with_name(f"{name}.json").read_text())
    assert record["seconds"] >= 1800
    assert record["windows"] == record["frames_in"] == record["frames_out"] + sum(record["dropped"].values()) > 14_000
    assert record["frames_out"] - record["received"][SERVICE] < 5
    memory = record["memory"]
    assert memory["growth_bytes_per_minute"] * 30 < loop_200_hz.MOST_GROWTH * memory["warm_bytes"]
    assert record["processor"]["wheel"] < 0.1


def test_before_other_work_none_was_dropped_nor_the_sensor_opened_anew():
    record = json.loads((ROOT / loop_200_hz.RESULT).read_text())
    assert (record["dropped"], record["ends_of_the_inside"]) == ({}, [])
    assert record["received"] == {SERVICE: record["windows"], CONTROL: record["windows"]}
