"""Half an hour of the service with random faults: frames in must be frames out and drops by reason, exactly.

A linear cleaner of made-up vectors runs as a service at 30 ticks a second. Its source, 60 vectors a second, breaks down
at random: frames that cannot be read or have another shape, a camera that is unplugged, that stands still, a driver
that fails, hangs in C code or crashes; from without, the inside is stopped and killed, and the bundle is loaded anew.
A TCP sink on this machine counts what is sent and when. Records docs/results/bench/soak.json.
"""

import ctypes
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime import sources
from edgeveil.edge_runtime.errors import Disconnected, FrameDropped, Stalled
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.sources.base import Pace, Source, now_ns
from scripts import record

RESULT = Path("docs/results/bench/soak.json")
FPS, TICKS = 60, 30
FEATURES, ROWS = 16, 600
RECIPE = """
name = "stream"
[data]
source = "npz:stream.npz"
target = "y"
sensitive = "z"
wanted = 1
[prior]
kind = "counted"
[classifiers]
architecture = "linear"
[perturber]
kind = "cleaner"
[budget]
classifier_epochs = 1
epochs = 1
[limits]
target_accuracy = 0.5
"""
# How often each happens, in seconds, on average
EVERY_S = {
    "unreadable": 3,
    "wrong shape": 3,
    "not finite": 3,
    "late": 10,
    "unplugged": 20,
    "still": 30,
    "driver error": 30,
    "hang": 120,
    "crash": 120,
}
FROM_WITHOUT_S = {"kill": 180, "stop": 240, "reload": 150}


class Faulty(Source):
    """Vectors at ``FPS``, and faults ``hurry`` times as often as ``EVERY_S`` has them."""

    live = True
    name = "faulty"

    def __init__(self, features: int, seed: Sequence[int], hurry: float) -> None:
        self.features, self.index, self.pace, self.hurry = features, 0, Pace(), hurry
        self.rng = np.random.default_rng(seed)

    def next(self) -> RawFrame:
        self.index += 1
        self.pace.wait(self.index / FPS)
        data = self.rng.normal(size=self.features).astype(np.float32)
        for fault, every_s in EVERY_S.items():
            if self.rng.random() < self.hurry / (every_s * FPS):
                data = self.fail(fault, data)
        return RawFrame(data, self.index, now_ns())

    def fail(self, fault: str, data: np.ndarray) -> np.ndarray:
        if fault == "unreadable":
            raise FrameDropped("unreadable")
        if fault == "unplugged":
            raise Disconnected("it was unplugged")
        if fault == "still":
            raise Stalled("it stands still")
        if fault == "driver error":
            raise RuntimeError("a driver's own words")
        if fault == "hang":
            ctypes.PyDLL(None).pause()
        if fault == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if fault == "late":
            time.sleep(0.5)
        if fault == "wrong shape":
            return data[:3]
        if fault == "not finite":
            data[0] = np.nan
        return data


def bundle(folder: Path) -> Path:
    """A sealed development bundle of a cleaner of made-up vectors, and the folder ``trust`` next to it."""
    from edgeveil.trainer.export.export import export
    from edgeveil.trainer.recipe.schema import Recipe
    from edgeveil.trainer.sealing.seal import keygen, seal
    from edgeveil.trainer.train import train

    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    labels = x @ rng.normal(size=(FEATURES, 3)) + rng.normal(size=(ROWS, 3))
    np.savez(folder / "stream.npz", x=x, y=labels[:, 0] > 0, z=labels[:, 1] > 0, labels=labels)
    run = train(Recipe.parse(RECIPE, folder=folder), folder / "run")
    export(run.folder, ["workstation"], folder / "export")
    keygen(folder / "trust", development=True)
    path = seal(folder / "export", folder / "trust" / "signing.key", folder / "stream.veil", allow_unaudited=True)
    (folder / "trust" / "signing.key").unlink()
    return path


def install(*seed: int, hurry: float = 1.0) -> None:
    """In this process, ``faulty:N`` is a source of vectors of N numbers."""
    real = sources.open_source

    def open_source(text: str, spec: Any, capture: Any = None, **options: Any) -> Source:
        if text.startswith("faulty:"):
            return Faulty(int(text.partition(":")[2]), seed, hurry)
        return real(text, spec, capture, **options)

    sources.open_source = open_source


def commands(seed: int, folder: str, hurry: float) -> Callable[[str], list[str]]:
    """As ``process_table.command``, with this file's source; every start of a process has faults of its own.

    ``folder`` is empty at first, and counts the starts.
    """

    def command(module: str) -> list[str]:
        code = (
            f"import sys; sys.path[:1] = [{str(record.ROOT)!r}]; "
            f"from scripts.measure import soak; soak.install({seed}, soak.count_start({folder!r}), hurry={hurry}); "
            f"from edgeveil.edge_runtime.{module} import main; sys.exit(main(sys.argv[1:]))"
        )
        return [sys.executable, "-c", code]

    return command


def count_start(folder: str) -> int:
    """How many processes have called this with that folder before."""
    count = len(list(Path(folder).iterdir()))
    (Path(folder) / str(count)).touch()
    return count


class Listener:
    """The far side of a TCP sink: how many records came, of which sizes, and when the first and the last did."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.sizes: dict[int, int] = {}
        self.gaps: list[float] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self.socket.accept()
            file, last = connection.makefile("rb"), 0.0
            while head := file.read(4):
                data = file.read(struct.unpack(">I", head)[0])
                if data.startswith(b"{"):
                    continue
                self.sizes[len(data)] = self.sizes.get(len(data), 0) + 1
                now = time.monotonic()
                if last:
                    self.gaps.append(now - last)
                last = now


def children(pid: int) -> list[int]:
    """Processes that ``pid`` started."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def rss_bytes(pid: int) -> int:
    """Resident memory of a process now; 0 where it has gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def trouble(process: subprocess.Popen[str], done: dict[str, int], until: float, seed: int, hurry: float) -> None:
    """Faults from without, until a time."""
    generator = np.random.default_rng(seed)
    while time.monotonic() < until and process.poll() is None:
        time.sleep(1)
        for fault, every_s in FROM_WITHOUT_S.items():
            if generator.random() >= hurry / every_s:
                continue
            done[fault] = done.get(fault, 0) + 1
            if fault == "reload":
                process.send_signal(signal.SIGHUP)
                continue
            for pid in children(process.pid):
                os.kill(pid, signal.SIGKILL if fault == "kill" else signal.SIGSTOP)


def soak(seconds: float, seed: int = 0, hurry: float = 1.0) -> dict[str, Any]:
    """Run for so long, with ``hurry`` times as many faults; the document of what happened."""
    listener = Listener()
    done: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        starts = folder / "starts"
        starts.mkdir()
        path = bundle(folder)
        words = ["run", str(path), "--trust", str(folder / "trust"), "--source", f"faulty:{FEATURES}"]
        words += ["--sink", f"tcp://127.0.0.1:{listener.port}", "--fps", str(TICKS), "--duration", str(seconds)]
        words += ["--as-root", "--health", "off", "--log", "json", "--json", "--hang-after", "2", "--restarts", "10000"]
        words += ["--recheck", "5", "--max-latency", "0.3", "--artefact", "numpy-float32"]
        code = (
            f"import sys; sys.path[:1] = [{str(record.ROOT)!r}]; from scripts.measure import soak; "
            "from edgeveil.edge_runtime import kinds; "
            "kinds.SOURCES.kinds()['faulty'] = kinds.SOURCES['npz']._replace(facts={}); "
            "from edgeveil.edge_runtime.cli.main import main; from edgeveil.edge_runtime.outside import process_table; "
            f"process_table.command = soak.commands({seed}, {str(starts)!r}, {hurry}); sys.exit(main(sys.argv[1:]))"
        )
        log = (folder / "log").open("w+")
        process = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=log, text=True)
        given = (process, done, time.monotonic() + seconds, seed, hurry)
        threading.Thread(target=trouble, args=given, daemon=True).start()
        memory = []
        began = time.monotonic()
        while process.poll() is None:
            time.sleep(min(5, seconds / 10))
            memory.append(rss_bytes(process.pid))
            if time.monotonic() - began > seconds + 120:
                process.kill()
        out = process.communicate()[0]
        log.seek(0)
        events = [json.loads(line)["event"] for line in log if line.startswith('{"')]
    document = json.loads(out)
    time.sleep(0.5)
    gaps = np.array(listener.gaps or [0.0])
    running = [bytes_ for bytes_ in memory if bytes_][1:] or [0]
    return {
        "what": "the service under random faults, two processes, a linear cleaner of made-up vectors",
        "seed": seed,
        **record.here(),
        "seconds": round(document["seconds"], 1),
        "exit_code": process.returncode,
        "frames_in": document["frames_in"],
        "frames_out": document["frames_out"],
        "dropped": document["dropped"],
        "unaccounted": document["frames_in"] - document["frames_out"] - sum(document["dropped"].values()),
        "events": {event: events.count(event) for event in sorted(set(events))},
        "from_without": done,
        "ticks_wanted": int(seconds * TICKS),
        "records_received": sum(listener.sizes.values()),
        "record_sizes": {str(size): count for size, count in listener.sizes.items()},
        "gap_ms": {f"p{p}": round(float(np.percentile(gaps, p)) * 1e3, 2) for p in (1, 50, 99)},
        "outside_rss_bytes": {"first": running[0], "last": running[-1], "most": max(running)},
    }


def main() -> int:
    """Soak and record; exit code 3 where a single frame is not accounted for."""
    script = record.Script(__file__, __doc__, "--seconds 60 --out soak.json", out=RESULT)
    script.add_argument("--seconds", type=float, default=1800.0)
    script.add_argument("--seed", type=int, default=0, help="which faults come when")
    options = script.parse_args()
    document = soak(options.seconds, options.seed)
    record.write(options.out, script.made_by(options), document)
    print(json.dumps(document, indent=1))
    return 0 if document["unaccounted"] == 0 and document["exit_code"] == 0 else 3


if __name__ == "__main__":
    record.run(main)
