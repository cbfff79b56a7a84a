"""The service on an emulated board: whether it sends, its units, and what systemd says of them."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from tests.support.boards.emulated_boards import Emulated

PATIENCE_S = 1800
UNITS = ("edgeveil", "edgeveil-inside", "edgeveil-recover")
ASK = """
import json, urllib.request
def page(name):
    return urllib.request.urlopen("http://127.0.0.1:9464/" + name, timeout=5).read().decode()
assert page("readyz") == "ok\\n"
print(page("healthz"))
"""


def healthy(board: Emulated, *, more_than: int = 0) -> dict[str, Any]:
    """What the service says of itself, once it is ready and more than so many frames have left it."""
    board.put(ASK.encode(), "/root/ask.py")
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        said = board.run("timeout 60 python3 /root/ask.py 2>/dev/null || true", timeout_s=180).stdout
        if said and json.loads(said)["frames_out"] > more_than:
            return json.loads(said)
        time.sleep(3)
    log = board.run("journalctl --no-pager -n 80 -u 'edgeveil*'").stdout.decode()
    raise AssertionError(f"no service within {PATIENCE_S} s: {log}")


def units(board: Emulated) -> list[str]:
    """Whether each of ``UNITS`` is active."""
    return board.run(f"systemctl is-active {' '.join(UNITS)}", any_code=True).stdout.decode().split()


def process(board: Emulated, unit: str) -> bytes:
    """The number of its main process."""
    return board.run(f"systemctl show -P MainPID {unit}").stdout.strip()


def exposure(board: Emulated) -> dict[str, float]:
    """What ``systemd-analyze security`` gives each unit of ours that is on the board, of 10."""
    names = board.run("cd /etc/systemd/system && ls edgeveil*.service").stdout.decode().split()
    found = {}
    for name in names:
        said = board.run(f"systemd-analyze security --no-pager {name}", timeout_s=300).stdout.decode()
        found[name] = float(re.search(r"exposure level for \S+ ([0-9.]+)", said)[1])  # type: ignore[index]
    return found
