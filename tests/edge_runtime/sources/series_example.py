"""A bundle of series that runs on numpy alone: where its largest value is decides which of its rows leaves."""

from __future__ import annotations

import numpy as np

from edgeveil.edge_runtime.manifest.manifest import Input, Sampling, Windows
from tests.support import bundles

STEPS, CHANNELS, RATE_HZ = 8, 2, 50.0
LOW, HIGH = [-2.0, -4.0], [2.0, 4.0]
SPEC = Input(
    "x", "series", (STEPS, CHANNELS), "float32", LOW, HIGH, None, Sampling(RATE_HZ, ("accel_x", "accel_y"), ("g", "g"))
)


def rules(hop=4, longest_gap_s=0.1, full_scale=None):
    """How samples become windows."""
    return Windows(hop, longest_gap_s, full_scale)


def capture(**windows):
    """The manifest's capture."""
    return {
        "frame": {"shape": [CHANNELS], "dtype": "float32", "unit_mm": None},
        "access_points": None,
        "measure": "value",
        "low": None,
        "high": None,
        "crop": None,
        "resize": None,
        "slots": 1,
        "tick_hz": 12.5,
        "on_fault": "previous",
        "degraded_after_s": 60,
        "windows": {"hop": 4, "longest_gap_s": 0.1, "full_scale": [2.0, 4.0], **windows},
    }


def example():
    """Manifest and members; ``bundles.make_bundle(folder, example=example())``."""
    manifest, members = bundles.numpy_example()
    rng = np.random.default_rng(5)
    rows = rng.random((STEPS * CHANNELS, STEPS, CHANNELS)).astype(np.float32)
    low, high = np.float32(LOW), np.float32(HIGH)
    x = (low + (high - low) * rng.random((6, STEPS, CHANNELS), np.float32)).astype(np.float32)
    label = ((x - low) / (high - low)).reshape(len(x), -1).argmax(axis=1)
    members |= {
        "tables/means.npy": bundles.npy(rows),
        "golden/input.npy": bundles.npy(x),
        "golden/numpy.frame.npy": bundles.npy(low + rows[label] * (high - low)),
        "golden/numpy.label.npy": bundles.npy(label.astype(np.int64)),
    }
    manifest["name"] = "series-example"
    manifest["input"] = {
        "name": "x",
        "kind": "series",
        "shape": [STEPS, CHANNELS],
        "dtype": "float32",
        "low": LOW,
        "high": HIGH,
        "series": {"rate_hz": RATE_HZ, "channels": ["accel_x", "accel_y"], "units": ["g", "g"]},
    }
    manifest["capture"] = capture()
    for stage in manifest["stages"]:
        if "low" in stage:
            stage |= {"low": LOW, "high": HIGH}
        if "dtype" in stage:
            stage["dtype"] = "float32"
    manifest["outputs"][0] |= {"shape": [STEPS, CHANNELS], "dtype": "float32"}
    manifest["tables"]["means"]["shape"] = list(rows.shape)
    return manifest, members


def recording(steps, rate_hz=RATE_HZ, *, start_s=0.0, seed=0):
    """Times (n,) and values (n, channels) of a sensor that moves."""
    time = start_s + np.arange(steps) / rate_hz
    rng = np.random.default_rng(seed)
    values = np.stack([np.sin(7 * time), 2 * np.cos(5 * time)], axis=1) + rng.normal(0, 0.01, (steps, CHANNELS))
    return time, values


def lines(time, values):
    """The same as lines of CSV."""
    return "".join(f"{t:.6f},{','.join(f'{v:.9g}' for v in row)}\n" for t, row in zip(time, values, strict=True))
