"""Half an hour of a sensor at 200 Hz: six channels over a serial line, windows of 100 samples, a new one every 25.

The sensor is made up (wheel.py) and writes to a pseudo-terminal; the service reads that as ``serial:``, in two
processes, the inside without a network, runs a small int8 network and sends the label to a real mosquitto. A control
reads a second line meanwhile: the same reader and windows in one process, straight to the same broker, with no network
to run, no isolation and no ticks. What the service adds to a window is its time less the control's. Other work of the
machine is on record as its load, and in the control's times; --realtime keeps all of this before it, as on a machine of
its own (root alone). loop-beside-others.json is a run that was not kept so.

Records docs/results/series/loop.json; docs/results/capture-loop.md shows it.
"""

from __future__ import annotations

import os

# Before numpy loads its BLAS, here and in the processes that are started.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import contextlib
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.sinks.network.wire import Format
from scripts.reproduce import record
from scripts.reproduce.runtime.replay_overhead_depth import broker, children, memory, resident
from scripts.reproduce.series.arrivals import CONTROL, SERVICE, STRAIGHT, Receiver, times
from scripts.reproduce.series.wheel import CHANNELS, HOP, LENGTH, RATE_HZ, Wheel, bundle

RESULT = Path("docs/results/series/loop.json")
SAMPLE_S = 5.0
SPEED = 460_800
MOST_GROWTH = 0.02  # of the memory, in half an hour


@contextlib.contextmanager
def lines(count: int) -> Iterator[tuple[list[int], list[str]]]:
    """``count`` pseudo-terminals: the ends to write to, and the paths of the others."""
    pairs = [os.openpty() for _ in range(count)]
    try:
        yield [one for one, _ in pairs], [os.ttyname(other) for _, other in pairs]
    finally:
        for handle in (end for pair in pairs for end in pair):
            os.close(handle)


def busy_s(pid: int) -> float:
    """Seconds that a process has had a processor; 0 where it has ended."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def opened(port: int, most_s: float = 60.0) -> None:
    """Wait until a service's log says that its source is open. Raises ``DeviceFailed``."""
    end = time.monotonic() + most_s
    while time.monotonic() < end:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/logs", timeout=5) as answer:
            if b'"source"' in answer.read():
                return
        time.sleep(0.1)
    raise DeviceFailed("the service did not open its line")


def ends_of_the_inside(port: int) -> list[dict[str, Any]]:
    """What the service's log says of each end of the process that has the sensor: none is expected."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/logs", timeout=5) as answer:
        said = [json.loads(line) for line in answer.read().splitlines()]
    return [one for one in said if one["event"] in ("inside-ended", "hang")]


def bare_s(made: Perturber, calls: int = 2000) -> float:
    """Seconds of a processor that the interpreter alone takes for a window."""
    (runner,) = made.pipeline.runners.values()
    call = runner.bare_call(np.random.RandomState(0))
    call()
    began = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - began) / calls


def _before_others(nice: int, *, realtime: bool) -> None:
    """The priority of this process and of all that it starts. Raises ``BadInput``."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
        os.sched_setscheduler(0, os.SCHED_RR if realtime else os.SCHED_OTHER, os.sched_param(int(realtime)))
    except PermissionError:
        raise BadInput("--realtime, or --nice below 0, was asked for, and root alone may have it.") from None


def turned(path: Path, seconds: float) -> dict[str, Any]:
    """Run service and control of a bundle for so long; what went in and out, how late, and what it took."""
    folder, trust = path.parent, path.parent / "trust"
    with Perturber.open(str(path), trust=str(trust)) as made:
        form, alone_s, artefact = Format(made.manifest.outputs, made.manifest), bare_s(made), made.artefact
        network = next(iter(made.manifest.models.values()))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        health = free.getsockname()[1]
    with broker(folder) as port, lines(2) as (ends, paths), contextlib.ExitStack() as last:
        words = ["run", path, "--trust", trust, "--json", "--source", f"serial:{paths[0]},{SPEED},lines"]
        words += ["--sink", f"mqtt://127.0.0.1:{port}/{SERVICE}", "--health", f"127.0.0.1:{health}"]
        straight = [paths[1], SPEED, port, RATE_HZ, LENGTH, HOP, CHANNELS, CONTROL]
        service = _start(["-m", "edgeveil.edge_runtime", *words], stderr=subprocess.PIPE)
        last.callback(service.kill)
        opened(health)
        control = _start(["-c", STRAIGHT, *straight])
        last.callback(control.kill)
        if (control.stdout and control.stdout.readline()) != "ready\n":
            raise DeviceFailed("the control did not begin")
        wheel = Wheel(ends)
        receiver = Receiver(port, form, wheel)
        wheel.start()
        time.sleep(SAMPLE_S)
        both = {SERVICE: children(service.pid), CONTROL: children(control.pid)}
        before = {name: sum(map(busy_s, pids)) for name, pids in both.items()}
        began, samples = time.monotonic(), list[dict[str, Any]]()
        while time.monotonic() - began < seconds and service.poll() is None:
            time.sleep(min(SAMPLE_S, seconds / 10))
            rss = {str(pid): resident(pid) for pid in both[SERVICE]}
            samples.append({"at_s": time.monotonic() - began, "rss": rss, "load": machine.load()})
        passed = time.monotonic() - began
        share = {name: (sum(map(busy_s, pids)) - before[name]) / passed for name, pids in both.items()}
        wheel.stop()
        time.sleep(1.0)
        troubles = ends_of_the_inside(health)
        service.send_signal(signal.SIGTERM)
        said, errors = service.communicate(timeout=30)
        receiver.close()
    if service.returncode:
        raise DeviceFailed(f"The service ended with {service.returncode}: {errors[-2000:]}")
    summary = json.loads(said.strip().splitlines()[-1])
    return {
        "seconds": round(passed, 1),
        "artefact": artefact,
        "macs": network.macs,
        "samples": wheel.count,
        "slowest_line_ms": round(1e3 * wheel.late_s, 2),
        "windows": len(wheel.written_s),
        **{key: summary[key] for key in ("frames_in", "frames_out", "dropped")},
        "received": {name: len(came) for name, came in receiver.came_s.items()},
        "repeated": receiver.repeated,
        "ends_of_the_inside": troubles,
        **times(wheel, receiver),
        "processor": {**share, "bare interpreter": alone_s * RATE_HZ / HOP},
        "memory": memory(samples),
    }


def _start(words: list[Any], **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, *map(str, words)], stdout=subprocess.PIPE, text=True, **options)


def main() -> int:
    """Turn, record; exit code 3 where a window was dropped or lost, or the memory grew."""
    script = record.Script(__file__, __doc__, "--minutes 1 --out loop.json", out=RESULT)
    script.add_argument("--minutes", type=float, default=30.0)
    script.add_argument("--nice", type=int, default=0, help="priority of all that is measured, -20 to 19")
    script.add_argument("--realtime", action="store_true", help="let no other work of this machine in between")
    asked = script.parse_args()
    with tempfile.TemporaryDirectory() as place:
        path = bundle(Path(place))
        _before_others(asked.nice, realtime=asked.realtime)
        found = turned(path, 60 * asked.minutes)
    document = {
        "schema": 1,
        "kind": "loop-of-a-series",
        "what": f"{CHANNELS} channels at {RATE_HZ} Hz, windows of {LENGTH} samples, one every {HOP}, to mosquitto",
        "nice": asked.nice,
        "realtime": asked.realtime,
        **record.here(),
        **found,
    }
    record.write(asked.out, script.made_by(asked), document)
    shown = ("windows", "frames_out", "dropped", "ends_of_the_inside", "received", "added_ms", "processor")
    print(json.dumps({key: document[key] for key in shown}, indent=1))
    grown = found["memory"]["growth_bytes_per_minute"] * 30 / found["memory"]["warm_bytes"]
    whole = not found["dropped"] and found["received"][SERVICE] == found["windows"] == found["frames_out"]
    return 0 if whole and grown < MOST_GROWTH else 3


if __name__ == "__main__":
    record.run(main)
