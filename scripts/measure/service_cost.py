"""What the service costs next to a bare loop: milliseconds of processor a frame, of all processes together.

640 x 480 MJPEG at 30 frames a second, by ``area`` to 180 x 180, an int8 network near the size of paper 001's, and a
message a frame to an MQTT broker on this machine; and 1280 x 720, whose middle becomes 32 x 32. The bare loop is what
one would write in an afternoon: OpenCV (one thread), LiteRT, paho, one process that sees the camera and the network.
Service and bare loop take turns, and the ratio is the median over the turns; other work changes processor time little.
The service's time is divided by the frames that left, so that one that was dropped makes the others dearer. Latency is
from a tick to the receiver, a process ahead of all others; a process that does nothing but wake says what the machine's
other work adds. Records
docs/results/bench/service-cost.json.

``--faults SECONDS`` runs the gray network camera for so long instead, quiet at both ends and with each of ``FAULTS`` in
between, and records docs/results/bench/field-run.json: what every frame and record became, cost, latency and memory.
"""

import contextlib
import json
import multiprocessing
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime import machine
from scripts import record
from scripts.measure import edge_speed
from scripts.measure.camera_to_broker import (
    CAMERA,
    CASES,
    FPS,
    WAKE,
    WARM_S,
    bare,
    bare_loop,
    bundle,
    lateness_ms,
    percentiles_ms,
    pictures,
    receive,
    taken,
)
from scripts.measure.soak import children, rss_bytes
from tests.support.network_receivers import free_port

RESULT = Path("docs/results/bench/service-cost.json")
FAULTS_RESULT = RESULT.with_name("field-run.json")
MOST_RATIO, MOST_P99_MS = 1.3, 50.0


CLOCK = """
import signal, sys, time
real, jumps, now = time.time, iter((3600.0, -90000.0, 0.0)), [0.0]
time.time = lambda: real() + now[0]
signal.signal(signal.SIGUSR1, lambda *_: now.__setitem__(0, next(jumps)))
from edgeveil.edge_runtime.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
# A fault, and the seconds that it lasts. Those of 0 s leave the service to mend them.
FAULTS = {
    **{"unplugged": 8.0, "still": 8.0, "unreadable": 5.0, "shape": 5.0},  # the camera
    **{"hangs": 15.0, "away": 25.0, "disk": 30.0},  # the broker; it is away while the spool's disk is full
    **{"clock": 5.0, "clock-back": 5.0, "clock-right": 5.0},
    **{"pause": 2.0, "stop": 35.0, "kill": 0.0, "kill-fetch": 0.0, "reload": 0.0},  # the processes
}
COUNTED = re.compile(
    r"^edgeveil_(sink_\w+|ticks\w*_total|inside_restarts_total|faults_total)"
    r'(?:\{(?:sink|kind)="([^":]*)[^}]*\})? (\S+)$',
    re.MULTILINE,
)
QUIET_PARTS, DISK_BYTES, LEFT_BYTES = 6, 64 * 2**20, 2**20


def cpu_s(pids: dict[str, int], before: Any = None) -> dict[str, float]:
    """Seconds of processor of each process, so far or since ``before``."""
    return {name: (machine.cpu_s(pid) or 0.0) - (before or {}).get(name, 0.0) for name, pid in pids.items()}


def processes(pid: int) -> dict[str, int]:
    """The service's processes by name, where ``pid`` is its outside's."""
    return {"outside": pid, **dict(zip(("inside", "fetch"), reversed(children(pid)), strict=False))}


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
        pids = processes(process.pid)
        before, began = cpu_s(pids), time.monotonic()
        wake = subprocess.run([sys.executable, "-c", WAKE, str(seconds)], capture_output=True, text=True, check=True)
        took, passed = cpu_s(pids, before), time.monotonic() - began
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


def row(folder: Path, name: str, source: str, port: int, options: Any, late: Any, packages: str | None) -> Any:
    """Service and bare loop in turns, on one bundle and source."""
    place, case = folder / name, CASES[name]
    if not place.exists():
        place.mkdir()
        bundle(place, case)
    words = [str(place / "test.veil"), "--trust", str(place / "trust"), "--as-root", "--health", "off", "--json"]
    words += ["--source", source if source.startswith("http") else "video:" + source, "--log", "memory"]
    words += [] if source.startswith("http") else ["--realtime", "--repeat"]
    words += ["--sink", f"mqtt://127.0.0.1:{port}/site/frame?discovery=off"]
    bare_words = bare_loop(source, place, port, options.seconds, case)
    turns = []
    for _ in range(options.turns):
        ours = service(words, options.seconds, packages, late)
        turns.append({"service": ours, "bare": bare(bare_words, late)})
        print(json.dumps(turns[-1]), flush=True)
    ratios = [turn["service"]["ms"] / turn["bare"]["ms"] for turn in turns]
    return {
        "input": "gray" if case.channels == 1 else "colour",
        "camera": "{1} x {0}".format(*case.frame),
        "network": f"{case.side} x {case.side}",
        "source": "network camera" if source.startswith("http") else "film",
        **{f"{side}_ms": round(statistics.median(turn[side]["ms"] for turn in turns), 2) for side in turns[0]},
        "ratio": round(statistics.median(ratios), 3),
        "p99_ms": {side: statistics.median(turn[side]["late_ms"]["p99"] for turn in turns) for side in turns[0]},
        "turns": turns,
    }


class Faults:
    """A service, and what surrounds it: its camera and broker, the disk of its spool."""

    def __init__(self, process: Any, helpers: list[Any], start_broker: Any, disk: Path) -> None:
        self.process, self.helpers, self.start_broker, self.disk = process, helpers, start_broker, disk

    def camera_is(self, mode: str) -> None:
        self.helpers[0].stdin.write(mode + "\n")
        self.helpers[0].stdin.flush()

    def begin(self, fault: str) -> None:
        """Let it happen."""
        if fault in ("unplugged", "still", "unreadable", "shape"):
            self.camera_is(fault)
        elif fault == "disk":
            with contextlib.suppress(OSError):  # full before that, where records wait there
                (self.disk / "other").write_bytes(bytes(DISK_BYTES - LEFT_BYTES))
        elif fault == "hangs":
            self.helpers[1].send_signal(signal.SIGSTOP)
        elif fault.startswith("clock"):
            self.process.send_signal(signal.SIGUSR1)
        elif fault == "reload":
            self.process.send_signal(signal.SIGHUP)
        elif fault != "away":
            how = signal.SIGKILL if fault.startswith("kill") else signal.SIGSTOP
            os.kill(processes(self.process.pid)["fetch" if fault == "kill-fetch" else "inside"], how)
        if fault in ("away", "disk"):
            self.helpers[1].kill()
            self.helpers[1].wait()

    def end(self, fault: str) -> None:
        """What was away comes back. The service itself ends an inside that stands still for long."""
        self.camera_is("")
        if fault == "disk":
            (self.disk / "other").unlink()
        if fault in ("away", "disk"):
            self.helpers[1] = self.start_broker()
        elif fault == "hangs":
            self.helpers[1].send_signal(signal.SIGCONT)
        elif fault == "pause":
            os.kill(processes(self.process.pid)["inside"], signal.SIGCONT)


def memory_of(pids: dict[str, int]) -> dict[str, int]:
    """Resident bytes of each process."""
    return {name: rss_bytes(pid) for name, pid in pids.items()}


def quiet(process: Any, seconds: float, late: Any) -> tuple[dict[str, Any], list[Any]]:
    """So long without a fault: processor time a record that came, latency, memory at both ends; and those records."""
    early, pids = taken(late), processes(process.pid)
    before, memory = cpu_s(pids), [memory_of(pids)]
    wake = subprocess.run([sys.executable, "-c", WAKE, str(seconds)], capture_output=True, text=True, check=True)
    took = cpu_s(pids, before)
    memory.append(memory_of(pids))
    records = taken(late)
    found = {
        "ms": round(sum(took.values()) / len(records) * 1e3, 2),
        "parts_ms": {name: round(one / len(records) * 1e3, 2) for name, one in took.items()},
        "rss_bytes": memory,
        "late_ms": percentiles_ms(records),
        "wake_p99_ms": round(json.loads(wake.stdout), 2),
        "records": len(records),
    }
    return found, [*early, *records]


def under_faults(
    folder: Path, url: str, port: int, helpers: list[Any], start_broker: Any, options: Any, late: Any
) -> dict[str, Any]:
    """The service for ``options.faults`` seconds: a sixth of it quiet, each fault and a rest, a sixth quiet.

    The bare loop runs before and after it.
    """
    place = folder / "1"
    place.mkdir()
    bundle(place, CASES["1"])
    calm = options.faults / QUIET_PARTS
    bare_words = bare_loop(url, place, port, calm / 3, CASES["1"])
    loops, pages = [bare(bare_words, late)], free_port()
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(disk)], check=True)
    words = ["run", str(place / "test.veil"), "--trust", str(place / "trust"), "--as-root", "--json"]
    words += ["--source", url, "--health", f"127.0.0.1:{pages}", "--log", "json"]
    words += ["--sink", f"mqtt://127.0.0.1:{port}/site/frame?discovery=off&spool={disk}/spool"]
    rest = (options.faults - 2 * calm - sum(FAULTS.values())) / len(FAULTS)
    when: list[dict[str, Any]] = []
    with (folder / "log").open("w+") as log:
        process = subprocess.Popen([sys.executable, "-c", CLOCK, *words], stdout=subprocess.PIPE, stderr=log, text=True)
        around = Faults(process, helpers, start_broker, disk)
        began = time.monotonic()
        try:
            late.get(timeout=60)
            time.sleep(WARM_S)
            first, records = quiet(process, calm - WARM_S, late)
            for fault, lasts_s in FAULTS.items():
                when.append({"fault": fault, "at_s": round(time.monotonic() - began, 1), "lasts_s": lasts_s})
                around.begin(fault)
                time.sleep(lasts_s)
                around.end(fault)
                time.sleep(max(rest, 0.0))
                when[-1]["rss_bytes"] = memory_of(processes(process.pid))
                records += taken(late)
                print(when[-1], len(records), flush=True)
            last, more = quiet(process, calm, late)
            with urllib.request.urlopen(f"http://127.0.0.1:{pages}/metrics") as answer:
                metrics = answer.read().decode()
            process.send_signal(signal.SIGTERM)
            out = process.communicate(timeout=30)[0]
            time.sleep(1)
            records += more + taken(late)
        finally:
            process.kill()
            subprocess.run(["umount", "-l", str(disk)], check=True)
        log.seek(0)
        events = [json.loads(line) for line in log if line.startswith('{"')]
    print(*(json.dumps(one) for one in events), sep="\n", file=sys.stderr)
    loops.append(bare(bare_words, late))
    document = json.loads(out)
    (sink,) = document["sinks"].values()
    # Records have numbers from 0, so that the last one's is how many the sink was given.
    put = max(int.from_bytes(one[2][8:], "big") for one in records) + 1
    names = [event["event"] + (":" + event["kind"] if "kind" in event else "") for event in events]
    return {
        "run_s": round(document["seconds"], 1),
        "exit_code": process.returncode,
        "faults": when,  # memory: at the end of the rest after each
        "frames": {"in": document["frames_in"], "out": document["frames_out"], "dropped": document["dropped"]},
        "sink": {"put": put, **sink},
        "unaccounted": {
            "frames": document["frames_in"] - document["frames_out"] - sum(document["dropped"].values()),
            "records": put - sum(sink.values()),
        },
        # The first one was taken to see that records come.
        "received": {
            "records": len(records) + 1,
            "twice": len(records) - len({one[2] for one in records}),
            "sizes": sorted({one[3] for one in records}),
            "streams": len({one[2][:8] for one in records}),
        },
        "counted": {
            (kind if name == "faults_total" else name): int(float(count))
            for name, kind, count in COUNTED.findall(metrics)
        },
        "events": {name: names.count(name) for name in sorted(set(names))},
        "quiet": {"first": first, "last": last},
        "bare": loops,
        "ratio": round((first["ms"] + last["ms"]) / sum(one["ms"] for one in loops), 3),
    }


def main() -> int:
    """Measure and record; exit code 3 where the service takes more than 1.3 times the bare loop."""
    import cv2

    script = record.Script(__file__, __doc__, "--turns 1 --seconds 5 --anyway", out=RESULT, timing=True)
    script.add_argument("--turns", type=int, default=3)
    script.add_argument("--seconds", type=float, default=15.0)
    script.add_argument("--commit", default=None, help="measure the runtime of that commit instead of this one's")
    script.add_argument("--rows", nargs="+", default=["1-http", "3-http", "1-film", "3-film", "720p-http"])
    script.add_argument("--faults", type=float, default=None, metavar="SECONDS", help="one run under faults, so long")
    options = script.parse_args()
    watch, rows, faults = record.watch(options), [], {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        packages = str(edge_speed.packages(options.commit, folder / "old")) if options.commit else None
        made = {name: pictures(case.frame) for name, case in CASES.items() if name != "3"}
        for name, some in {**made, "small": pictures((240, 320, 3))}.items():
            (folder / f"{name}.pictures").write_bytes(b"".join(some))
        size = CASES["1"].frame[1::-1]
        film = cv2.VideoWriter(str(folder / "film.avi"), cv2.VideoWriter_fourcc(*"MJPG"), FPS, size)
        for one in made["1"]:
            film.write(cv2.imdecode(np.frombuffer(one, np.uint8), cv2.IMREAD_COLOR))
        film.release()
        broker = free_port()
        (folder / "mosquitto.conf").write_text(f"listener {broker} 127.0.0.1\nallow_anonymous true\n")

        def start_broker() -> Any:
            return subprocess.Popen(["mosquitto", "-c", str(folder / "mosquitto.conf")], stderr=subprocess.DEVNULL)

        def start_camera(name: str) -> tuple[Any, str]:
            port, files = free_port(), [str(folder / f"{one}.pictures") for one in (name, "small")]
            words = [sys.executable, "-c", CAMERA, files[0], str(port), files[1]]
            return subprocess.Popen(words, stdin=subprocess.PIPE, text=True), f"http://127.0.0.1:{port}/"

        (camera, url), (large, large_url) = start_camera("1"), start_camera("720p")
        helpers = [camera, start_broker(), large]
        time.sleep(1)
        late: Any = multiprocessing.Queue()
        receiver = multiprocessing.Process(target=receive, args=(broker, late), daemon=True)
        receiver.start()
        sources = {"1-http": url, "3-http": url, "720p-http": large_url}
        try:
            if options.faults:
                faults = under_faults(folder, url, broker, helpers, start_broker, options, late)
            for case in () if options.faults else options.rows:
                source = sources.get(case, str(folder / "film.avi"))
                rows.append(row(folder, case.partition("-")[0], source, broker, options, late, packages))
                print({key: value for key, value in rows[-1].items() if key != "turns"}, flush=True)
        finally:
            receiver.kill()
            for helper in helpers:
                helper.kill()
    # Processor time of both sides: other work makes the times of ticks worse, and the ratio hardly.
    judged = record.verdict(watch.use())
    if options.faults:
        what = "the service from a network camera to a broker, each fault in turn; UNTRAINED"
        out = FAULTS_RESULT if options.out == RESULT else options.out
        record.write(out, script.made_by(options), {"what": what, **judged, **faults, **record.here()})
        print(judged["verdict"], *judged["reasons"])
        return 3 if any(faults["unaccounted"].values()) or faults["ratio"] > MOST_RATIO else 0
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
