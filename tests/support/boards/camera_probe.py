"""Opens a source in a process of its own and prints what came, as one JSON document: ``TEXT SENSOR FRAMES``.

SENSOR is what ``expected`` gives, as JSON. For libraries that must be loaded from elsewhere, may hang or crash at exit.
"""

import json
import os
import sys
import time

from edgeveil.edge_runtime.errors import EdgeVeilError, FrameDropped
from edgeveil.edge_runtime.manifest.manifest import CaptureRules, Input, SensorFrame
from edgeveil.edge_runtime.sources import base

base.STALL_S = float(os.environ.get("PROBE_STALL_S", base.STALL_S))
from edgeveil.edge_runtime.sources import open_source  # noqa: E402 - its kinds take that limit as they are loaded


def main(text, sensor, frames):
    found = {"name": None, "frames": [], "dropped": 0, "error": None}
    source = None
    frame = SensorFrame(tuple(sensor["shape"]), sensor["dtype"], sensor["unit_mm"])
    capture = CaptureRules(frame, sensor.get("access_points"), "value", None, None, None, None, 1, 10.0, "flat", 10.0)
    try:
        source = open_source(text, Input("x", "image", frame.shape, frame.dtype, None, None), capture)
        found.update(name=source.name, live=source.live, raw_on_network=source.raw_on_network)
        found["started"] = time.monotonic()
        while len(found["frames"]) < frames:
            try:
                frame = source.next()
            except FrameDropped:
                found["dropped"] += 1
                continue
            if frame is None:
                break
            data = frame._data
            read = data[data > 0]
            found["frames"].append(
                {
                    "index": frame.index,
                    "at": frame.captured_ns / 1e9,
                    "shape": list(data.shape),
                    "dtype": data.dtype.name,
                    "least": int(read.min()) if read.size else 0,
                    "most": int(data.max()),
                    "zeros": int((data == 0).sum()),
                    "middle": data[data.shape[0] // 2, data.shape[1] // 2].tolist(),
                }
            )
    except EdgeVeilError as error:
        found["error"] = [type(error).__name__, str(error), error.exit_code]
    if source is not None:
        source.close()
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
    # Some of these libraries crash while Python takes itself down.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]))
