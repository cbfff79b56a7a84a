"""The page of a stream in Home Assistant itself, in headless Chromium.

    python -m scripts.reproduce.looks.home_assistant_photo --bundle hall.veil --trust trust

The bundle is that of docs/how-to/count-people.md and runs as it says there, with simulated people, on a mosquitto of
its own. The environment is that of scripts/environments/home_assistant.py. The page is shown once every number has
come, some minutes later. Writes docs/looks/home-assistant.png.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from scripts.environments import home_assistant
from scripts.reproduce import record
from scripts.reproduce.looks.chromium import Chromium
from scripts.reproduce.looks.draw import draw
from scripts.reproduce.runtime.replay_overhead_depth import broker

FILE = "home-assistant.png"
WIDTH, HEIGHT = 1100, 820
INSIDE = record.ROOT / "tests/support/home_assistant/house.py"
STREAM = "hall/door"
ENTITIES = 8  # in, out, people, occupied, two stays, state and version; y-hat has a word only while somebody walks
WAIT_S = 300  # for the first whole minutes
DRAWN_S = 60
DRAWN = "!document.getElementById('ha-launch-screen')"


@contextlib.contextmanager
def house(folder: Path, port: int) -> Iterator[dict[str, Any]]:
    """Home Assistant on the broker at ``port``: what it says once the stream is there. Raises ``DeviceFailed``."""
    python = home_assistant.python(home_assistant.folder())
    if python is None:
        raise DeviceFailed("No Home Assistant here: python -m scripts.environments.home_assistant makes it.")
    config = folder / "config"
    config.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        environment = {**os.environ, "SETUP_PORT": str(free.getsockname()[1])}
    words = [str(python), str(INSIDE), str(config), str(port), str(ENTITIES)]
    log = folder / "home-assistant.log"
    with (
        log.open("w") as said,
        subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, env=environment
        ) as process,
    ):
        try:
            found = select.select([process.stdout], [], [], WAIT_S)[0]
            line = process.stdout.readline() if found and process.stdout is not None else ""
            if not line:
                raise DeviceFailed(f"Home Assistant shows no stream after {WAIT_S} s: {log.read_text()[-600:]}")
            yield json.loads(line)
        finally:
            process.kill()


@contextlib.contextmanager
def stream(bundle: Path, trust: Path, port: int, log: Path) -> Iterator[None]:
    """The service of the page on counting."""
    words = [sys.executable, "-m", "edgeveil.edge_runtime", "run", str(bundle), "--trust", str(trust)]
    words += ["--source", "simulate:depth", "--sink", f"mqtt://127.0.0.1:{port}/{STREAM}"]
    with log.open("w") as said, subprocess.Popen(words, stdout=said, stderr=said) as process:
        try:
            yield
        finally:
            process.terminate()


def show(browser: Chromium, told: dict[str, Any]) -> None:
    """Show the device's page, as somebody who is logged in. Raises ``DeviceFailed`` where it stays at its logo."""
    address = told["tokens"]["hassUrl"]
    browser.show(f"{address}/manifest.json", width=WIDTH)  # any file: the account is kept for the address
    browser.evaluate(f"localStorage.setItem('hassTokens', {json.dumps(json.dumps(told['tokens']))})")
    browser.show(f"{address}{told['page']}", width=WIDTH)
    until = time.monotonic() + DRAWN_S
    while not browser.evaluate(DRAWN):
        if time.monotonic() > until:
            raise DeviceFailed(f"Home Assistant's page was not drawn within {DRAWN_S} s.")
        time.sleep(0.5)
    time.sleep(5)  # its cards slide in


def main() -> None:
    """Run all of it and draw the page."""
    script = record.Script(__file__, __doc__, "--bundle hall.veil --trust trust")
    script.add_argument("--bundle", type=Path, required=True, help="the bundle of docs/how-to/count-people.md")
    script.add_argument("--trust", type=Path, required=True, help="the folder of its public key")
    asked = script.parse_args()
    if not asked.bundle.is_file():
        raise BadInput(f"A bundle was expected at {asked.bundle}: make it as docs/how-to/count-people.md says.")
    with tempfile.TemporaryDirectory() as place, broker(Path(place)) as port:
        folder = Path(place)
        with (
            stream(asked.bundle, asked.trust, port, folder / "log"),
            house(folder, port) as told,
            Chromium() as browser,
        ):
            show(browser, told)
            draw(browser, FILE, HEIGHT)
    print(f"Home Assistant {told['version']}: docs/looks/{FILE}")


if __name__ == "__main__":
    record.run(main)
