"""What surrounds the service that service_cost.py measures: a camera, a signed bundle, a bare loop, a receiver."""

import contextlib
import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgeveil.edge_runtime.frames import RawFrame
from scripts.measure import capture_loop
from tests.support import bundles

FPS, PICTURES, WARM_S = 30, 60, 6.0


class Case(NamedTuple):
    """What a camera gives, how it becomes the network's input, and the size of that network."""

    channels: int
    frame: tuple[int, int, int] = (480, 640, 3)
    side: int = 180
    fit: str | None = None
    size: tuple[int, int, int] = (104, 4, 3)  # width, halvings, blocks


CASES = {"1": Case(1), "3": Case(3), "720p": Case(3, (720, 1280, 3), 32, "crop", (32, 2, 2))}
HEAD = struct.Struct(">24xqq")  # in a record of the network format: its tick and that tick's time
CAMERA = """
import socket, sys, threading, time
def part(one):
    return b"--b\\r\\nContent-Type: image/jpeg\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(one) + one + b"\\r\\n"
def pictures(file):
    return [b"\\xff\\xd8" + one for one in open(file, "rb").read().split(b"\\xff\\xd8")[1:]]
whole, small = pictures(sys.argv[1]), pictures(sys.argv[3])
parts = {"": [part(one) for one in whole], "unreadable": [part(one[:2000]) for one in whole]}
parts["shape"] = [part(one) for one in small]
mode = ""
listener = socket.create_server(("127.0.0.1", int(sys.argv[2])))
def serve(one):
    one.recv(65536)
    one.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Type: multipart/x-mixed-replace; boundary=b\\r\\n\\r\\n")
    due, k = time.monotonic(), 0
    try:
        while mode != "unplugged":
            if mode != "still":
                now = parts[mode]
                one.sendall(now[k % len(now)])
            due, k = max(due + 1 / 30, time.monotonic() - 0.1), k + 1
            time.sleep(max(0.0, due - time.monotonic()))
    except OSError:
        pass
    one.close()
def accept():
    while True:
        one = listener.accept()[0]
        if mode == "unplugged":
            one.close()
        else:
            threading.Thread(target=serve, args=(one,), daemon=True).start()
threading.Thread(target=accept, daemon=True).start()
for line in sys.stdin:
    mode = line.strip()
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
url, model, port, seconds, warm, channels, side, cut = sys.argv[1:]
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
    edge = (picture.shape[1] - picture.shape[0]) // 2 if cut else 0
    picture = picture[:, edge : picture.shape[1] - edge]
    small = cv2.resize(picture, (int(side), int(side)), interpolation=cv2.INTER_AREA)
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


def pictures(shape: tuple[int, int, int], count: int = PICTURES) -> list[bytes]:
    """JPEGs of a moving scene with a sensor's noise."""
    import cv2

    rng, made = np.random.default_rng(0), []
    room = cv2.resize(rng.integers(0, 256, (12, 16, 3)).astype(np.uint8), shape[1::-1], interpolation=cv2.INTER_CUBIC)
    for k in range(count):
        picture = np.roll(room, 4 * k, axis=1)
        cv2.circle(picture, (shape[1] // 2 + int(200 * np.sin(k / 10)), shape[0] // 2), 60, (30, 60, 200), -1)
        noisy = np.clip(picture + rng.normal(0, 3, shape), 0, 255).astype(np.uint8)
        made.append(cv2.imencode(".jpg", noisy, [cv2.IMWRITE_JPEG_QUALITY, 85])[1].tobytes())
    return made


def bundle(folder: Path, case: Case) -> bundles.Made:
    """A signed bundle of an untrained network behind a colour camera, and ``model.tflite`` next to it."""
    from edgeveil.models.generators import conv_generator

    shape = (case.side, case.side, case.channels)
    spec = {"name": "x", "kind": "image", "shape": list(shape), "dtype": "uint8", "low": 0.0, "high": 255.0}
    width, halvings, blocks = case.size
    network = conv_generator(shape, width=width, halvings=halvings, blocks=blocks)
    made, data = capture_loop.untrained(network, spec, "int8")
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
        "frame": {"shape": list(case.frame if case.fit is None else shape), "dtype": "uint8", "unit_mm": None},
        **{"access_points": None, "measure": "value", "low": None, "high": None, "crop": None, "resize": "area"},
        **{"slots": 1, "tick_hz": float(FPS), "on_fault": "previous", "degraded_after_s": 60},
        **({} if case.fit is None else {"fit": case.fit}),
    }
    return bundles.make_bundle(folder, example=(manifest, members))


def receive(port: int, late: Any) -> None:
    """Put tick, lateness (s), id and size of each record into a queue, ahead of all others where it may be."""
    import paho.mqtt.client as mqtt

    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)

    def come(_client: Any, _userdata: Any, message: Any) -> None:
        tick, tick_ns = HEAD.unpack_from(message.payload)
        late.put((tick, time.time() - tick_ns / 1e9, message.payload[8:24], len(message.payload)))

    client.on_message = come
    client.on_connect = lambda *_: client.subscribe([("site/frame", 0), ("bare/frame", 0)])
    client.reconnect_delay_set(1, 1)
    client.connect("127.0.0.1", port)
    client.loop_forever()


def lateness_ms(late: Any, after: int = 0) -> dict[str, float]:
    """Of the records that came, but the first ones. A tick's time is rounded to a tick: the quickest counts as 0."""
    time.sleep(0.5)
    return percentiles_ms(taken(late)[after:])


def taken(late: Any) -> list[Any]:
    """What the receiver has put into its queue."""
    seen = []
    while not late.empty():
        seen.append(late.get())
    return seen


def percentiles_ms(records: list[Any]) -> dict[str, float]:
    """Of the lateness of records, next to the quickest."""
    came = np.array([one[1] * 1e3 for one in records])
    return {f"p{p}": round(float(np.percentile(came - came.min(), p)), 2) for p in (50, 90, 99)}


def bare_loop(source: str, place: Path, port: int, seconds: float, case: Case) -> list[Any]:
    """The words for ``bare``."""
    words = [source, place / "model.tflite", port, seconds, WARM_S]
    return [*words, case.channels, case.side, case.fit or ""]


def bare(words: list[Any], late: Any) -> dict[str, Any]:
    """Run the bare loop; its processor time a frame and its latency."""
    done = subprocess.run([sys.executable, "-c", BARE, *map(str, words)], capture_output=True, text=True, check=True)
    return {**json.loads(done.stdout), "late_ms": lateness_ms(late, int(FPS * WARM_S))}
