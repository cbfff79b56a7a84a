"""What the service costs next to a bare loop: milliseconds of processor a frame, of all processes together.

640 x 480 MJPEG at 30 frames a second, by ``area`` to 180 x 180, an int8 network near the size of paper 001's, and a
message a frame to an MQTT broker on this machine. The bare loop is what one would write in an afternoon: OpenCV (one
thread), LiteRT, paho, one process that sees the camera and the network. Service and bare loop take turns, and the ratio
is the median over the turns; other work changes processor time little. The service's time is divided by the frames that
left, so that one that was dropped makes the others dearer. Latency is from a tick to the receiver, a process ahead of
all others; a process that does nothing but wake says what the machine's other work adds. Records
docs/results/bench/service-cost.json.
"""

import contextlib
import json
import multiprocessing
import os
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.frames import RawFrame
from scripts import record
from scripts.measure import capture_loop, edge_speed
from scripts.measure.soak import children, rss_bytes
from tests.support import bundles
from tests.support.network_receivers import free_port

RESULT = Path("docs/results/bench/service-cost.json")
MOST_RATIO, MOST_P99_MS = 1.3, 50.0
FPS, FRAME, SIDE, PICTURES, WARM_S = 30, (480, 640, 3), 180, 60, 6.0
HEAD = struct.Struct(">24xqq")  # in a record of the network format: its tick and that tick's time
CAMERA = """
import socket, sys, threading, time
data = open(sys.argv[1], "rb").read()
parts = [b"--b\\r\\nContent-Type: image/jpeg\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(one) + one + b"\\r\\n"
         for one in (b"\\xff\\xd8" + one for one in data.split(b"\\xff\\xd8")[1:])]
listener = socket.create_server(("127.0.0.1", int(sys.argv[2])))
def serve(one):
    one.recv(65536)
    one.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Type: multipart/x-mixed-replace; boundary=b\\r\\n\\r\\n")
    due, k = time.monotonic(), 0
    try:
        while True:
            one.sendall(parts[k % len(parts)])
            due, k = max(due + 1 / 30, time.monotonic() - 0.1), k + 1
            time.sleep(max(0.0, due - time.monotonic()))
    except OSError:
        one.close()
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""
WAKE = """
import json, sys, time
late, due = [], time.monotonic()
while len(late) < 30 * float(sys.argv[1]):
    due += 1 / 30
    time.sleep(max(0.0, due - time.monotonic()))
    late.append(time.monotonic() - due)
print(json.dumps(sorted(late)[len(late) * 99 // 100] * 1e3))
"""
BARE = """
import os, sys
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
import cv2, json, numpy as np, paho.mqtt.client as mqtt, struct, time
from ai_edge_litert.interpreter import Interpreter
url, model, port, seconds, warm, channels = sys.argv[1:]
cv2.setNumThreads(1)
net = Interpreter(model_path=model, num_threads=1)
net.allocate_tensors()
into, out = net.get_input_details()[0], net.get_output_details()[0]
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
client.connect("127.0.0.1", int(port))
client.loop_start()
camera = cv2.VideoCapture(url)
film = not url.startswith("http")
start = time.monotonic()
count, begun, cpu = 0, None, 0.0
while True:
    good, picture = camera.read()
    if not good:
        camera = cv2.VideoCapture(url)
        continue
    picture = cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY if channels == "1" else cv2.COLOR_BGR2RGB)
    small = cv2.resize(picture, (180, 180), interpolation=cv2.INTER_AREA)
    net.set_tensor(into["index"], (small.reshape(into["shape"]) ^ 128).view(np.int8))
    net.invoke()
    head = struct.pack(">24xqq", count, time.time_ns())
    client.publish("bare/frame", head + (net.get_tensor(out["index"]).view(np.uint8) ^ 128).tobytes(), qos=1)
    now = time.monotonic()
    if begun is None and now - start > float(warm):
        begun, cpu, count = now, time.process_time(), 0
    count += 1
    if begun is not None and now - begun > float(seconds):
        break
    if film:
        due = (due if "due" in globals() else now) + 1 / 30
        time.sleep(max(0.0, due - time.monotonic()))
print(json.dumps({"ms": (time.process_time() - cpu) / count * 1e3, "fps": count / (now - begun)}))
"""


def pictures() -> list[bytes]:
    """JPEGs of a moving scene with a sensor's noise."""
    import cv2

    rng, made = np.random.default_rng(0), []
    room = cv2.resize(rng.integers(0, 256, (12, 16, 3)).astype(np.uint8), FRAME[1::-1], interpolation=cv2.INTER_CUBIC)
    for k in range(PICTURES):
        picture = np.roll(room, 4 * k, axis=1)
        cv2.circle(picture, (320 + int(200 * np.sin(k / 10)), 240), 60, (30, 60, 200), -1)
        noisy = np.clip(picture + rng.normal(0, 3, FRAME), 0, 255).astype(np.uint8)
        made.append(cv2.imencode(".jpg", noisy, [cv2.IMWRITE_JPEG_QUALITY, 85])[1].tobytes())
    return made


def bundle(folder: Path, channels: int) -> Path:
    """A signed bundle of an untrained network behind a colour camera, and ``model.tflite`` next to it."""
    from edgeveil.models.generators import conv_generator

    shape = (SIDE, SIDE, channels)
    spec = {"name": "x", "kind": "image", "shape": list(shape), "dtype": "uint8", "low": 0.0, "high": 255.0}
    made, data = capture_loop.untrained(conv_generator(shape, width=104, halvings=4, blocks=3), spec, "int8")
    (folder / "model.tflite").write_bytes(data)
    golden = np.random.default_rng(2).integers(0, 256, (2, *shape)).astype(np.uint8)
    out = [capture_loop.perturber(made, data).perturb(RawFrame(one, 0)).data for one in golden]
    manifest, members = bundles.artefact_example(audited=False)
    for name in [name for name in members if name.startswith(("artefacts/", "golden/"))]:
        del members[name]
    ((artefact, entry),) = made["models"]["generator"]["artefacts"].items()
    entry["file"] = f"artefacts/generator.{artefact}.tflite"
    members |= {entry["file"]: data, "golden/input.npy": bundles.npy(golden)}
    members |= {f"golden/{artefact}.frame.npy": bundles.npy(np.stack(out))}
    manifest |= {key: made[key] for key in ("input", "stages", "outputs", "models")}
    manifest |= {
        "preference": [artefact],
        "profiles": {"workstation": {"artefacts": [artefact], "backends": ["tflite"]}},
    }
    frames = {artefact: {"frame": f"golden/{artefact}.frame.npy"}}
    manifest["golden"] = {"input": "golden/input.npy", "draws": {}, "outputs": frames}
    manifest["capture"] = {
        "frame": {"shape": list(FRAME), "dtype": "uint8", "unit_mm": None},
        **{"access_points": None, "measure": "value", "low": None, "high": None, "crop": None, "resize": "area"},
        **{"slots": 1, "tick_hz": float(FPS), "on_fault": "previous", "degraded_after_s": 60},
    }
    return bundles.make_bundle(folder, example=(manifest, members)).path


def cpu_s(pid: int) -> float:
    """Seconds of processor of a process so far."""
    return machine.cpu_s(pid) or 0.0


def receive(port: int, late: Any) -> None:
    """Put tick and lateness (s) of each record into a queue, ahead of all others where it may be."""
    import paho.mqtt.client as mqtt

    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)

    def come(_client: Any, _userdata: Any, message: Any) -> None:
        tick, tick_ns = HEAD.unpack_from(message.payload)
        late.put((tick, time.time() - tick_ns / 1e9))

    client.on_message = come
    client.on_connect = lambda *_: client.subscribe([("site/frame", 0), ("bare/frame", 0)])
    client.connect("127.0.0.1", port)
    client.loop_forever()


def service(words: list[str], seconds: float, packages: str | None, late: Any) -> dict[str, Any]:
    """Run the service; its processor time a frame by process, latency and counts."""
    process = subprocess.Popen(
        [sys.executable, "-m", "edgeveil.edge_runtime", "run", *words],
        env=dict(os.environ, **({"PYTHONPATH": packages} if packages else {})),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        late.get(timeout=60)
        time.sleep(WARM_S)
        while not late.empty():
            late.get()
        pids = {"outside": process.pid, **dict(zip(("inside", "fetch"), reversed(children(process.pid)), strict=False))}
        before, began = {name: cpu_s(pid) for name, pid in pids.items()}, time.monotonic()
        wake = subprocess.run([sys.executable, "-c", WAKE, str(seconds)], capture_output=True, text=True, check=True)
        took, passed = {name: cpu_s(pid) - before[name] for name, pid in pids.items()}, time.monotonic() - began
        rss = sum(rss_bytes(pid) for pid in pids.values())
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    if process.returncode:
        raise SystemExit(err[-2000:])
    document = json.loads(out)
    frames = passed * FPS * document["frames_out"] / document["frames_in"]
    return {
        "ms": sum(took.values()) / frames * 1e3,
        "parts_ms": {name: round(one / frames * 1e3, 2) for name, one in took.items()},
        "rss_bytes": rss,
        "out_of_in": [document["frames_out"], document["frames_in"]],
        "dropped": document["dropped"],
        "late_ms": lateness_ms(late),
        "wake_p99_ms": round(json.loads(wake.stdout), 2),  # how late a process is that only wakes 30 times a second
    }


def lateness_ms(late: Any, after: int = 0) -> dict[str, float]:
    """Of the records that came, but the first ones. A tick's time is rounded to a tick: the quickest counts as 0."""
    time.sleep(0.5)
    seen = []
    while not late.empty():
        seen.append(late.get()[1] * 1e3)
    came = np.array(seen[after:])
    return {f"p{p}": round(float(np.percentile(came - came.min(), p)), 2) for p in (50, 90, 99)}


def row(folder: Path, channels: int, source: str, port: int, options: Any, late: Any, packages: str | None) -> Any:
    """Service and bare loop in turns, on one bundle and source."""
    place = folder / f"{channels}"
    if not place.exists():
        place.mkdir()
        bundle(place, channels)
    words = [str(place / "test.veil"), "--trust", str(place / "trust"), "--as-root", "--health", "off", "--json"]
    words += ["--source", source if source.startswith("http") else "video:" + source, "--log", "memory"]
    words += [] if source.startswith("http") else ["--realtime", "--repeat"]
    words += ["--sink", f"mqtt://127.0.0.1:{port}/site/frame?discovery=off"]
    bare_words = [source, place / "model.tflite", port, options.seconds, WARM_S, channels]
    turns = []
    for _ in range(options.turns):
        ours = service(words, options.seconds, packages, late)
        done = subprocess.run(
            [sys.executable, "-c", BARE, *map(str, bare_words)], capture_output=True, text=True, check=True
        )
        bare = {**json.loads(done.stdout), "late_ms": lateness_ms(late, int(FPS * WARM_S))}
        turns.append({"service": ours, "bare": bare})
        print(json.dumps(turns[-1]), flush=True)
    ratios = [turn["service"]["ms"] / turn["bare"]["ms"] for turn in turns]
    return {
        "input": "gray" if channels == 1 else "colour",
        "source": "network camera" if source.startswith("http") else "film",
        **{f"{side}_ms": round(statistics.median(turn[side]["ms"] for turn in turns), 2) for side in turns[0]},
        "ratio": round(statistics.median(ratios), 3),
        "p99_ms": {side: statistics.median(turn[side]["late_ms"]["p99"] for turn in turns) for side in turns[0]},
        "turns": turns,
    }


def main() -> int:
    """Measure and record; exit code 3 where the service takes more than 1.3 times the bare loop."""
    import cv2

    script = record.Script(__file__, __doc__, "--turns 1 --seconds 5 --anyway", out=RESULT, timing=True)
    script.add_argument("--turns", type=int, default=3)
    script.add_argument("--seconds", type=float, default=15.0)
    script.add_argument("--commit", default=None, help="measure the runtime of that commit instead of this one's")
    script.add_argument("--rows", nargs="+", default=["1-http", "3-http", "1-film", "3-film"])
    options = script.parse_args()
    watch, rows = record.watch(options), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        packages = str(edge_speed.packages(options.commit, folder / "old")) if options.commit else None
        made = pictures()
        (folder / "pictures").write_bytes(b"".join(made))
        film = cv2.VideoWriter(str(folder / "film.avi"), cv2.VideoWriter_fourcc(*"MJPG"), FPS, FRAME[1::-1])
        for one in made:
            film.write(cv2.imdecode(np.frombuffer(one, np.uint8), cv2.IMREAD_COLOR))
        film.release()
        port, broker = free_port(), free_port()
        (folder / "mosquitto.conf").write_text(f"listener {broker} 127.0.0.1\nallow_anonymous true\n")
        helpers = [
            subprocess.Popen([sys.executable, "-c", CAMERA, str(folder / "pictures"), str(port)]),
            subprocess.Popen(["mosquitto", "-c", str(folder / "mosquitto.conf")], stderr=subprocess.DEVNULL),
        ]
        time.sleep(1)
        late: Any = multiprocessing.Queue()
        receiver = multiprocessing.Process(target=receive, args=(broker, late), daemon=True)
        receiver.start()
        sources = {"http": f"http://127.0.0.1:{port}/", "film": str(folder / "film.avi")}
        try:
            for case in options.rows:
                channels, _, source = case.partition("-")
                rows.append(row(folder, int(channels), sources[source], broker, options, late, packages))
                print({key: value for key, value in rows[-1].items() if key != "turns"}, flush=True)
        finally:
            receiver.kill()
            for helper in helpers:
                helper.kill()
    # Processor time of both sides: other work makes the times of ticks worse, and the ratio hardly.
    judged = record.verdict(watch.use())
    document = {
        "what": "the service next to a bare loop of OpenCV, LiteRT and paho, processor time a frame; UNTRAINED",
        "seconds_a_turn": options.seconds,
        "commit": options.commit,
        "most_ratio": MOST_RATIO,
        "most_p99_ms": MOST_P99_MS,
        **judged,
        "rows": rows,
        **record.here(),
    }
    record.write(options.out, script.made_by(options), document)
    print(judged["verdict"], *judged["reasons"])
    return 0 if all(one["ratio"] <= MOST_RATIO for one in rows) else 3


if __name__ == "__main__":
    record.run(main)
