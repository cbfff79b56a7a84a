#!/usr/bin/env python3
"""Measure which system calls are made behind the filters, by strace: for each backend and source that runs here.

    .venv/bin/python tests/security/measure.py --out docs/results/system-calls.json

The data of ``edge_runtime/sandbox/allowed_calls.py`` comes from here. A case is a backend and a source; the record has,
for each, the calls by name, and those that failed with EACCES, with how often; ``fetching`` are those of the process
that fetches a network camera's frames. strace must be installed, and for RTSP GStreamer's server
(gir1.2-gst-rtsp-server-1.0, gstreamer1.0-plugins-good, python3-gi).
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "docs" / "results" / "system-calls.json"

sys.path[:0] = [str(ROOT)]
from tests.support import programs  # noqa: E402 - it is found from there
from tests.support.checkout import PACKAGES  # noqa: E402 - it is found from there

START = """
import json, sys
sys.path[:0] = {paths!r}
from edgeveil.edge_runtime.cli import main as cli; from edgeveil.edge_runtime.outside import process_table
from edgeveil.edge_runtime import config
config.needs_service = lambda settings: True
real = process_table.command
strace = ["strace", "-f", "-qq", "-o", {trace!r}]
process_table.command = lambda module: (strace if module == "inside.process" else []) + real(module)
sys.exit(cli.main(json.loads(sys.argv[1])))
"""
_CALL = re.compile(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed)")
_FILTERED = re.compile(r"(?:prctl\(PR_SET_SECCOMP|seccomp\(SECCOMP_SET_MODE_FILTER)")


def calls(trace: str) -> tuple[dict[str, int], dict[str, int]]:
    """The calls after the first filter was set, by name, and those that were refused with EACCES."""
    made: collections.Counter[str] = collections.Counter()
    refused: collections.Counter[str] = collections.Counter()
    behind = False
    for line in trace.splitlines():
        found = _CALL.match(line)
        if behind and found:
            made[found[1]] += 1
            refused[found[1]] += "EACCES" in line
        behind = behind or bool(_FILTERED.search(line))
    return dict(sorted(made.items())), {name: count for name, count in sorted(refused.items()) if count}


def run(words: list[str], trace: Path) -> tuple[int, str]:
    """The service with its inside under strace: exit code and what it said."""
    code = START.format(paths=[str(ROOT)], trace=str(trace))
    command = [sys.executable, "-c", code, json.dumps(words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    return done.returncode, done.stderr


def cases(folder: Path) -> dict[str, list[str]]:
    """Backend and source -> the words of ``edgeveil-edge run`` that use them."""
    import cv2
    import numpy as np

    from tests.support import bundles, tiny_models

    plain = bundles.make_bundle(folder / "numpy", example=bundles.numpy_example())
    tiny = tiny_models.write(folder / "tiny")
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (20, *tiny_models.SHAPE)).astype(np.uint8)
    rows = rng.integers(0, 16, (20, 4)).astype(np.uint8)
    np.savez(folder / "rows.npz", x=rows)
    np.savez(folder / "pictures.npz", x=pictures)
    (folder / "rows.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    attributes = "".join(f"@attribute a{n} numeric\n" for n in range(4))
    data = "".join(",".join(map(str, row)) + "\n" for row in rows)
    (folder / "rows.arff").write_text(f"@relation r\n{attributes}@data\n{data}")
    (folder / "images").mkdir()
    for number, picture in enumerate(pictures):
        cv2.imwrite(str(folder / "images" / f"{number:03}.png"), picture)
    film = cv2.VideoWriter(str(folder / "film.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 20, (12, 12), isColor=False)
    for picture in pictures:
        film.write(picture)
    film.release()

    def words(made: Any, source: str, *more: str) -> list[str]:
        sink = f"npz:{folder}/out-{made.path.parent.name}.npz"
        common = ["--fps", "25", "--health", "off", "--log", "json", "--json"]
        return ["run", str(made.path), "--trust", str(made.trust), "--source", source, "--sink", sink, *common, *more]

    found = {f"numpy {kind}": words(plain, f"{kind}:{folder}/rows.{kind}") for kind in ("npz", "csv", "arff")}
    for variant in tiny_models.VARIANTS:
        found[f"{variant} npz"] = words(tiny, f"npz:{folder}/pictures.npz", "--artefact", variant)
    for source in (f"images:{folder}/images", f"video:{folder}/film.avi", "simulate:depth?fps=60"):
        kind = source.partition(":")[0]
        more = ("--frames", "30") if kind == "simulate" else ("--realtime",)
        found[f"tflite-int8 {kind}"] = words(tiny, source, "--artefact", "tflite-int8", *more)
        found[f"onnx-int8 {kind}"] = words(tiny, source, "--artefact", "onnx-int8", *more)
    found["onnx-float32 threads"] = words(
        tiny, "simulate:depth?fps=60", "--frames", "30", "--threads", "3", "--artefact", "onnx-float32"
    )
    found["tflite-float32 threads"] = words(
        tiny, "simulate:depth?fps=60", "--frames", "30", "--threads", "3", "--artefact", "tflite-float32"
    )
    return found


def fetched(source: str, shape: list[int], trace: Path) -> int:
    """How many frames came, of ten, from the process that fetches them, under strace."""
    from edgeveil.edge_runtime.outside.process_table import command, environment
    from edgeveil.edge_runtime.sources.feeding import FAILED, MESSAGE

    frames, their_frames = os.pipe()
    settings, ours = os.pipe()
    given = {"settings": settings, "frames": their_frames, "account": None}
    strace = [str(programs.find("strace")), "-f", "-qq", "-o", str(trace)]
    with subprocess.Popen(
        [*strace, *command("sources.feeding"), json.dumps(given)],
        pass_fds=[settings, their_frames],
        env=dict(environment(), PYTHONPATH=str(PACKAGES)),
    ) as process:
        os.close(settings)
        os.close(their_frames)
        sensor = {"kind": "image", "shape": shape, "dtype": "uint8", "unit_mm": None, "access_points": None}
        with os.fdopen(ours, "wb") as file:
            file.write(json.dumps({"source": source, "sensor": sensor}).encode())
        count = 0
        with os.fdopen(frames, "rb") as stream:
            while count < 10 and (head := stream.read(MESSAGE.size)):
                kind, length = MESSAGE.unpack(head)
                stream.read(length)
                if kind == FAILED:
                    break
                count += 1
        process.terminate()
    return count


def fetching(trace: Path) -> dict[str, Any]:
    """The calls of the process that fetches, by the kind of its source."""
    from tests.edge_runtime.sources.test_real_cameras import RTSP, SYSTEM_PYTHON
    from tests.security import noise_camera

    measured = {}
    with noise_camera.serve() as server:
        if fetched(f"http://localhost:{server.server_address[1]}/", [8, 8, 1], trace) == 10:
            measured["http"] = calls(trace.read_text())
    with subprocess.Popen([SYSTEM_PYTHON, "-c", RTSP], stdout=subprocess.PIPE, text=True) as camera:
        port = (camera.stdout.readline() if camera.stdout else "").strip()
        if port and fetched(f"rtsp://localhost:{port}/cam", [240, 320, 3], trace) == 10:
            measured["rtsp"] = calls(trace.read_text())
        camera.kill()
    return {kind: {"calls": made, "refused": refused} for kind, (made, refused) in measured.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RECORD, help="where the record goes")
    parser.add_argument("--only", help="cases with this text in their name")
    options = parser.parse_args()
    measured: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for case, words in cases(folder).items():
            if options.only and options.only not in case:
                continue
            trace = folder / "trace"
            trace.unlink(missing_ok=True)
            code, said = run(words, trace)
            if code != 0:
                print(f"{case}: exit code {code}\n{said[-2000:]}", file=sys.stderr)
                if trace.exists():
                    print("\n".join(trace.read_text().splitlines()[-40:]), file=sys.stderr)
                return 3
            made, refused = calls(trace.read_text())
            measured[case] = {"calls": made, "refused": refused}
            print(f"{case}: {len(made)} calls, refused {refused}", file=sys.stderr)
        fetches = fetching(folder / "trace")
        print(f"fetching: {fetches}", file=sys.stderr)
    packages = ("numpy", "ai-edge-litert", "onnxruntime", "opencv-python-headless")
    record = {
        "kind": "edgeveil-system-calls",
        "schema": 1,
        "made_by": "tests/security/measure.py",
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}},
        "cases": measured,
        "fetching": fetches,
    }
    options.out.write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
