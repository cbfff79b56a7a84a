"""What a cold start costs with this version and with an earlier one, in turns: ``verify`` a bundle, and ``try`` it.

A cold start is a process of its own with the runtime as a board has it, the one file edgeveil-edge.pyz: the
interpreter's start, imports, the signature and every hash, the self-test; ``try`` goes on to a first frame. What counts
is the time of the processor, which other work on the machine changes little; the time on the wall stands next to it. Of
both versions it records the median of the turns, and the median of the ratios of neighbours, with its interval by
bootstrap.

With --userland also in an emulated arm64 userland (scripts/emulated_device), each process under qemu's user emulation.
The earlier version comes out of the history of the checkout. Exit code 3 where a ratio is above 1.15. Records
docs/results/bench/open-cost.json.
"""

import base64
import contextlib
import io
import json
import os
import shlex
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices import profiles
from edgeveil.devices.flashing.wheels import collect
from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.errors import BadInput
from scripts import record

RESULT = Path("docs/results/bench/open-cost.json")
LIMIT = 1.15
BEFORE = "d59db7e"  # the last version without roles, an installed runtime and a list of system calls
ROOMS = ("trainer", "devices", "models", "edge_runtime")
INTERPRETER = "ai-edge-litert==2.3.0"
# Runs where it is measured, and needs the standard library alone. One turn of each bundle not counted comes first.
MEASURE = """
import json, os, subprocess, sys, time
asked = json.load(sys.stdin)
environment = dict(os.environ, PYTHONPATH=asked["path"], OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
def cold_start(what, runtime, bundle, trust):
    command = [runtime, what, bundle, "--trust", trust] + (["--frames", "1"] if what == "try" else [])
    null, began = subprocess.DEVNULL, time.perf_counter()
    process = subprocess.Popen([sys.executable] + command, env=environment, stdout=null, stderr=null)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit("{} ended with status {}".format(command, status))
    return (used.ru_utime + used.ru_stime) * 1e3, (time.perf_counter() - began) * 1e3
found = []
for turn in range(-1, asked["turns"]):
    for bundle, trust in asked["bundles"]:
        for what in ("verify", "try"):
            order = asked["runtimes"][:: 1 if turn % 2 else -1]
            taken = [cold_start(what, runtime, bundle, trust) for runtime in order]
            if turn >= 0:
                found.append([bundle, what] + taken[:: 1 if turn % 2 else -1])
print(json.dumps(found))
"""
Measured = list[Any]  # bundle, what, and for each version the time of the processor and on the wall, in ms


def earlier(commit: str) -> bytes:
    """The runtime of that commit, made by its own code."""
    done = subprocess.run(["git", "archive", commit, *ROOMS], capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode().strip()
        raise BadInput(f"{commit} was expected in the history of this checkout: {said}. Run git fetch --unshallow.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "edgeveil")
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(folder, filter="data")
        code = "import sys; from edgeveil.devices.zipapp import zipapp_bytes; sys.stdout.buffer.write(zipapp_bytes())"
        environment = {**os.environ, "PYTHONPATH": name}
        return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout


def rows(measured: Measured, names: dict[str, str], where: str) -> list[dict[str, Any]]:
    """One row for each bundle and command."""
    found, rng = [], np.random.default_rng(0)
    for bundle, name in names.items():
        for what in ("verify", "try"):
            taken = np.array([one[2:] for one in measured if one[:2] == [bundle, what]])  # turn, version, clock
            row: dict[str, Any] = {"where": where, "bundle": name, "what": what}
            for clock, times in zip(("processor", "wall"), np.moveaxis(taken, 2, 0), strict=True):
                ratios = times[:, 1] / times[:, 0]
                again = np.median(rng.choice(ratios, (2000, len(ratios))), axis=1)
                before, now = (round(float(one), 1) for one in np.median(times, axis=0))
                interval = [round(float(end), 3) for end in np.quantile(again, [0.025, 0.975])]
                ratio = round(float(np.median(ratios)), 3)
                row[clock] = {"before_ms": before, "now_ms": now, "ratio": ratio, "interval": interval}
            print(json.dumps(row), file=sys.stderr)
            found.append(row)
    return found


def here(asked: dict[str, Any]) -> Measured:
    """Measured on this machine."""
    command = [sys.executable, "-c", MEASURE]
    done = subprocess.run(command, input=json.dumps(asked), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


@contextlib.contextmanager
def userland(files: dict[str, bytes], code: str = MEASURE) -> Iterator[Callable[[dict[str, Any]], Measured]]:
    """Runs ``code`` in an emulated userland that has these files: what is asked for on stdin, JSON on stdout."""
    script, name = (
        [sys.executable, str(record.ROOT / "scripts/emulated_device")],
        ["--name", f"open-cost-{os.getpid()}"],
    )
    up = subprocess.run([*script, "up", *name, "--port", "0"], stdout=subprocess.PIPE, check=False)
    if up.returncode:
        raise BadInput(
            "there is no emulated userland here: see what scripts/emulated_device said, or leave --userland out"
        )
    board = json.loads(up.stdout)
    ssh = ["ssh", "-i", board["identity"], "-o", f"UserKnownHostsFile={board['known_hosts']}", "-o", "BatchMode=yes"]
    ssh += ["-p", str(board["port"]), "root@127.0.0.1"]
    try:
        for path, data in files.items():
            place = shlex.quote(path)
            subprocess.run([*ssh, f"mkdir -p $(dirname {place}) && cat > {place}"], input=data, check=True)
        subprocess.run([*ssh, "cd /root/site && python3 -m zipfile -e /root/site.zip ."], check=True)

        def measure(asked: dict[str, Any]) -> Measured:
            packed = base64.b64encode(code.encode()).decode()
            command = [*ssh, f"python3 -c 'import base64; exec(base64.b64decode(\"{packed}\"))'"]
            done = subprocess.run(command, input=json.dumps(asked).encode(), stdout=subprocess.PIPE, check=True)
            return json.loads(done.stdout)

        yield measure
    finally:
        subprocess.run([*script, "down", *name], stdout=subprocess.DEVNULL, check=False)


def main() -> int:
    """Measure and record."""
    script = record.Script(__file__, __doc__, "--userland a.veil:trust b.veil:trust", out=RESULT)
    script.add_argument("bundles", nargs="+", type=Path, help="BUNDLE:TRUST")
    script.add_argument("--before", default=BEFORE, help=f"the earlier version, a commit (default: {BEFORE})")
    script.add_argument("--userland", action="store_true", help="in an emulated arm64 userland, too")
    script.add_argument("--turns", type=int, default=15)
    options = script.parse_args()
    pairs = [tuple(Path(part).resolve() for part in str(pair).split(":")) for pair in options.bundles]
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runtimes = {"before.pyz": earlier(options.before), "now.pyz": zipapp_bytes()}
        for file, data in runtimes.items():
            (folder / file).write_bytes(data)
        common = {"turns": options.turns}
        names = {str(bundle): bundle.stem for bundle, _ in pairs}
        asked = {"bundles": [[str(part) for part in pair] for pair in pairs], "path": ""}
        found += rows(here({**common, **asked, "runtimes": [str(folder / file) for file in runtimes]}), names, "x86_64")
        if options.userland:
            files = {f"/root/{file}": data for file, data in runtimes.items()}
            files["/root/site/.keep"] = b""
            files["/root/site.zip"] = collect(
                profiles.load("raspberry-pi-cpu"), folder / "wheels", [INTERPRETER]
            ).archive
            sent = []
            for bundle, trust in pairs:
                place = f"/root/{bundle.stem}"
                sent.append([f"{place}.veil", f"{place}.trust"])
                files[f"{place}.veil"] = bundle.read_bytes()
                files |= {f"{place}.trust/{key.name}": key.read_bytes() for key in trust.glob("*.pub")}
            names = {place[0]: pair[0].stem for place, pair in zip(sent, pairs, strict=True)}
            with userland(files) as measure:
                asked = {"bundles": sent, "path": "/root/site", "runtimes": [f"/root/{file}" for file in runtimes]}
                found += rows(measure({**common, **asked}), names, "aarch64, emulated")
    document = {"kind": "open-cost", "what": __doc__.splitlines()[0], "limit": LIMIT, "before": options.before}
    document |= {"turns": options.turns, "rows": found, "load": machine.load(), "machine": machine.facts()}
    record.write(options.out, script.made_by(options), document)
    return 3 if any(row["processor"]["ratio"] > LIMIT for row in found) else 0


if __name__ == "__main__":
    record.run(main)
