"""A real overhead Kinect v2 recording, replayed at 30 Hz through crop, generator and MQTT: drops, memory, latency.

The 120 frames of GOTPD1 (gotpd_overhead_depth/recording_120 below EDGEVEIL_DATA) are played again and again in real
time into ``edgeveil-edge run``, as a camera would give them: two processes, the inside without a network, both on one
core. What leaves goes to a real mosquitto, where a subscriber counts it. Recorded is docs/results/bench/overhead.json.

The perturber is that of the recipe ``overhead-prgan``: a generator of the size of the paper's for OccuTherm, trained on
simulated people. This is about speed and loss, not about privacy.

    python -m scripts.reproduce.runtime.replay_overhead_depth --bundle overhead.veil --trust trust --minutes 10
    python -m scripts.reproduce.runtime.replay_overhead_depth --make WORK    # trains, exports and seals it first
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.capture.crops import Capture
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.sources import open_source
from scripts.reproduce import record

RECORDING = "gotpd_overhead_depth/recording_120"
RESULT = Path("docs/results/bench/overhead.json")
TOPIC = "overhead"
SAMPLE_S = 5.0
WARM_S = 120.0  # memory is compared from here on: interpreters, queues and allocators have what they need then


def make(work: Path) -> tuple[Path, Path]:
    """The sealed development bundle of ``overhead-prgan`` and its trust folder, both below ``work``."""
    from edgeveil.trainer.export.export import export
    from edgeveil.trainer.recipe.schema import Recipe
    from edgeveil.trainer.sealing.seal import keygen, seal
    from edgeveil.trainer.train import train

    bundle, keys = work / "overhead.veil", work / "keys"
    if not bundle.exists():
        run = train(Recipe.find("overhead-prgan"), work / "run", budget="quick", resume=(work / "run").exists())
        export(run.folder, ["workstation"], work / "export")
        keygen(keys, development=True)
        seal(work / "export", keys / "signing.key", bundle, allow_unaudited=True)
        (keys / "signing.key").unlink()
    return bundle, keys


@contextlib.contextmanager
def broker(folder: Path) -> Iterator[int]:
    """A mosquitto on a free port of the loopback interface, ended at the end; gives the port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n")
    found = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    with subprocess.Popen([found, "-c", str(folder / "mosquitto.conf")], stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(200):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.1):
                    break
                time.sleep(0.05)
            yield port
        finally:
            process.terminate()


class Subscriber:
    """Counts the records that arrive, each once by its number, and how late after their tick they do."""

    def __init__(self, port: int, manifest: Manifest) -> None:
        import paho.mqtt.client as mqtt

        from edgeveil.edge_runtime.sinks.network.wire import Format

        self._format = Format(manifest.outputs, manifest)
        self.records = self.others = self.repeated = 0
        self._seen: set[Any] = set()
        self.delays_s: list[float] = []
        self._lock = threading.Lock()
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        self._client.on_connect = lambda client, *_: client.subscribe(TOPIC, qos=1)
        self._client.on_message = lambda _client, _data, message: self._take(message.payload)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def _take(self, payload: bytes) -> None:
        now = time.time()
        try:
            record = self._format.decode(payload)
        except Exception:
            self.others += 1
            return
        with self._lock:
            if record.id in self._seen:
                self.repeated += 1
                return
            self._seen.add(record.id)
            self.records += 1
            if record.tick_ns is not None:
                self.delays_s.append(now - record.tick_ns / 1e9)

    def close(self) -> None:
        """Stop listening."""
        self._client.loop_stop()
        self._client.disconnect()


def children(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
    return found


def resident(pid: int) -> int:
    """Bytes resident; 0 where the process has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def metrics(port: int) -> dict[str, float]:
    """What /metrics of the service says, by line; empty where it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return {}
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines) if name}


def costs(bundle: Path, trust: Path, recording: Path, frames: int = 120) -> dict[str, Any]:
    """Milliseconds of each step alone, in this process, on frames that are read beforehand: p50 and p99."""
    with Perturber.open(str(bundle), trust=str(trust)) as perturber:
        manifest = perturber.manifest
        source, decode = open_source(f"images:{recording}", manifest.input, manifest.capture), []
        read = []
        for _ in range(frames):
            start = time.perf_counter()
            read.append(source.next())
            decode.append(time.perf_counter() - start)
        capture, crop, perturb = Capture(perturber.manifest), [], []
        for turn in range(2):
            for frame in read:
                start = time.perf_counter()
                found = capture.frames(frame)
                between = time.perf_counter()
                for _, patch in found:
                    perturber.perturb(patch)
                if turn:  # the first turn learns the floor
                    crop.append(between - start)
                    perturb.append((time.perf_counter() - between) / max(1, len(found)))
        blank = RawFrame(np.zeros(manifest.input.shape, manifest.input.dtype), 0)
        empty = []
        for _ in range(60):
            start = time.perf_counter()
            perturber.perturb(blank)
            empty.append(time.perf_counter() - start)
    named = {"decode_png": decode, "crop": crop, "perturb_one_patch": perturb, "perturb_an_empty_slot": empty}
    return {
        name: {"p50_ms": 1e3 * float(np.percentile(times, 50)), "p99_ms": 1e3 * float(np.percentile(times, 99))}
        for name, times in named.items()
    }


def replay(bundle: Path, trust: Path, recording: Path, seconds: float, cores: list[int]) -> dict[str, Any]:
    """Run the service on ``cores`` for so long; what went in, what came out, what arrived, and its memory."""
    with Perturber.open(str(bundle), trust=str(trust)) as perturber:
        manifest, info = perturber.manifest, perturber.info
    with tempfile.TemporaryDirectory() as scratch, broker(Path(scratch)) as port:
        subscriber = Subscriber(port, manifest)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            health = free.getsockname()[1]
        command = [
            sys.executable, "-m", "edgeveil.edge_runtime", "run", str(bundle), "--trust", str(trust), "--json",
            "--source", f"images:{recording}", "--realtime", "--repeat", "--sink", f"mqtt://127.0.0.1:{port}/{TOPIC}",
            "--health", f"127.0.0.1:{health}", "--duration", str(seconds),
        ]  # fmt: skip
        service = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        samples, last, started = [], {}, time.monotonic()
        try:
            while service.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    service.wait(SAMPLE_S)
                sizes = {str(pid): resident(pid) for pid in children(service.pid)}
                last = metrics(health) or last
                samples.append({"at_s": time.monotonic() - started, "rss": sizes, "load": machine.load()})
                if time.monotonic() - started > seconds + 120:
                    raise DeviceFailed("The service does not end by itself.")
            said, errors = service.communicate()
        finally:
            if service.poll() is None:
                service.send_signal(signal.SIGTERM)
                service.wait(30)
        time.sleep(1.0)
        subscriber.close()
    if service.returncode:
        raise DeviceFailed(f"The service ended with {service.returncode}: {errors[-2000:]}")
    return {
        "bundle": {
            key: info[key] for key in ("name", "manifest_sha256", "artefact", "backends", "development", "audited")
        },
        "macs": {name: model.macs for name, model in manifest.models.items()},
        "parameters": {name: model.parameters for name, model in manifest.models.items()},
        "slots": manifest.capture.slots,
        "tick_hz": manifest.capture.tick_hz,
        "summary": json.loads(said.strip().splitlines()[-1]),
        "metrics": last,
        "received": {
            "records": subscriber.records,
            "twice": subscriber.repeated,
            "other": subscriber.others,
            "delay_after_tick_ms": {
                name: 1e3 * float(np.percentile(subscriber.delays_s, p)) if subscriber.delays_s else None
                for name, p in (("p50", 50), ("p99", 99), ("most", 100))
            },
        },
        "memory": memory(samples),
    }


def memory(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """What all processes have resident together: after warming up, at the end, most, and the growth of a line's fit."""
    processes = max(len(one["rss"]) for one in samples)
    # While the service ends, one of its processes is there without the other.
    whole = [one for one in samples if len(one["rss"]) == processes and all(one["rss"].values())]
    points = [(one["at_s"], sum(one["rss"].values())) for one in whole]
    warm = [point for point in points if point[0] >= min(WARM_S, points[-1][0] / 3)]
    times, sizes = np.array(warm).T
    slope = np.polyfit(times, sizes, 1)[0] if len(warm) > 2 else 0.0
    return {
        "processes": processes,
        "warm_bytes": int(sizes[0]),
        "end_bytes": int(sizes[-1]),
        "most_bytes": int(sizes.max()),
        "growth_bytes_per_minute": float(slope * 60),
        "samples": [[round(at, 1), int(size)] for at, size in points],
        "load": [None if one["load"] is None else round(one["load"], 2) for one in samples],
    }


def main() -> None:
    """Parse, measure, record."""
    script = record.Script(__file__, __doc__, "--make build/overhead", out=RESULT)
    script.add_argument("--make", type=Path, metavar="WORK", help="train, export and seal the bundle below WORK first")
    script.add_argument("--bundle", type=Path)
    script.add_argument("--trust", type=Path)
    script.add_argument("--minutes", type=float, default=10.0)
    script.add_argument("--cores", nargs="+", type=int, default=[0])
    script.add_argument("--trained", default="on simulated people, briefly", help="what is said of the perturber")
    arguments = script.parse_args()
    data = os.environ.get("EDGEVEIL_DATA")
    if not data or not (Path(data) / RECORDING).is_dir():
        raise BadInput(f"{RECORDING} was expected in the folder that EDGEVEIL_DATA names, and is not there.")
    recording = Path(data) / RECORDING
    if arguments.make:
        bundle, trust = make(arguments.make)
    elif arguments.bundle and arguments.trust:
        bundle, trust = arguments.bundle, arguments.trust
    else:
        script.error("give --bundle and --trust, or --make WORK")
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    document = {
        "schema": 1,
        "kind": "overhead",
        "what": "120 frames of GOTPD1 (overhead Kinect v2, one walking person) at 30 Hz, repeated",
        "perturber": f"trained {arguments.trained}; not audited",
        "seconds": 60 * arguments.minutes,
        "cores_of_the_service": len(arguments.cores),
        "machine": machine.facts(),
        "steps_alone": costs(bundle, trust, recording),
        **replay(bundle, trust, recording, 60 * arguments.minutes, arguments.cores),
    }
    summary = document["summary"]
    record.write(arguments.out, script.made_by(arguments), document)
    print(json.dumps({key: document[key] for key in ("summary", "received", "steps_alone")}, indent=1))
    print(f"memory: {document['memory']['growth_bytes_per_minute'] / 1e3:.1f} kB a minute; written to {arguments.out}")
    if summary.get("dropped"):
        print(f"dropped: {summary['dropped']}")


if __name__ == "__main__":
    record.run(main)
