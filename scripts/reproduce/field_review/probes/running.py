"""Version 0.1's runtime on a board's first day: what runs, for how long, and what it says of the board."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import older
from edge_runtime.sensors import Sensors, parse

from devices import profiles

SLOW_S = 40
# As tests/services.py, with an interpreter that takes its time while the inside opens the bundle.
SLOW = (
    """
import json, sys
sys.path[:0] = {paths!r}
import live_fakes
from edge_runtime import cli, supervise
first = '''
from edge_runtime.perturber import Perturber
real = Perturber.open
def slow(*arguments, **options):
    import time
    time.sleep(SECONDS)
    return real(*arguments, **options)
Perturber.open = slow
'''
supervise.command = lambda module: live_fakes.command(module, first)
sys.exit(cli.main(json.loads(sys.argv[1])))
"""
).replace("SECONDS", str(SLOW_S))


def _made(folder: Path) -> Any:
    import bundles
    import live_fakes

    return bundles.make_bundle(folder / "b", example=live_fakes.wide_example())


def _ended(code: int, events: list[dict[str, Any]], word: str) -> str:
    said = [event.get("message", "") for event in events if event["event"] == word]
    return f"exit code {code}, {word} {len(said)} times ({said[-1] if said else 'never'})"


def slow_interpreter(folder: Path) -> str:
    """A bundle that takes longer to open than the longest that the supervisor waits."""
    import services

    limits = {"hang-after": 0.2, "restarts": 0}
    words = services.arguments(_made(folder), "fake:5?fps=50", f"npz:{folder}/out.npz", **limits)
    services.START = SLOW
    code, _, events = services.finish(services.start(words, folder), timeout_s=3 * SLOW_S)
    return f"an open of {SLOW_S} s: {_ended(code, events, 'hang')}"


def engine_cache(_: Path) -> str:
    """What ONNX Runtime is asked of TensorRT."""
    from edge_runtime.backends import onnx

    return f"TensorRT is asked for {onnx._options('TensorrtExecutionProvider', 'float16')}"


def _board(folder: Path, files: dict[str, str]) -> dict[str, str]:
    """The Nano's sensors, at files of this form instead of those under /sys."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    places = profiles.load("jetson-nano").sensors
    return {name: place.replace("/sys", str(folder)) for name, place in places.items()}


def zones_of_the_nano(folder: Path) -> str:
    """The temperature that a benchmark notes of a Nano, and whether it would know the power mode."""
    zones = {"0/type": "AO-therm", "0/temp": "31000", "1/type": "CPU-therm", "1/temp": "71000"}
    sensors = Sensors(_board(folder, {f"class/thermal/thermal_zone{name}": text for name, text in zones.items()}))
    sensors.look(0)
    mode = older.answer(lambda: parse(json.dumps({"power_mode": "!nvpmodel -q"})))
    return f"CPU-therm at 71 degrees, noted {sensors.samples[0]['temperature_c']:g}; power_mode: {mode}"


def throttled_between_samples(folder: Path) -> str:
    """A run in which a Raspberry Pi was throttled, but at no sample."""
    place = folder / "throttled"
    sensors = Sensors({"throttled": str(place)})
    for at, bits in enumerate(("0x0", "0x50000")):
        place.write_text(f"throttled={bits}\n")
        sensors.look(10.0 * at)
    return f"get_throttled 0x0, then 0x50000; problems: {'; '.join(sensors.problems()) or 'none'}"


def absent_camera(folder: Path) -> str:
    """A service whose camera is not there when it starts, and how often its unit may start it again."""
    import services

    made = _made(folder)
    begun = time.monotonic()
    words = services.arguments(made, "fake:0?absent=1", f"npz:{folder}/out.npz")
    code, _, _ = services.finish(services.start(words, folder))
    passed = time.monotonic() - begun
    unit = older.lines(older.service_files("raspberry-pi-cpu"), "StartLimit")
    return f"exit code {code} after {passed:.0f} s; the inside's unit: {unit}"


def first_boot_without_a_camera(folder: Path) -> str:
    """What a card's first boot does where the camera comes later: its trial, as it is written on the card."""
    import watching

    root, bundle = watching.watching_bundle(folder, "first")
    place = folder / "opt"
    shutil.copytree(root, place / "trust")
    command = [sys.executable, "-m", "edge_runtime", "install", str(bundle.path), "--root", str(place)]
    done = subprocess.run(
        [*command, "--frames", "3", "--source", "camera:9"], cwd=older.TREE, capture_output=True, text=True, check=False
    )
    said = done.stderr.strip().splitlines()[-1].replace(str(folder), "DIR")
    return f"exit code {done.returncode}, a release is there: {(place / 'current').exists()}; {said}"


class Part:
    """The sink of one part, as far as it is asked."""

    def __init__(self, path: str) -> None:
        Path(path).touch()

    def write(self, *_: object) -> None:
        """It takes all."""

    close = discard = write


def rotated_parts(folder: Path) -> str:
    """Parts after rotations, and whether an option would limit them."""
    from edge_runtime.sinks.place import rotation, split

    from edge_runtime.sinks.rotating import RotatingSink

    sink = RotatingSink(str(folder / "parts"), Part, suffix=".npz", limits=(100, None), frame_bytes=100)
    for _ in range(50):
        sink._write(object())
    sink.close()
    keep = older.answer(lambda: split("DIR?rotate=1h&keep=30", {"rotate": rotation}))
    return f"50 parts were closed, {len(list((folder / 'parts').iterdir()))} are there; keep=30: {keep}"


def board_in_metrics(folder: Path) -> str:
    """The names in /metrics of a service that runs."""
    import services

    with socket.create_server(("127.0.0.1", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    words = services.arguments(_made(folder), "fake:0?fps=50", f"npz:{folder}/out.npz", health=place)
    running = services.start(words, folder)
    try:
        text = _page(f"http://{place}/metrics")
    finally:
        running.kill()
        running.communicate()
    names = sorted({re.split("[ {]", line)[0] for line in text.splitlines()})
    told = [name for name in names if re.search("temp|throttl|disk|release|free", name)]
    return f"{len(names)} names; of the board: {', '.join(told) or 'none'}"


def _page(address: str) -> str:
    """A page, once it is served. Raises ``OSError`` where that takes more than 20 s."""
    last = time.monotonic() + 20
    while True:
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310 - of this machine
                return str(answer.read().decode())
        except OSError:
            if time.monotonic() > last:
                raise
            time.sleep(0.2)
