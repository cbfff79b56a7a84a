"""What `edgeveil --help` takes beside the same of an earlier commit: whole processes in turns, from compiled files.

The ratio is the median over pairs, and the limit is on the median wall time. Takes half a minute; the record is INVALID
where other programs used more than a quarter of a core. Exit code 3 there, and over the limit. Records
docs/results/command_time.json.
"""

import io
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.errors import BadInput
from scripts.reproduce import record

RESULT = Path("docs/results/command_time.json")
LIMIT_S = 0.35
CODE = "import sys; sys.argv = ['edgeveil', '--help']; from edgeveil.trainer.cli.main import main; main()"


def packages(folder: Path, checkout: Path) -> Path:
    """``folder``, from which Python then imports the checkout as it is installed."""
    (folder / "edgeveil").mkdir(parents=True)
    for name in ("devices", "edge_runtime", "models", "trainer"):
        (folder / "edgeveil" / name).symlink_to(checkout / name)
    (folder / "edgeveil/__init__.py").symlink_to(checkout / "trainer/api/__init__.py")
    return folder


def checkout_of(commit: str, folder: Path) -> Path:
    """The files of a commit, written to ``folder``. Raises ``BadInput`` for one that git does not know."""
    done = subprocess.run(["git", "archive", commit], cwd=record.ROOT, capture_output=True, check=False)
    if done.returncode:
        raise BadInput(f"--before: a commit was expected; got {commit!r}: {done.stderr.decode().strip()}.")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


def taken(path: Path) -> dict[str, float]:
    """Wall and processor seconds of one process, interpreter start included."""
    before = os.times()
    began = time.perf_counter()
    environment = dict(os.environ, PYTHONPATH=str(path), COLUMNS="120")
    subprocess.run([sys.executable, "-c", CODE], env=environment, cwd=path, stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - began, os.times()
    return {
        "wall_s": wall,
        "cpu_s": after.children_user + after.children_system - before.children_user - before.children_system,
    }


def main() -> int:
    """Measure and record."""
    script = record.Script(__file__, __doc__, "--before HEAD~1", out=RESULT, timing=True)
    script.add_argument("--before", default="HEAD", help="the commit to compare this checkout with")
    script.add_argument("--pairs", type=int, default=25)
    options = script.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        old = packages(folder / "old", checkout_of(options.before, folder / "checkout"))
        new = packages(folder / "new", record.ROOT)
        for path in (old, new):
            taken(path)  # compiles what is not compiled yet
        watch = record.watch(options)
        pairs = [(taken(old), taken(new)) for _ in range(options.pairs)]
    judged = record.verdict(watch.use())
    found: dict[str, Any] = {}
    for key in ("wall_s", "cpu_s"):
        found[f"before_{key}"], found[f"now_{key}"] = (
            round(statistics.median(pair[at][key] for pair in pairs), 3) for at in (0, 1)
        )
        found[f"ratio_{key}"] = round(statistics.median(new[key] / old[key] for old, new in pairs), 3)
    document = {**judged, "what": __doc__.splitlines()[0], "pairs": options.pairs, "limit_s": LIMIT_S, **found}
    record.write(options.out, script.made_by(options), {**document, "machine": machine.facts()})
    print(judged["verdict"], found)
    return 3 if judged["reasons"] or found["now_wall_s"] > LIMIT_S else 0


if __name__ == "__main__":
    record.run(main)
