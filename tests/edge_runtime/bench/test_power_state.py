"""What a board says of its power: boards that throttled for a moment, a Jetson at 5 W, zones in another order."""

import os

import pytest

from edgeveil.devices import profiles
from edgeveil.edge_runtime.bench import sensors
from edgeveil.edge_runtime.bench.protocol import power_problems, power_state

NANO = "!printf 'NV Fan Mode:quiet\\nNV Power Mode: {}\\n0\\n'"


def jetson(folder, mode="MAXN", floor=1479000):
    (folder / "floor").write_text(f"{floor}\n")
    (folder / "ceiling").write_text("1479000\n")
    return {
        "power_mode": NANO.format(mode),
        "expected_power_mode": "MAXN",
        "clock_floor_khz": str(folder / "floor"),
        "clock_ceiling_khz": str(folder / "ceiling"),
    }


def problems(places):
    state = power_state(places)
    return power_problems(state, state, places)


def test_a_jetson_at_full_power_with_fixed_clocks_has_none(tmp_path):
    places = jetson(tmp_path)
    assert power_state(places)["power_mode"] == "MAXN"
    assert problems(places) == []


def test_a_jetson_at_5_watts_is_no_valid_benchmark(tmp_path):
    assert problems(jetson(tmp_path, mode="5W")) == [
        "power mode: it is 5W, and figures are for MAXN; set it (sudo nvpmodel -m 0)"
    ]


def test_a_mode_that_nobody_says_is_not_taken_for_the_right_one(tmp_path):
    places = {**jetson(tmp_path), "power_mode": "!false"}
    assert "it is not known" in problems(places)[0]


def test_clocks_that_the_governor_may_lower_are_named(tmp_path):
    assert problems(jetson(tmp_path, floor=102000)) == [
        "clocks: not fixed, from 102 to 1479 MHz; fix them (sudo jetson_clocks)"
    ]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("0x0", "0x0", False),
        ("0x0", "0x50000", True),  # between two samples: the bits of now are 0 again
        ("0x50000", "0x50000", False),
        ("0x10000", "0x50000", True),
        ("0x0", "0x5", False),  # of now: the samples' own rule
    ],
)
def test_throttling_between_two_samples_is_remembered_by_the_board(before, after, found):
    places = [{"throttled": f"!printf throttled={bits}"} for bits in (before, after)]
    states = [power_state(one) for one in places]
    assert any("remembers" in one for one in power_problems(*states, places[0])) is found


def test_a_change_of_mode_in_the_run_is_named(tmp_path):
    before, after = power_state(jetson(tmp_path)), power_state(jetson(tmp_path, mode="5W"))
    assert "power mode: it changed from MAXN to 5W" in power_problems(before, after, {})


def test_boards_that_say_nothing_have_no_problem():
    assert problems({}) == []


@pytest.mark.parametrize("name", ["jetson-nano", "jetson-orin-nano", "raspberry-pi5"])
def test_a_thermal_zone_is_found_by_its_type(tmp_path, monkeypatch, name):
    """L4T 32's order on a Nano: zone 0 is AO-therm; the profile's CPU zone is not the first here on any board."""
    place = profiles.load(name).sensors["temperature_millic"]
    kinds = ["AO-therm", place.partition(":")[2].split("|")[0], "PLL-therm"]
    for number, kind in enumerate(kinds):
        folder = tmp_path / f"thermal_zone{number}"
        folder.mkdir()
        (folder / "type").write_text(kind + "\n")
        (folder / "temp").write_text(f"{40 + number}000\n")
    monkeypatch.setattr(sensors, "ZONES", str(tmp_path))
    watch = sensors.Sensors({"temperature_millic": place})
    watch.sample(0.0)
    assert watch.samples[0]["temperature_c"] == 41.0
    assert sensors.read("zone:nothing-here") is None


def test_a_pipe_or_a_device_is_no_sensor(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK)
    os.write(writer, b"7" * 8192)
    assert [sensors.read(str(place)) for place in (tmp_path / "pipe", "/dev/zero")] == [None, None]
    os.close(writer)


@pytest.mark.skipif(os.geteuid() != 0, reason="a command runs as its user where that is not root")
def test_a_command_that_is_a_sensor_is_not_roots():
    assert sensors.read("!id -un") == "nobody"
    assert "root" not in sensors.read("!id -Gn").split()
