"""Whether the times at which results leave tell what the camera sees: a two-sample test at a receiver.

A network camera shows blank pictures, noise and a person in turns of ten seconds, in random order, as JPEGs of very
different sizes; a fourth turn shows the blank picture again, as control. The service is pinned to one core, which a
second process keeps busy. The receiver notes how far each record is from its tick. Of each scene against the blank one
it records two AUCs; 0.5 is no difference. One record is judged by how late it is. Ten seconds are judged by a linear
discriminant of four statistics, trained on the other rounds (a round shows each scene once): what an attacker gains who
has recorded scenes on such a device. Intervals are of a bootstrap over rounds.

With --before PACKAGES (the folder that holds another version's package) that version takes its turn too, first. Takes
TURNS x 40 s each. Needs OpenCV. Records docs/results/bench/emission-times.json.
"""

import contextlib
import http.server
import json
import multiprocessing
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime import machine
from scripts import record
from tests.support import bundles

RESULT = Path("docs/results/bench/emission-times.json")
SHAPE = (480, 640, 1)
TICK_S, CAMERA_S, TURN_S, SETTLE_S = 0.1, 1 / 15, 10.0, 1.0
TICK = struct.Struct(">24xq")  # in a record of the network format
SCENES = ("blank", "control", "noise", "person")
STATISTICS = {
    "mean": np.mean,
    "median": np.median,
    "deviation": np.std,
    "ninth tenth": lambda late: np.quantile(late, 0.9),
}


def pictures() -> dict[str, bytes]:
    """A JPEG of each scene."""
    import cv2

    rng = np.random.default_rng(0)
    person = np.full(SHAPE[:2], 90, np.uint8)
    cv2.ellipse(person, (320, 300), (90, 170), 0, 0, 360, 180, -1)
    cv2.circle(person, (320, 90), 55, 210, -1)
    person = np.clip(person + rng.normal(0, 6, person.shape), 0, 255).astype(np.uint8)
    drawn = {"blank": np.full(SHAPE[:2], 90, np.uint8), "noise": rng.integers(0, 256, SHAPE[:2]).astype(np.uint8)}
    drawn |= {"control": drawn["blank"], "person": person}
    return {name: cv2.imencode(".jpg", picture)[1].tobytes() for name, picture in drawn.items()}


def label_example() -> tuple[dict[str, Any], dict[str, bytes]]:
    """A bundle that takes as long for every picture, and sends one number: which pixel is the brightest."""
    manifest, members = bundles.numpy_example()
    x = np.random.default_rng(1).integers(0, 256, (2, *SHAPE)).astype(np.uint8)
    for name in ("tables/means.npy", "golden/numpy.frame.npy"):
        del members[name]
    members["golden/input.npy"] = bundles.npy(x)
    members["golden/numpy.label.npy"] = bundles.npy(x.reshape(2, -1).argmax(axis=1))
    manifest["input"] |= {"kind": "image", "shape": list(SHAPE), "high": 255.0}
    manifest["stages"] = [{**manifest["stages"][0], "high": 255.0}, manifest["stages"][1]]
    manifest["outputs"], manifest["tables"] = manifest["outputs"][1:], {}
    manifest["golden"]["outputs"] = {"numpy": {"label": "golden/numpy.label.npy"}}
    return manifest, members


class Camera(http.server.BaseHTTPRequestHandler):
    """Sends the scene that ``server.scene`` names, fifteen times a second."""

    def do_GET(self) -> None:
        """One endless answer."""
        self.send_response(200)
        self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=b")
        self.end_headers()
        due = time.monotonic()
        with contextlib.suppress(OSError):
            while True:
                data = self.server.pictures[self.server.scene]
                head = f"--b\r\nContent-Type: image/jpeg\r\nContent-Length: {len(data)}\r\n\r\n"
                self.wfile.write(head.encode() + data + b"\r\n")
                due += CAMERA_S
                time.sleep(max(due - time.monotonic(), 0))

    def log_message(self, *_: Any) -> None:
        """Requests are not logged."""


def receive(listener: socket.socket, come: Any) -> None:
    """Put time and tick of every record into the queue ``come``; in a process of its own, ahead of all others."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    file = listener.accept()[0].makefile("rb")
    while head := file.read(4):
        data = file.read(struct.unpack(">I", head)[0])
        if not data.startswith(b"{"):
            come.put((time.monotonic(), TICK.unpack_from(data)[0]))


def burn(core: int) -> None:
    """Keep a core busy, in bursts."""
    os.sched_setaffinity(0, {core})
    rng = np.random.default_rng()
    while True:
        until = time.monotonic() + rng.uniform(0.005, 0.06)
        while time.monotonic() < until:
            pass
        time.sleep(rng.uniform(0.005, 0.06))


def measure(
    turns: int, packages: str | None, *, scenes: Sequence[str] = SCENES, turn_s: float = TURN_S, seed: int = 0
) -> list[dict[str, Any]]:
    """One entry for each turn: its ``scene``, and ``late_ms`` of its records, from a tick that is the same for all."""
    rng = np.random.default_rng(seed)
    order = [str(name) for _ in range(turns) for name in rng.permutation(scenes)]
    cores = sorted(os.sched_getaffinity(0))
    listener = socket.create_server(("127.0.0.1", 0))
    come: Any = multiprocessing.Queue()
    camera = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Camera)
    camera.pictures, camera.scene = pictures(), "blank"
    threading.Thread(target=camera.serve_forever, daemon=True).start()
    helpers = [multiprocessing.Process(target=receive, args=(listener, come), daemon=True)]
    helpers.append(multiprocessing.Process(target=burn, args=(cores[0],), daemon=True))
    os.sched_setaffinity(0, set(cores[1:]) or set(cores))
    with tempfile.TemporaryDirectory() as folder:
        veil = bundles.make_bundle(Path(folder), example=label_example())
        for helper in helpers:
            helper.start()
        words = ["run", str(veil.path), "--trust", str(veil.trust), "--health", "off", "--log", "memory", "--as-root"]
        words += ["--source", f"http://127.0.0.1:{camera.server_port}/", "--fps", str(1 / TICK_S)]
        words += ["--sink", f"tcp://127.0.0.1:{listener.getsockname()[1]}"]
        service = subprocess.Popen(
            [sys.executable, "-m", "edgeveil.edge_runtime", *words],
            env=dict(os.environ, **({"PYTHONPATH": packages} if packages else {})),
            preexec_fn=lambda: os.sched_setaffinity(0, {cores[0]}),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            first = come.get(timeout=60)
            time.sleep(2)
            seen = []
            for scene in order:
                camera.scene, began = scene, time.monotonic()
                time.sleep(turn_s)
                seen.append((scene, began + SETTLE_S, time.monotonic()))
            service.send_signal(signal.SIGTERM)
            service.wait(20)
            time.sleep(0.2)
            times = [first]
            while not come.empty():
                times.append(come.get())
        finally:
            service.kill()
            for helper in helpers:
                helper.kill()
            camera.shutdown()
            os.sched_setaffinity(0, set(cores))
    return turns_of(np.array(times), seen)


def turns_of(records: np.ndarray, seen: list[tuple[str, float, float]]) -> list[dict[str, Any]]:
    """The lateness of the records (n, 2), times and ticks, of each turn."""
    times = records[:, 0]
    late = times - records[:, 1] * TICK_S
    late_ms = 1e3 * (late - np.median(late))
    return [
        {"scene": scene, "late_ms": late_ms[(times >= low) & (times < high)].round(4).tolist()}
        for scene, low, high in seen
    ]


def auc(one: np.ndarray, two: np.ndarray) -> float:
    """The share of pairs in which the second is higher."""
    ordered = np.sort(one)
    below = np.searchsorted(ordered, two, "left") + np.searchsorted(ordered, two, "right")
    return float(below.mean() / (2 * len(one)))


def scores(blank: np.ndarray, other: np.ndarray, folds: int = 5) -> np.ndarray:
    """How much each ten seconds (2, rounds) look like ``other``, by a discriminant that was trained on other rounds.

    Args:
        blank, other: Statistics of the rounds, (rounds, statistics).
        folds: Into how many parts the rounds are cut.
    """
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    fold = np.arange(len(blank)) % min(folds, len(blank))
    decisions = np.zeros((2, len(blank)))
    for held in np.unique(fold):
        inside, outside = fold == held, fold != held
        rows = np.concatenate([blank[outside], other[outside]])
        spread = rows.std(axis=0) + 1e-9
        model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.5)
        model.fit(rows / spread, np.repeat([0, 1], outside.sum()))
        for row, turns in enumerate((blank, other)):
            decisions[row, inside] = model.decision_function(turns[inside] / spread)
    return decisions


def compared(turns: list[dict[str, Any]], scene: str, rng: np.random.Generator, draws: int = 1000) -> dict[str, Any]:
    """``scene`` against blank: AUCs of one record and of ten seconds, each with a 95 % interval."""
    groups = [[np.array(t["late_ms"]) for t in turns if t["scene"] == name] for name in ("blank", scene)]
    blank, other = (np.array([[f(late) for f in STATISTICS.values()] for late in group]) for group in groups)
    turn_scores = scores(blank, other)

    def both(rounds: np.ndarray) -> tuple[float, float]:
        record_auc = auc(*(np.concatenate([group[i] for i in rounds]) for group in groups))
        return max(record_auc, 1 - record_auc), auc(*turn_scores[:, rounds])

    rounds = np.arange(len(blank))
    drawn = [both(rng.choice(rounds, len(rounds))) for _ in range(draws)]
    figures: dict[str, Any] = {"scene": scene, "records": sum(len(part) for group in groups for part in group)}
    for name, value, all_drawn in zip(("record", "ten_seconds"), both(rounds), zip(*drawn, strict=True), strict=True):
        low, high = np.quantile(all_drawn, [0.025, 0.975])
        figures[name] = {"auc": round(value, 3), "low": round(float(low), 3), "high": round(float(high), 3)}
    return figures


def summary(version: str, turns: list[dict[str, Any]]) -> dict[str, Any]:
    """What is recorded of one version."""
    rng = np.random.default_rng(0)
    late = np.concatenate([turn["late_ms"] for turn in turns])
    scenes = [scene for scene in SCENES if any(turn["scene"] == scene for turn in turns)]
    return {
        "version": version,
        "turns": len(turns) // len(scenes),
        "late_ms": {name: round(float(np.quantile(late, q)), 3) for name, q in (("p50", 0.5), ("p99", 0.99))},
        "rows": [compared(turns, scene, rng) for scene in scenes[1:]],
    }


def main() -> int:
    """Measure and record."""
    script = record.Script(__file__, __doc__, "--before ../older/.venv/src", out=RESULT)
    script.add_argument("--turns", type=int, default=12, help="of each scene (default 12)")
    script.add_argument("--before", type=Path, help="the folder of another version's package")
    options = script.parse_args()
    if options.turns < 2 or len(os.sched_getaffinity(0)) < 2:
        script.error("at least 2 turns, and 2 cores, were expected")
    versions = [("before", str(options.before.resolve()))] if options.before else []
    rows = []
    for version, packages in [*versions, ("now", None)]:
        rows.append(summary(version, measure(options.turns, packages)))
        print(json.dumps(rows[-1]), file=sys.stderr)
    document = {
        "kind": "emission-times",
        "what": __doc__.splitlines()[0],
        "tick_s": TICK_S,
        "jpeg_bytes": {name: len(data) for name, data in pictures().items()},
        "versions_compared": rows,
        "machine": machine.facts(),
        "load": machine.load(),
    }
    record.write(options.out, script.made_by(options), document)
    return 0


if __name__ == "__main__":
    record.run(main)
