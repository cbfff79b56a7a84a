"""edge_runtime.bench: the figures, and a verdict on whether they may be quoted."""

import json
import subprocess
import sys
from pathlib import Path

import bundles
import jsonschema
import numpy as np
import pytest

from edge_runtime import machine
from edge_runtime.bench import bench, synthetic_frames
from edge_runtime.errors import BadInput, DeviceFailed
from edge_runtime.perturber import Perturber

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs/schemas/bench.schema.json").read_text())


class Clock:
    """Time that passes ``step`` seconds with every look, or as much as ``steps`` says for one look after the other."""

    def __init__(self, step=0.005):
        self.time, self.step, self.looks = 0.0, step, 0

    def __call__(self):
        self.looks += 1
        self.time += self.step(self.looks) if callable(self.step) else self.step
        return self.time


@pytest.fixture
def perturber(tmp_path):
    made = bundles.make_bundle(tmp_path)
    with Perturber.open(made.path, trust=made.trust) as opened:
        yield opened


def timed(perturber, step=0.005, cpu=None, load=0.0, **options):
    clock = Clock(step)
    cpu_clock = cpu or (lambda: clock.time)
    return bench(perturber, clock=clock, cpu_clock=cpu_clock, load=lambda: load, **options)


def test_a_real_artefact_gives_every_figure(tiny):
    with Perturber.open(tiny.path, trust=tiny.trust, artefact="tflite-int8") as opened:
        document = bench(opened, min_count=50, min_seconds=0.05, warm_up_seconds=0.01)
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
    assert latency["min"] <= latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]
    assert document["fps"] == pytest.approx(1000 / latency["mean"])
    assert document["verdict"] == "INVALID"
    assert document["reasons"][0].startswith("too short")


def test_both_floors_are_kept(perturber):
    assert timed(perturber, min_count=500, min_seconds=0.1)["count"] == 500
    long = timed(perturber, min_count=10, min_seconds=10)
    assert long["count"] == pytest.approx(10 / 0.005, abs=2)
    assert long["seconds"] >= 10
    assert long["verdict"] == "VALID"
    assert long["latency_ms"]["p50"] == pytest.approx(5)
    assert long["fps"] == pytest.approx(200)


def test_a_bundle_without_models_is_timed_too(perturber):
    document = timed(perturber)
    jsonschema.validate(document, SCHEMA)
    assert (document["backend"], document["interpreter_ms"], document["artefact_sha256"]) == ("numpy", None, None)
    assert document["macs"] == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"min_count": 99, "min_seconds": 0.0}, "too short"),
        ({"min_count": 150, "min_seconds": 0.0}, "too short"),
        ({"step": lambda look: 0.005 if look < 700 else 0.006}, "drift"),
        ({"step": lambda look: 0.005 if look < 700 else 0.004}, "drift"),
        ({"cpu": lambda: 1.0}, "busy: this process"),
        ({"load": 1000.0}, "busy: load"),
    ],
)
def test_figures_that_should_not_be_quoted_are_invalid(perturber, options, reason):
    document = timed(perturber, **options)
    jsonschema.validate(document, SCHEMA)
    assert document["verdict"] == "INVALID"
    assert any(text.startswith(reason) for text in document["reasons"])


def test_a_quiet_machine_is_valid_and_an_unknown_load_is_no_reason(perturber):
    assert timed(perturber)["verdict"] == "VALID"
    assert timed(perturber, load=None)["verdict"] == "VALID"


@pytest.mark.parametrize("options", [{"min_count": 0}, {"min_seconds": -1.0}])
def test_floors_that_make_no_sense_are_refused(perturber, options):
    with pytest.raises(BadInput, match="at least 1 frame"):
        bench(perturber, **options)


def test_a_dropped_synthetic_frame_is_no_figure(perturber, monkeypatch):
    from edge_runtime.errors import FrameDropped

    def drop(_):
        raise FrameDropped("not-finite")

    monkeypatch.setattr(perturber, "perturb", drop)
    with pytest.raises(DeviceFailed, match="not-finite"):
        timed(perturber)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_synthetic_frames_fill_the_range(dtype):
    spec = {"shape": [3, 200], "dtype": dtype, "low": 2.0, "high": [9.0] * 200}
    made = [frame._data for frame in synthetic_frames(spec)]
    assert {x.dtype.name for x in made} == {dtype}
    assert all(x.min() >= 2 and x.max() <= 9 and x.min() < 3 and x.max() > 8 for x in made)
    assert np.array_equal(made[3], synthetic_frames(spec)[3]._data)
    assert not np.array_equal(made[0], made[1])


def test_peak_memory_is_that_of_this_process_alone():
    """Not that of a large parent: a child that loads nothing is small, whoever starts it."""
    held = np.ones(300_000_000, np.uint8)
    code = "from edge_runtime.machine import peak_rss_bytes; print(peak_rss_bytes())"
    child = int(subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True).stdout)
    assert 5e6 < child < held.nbytes / 2
    assert machine.peak_rss_bytes() > held.nbytes


def test_machine_facts_hold_no_name():
    import platform

    facts = machine.facts()
    jsonschema.validate(facts, SCHEMA["properties"]["machine"])
    node = platform.node()
    assert not node or len(node) < 3 or node not in json.dumps(facts)
