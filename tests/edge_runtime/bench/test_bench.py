"""edgeveil.edge_runtime.bench.protocol: the protocol, the figures, and a verdict on whether they may be quoted."""

import json
import subprocess
import sys

import jsonschema
import numpy as np
import pytest

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.bench import latency as series
from edgeveil.edge_runtime.bench import loop_rate, protocol, sensors
from edgeveil.edge_runtime.bench.protocol import Clocks, Protocol, bench, synthetic_frames
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, Missing, PrivacyStop
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.manifest import parse_input
from edgeveil.edge_runtime.pipeline.crops import Capture
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from tests.support import bundles
from tests.support.checkout import ROOT

SCHEMA = json.loads((ROOT / "docs/reference/schemas/bench.schema.json").read_text())


class Clock:
    """Time that passes ``step`` seconds with every look, or as much as ``step`` says for that time of day."""

    def __init__(self, step=0.005):
        self.time, self.step = 0.0, step

    def __call__(self):
        self.time += self.step(self.time) if callable(self.step) else self.step
        return self.time

    def sleep(self, seconds):
        self.time += seconds


@pytest.fixture
def perturber(tmp_path):
    made = bundles.make_bundle(tmp_path)
    with Perturber.open(made.path, trust=made.trust) as opened:
        yield opened


def timed(perturber, step=0.005, cpu=None, load=0.0, minimum=(300, 2.0), unix=None, **options):
    clock = Clock(step)
    clocks = Clocks(clock, cpu or (lambda: clock.time), unix or (lambda: clock.time), clock.sleep, lambda: load)
    return bench(perturber, Protocol(minimum=series.Minimum(*minimum), loop_seconds=0, **options), clocks)


def test_a_real_artefact_gives_every_figure(tiny):
    with Perturber.open(tiny.path, trust=tiny.trust, artefact="tflite-int8") as opened:
        document = bench(opened, Protocol(series.Minimum(50, 0.05), series.Minimum(5, 0.01), loop_seconds=0.2))
    jsonschema.validate(document, SCHEMA)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    model = tiny.manifest["models"]["generator"]
    assert document["macs"] == model["macs"]
    assert document["flops"] == 2 * model["macs"]
    assert document["parameters"] == model["parameters"]
    assert document["artefact_sha256"] == model["artefacts"]["tflite-int8"]["sha256"]
    assert document["backend"] == "ai-edge-litert"
    assert 0 < document["interpreter_ms"]["p50"] < document["latency_ms"]["p50"]
    # Tens of microseconds on a quiet workstation; this is room for a busy one.
    assert document["latency_ms"]["min"] - document["interpreter_ms"]["min"] < 0.5
    latency = document["latency_ms"]
    order = [latency[name] for name in ("min", "p50", "p90", "p95", "p99", "p999", "max")]
    assert order == sorted(order)
    assert document["fps"] == pytest.approx(1000 / latency["mean"])
    assert document["whole_loop"]["fps"] > 0
    assert document["parity"] == {"max_abs": opened.info["self_test"]["max_abs"], "lost": False}
    assert 0 < document["steady_rss_bytes"] <= document["peak_rss_bytes"]
    assert len(document["windows"]) == 5
    assert sum(window["count"] for window in document["windows"]) == document["count"]
    assert (document["verdict"], document["power"], document["sensors"]) == ("INVALID", None, [])
    assert document["reasons"][0].startswith("too short")


PLAIN = {"crop": None, "slots": 1, "measure": "value", "low": None, "high": None, "resize": "area"}


def behind_a_sensor(folder, frame, capture):
    """A bundle for 12 x 12 pictures of a sensor that numpy alone runs: which pixel is the brightest."""
    manifest, members = bundles.numpy_example()
    manifest["capture"] = bundles.captured_example()[0]["capture"] | capture
    manifest["capture"]["frame"] = manifest["capture"]["frame"] | frame
    x = np.random.default_rng(1).integers(0, 256, (2, 12, 12, 1)).astype(np.uint8)
    for name in ("tables/means.npy", "golden/numpy.frame.npy"):
        del members[name]
    members["golden/input.npy"] = bundles.npy(x)
    members["golden/numpy.label.npy"] = bundles.npy(x.reshape(2, -1).argmax(axis=1))
    manifest["input"] |= {"kind": "image", "shape": [12, 12, 1], "high": 255.0}
    manifest["stages"] = [{**manifest["stages"][0], "high": 255.0}, manifest["stages"][1]]
    manifest["outputs"], manifest["tables"] = manifest["outputs"][1:], {}
    manifest["golden"]["outputs"] = {"numpy": {"label": "golden/numpy.label.npy"}}
    return bundles.make_bundle(folder, example=(manifest, members))


SENSORS = {
    "colour": ({"shape": [48, 64, 3], "dtype": "uint8", "unit_mm": None}, PLAIN, True),
    "any size": ({"shape": [48, 64, 3], "dtype": "uint8", "unit_mm": None}, {**PLAIN, "fit": "letterbox"}, True),
    "depth": ({}, {**PLAIN, "measure": "depth", "low": 800.0, "high": 4000.0, "resize": "nearest"}, False),
    "people": ({}, {}, False),
}


@pytest.mark.parametrize("sensor", SENSORS)
def test_the_whole_loop_is_measured_on_what_the_sensor_gives(sensor, tmp_path):
    *parts, decodes = SENSORS[sensor]
    made = behind_a_sensor(tmp_path, *parts)
    with Perturber.open(made.path, trust=made.trust) as opened:
        document = bench(opened, Protocol(series.Minimum(20, 0.01), series.Minimum(5, 0.01), loop_seconds=0.1))
        frames, _ = loop_rate.sensor_frames(opened.manifest, synthetic_frames(opened.manifest.input))
        taken, capture = [frames(number) for number in range(loop_rate.COUNT)], Capture(opened.manifest)
        crops = [len(capture.frames(RawFrame(one, 0))) for one in taken]
    jsonschema.validate(document, SCHEMA)
    assert (document["whole_loop"]["count"] > 0, document["whole_loop"]["decodes"]) == (True, decodes)
    assert taken[0].shape[:2] == opened.manifest.capture.frame.shape[:2]
    assert sum(crops) >= loop_rate.COUNT // 2
    assert not any(np.array_equal(one, taken[0]) for one in taken[1:])


def test_the_whole_loop_of_a_radio_and_without_opencv(tmp_path, monkeypatch):
    made = bundles.make_bundle(tmp_path, example=bundles.fingerprint_example())
    with Perturber.open(made.path, trust=made.trust) as opened:
        assert loop_rate.measure(opened, [], 0.05)["count"] > 0
    made = behind_a_sensor(tmp_path, *SENSORS["colour"][:2])
    monkeypatch.setattr(loop_rate, "opencv", missing)
    with Perturber.open(made.path, trust=made.trust) as opened:
        found = loop_rate.measure(opened, [], 0.05)
    assert (found["count"] > 0, found["decodes"]) == (True, False)


def missing():
    raise Missing("no OpenCV")


def test_both_floors_are_kept(perturber):
    assert timed(perturber, minimum=(500, 0.1))["count"] == 500
    long = timed(perturber, minimum=(10, 10))
    assert long["count"] == pytest.approx(10 / 0.005, abs=2)
    assert long["seconds"] >= 10
    assert long["verdict"] == "VALID"
    assert long["latency_ms"]["p50"] == pytest.approx(5)
    assert long["fps"] == pytest.approx(200)
    assert long["warm_up"]["steady"]


def test_the_first_frame_stands_apart(perturber):
    document = timed(perturber, step=lambda now: 0.4 if now < 1 else 0.005)
    assert document["first_ms"] == pytest.approx(400)
    assert document["latency_ms"]["max"] == pytest.approx(5)


def test_the_warm_up_goes_on_until_two_windows_agree(perturber):
    clock = Clock(lambda now: 0.01 if now < 3 else 0.005)
    calls = []
    warm = series.warm_up(calls.append, series.Minimum(10, 0.5), clock)
    assert warm["steady"]
    assert warm["count"] == len(calls)
    falling = Clock(lambda now: 1 / (10 + now))
    assert not series.warm_up(calls.append, series.Minimum(10, 5), falling)["steady"]


def test_at_a_cameras_pace_frames_come_on_time_and_late_ones_are_counted(perturber):
    document = timed(perturber, step=0.001, minimum=(100, 2.0), pace_fps=50.0)
    assert document["seconds"] == pytest.approx(0.001 * document["count"])
    assert document["count"] == pytest.approx(100, abs=2)  # 50 a second for 2 s
    assert document["pace"] == {"fps": 50.0, "late": 0, "late_share": 0.0}
    assert document["verdict"] == "VALID"
    jsonschema.validate(document, SCHEMA)
    late = timed(perturber, step=0.05, minimum=(100, 2.0), pace_fps=50.0)
    assert late["pace"]["late_share"] == 1


def test_a_bundle_without_models_is_timed_too(perturber):
    document = timed(perturber)
    jsonschema.validate(document, SCHEMA)
    assert (document["backend"], document["interpreter_ms"], document["artefact_sha256"]) == ("numpy", None, None)
    assert document["macs"] == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"minimum": (99, 0.0)}, "too short"),
        ({"minimum": (150, 0.0)}, "too short"),
        ({"step": lambda now: 0.005 if now < 3 else 0.006}, "drift"),
        ({"step": lambda now: 0.005 if now < 3 else 0.004}, "drift"),
        ({"cpu": lambda: 1.0}, "busy: this process"),
        ({"load": 1000.0}, "busy: load"),
    ],
)
def test_figures_that_should_not_be_quoted_are_invalid(perturber, options, reason):
    document = timed(perturber, **options)
    jsonschema.validate(document, SCHEMA)
    assert document["verdict"] == "INVALID"
    assert any(text.startswith(reason) for text in document["reasons"]), document["reasons"]


def test_golden_vectors_that_no_longer_come_out_are_a_verdict(perturber, monkeypatch):
    def wrong():
        raise PrivacyStop("other numbers")

    monkeypatch.setattr(perturber, "recheck", wrong)
    document = timed(perturber)
    assert document["verdict"] == "INVALID"
    assert document["parity"]["lost"]


def test_a_quiet_machine_is_valid_and_an_unknown_load_is_no_reason(perturber):
    assert timed(perturber)["verdict"] == "VALID"
    assert timed(perturber, load=None)["verdict"] == "VALID"


@pytest.mark.parametrize(
    "options", [{"minimum": (0, 1)}, {"minimum": (1, -1.0)}, {"pace_fps": 0.0}, {"pace_fps": -1.0}]
)
def test_a_protocol_that_makes_no_sense_is_refused(perturber, options):
    with pytest.raises(BadInput, match=r"at least 1 frame|pace above 0"):
        timed(perturber, **options)


@pytest.mark.parametrize(("step", "match"), [(lambda now: -0.001, "backwards"), (0.0, "stood still")])
def test_a_clock_that_fails_gives_no_figures(step, match):
    with pytest.raises(DeviceFailed, match=match):
        series.take(lambda _: None, series.Minimum(10, 0), Clock(step))


def test_a_dropped_synthetic_frame_is_no_figure(perturber, monkeypatch):
    from edgeveil.edge_runtime.errors import FrameDropped

    def drop(_):
        raise FrameDropped("not-finite")

    monkeypatch.setattr(perturber, "perturb", drop)
    with pytest.raises(DeviceFailed, match="not-finite"):
        timed(perturber)


def places(tmp_path, **values):
    for name, value in values.items():
        (tmp_path / name).write_text(f"{value}\n")
    return {name: str(tmp_path / name) for name in values}


def test_sensors_are_read_between_frames_and_power_is_theirs(perturber, tmp_path):
    found = places(tmp_path, clock_khz=1500000, governor="ondemand", temperature_millic=61234, power_mw=2500)
    found["throttled"] = "!printf throttled=0x50000"  # it was, some time ago, and is not now
    found["gpu_temperature_millic"] = str(tmp_path / "none")
    document = timed(perturber, minimum=(300, 5.0), sensors=found)
    jsonschema.validate(document, SCHEMA)
    assert document["verdict"] == "VALID"
    first = document["sensors"][0]
    assert (first["clock_mhz"], first["temperature_c"], first["governor"]) == (1500, 61.234, "ondemand")
    assert (first["throttled"], first["gpu_temperature_c"]) == (False, None)
    assert 4 <= len(document["sensors"]) <= 12
    assert document["power"]["watts"] == 2.5
    assert document["power"]["from"] == "sensor"


def test_a_board_that_throttles_is_invalid(perturber, tmp_path):
    now = timed(perturber, sensors={"throttled": "!printf throttled=0x50005"})
    assert any("the board says so" in reason for reason in now["reasons"])
    watch = sensors.Sensors({"clock_khz": str(tmp_path / "clock")}, every_s=0)
    for second, clock in enumerate([600, 1500, 1500, 1500, 1000, 1000]):
        (tmp_path / "clock").write_text(str(clock * 1000))
        watch.sample(float(second))
    assert watch.problems() == ["throttled: the clock fell from 1500 to 1000 MHz; cool it, or fix the governor"]


@pytest.mark.parametrize("text", ["{", '{"x": "/y"}', '{"governor": 3}', "/nowhere.json"])
def test_sensors_that_make_no_sense_are_refused(text):
    with pytest.raises(BadInput, match="expected"):
        sensors.parse(text)


def test_a_meters_energy_by_hand(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("time_s,watts\n" + "".join(f"{t},{2 if t < 5 else 4}\n" for t in range(11)))
    found = protocol.energy(str(path), 2.0, 8.0)
    assert found["joules"] == pytest.approx(2 * 2 + 3 + 3 * 4)
    assert found["watts"] == pytest.approx(found["joules"] / 6)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("time_s,watts\n0,1\n1,1\n7,1\n8,1\n9,1\n", "gap of 6"),
        ("time_s,watts\n3,1\n4,1\n9,1\n", "cover the whole run"),
        ("time_s,watts\n0,1\n2,1\n1,1\n9,1\n", "go back"),
        ("time_s,watts\n0,1\n1,x\n", "columns time_s and watts"),
        ("a,b\n0,1\n", "columns time_s and watts"),
        ("time_s,watts\n0,1\n1,-1\n2,1\n9,1\n", "watts from 0"),
    ],
)
def test_a_meters_file_that_will_not_do_is_a_reason_and_no_figure(perturber, tmp_path, text, match):
    path = tmp_path / "m.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=match):
        protocol.energy(str(path), 2.0, 8.0)
    times = iter([2.0, 8.0])
    document = timed(perturber, meter=str(path), unix=lambda: next(times))
    assert (document["power"], document["verdict"]) == (None, "INVALID")
    assert any(reason.startswith("meter: ") for reason in document["reasons"])


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_synthetic_frames_fill_the_range(dtype):
    spec = {"name": "x", "shape": [3, 200], "dtype": dtype, "low": 2.0, "high": [9.0] * 200}
    made = [frame._data for frame in synthetic_frames(parse_input(spec))]
    assert {x.dtype.name for x in made} == {dtype}
    assert all(x.min() >= 2 and x.max() <= 9 and x.min() < 3 and x.max() > 8 for x in made)
    assert np.array_equal(made[3], synthetic_frames(parse_input(spec))[3]._data)
    assert not np.array_equal(made[0], made[1])


def test_peak_memory_is_that_of_this_process_alone():
    """Not that of a large parent: a child that loads nothing is small, whoever starts it."""
    held = np.ones(300_000_000, np.uint8)
    code = "from edgeveil.edge_runtime.machine import peak_rss_bytes; print(peak_rss_bytes())"
    child = int(subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True).stdout)
    assert 5e6 < child < held.nbytes / 2
    assert machine.peak_rss_bytes() > held.nbytes


def test_machine_facts_hold_no_name():
    import platform

    facts = machine.facts()
    jsonschema.validate(facts, SCHEMA["properties"]["machine"])
    node = platform.node()
    assert not node or len(node) < 3 or node not in json.dumps(facts)
