"""Runs on an emulated board with the runtime and the wheels that were flashed: rows and noise in, outputs out.

python3 arm_probe.py RUNTIME.pyz SITE TRUST BUNDLE ROWS.npz OUT.npz ARTEFACT... - by reference kernels and by the usual.
"""

import platform
import sys

runtime, site, trust, bundle, rows, out = sys.argv[1:7]
sys.path[:0] = [runtime, site]

import numpy as np  # noqa: E402 - what was flashed comes first

from edgeveil.edge_runtime.bundle.reader import read_bundle  # noqa: E402
from edgeveil.edge_runtime.bundle.trust_store import open_trust  # noqa: E402
from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline  # noqa: E402

opened = read_bundle(bundle, open_trust(trust))
given = np.load(rows)
found = {}
for artefact in sys.argv[7:]:
    for kernels in ("reference", "production"):
        pipeline = load_pipeline(opened.manifest, opened.members, artefact, kernels=kernels)
        done = [pipeline.run(x[None], {"noise": n[None]})["frame"][0] for x, n in zip(given["x"], given["noise"])]
        found[artefact + "." + kernels] = np.stack(done)
np.savez(out, **found)
print(platform.machine(), "numpy", np.__version__)
