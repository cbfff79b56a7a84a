"""From an empty machine to a count in Home Assistant: the commands of docs/how-to/count-people.md, and nothing else.

They run as they stand there, with a passphrase that a person would type, in a new clone of this checkout in a temporary
folder, with no file of an earlier run and an empty cache of pip. What pip fetches is fetched before, in a step of its
own. The broker is mosquitto as Debian sets it up, at 1883, which must be free. Home Assistant is that of
scripts/environments/home_assistant.py; what the page says to type there is typed into its form. Ends once every number
is shown there.

Records docs/results/counting/from-empty.json, with the minutes of each step, by the clock and of the processor, and
what Home Assistant shows; docs/results/counting.md has both. --photo draws its page anew, in headless Chromium.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.errors import DeviceFailed
from scripts.reproduce import record
from scripts.reproduce.looks.chromium import Chromium
from scripts.reproduce.looks.draw import draw
from scripts.reproduce.looks.home_assistant_photo import FILE, HEIGHT, house, show

RESULT = Path("docs/results/counting/from-empty.json")
PAGE = "docs/how-to/count-people.md"
SECTION = "## From an empty machine to Home Assistant"
PORT = 1883  # what Debian's mosquitto listens at, and the page's address means
FETCH = "what pip fetches"
READY = "ready"
HOME_ASSISTANT = "until Home Assistant shows every number"
OURS = ("EDGEVEIL_", "VIRTUAL_ENV", "PYTHON", "PIP_CACHE")  # of the environment: an empty machine has none


def commands(page: str) -> list[str]:
    """The lines of the section's block, to be typed one after the other."""
    section = page.partition(SECTION)[2].partition("\n## ")[0]
    return [line.strip() for line in section.splitlines() if line.startswith("    ")]


def script(lines: Sequence[str], log: Path) -> str:
    """For bash: the lines in one shell, each with its seconds (clock, user, system) on stdout.

    What they say goes to ``log``. One that fails ends all with its exit code. ``READY`` is said before the last, which
    runs on.
    """
    *before, last = lines
    words = ["TIMEFORMAT='%R %U %S'", "exec 3>&1"]
    words += [f"{{ time {{ {line}\n}} >>{log} 2>&1; }} 2>&3 || exit" for line in before]
    return "\n".join([*words, f"echo {READY}", f"exec {last} >>{log} 2>&1 3>&-"])


def with_fetching(lines: Sequence[str], folder: Path) -> tuple[list[str], list[str]]:
    """The lines with one before what pip installs that only fetches it; and the name of each step."""
    found, names = [], []
    for line in lines:
        if line.startswith("pip install "):
            found.append(line.replace("pip install", f"pip download --quiet --dest {folder}", 1))
            names.append(FETCH)
        found.append(line)
        names.append(line)
    return found, names


@contextlib.contextmanager
def mosquitto() -> Iterator[None]:
    """Debian's, with its own configuration. Raises ``DeviceFailed`` where its port is taken or stays shut."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", PORT), 1):
        raise DeviceFailed(f"Port {PORT} was expected to be free, for a mosquitto of this script: end what has it.")
    found = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    Path("/run/mosquitto").mkdir(exist_ok=True)  # what its unit makes
    shutil.chown("/run/mosquitto", "mosquitto", "mosquitto")
    with subprocess.Popen([found, "-c", "/etc/mosquitto/mosquitto.conf"]) as process:
        try:
            for _ in range(200):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", PORT), 0.1):
                    break
                time.sleep(0.05)
            else:
                raise DeviceFailed(f"mosquitto did not listen at {PORT}: see /var/log/mosquitto/mosquitto.log.")
            yield
        finally:
            process.terminate()


def walked(folder: Path, *, photo: bool) -> dict[str, Any]:
    """Walk the page in ``folder``. Raises ``DeviceFailed`` with what the command said that failed."""
    checkout, log = folder / "checkout", folder / "log"
    subprocess.run(["git", "clone", "--quiet", str(record.ROOT), str(checkout)], check=True)
    lines, names = with_fetching(commands((checkout / PAGE).read_text()), folder / "fetched")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    environment |= {"PIP_CACHE_DIR": str(folder / "cache"), "EDGEVEIL_PASSPHRASE": secrets.token_hex()}
    load = [machine.load()]
    with mosquitto():
        words = ["bash", "-c", script(lines, log)]
        with subprocess.Popen(words, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True) as shell:
            try:
                said = shell.stdout.read() if shell.stdout is not None else ""  # ends where the last command begins
                began = time.monotonic()
                *spent, last = said.splitlines()
                if last != READY:
                    raise DeviceFailed(f"`{lines[len(spent)]}` failed: {log.read_text()[-600:]}")
                load.append(machine.load())
                with house(folder, PORT) as told:
                    shown = time.monotonic() - began
                    if photo:
                        with Chromium() as browser:
                            show(browser, told)
                            draw(browser, FILE, HEIGHT)
                if shell.poll() is not None:
                    raise DeviceFailed(f"`{lines[-1]}` ended with {shell.returncode}: {log.read_text()[-600:]}")
            finally:
                shell.terminate()
    load.append(machine.load())
    steps = [
        {"step": name, "wall_s": clock, "processor_s": round(user + system, 1)}
        for name, (clock, user, system) in zip(names, (map(float, line.split()) for line in spent), strict=False)
    ]
    steps += [{"step": names[-1], "wall_s": None}, {"step": HOME_ASSISTANT, "wall_s": round(shown, 1)}]
    return {
        "steps": steps,
        "minutes": round(sum(one["wall_s"] or 0 for one in steps if one["step"] != FETCH) / 60, 1),
        "load": [round(one, 1) for one in load if one is not None],
        "home_assistant": told["version"],
        "states": told["states"],
    }


def main() -> None:
    """Walk and record."""
    asked_of = record.Script(__file__, __doc__, out=RESULT)
    asked_of.add_argument("--photo", action="store_true", help=f"draw docs/looks/{FILE}")
    asked = asked_of.parse_args()
    with tempfile.TemporaryDirectory() as place:
        found = walked(Path(place), photo=asked.photo)
    record.write(asked.out, asked_of.made_by(asked), {"kind": "from-empty", **record.here(), **found})
    print(f"{found['minutes']} minutes; Home Assistant {found['home_assistant']} shows {len(found['states'])} entities")


if __name__ == "__main__":
    record.run(main)
