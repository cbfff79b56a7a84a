"""How much of a serial line's rate a file gets, on a clean cable and on a bad one that is pulled twice.

Records docs/results/devices/serial.json. Example: scripts/measure_serial.py
"""

import argparse
import json
import platform
import random
import tempfile
import time
from pathlib import Path

from edgeveil.devices.transports.serial import SerialTransport
from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.storage.atomic import write_atomic
from tests.support import lossy_serial_line

RATE = 11_520  # bytes a second at 115,200 baud, 8N1
CABLES = {
    "clean": {},
    "bad": {"flip": 1 / 2000, "drop": 1 / 5000, "cuts": 2},
}


def measure(faults: dict, size: int, seed: int) -> dict:
    """One upload; ``goodput`` is the file's bytes a second, from the first to the last, over the line's rate."""
    data = random.Random(seed).randbytes(size)  # noqa: S311 - bytes to send
    pulled = tuple(12_000 + size * (one + 1) // 3 for one in range(faults.get("cuts", 0)))
    cable = lossy_serial_line.Faults(rate=RATE, seed=seed, **{**faults, "cuts": pulled})
    with tempfile.TemporaryDirectory() as folder, lossy_serial_line.board(Path(folder), cable) as board:
        begun = time.monotonic()
        console = SerialTransport(board.port)
        ready = time.monotonic()
        console.put(data, f"{folder}/there")
        seconds = time.monotonic() - ready
        exact = (Path(folder) / "there").read_bytes() == data
        console.close()
        return {
            "bytes": size,
            "exact": exact,
            "cuts": board.cuts,
            "login_s": round(ready - begun, 2),
            "upload_s": round(seconds, 2),
            "goodput": round(size / seconds / RATE, 3),
        }


def main() -> None:
    """Measure both cables with several seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=300_000)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    rows = {name: [measure(f, options.bytes, seed) for seed in range(options.seeds)] for name, f in CABLES.items()}
    record = {
        "line_bytes_per_s": RATE,
        "cables": CABLES,
        "rows": rows,
        "machine": machine.facts(),
        "load": machine.load(),
        "python": platform.python_version(),
    }
    path = Path("docs/results/devices/serial.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(str(path), (json.dumps(record, indent=1, sort_keys=True) + "\n").encode())
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
