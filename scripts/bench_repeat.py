"""Whether quick runs repeat: two in a row on this machine, and one beside programs that take every core.

Each run is ``edgeveil-edge bench`` in a process of its own. The two must agree within 10 % at p50 and be VALID, and the
one beside the hogs must be INVALID: else exit code 3. Records docs/results/bench/repeat.json.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from edge_runtime.files import write_atomic

RESULT = Path("docs/results/bench/repeat.json")
MOST = 0.10
HOG = "import os\nwhile os.getppid() == {}: sum(range(10000))"


def run(options: argparse.Namespace) -> dict[str, Any]:
    """One quick run's document."""
    command = [sys.executable, "-m", "edge_runtime", "bench", str(options.bundle), "--trust", str(options.trust)]
    done = subprocess.run([*command, "--artefact", options.artefact, "--json"], stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(done.returncode)
    return json.loads(done.stdout)


def main() -> int:
    """Run, record, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="Example: scripts/bench_repeat.py --bundle mnist.veil --trust trust"
    )
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--trust", type=Path, required=True)
    parser.add_argument("--artefact", default="auto")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    quiet = [run(options), run(options)]
    hogs = [subprocess.Popen([sys.executable, "-c", HOG.format(os.getpid())]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        time.sleep(1)
        beside = run(options)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    first, second = (one["latency_ms"]["p50"] for one in quiet)
    apart = abs(second / first - 1)
    good = apart <= MOST and all(one["verdict"] == "VALID" for one in quiet) and beside["verdict"] == "INVALID"
    document = {
        "what": "two quick runs in a row, then one beside twice as many busy loops as there are cores",
        "apart": round(apart, 4),
        "most_apart": MOST,
        "good": good,
        "quiet": quiet,
        "beside_hogs": beside,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(options.out, (json.dumps(document, indent=1) + "\n").encode())
    print(f"p50 {first:.4f} and {second:.4f} ms, {apart:.1%} apart; verdicts", *(one["verdict"] for one in quiet))
    print(f"beside hogs: {beside['verdict']}, {'; '.join(beside['reasons'])}")
    return 0 if good else 3


if __name__ == "__main__":
    sys.exit(main())
