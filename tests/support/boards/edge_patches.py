"""Prints a hash of what the capture makes of a simulated scene: the same bits under every Python and numpy there is."""

import hashlib
import importlib
import json
import sys

from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.crops import Capture
from edgeveil.edge_runtime.sources import open_source

manifest = parse(json.loads(sys.argv[1]))
source = open_source("simulate:depth?fps=0&seed=5", manifest.input, manifest.capture)
capture, patches, found = Capture(manifest), 0, hashlib.sha256()
for _ in range(150):
    for slot, frame in capture.frames(source.next()):
        patches += 1
        found.update(frame._data.tobytes())
        found.update(bytes([slot, frame.track]))
for name in ("video", "wifi", "http", "rtsp"):
    importlib.import_module("edgeveil.edge_runtime.sources." + name)
for name in ("camera", "gst", "kinect", "libcamera", "openni", "realsense"):
    importlib.import_module("edgeveil.edge_runtime.sources." + name)
sys.stdout.write(json.dumps({"patches": patches, "sha256": found.hexdigest()}))
