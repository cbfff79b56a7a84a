"""Measure the same on an arm64 kernel, in the virtual board, and what a camera needs, by the kernel's test camera.

    .venv/bin/python -m tests.security.measure_on_arm64 --out docs/results/system-calls-arm64.json

Takes a quarter of an hour.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import sys
import tarfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from edgeveil.devices import profiles
from edgeveil.devices.flashing.wheels import collect
from edgeveil.devices.zipapp import zipapp_bytes
from tests.security import measure
from tests.support.boards import emulated_boards
from tests.support.watching_bundle import watching_bundle

RECORD = measure.RECORD.with_name("system-calls-arm64.json")
WHEELS = (emulated_boards.LITERT, "onnxruntime==1.31.0", emulated_boards.OPENCV)
FOLDER, PLACE = Path("/tmp/edgeveil-measure"), "/srv/measure"  # noqa: S108 - the same path here and on the board
RUNTIME = f"{PLACE}/runtime/0/edgeveil-edge.pyz"
ASK = f"""
import json, sys
from pathlib import Path
sys.path[:0] = ["{PLACE}"]
from tests.security import measure
code, said = measure.run(json.loads(%r), Path("{PLACE}/trace"), patience_s=1200)
made, refused = measure.calls(Path("{PLACE}/trace").read_text())
print(json.dumps([code, said, made, refused]))
"""
VERSIONS = f"""
import json, platform, sys
sys.path[:0] = ["{PLACE}/site"]
import numpy, ai_edge_litert, onnxruntime, cv2
print(json.dumps({{"python": platform.python_version(), "numpy": numpy.__version__,
    "ai-edge-litert": ai_edge_litert.__version__, "onnxruntime": onnxruntime.__version__,
    "opencv-python-headless": cv2.__version__, "kernel": platform.release(), "libc": " ".join(platform.libc_ver())}}))
"""


def cases() -> dict[str, list[str]]:
    """Those of ``measure``, and one more for the camera."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(mode=0o755)
    found = measure.cases(FOLDER)
    watching = FOLDER / "watching"
    watching.mkdir()
    _, made = watching_bundle(watching, "watching")
    words = ["run", str(made.path), "--trust", str(made.trust), "--source", "camera:0"]
    words += ["--sink", f"npz:{FOLDER}/out-camera.npz", "--health", "off", "--log", "json", "--json", "--frames", "20"]
    return {**found, "tflite-int8 camera": words}


def send(board: emulated_boards.Emulated) -> None:
    """What the cases need: bundles and data at their paths, the runtime, interpreters, and ``measure`` itself."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(FOLDER)
    board.run("tar -C / -xf -", data=packed.getvalue())
    board.run(f"mkdir -p {PLACE}/tests/security {PLACE}/site {RUNTIME.rpartition('/')[0]}")
    board.put(zipapp_bytes(), RUNTIME)
    board.put(Path(measure.__file__).read_bytes(), f"{PLACE}/tests/security/measure.py")
    wheels = collect(
        profiles.load("raspberry-pi-cpu"), FOLDER / "wheels", WHEELS, pins=list(emulated_boards.PINS.values())
    )
    board.put(wheels.archive, f"{PLACE}/site.zip")
    board.run(f"cd {PLACE}/site && python3 -m zipfile -e ../site.zip .")
    board.run("modprobe vivid && udevadm settle && test -c /dev/video0")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RECORD, help="where the record goes")
    parser.add_argument("--only", nargs="*", default=[""], help="cases with one of these texts in their name")
    options = parser.parse_args()
    measured: dict[str, Any] = {}
    wanted = {case: words for case, words in cases().items() if any(text in case for text in options.only)}
    with emulated_boards.board("vm") as board:
        send(board)
        versions = json.loads(board.run("python3 -", data=VERSIONS.encode()).stdout)
        for case, words in wanted.items():
            command = f"PYTHONPATH={RUNTIME}:{PLACE}/site python3 -"
            answer = board.run(command, data=(ASK % json.dumps(words)).encode(), timeout_s=1500)
            code, said, made, refused = json.loads(answer.stdout)
            print(f"{case}: exit code {code}, {len(made)} calls, refused {refused}", file=sys.stderr)
            if code:
                print(said[-3000:], file=sys.stderr)
                return 3
            measured[case] = {"calls": made, "refused": refused}
    record = {
        "kind": "edgeveil-system-calls",
        "schema": 1,
        "made_by": "tests/security/measure_on_arm64.py",
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "machine": "aarch64",
        "libc": versions.pop("libc"),
        "versions": versions,
        "cases": measured,
    }
    options.out.write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
