"""A bundle that counts people under a depth camera and, beside that, sends tiny noisy patches; runs on numpy alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support import bundles

SIZE = (8, 8, 1)
COUNT = {
    "lines": [{"name": "door", "start": [0, 256], "end": [424, 256]}],
    "zones": [{"name": "hall", "corners": [[0, 100], [0, 412], [424, 412], [424, 100]]}],
    "period_s": 10,
    "dwell_s": [],
    "margin_px": 16.0,
    "noise": None,
}


def counting_example(**count: Any) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Manifest and members; ``count`` changes what is counted."""
    manifest, members = bundles.laplace_example()
    x = np.arange(4 * 64, dtype=np.uint8).reshape(4, *SIZE) % 17
    members |= {
        "golden/input.npy": bundles.npy(x),
        "golden/draws.noise.npy": bundles.npy(np.zeros(x.shape, np.int64)),
        "golden/numpy.frame.npy": bundles.npy(x),
    }
    manifest["input"].update(kind="image", shape=list(SIZE))
    manifest["stages"][1]["shape"] = list(SIZE)
    manifest["outputs"][0]["shape"] = list(SIZE)
    capture = bundles.captured_example()[0]["capture"]
    return {**manifest, "capture": {**capture, "tick_hz": 10.0}, "count": {**COUNT, **count}}, members
