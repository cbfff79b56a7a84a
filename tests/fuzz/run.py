#!/usr/bin/env python3
"""Fuzz the reader of bundles, led by coverage, and record how much of it was reached.

    .venv/bin/python tests/fuzz/run.py --seconds 240

Hypothesis turns a string of bytes into a spoiled bundle; this program mutates those strings and keeps each that reaches
a step of the reader (from one line to another) that no earlier one reached. The kept ones are then run once more under
``coverage``, which is what the record says. A finding is printed, its bytes are written beside the record, and the exit
code is 3.
"""

from __future__ import annotations

import argparse
import collections
import json
import platform
import random
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RECORD = ROOT / "docs" / "results" / "fuzz.json"
sys.path[:0] = [str(ROOT)]


class Tracer:
    """Collects the steps from line to line inside some files, while it is on."""

    def __init__(self, files: set[str]) -> None:
        self.files = files
        self.steps: set[tuple[CodeType, int, int]] = set()

    def __enter__(self) -> None:
        self.steps = set()
        sys.settrace(self._call)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in self.files:
            return None
        last = 0
        steps = self.steps

        def line(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal last
            if event == "line":
                steps.add((code, last, frame.f_lineno))
                last = frame.f_lineno
            return line

        return line


def mutated(buffer: bytes, other: bytes, rng: random.Random) -> bytes:
    """One buffer from one or two that were worth keeping."""
    data = bytearray(buffer)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        place = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            data[place : place + 1] = rng.randbytes(1)
        elif kind == 1:
            data[place:place] = rng.randbytes(rng.randrange(1, 9))
        elif kind == 2:
            del data[place : place + rng.randrange(1, 9)]
        elif kind == 3:
            data[place : place + 8] = rng.choice((bytes(8), b"\xff" * 8, bytes(7) + b"\x01", rng.randbytes(8)))
        elif kind == 4:
            data[place:] = other[rng.randrange(len(other) + 1) :]
        else:
            data[place:] = rng.randbytes(rng.randrange(64, 512))
    return bytes(data[:8192])


def fuzz(seconds: float, seed: int, folder: Path) -> dict[str, Any]:
    """Run for so much processor time (s); what is worth keeping goes into ``folder`` as bundles. Returns the counts."""
    from hypothesis import HealthCheck, given, settings

    from edgeveil import edge_runtime
    from tests.fuzz.mutations import GOOD_BYTES, candidates
    from tests.fuzz.target import SUBJECT, outcome

    root = Path(edge_runtime.__file__).parent
    tracer = Tracer({str(root / f"{name}.py") for name in SUBJECT if name != "signing/ed25519"})
    counts: collections.Counter[str] = collections.Counter()
    current = b""

    @settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(candidates())
    def one(data: bytes) -> None:
        nonlocal current
        current = data
        with tracer:
            result = outcome(data)
        counts[result] += 1

    rng = random.Random(seed)  # noqa: S311 - a fuzzer's choices are no secret
    corpus = [rng.randbytes(rng.randrange(16, 1024)) for _ in range(16)]
    seen: set[Any] = set()
    for number, data in enumerate(GOOD_BYTES):
        (folder / f"good-{number}").write_bytes(data)
    findings, executions, kept = 0, 0, len(GOOD_BYTES)
    # Processor time: what a run reaches does not depend on what else the machine does.
    started = time.process_time()
    while time.process_time() - started < seconds:
        executions += 1
        buffer = mutated(rng.choice(corpus), rng.choice(corpus), rng) if executions % 8 else rng.randbytes(1024)
        tracer.steps = set()
        try:
            one.hypothesis.fuzz_one_input(buffer)
        except Exception as error:
            findings += 1
            print(f"FINDING {findings}: {type(error).__name__}: {error}", file=sys.stderr)
            (folder / f"finding-{findings}").write_bytes(current)
            continue
        if not tracer.steps <= seen:
            seen |= tracer.steps
            corpus.append(buffer)
            (folder / f"kept-{kept:06}").write_bytes(current)
            kept += 1
    refused = {reason: count for reason, count in sorted(counts.items()) if reason != "accepted"}
    return {
        "seconds": round(time.process_time() - started),
        "seed": seed,
        "inputs": sum(counts.values()),
        "accepted": counts["accepted"],
        "refused": refused,
        "findings": findings,
        "steps": len(seen),
        "kept": kept,
    }


def replay(folder: Path) -> dict[str, Any]:
    """Read every bundle in ``folder`` under ``coverage``; per file what was reached. For a fresh process."""
    import coverage

    measure = coverage.Coverage(data_file=None, branch=True, config_file=False, source_pkgs=["edgeveil.edge_runtime"])
    measure.exclude("def read_file")  # what can be wrong with a path is not in the bytes
    measure.start()
    from tests.fuzz.target import SUBJECT, outcome

    for path in sorted(folder.iterdir()):
        if not path.name.startswith("finding"):
            outcome(path.read_bytes(), path)
    measure.stop()
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "coverage.json"
        measure.json_report(outfile=str(report), morfs=[str(ROOT / "edge_runtime" / f"{name}.py") for name in SUBJECT])
        files = json.loads(report.read_text())["files"]
    found = {}
    for name in SUBJECT:
        facts = next(facts for file, facts in files.items() if file.endswith(f"edge_runtime/{name}.py"))
        found[f"edge_runtime/{name}.py"] = _facts(facts["summary"], facts["missing_lines"])
    return found


def _facts(summary: dict[str, Any], missing: list[int]) -> dict[str, Any]:
    lines, branches = summary["num_statements"], summary["num_branches"]
    return {
        "lines": lines,
        "lines_reached": summary["covered_lines"],
        "lines_percent": round(100 * summary["covered_lines"] / lines, 1),
        "branches": branches,
        "branches_reached": summary["covered_branches"],
        "lines_missed": missing,
    }


def _total(files: dict[str, Any]) -> dict[str, Any]:
    keys = ("lines", "lines_reached", "branches", "branches_reached")
    total = {key: sum(facts[key] for facts in files.values()) for key in keys}
    return {**total, "lines_percent": round(100 * total["lines_reached"] / total["lines"], 1)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="of processor time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RECORD, help="where the record goes")
    parser.add_argument("--replay", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.replay:
        print(json.dumps(replay(options.replay)))
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        counts = fuzz(options.seconds, options.seed, folder)
        command = [sys.executable, __file__, "--replay", str(folder)]
        files = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        for finding in folder.glob("finding-*"):
            options.out.with_name(finding.name + ".veil").write_bytes(finding.read_bytes())
    packages = ("hypothesis", "coverage", "cryptography", "jsonschema")
    record = {
        "kind": "edgeveil-fuzz",
        "schema": 1,
        "made_by": f"tests/fuzz/run.py --seconds {options.seconds:g} --seed {options.seed}",
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}},
        **counts,
        "total": _total(files),
        "coverage": files,
    }
    options.out.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{counts['inputs']} inputs, {counts['accepted']} accepted, {len(counts['refused'])} reasons of refusal,")
    print(f"{record['total']['lines_percent']} % of lines reached, {counts['findings']} findings; {options.out}")
    return 3 if counts["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
