"""From an empty folder to a count in Home Assistant, by the commands of docs/how-to/count-people.md alone, timed.

A fresh clone of this checkout, the commands of that page in their order, Home Assistant itself (its environment is that
of scripts/environments/home_assistant.py) and a real mosquitto between. What differs from the page: `keygen` gets
--no-passphrase, the broker a free port, and pip what it needs from a folder, into which it was downloaded before: that
time stands apart. Records docs/results/counting/empty-machine.json.

    python -m scripts.reproduce.counting.empty_machine
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from edgeveil.devices.timing import idle
from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.trainer.progress import say
from scripts.reproduce import record
from scripts.reproduce.counting.house import House
from scripts.reproduce.runtime.replay_overhead_depth import broker

RESULT = Path("docs/results/counting/empty-machine.json")
PAGE, SECTION = Path("docs/how-to/count-people.md"), "## From an empty machine to Home Assistant"
GOAL_MINUTES = 10
BUILT_WITH = "setuptools>=77"  # as pyproject.toml has it
ADDED = {"edgeveil keygen keys": " --no-passphrase"}
NUMBERS = ("sensor.edgeveil_hall_door_line_door_in", "sensor.edgeveil_hall_door_line_door_out")
MOST_S = 600.0
KEPT = ("PATH", "HOME", "LANG")  # of the environment: nothing of this checkout's


def commands(text: str) -> list[str]:
    """The commands of the section of the page ``text``, in order."""
    section = text.split(SECTION)[1].split("\n## ")[0]
    return [line.strip() for line in section.splitlines() if line.startswith("    ")]


class Shell:
    """Runs one command after the other in ``place``, as somebody would who types them there."""

    def __init__(self, place: Path, environment: dict[str, str]) -> None:
        self.place, self.environment = place, environment

    def start(self, line: str, log: Path) -> subprocess.Popen[bytes]:
        """Begin a command; what it says goes to ``log``."""
        whole = f"if [ -d venv ]; then . venv/bin/activate; fi; {line}"
        with log.open("ab") as said:
            return subprocess.Popen(
                ["bash", "-c", whole],
                cwd=self.place,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )

    def run(self, line: str) -> float:
        """Its seconds. Raises ``DeviceFailed`` where it fails."""
        began, log = time.monotonic(), self.place.parent / "log"
        if self.start(line, log).wait():
            raise DeviceFailed(f"{line} failed: {log.read_text()[-1500:]}")
        return time.monotonic() - began


def shell_in(folder: Path) -> Shell:
    """A fresh clone below ``folder``, and a shell there whose python3 is this Python."""
    (folder / "bin").mkdir()
    (folder / "bin/python3").symlink_to(Path(sys.base_prefix) / "bin/python3")
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    shell = Shell(folder / "checkout", {**kept, "PATH": f"{folder / 'bin'}:{kept['PATH']}"})
    subprocess.run(["git", "clone", "--quiet", f"file://{record.ROOT}", str(shell.place)], check=True)
    return shell


def downloaded(shell: Shell, line: str, wheels: Path) -> float:
    """Fetch what the ``pip install`` of ``line`` needs, for it to find in ``wheels``; the seconds that it took."""
    boot = shell.place.parent / "boot"

    def fetch() -> float:
        wanted = line.removeprefix("pip install ")
        shell.run(f"python3 -m venv {boot}")
        return shell.run(f"{boot}/bin/pip download --quiet --dest {wheels} {wanted} '{BUILT_WITH}'")

    took = float(record.kept(wheels / "seconds.json", fetch))
    shell.environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    return took


def counted(shell: Shell, line: str, folder: Path) -> dict[str, Any]:
    """Run the service of the page's last command until Home Assistant shows counts; what it shows, and after when."""
    with broker(folder) as port, House(port, folder / "house.log") as house:
        began = time.monotonic()
        service = shell.start("exec " + line.replace("mqtt://127.0.0.1/", f"mqtt://127.0.0.1:{port}/"), folder / "log")
        try:
            for states in house.states():
                took = time.monotonic() - began
                if all(states.get(name, "").isdigit() for name in NUMBERS):
                    break
                if service.poll() is not None or took > MOST_S:
                    raise DeviceFailed(f"Home Assistant shows no count: {(folder / 'log').read_text()[-1500:]}")
        finally:
            service.terminate()
            service.wait(30)
    return {"home_assistant": house.version, "after_s": round(took, 1), "states": states}


def main() -> int:
    """Walk, record; exit code 3 where it takes longer than the goal."""
    script = record.Script(__file__, __doc__, "--out empty-machine.json", out=RESULT)
    script.add_argument("--wheels", type=Path, help="folder of what pip downloads, used again where it is there")
    asked = script.parse_args()
    steps: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        shell = shell_in(Path(place))
        *before, last = commands((shell.place / PAGE).read_text())
        (install,) = (line for line in before if line.startswith("pip install"))
        fetched = downloaded(shell, install, (asked.wheels or Path(place) / "wheels").resolve())
        watch, load = idle.Watch(), machine.load()
        for line in before:
            steps.append({"command": line, "seconds": round(shell.run(line + ADDED.get(line, "")), 1)})
            say(f"{steps[-1]['seconds']:6.1f} s  {line}")
        found = counted(shell, last, Path(place))
        steps.append({"command": last, "seconds": found.pop("after_s")})
        use = watch.use()
    minutes = sum(step["seconds"] for step in steps) / 60
    document = {
        "schema": 1,
        "kind": "empty-machine",
        "goal_minutes": GOAL_MINUTES,
        "minutes": round(minutes, 2),
        "downloads_minutes": round(fetched / 60, 2),
        "commands": steps,
        **found,
        "load": load,
        **record.verdict(use),
        **record.here(),
    }
    record.write(asked.out, script.made_by(asked), document)
    say(f"{minutes:.1f} minutes, downloads aside ({fetched / 60:.1f}); Home Assistant shows {found['states']}")
    return 0 if minutes <= GOAL_MINUTES else 3


if __name__ == "__main__":
    record.run(main)
