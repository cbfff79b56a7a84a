"""How much of a serial line's rate a file gets, on a clean cable and on a bad one that is pulled twice.

Records docs/results/devices/serial.json; about two minutes. With --check every file must arrive whole and be cut off as
often as on record, and each cable's median goodput must lie within a tenth of the line's rate of what is on record.
"""

import json
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgeveil.devices.transports.serial import SerialTransport
from edgeveil.edge_runtime import machine
from scripts.reproduce import record
from tests.support.boards import lossy_serial_line

RATE = 11_520  # bytes a second at 115,200 baud, 8N1
RESULT = Path("docs/results/devices/serial.json")
MARGIN = 0.1  # of goodput: a busy machine's
Rows = Mapping[str, Sequence[Mapping[str, Any]]]
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


def unequal(old: Rows, new: Rows) -> Iterator[str]:
    """In what two runs differ beyond what timing does to them."""
    for cable, before in old.items():
        after = new[cable]
        if not all(one["exact"] for one in after):
            yield f"{cable}: a file did not arrive as it was sent"
        if [one["cuts"] for one in before] != [one["cuts"] for one in after]:
            yield f"{cable}: cuts were {[one['cuts'] for one in before]}, now {[one['cuts'] for one in after]}"
        rates = [one["goodput"] for one in before]
        rate = statistics.median(one["goodput"] for one in after)
        if not min(rates) - MARGIN <= rate <= max(rates) + MARGIN:
            yield f"{cable}: goodput was {min(rates)} to {max(rates)}, now {rate}"


def main() -> int:
    """Measure both cables with several seeds."""
    script = record.Script(__file__, __doc__, "--check", check=True)
    script.add_argument("--bytes", type=int, default=120_000)
    script.add_argument("--seeds", type=int, default=3)
    options = script.parse_args()
    before = record.recorded(RESULT) if options.check else {}
    rows = {name: [measure(f, options.bytes, seed) for seed in range(options.seeds)] for name, f in CABLES.items()}
    print(json.dumps(rows, indent=1))
    print(f"load {machine.load()}; both ends of the line are programs, and need a quiet machine")
    if options.check:
        return record.compare(RESULT, list(unequal(before["rows"], rows)))
    document = {
        "line_bytes_per_s": RATE,
        "cables": CABLES,
        "rows": rows,
        "machine": machine.facts(),
        "load": machine.load(),
        "python": platform.python_version(),
    }
    record.write(RESULT, script.made_by(options), document)
    return 0


if __name__ == "__main__":
    record.run(main)
