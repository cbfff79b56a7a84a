"""Whether quick runs repeat: two in a row on this machine, and one beside programs that take every core.

Each run is ``edgeveil-edge bench`` in a process of its own. The two must agree within 10 % at p50 and be VALID, and the
one beside the hogs must be INVALID: else exit code 3. Takes half a minute; begins once the machine is quiet, and ends
with 3 where it does not become so. Records docs/results/bench/repeat.json.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import DeviceFailed
from scripts.reproduce import record

RESULT = Path("docs/results/bench/repeat.json")
MOST = 0.10
HOG = "import os\nwhile os.getppid() == {}: sum(range(10000))"


def run(options: argparse.Namespace) -> dict[str, Any]:
    """One quick run's document."""
    words = ["bench", str(options.bundle), "--trust", str(options.trust), "--artefact", options.artefact, "--json"]
    command = [sys.executable, "-m", "edgeveil.edge_runtime", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 3):
        raise DeviceFailed(f"edgeveil-edge bench ended with {done.returncode}.")
    return json.loads(done.stdout)


def main() -> int:
    """Run, record, judge."""
    script = record.Script(__file__, __doc__, "--bundle mnist.veil --trust trust", out=RESULT, timing=True)
    script.add_argument("--bundle", type=Path, required=True)
    script.add_argument("--trust", type=Path, required=True)
    script.add_argument("--artefact", default="auto")
    options = script.parse_args()
    watch = record.watch(options)
    pair = []
    for number in (1, 2):
        pair.append(run(options))
        print(f"{number} of 3: p50 {pair[-1]['latency_ms']['p50']:.4f} ms, {pair[-1]['verdict']}", file=sys.stderr)
    use = watch.use()
    hogs = [subprocess.Popen([sys.executable, "-c", HOG.format(os.getpid())]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        time.sleep(1)
        beside = run(options)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    first, second = (one["latency_ms"]["p50"] for one in pair)
    apart = abs(second / first - 1)
    judged = record.verdict(use, [reason for one in pair for reason in one["reasons"]])
    reasons = judged["reasons"]
    good = apart <= MOST and not reasons and beside["verdict"] == "INVALID"
    document = {
        "kind": "repeat",
        "what": "two quick runs in a row, then one beside twice as many busy loops as there are cores",
        "apart": round(apart, 4),
        "most_apart": MOST,
        "good": good,
        **judged,
        "quiet": pair,
        "beside_hogs": beside,
    }
    record.write(options.out, script.made_by(options), document)
    print(f"p50 {first:.4f} and {second:.4f} ms, {apart:.1%} apart; verdicts", *(one["verdict"] for one in pair))
    print(*reasons, sep="\n", end="\n" if reasons else "")
    print(f"beside hogs: {beside['verdict']}, {'; '.join(beside['reasons'])}")
    return 0 if good else 3


if __name__ == "__main__":
    record.run(main)
