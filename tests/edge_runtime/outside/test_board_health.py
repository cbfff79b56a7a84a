"""/metrics of a board: its zones by type, throttling now and since boot, space, and which release it is."""

import json
import os
from types import SimpleNamespace

import pytest

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.bench import sensors
from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.manifest.schema import PRIVACY_MEMBER
from edgeveil.edge_runtime.outside import board_health, metrics
from edgeveil.edge_runtime.outside.status import Status
from tests.support import bundles

PI_4 = "sys/devices/platform/soc/soc:firmware/get_throttled"
PI_5 = "sys/devices/platform/soc@107c000000/soc@107c000000:firmware/get_throttled"


@pytest.fixture
def lines(tmp_path, monkeypatch):
    """The lines of a board whose zones and throttling are files here."""
    monkeypatch.setattr(board_health, "ZONES", str(tmp_path / "thermal"))
    patterns = tuple(f"{tmp_path}{pattern}" for pattern in machine.THROTTLED)
    monkeypatch.setattr(machine, "THROTTLED", patterns)
    monkeypatch.setattr(machine, "VOLTAGE", f"{tmp_path}{machine.VOLTAGE}")
    monkeypatch.setattr(board_health, "PLACES", (str(tmp_path), str(tmp_path), "/nowhere"))

    def made(zones=(), throttled=None, place=PI_4):
        for number, (kind, temp) in enumerate(zones):
            folder = tmp_path / f"thermal/thermal_zone{number}"
            folder.mkdir(parents=True)
            (folder / "type").write_text(kind + "\n")
            (folder / "temp").write_text(temp + "\n")
        if throttled is not None:
            (tmp_path / place).parent.mkdir(parents=True)
            (tmp_path / place).write_text(throttled + "\n")
        page = metrics.lines(metrics.samples({}, {}, {}, {}, board_health.board_gauges("ab12")))
        return [line for line in page if line[0] != "#"]

    return made


def test_a_board_says_its_temperatures_throttling_and_release(lines):
    found = lines([("cpu-thermal", "48312"), ("AO-therm", "-1000")], "50005")
    assert 'edgeveil_release_info{release="ab12"} 1' in found
    assert 'edgeveil_board_temperature_celsius{zone="cpu-thermal"} 48.312' in found
    assert 'edgeveil_board_temperature_celsius{zone="AO-therm"} -1' in found
    assert [line for line in found if "board_throttled" in line] == [
        'edgeveil_board_throttled{since="now"} 1',
        'edgeveil_board_throttled{since="boot"} 1',
    ]


def test_a_pi_5_has_that_file_elsewhere(lines):
    assert 'edgeveil_board_throttled{since="now"} 1' in lines(throttled="50005", place=PI_5)


@pytest.mark.parametrize(("alarm", "now"), [("1", "1"), ("0", "0")])
def test_a_kernel_without_that_file_says_its_under_voltage(lines, tmp_path, alarm, now):
    """Of which the time since boot is not known, so that nothing is said of it; a benchmark reads the same."""
    for number, name in enumerate(("pwmfan", "rpi_volt")):
        folder = tmp_path / f"sys/class/hwmon/hwmon{number}"
        folder.mkdir(parents=True)
        (folder / "name").write_text(name + "\n")
    (folder / "in0_lcrit_alarm").write_text(alarm + "\n")
    assert [line for line in lines() if "throttled" in line] == [f'edgeveil_board_throttled{{since="now"}} {now}']

    def none(*_, **__):
        raise FileNotFoundError

    assert sensors.read(sensors.VCGENCMD, none) == f"throttled=0x{alarm}"
    assert sensors.read("!nvpmodel -q", none) is None


@pytest.mark.parametrize(
    ("error_us", "files", "word", "gauge"),
    [
        (15_999_999, (), "synchronised", ["1"]),
        (16_000_000, ("synchronized",), "not synchronised", ["0"]),  # by a server that was lost since
        (None, ("synchronized",), "synchronised", ["1"]),
        (None, ("",), "not synchronised", ["0"]),
        (None, (), "unknown", []),
    ],
)
def test_whether_the_clock_is_right_is_the_kernels_word_or_timesyncds_or_unknown(
    lines, tmp_path, monkeypatch, error_us, files, word, gauge
):
    monkeypatch.setattr(machine, "TIMESYNC", str(tmp_path / "timesync"))
    monkeypatch.setattr(machine, "_clock_error_us", lambda: error_us)
    for name in files:
        (tmp_path / "timesync").mkdir()
        (tmp_path / "timesync" / name).touch()
    assert machine.clock_word() == word
    found = [line.split() for line in lines() if line.startswith("edgeveil_clock_synchronised")]
    assert [value for _, value in found] == gauge


def test_the_kernels_estimate_of_its_clocks_error_is_read():
    """At most 16 s, by the kernel's own limit (``NTP_PHASE_LIMIT``), at which it counts as not synchronised."""
    error_us = machine._clock_error_us()
    assert error_us is None or 0 <= error_us <= 16_000_000


def test_throttling_that_is_over_is_of_the_boot_alone(lines):
    found = lines(throttled="50000")
    assert 'edgeveil_board_throttled{since="now"} 0' in found
    assert 'edgeveil_board_throttled{since="boot"} 1' in found


def test_the_space_of_each_file_system_is_said_once(lines, tmp_path):
    found = [line for line in lines() if "disk_free" in line]
    space = os.statvfs(tmp_path)
    assert len(found) == 1
    assert abs(float(found[0].split()[-1]) - space.f_bavail * space.f_frsize) < 2**30


def test_a_machine_that_says_nothing_has_no_such_lines(lines):
    found = lines([("broken", "off")], "no number")
    assert not [line for line in found if "temperature" in line or "throttled" in line]


def test_what_the_audit_found_is_said_of_a_release_that_was_audited_as_it_runs(tmp_path):
    def gauges(example, runs):
        made = bundles.make_bundle(tmp_path / str(len(list(tmp_path.iterdir()))), example=example)
        bundle = read_bundle(made.path.read_bytes(), open_trust(made.trust))
        settings = SimpleNamespace(health="off")
        service = SimpleNamespace(settings=settings, log=None, bundle=bundle, info=runs)
        service.link = SimpleNamespace(manifest_sha256=bundle.manifest_sha256)
        return Status(service)._audited()

    assert gauges(bundles.numpy_example(), {"artefact": "numpy-float32", "device": "cpu"}) == {}
    example = bundles.artefact_example()
    document = json.loads(example[1][PRIVACY_MEMBER])
    attack, chance = document["worst_adaptive"]["accuracy"], document["chance"]["prior"]
    said = gauges(example, {"artefact": "tflite-int8", "device": "cpu"})
    assert said == {"audit-attack": attack, "audit-chance": chance}
    assert f"edgeveil_audit_attack {attack:g}" in [*metrics.lines(metrics.samples({}, {}, {}, said))]
    assert gauges(example, {"artefact": "tflite-int8", "device": "edgetpu"}) == {}, "nobody audited it there"
