#!/usr/bin/env python3
"""Fuzz every parser that reads a stranger's bytes, led by coverage, and record what was reached.

    .venv/bin/python tests/fuzz/parsers_run.py --seconds 3600 --corpus .venv/corpus

Each target of ``parsers.py`` gets an equal part of the time, in a process of its own, and begins with the corpus beside
this file and that of ``--corpus``, where what is new is kept. Atheris (libFuzzer) leads where it can be imported, else
the mutations of ``run.py``. Then all that was kept is run once more under ``coverage``. A finding is written beside the
record, and the exit code is 3.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import platform
import random
import re
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RECORD = ROOT / "docs" / "results" / "fuzz-parsers.json"
CORPUS = HERE / "corpus"
sys.path[:0] = [str(ROOT)]


def given(name: str, folder: Path | None) -> list[bytes]:
    """What a target begins with: its seeds and its corpora."""
    from tests.fuzz.parsers import TARGETS

    files = [path for place in (CORPUS, folder) if place for path in sorted((place / name).glob("*"))]
    return [*TARGETS[name].seeds, *(path.read_bytes() for path in files)]


def own(name: str, seconds: float, seed: int, folder: Path | None) -> dict[str, Any]:
    """Mutate what was kept for so much processor time (s). Returns the counts; raises nothing."""
    import edgeveil
    from tests.fuzz.parsers import TARGETS, attempt
    from tests.fuzz.run import Tracer, mutated

    root = Path(edgeveil.__file__).parent
    # As the interpreter names it: through the links by which the checkout is a package.
    tracer = Tracer({str(root / TARGETS[name].file), str((root / TARGETS[name].file).resolve())})
    rng, seen, kept, findings = random.Random(seed), set(), [], {}  # noqa: S311 - a fuzzer's choices are no secret
    waiting = given(name, folder)
    started, count = time.process_time(), 0
    while waiting or time.process_time() - started < seconds:
        fresh = bool(waiting)
        data = waiting.pop() if fresh else mutated(rng.choice(kept), rng.choice(kept), rng)
        count += 1
        try:
            with tracer:
                attempt(name, data)
        except Exception as error:
            findings.setdefault(f"{type(error).__name__}: {error}"[:200], data)
        if fresh or not tracer.steps <= seen:
            kept.append(data)
            if folder is not None and not fresh:
                _write(folder / name, data)
        seen |= tracer.steps
    return {"engine": "own", "executions": count, "kept": len(kept), "findings": findings}


def by_atheris(name: str, seconds: float, seed: int, folder: Path) -> dict[str, Any]:
    """The same by libFuzzer, in a process of its own."""
    for data in given(name, None):
        _write(folder / name, data)
    before = {path.name for path in (folder / name).iterdir()}
    with tempfile.TemporaryDirectory() as crashes:
        options = [f"-max_total_time={max(1, round(seconds))}", f"-seed={seed + 1}", "-max_len=4096", "-timeout=20"]
        options += ["-rss_limit_mb=2048", "-print_final_stats=1", f"-artifact_prefix={crashes}/", str(folder / name)]
        command = [sys.executable, __file__, "--atheris", name, *options]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        found = re.search(r"number_of_executed_units:\s*([0-9]+)", done.stderr)
        findings = {path.name: path.read_bytes() for path in Path(crashes).iterdir()}
    if found is None and not findings:
        raise SystemExit(f"{name}: libFuzzer did not run:\n{done.stderr[-2000:]}")
    kept = len(list((folder / name).iterdir()))
    return {
        "engine": "atheris",
        "executions": int(found[1]) if found else 0,
        "kept": kept,
        "new": kept - len(before),
        "findings": findings,
    }


def _atheris(name: str, options: list[str]) -> None:
    import atheris

    with atheris.instrument_imports(include=["edgeveil"]):
        from tests.fuzz.parsers import attempt
    atheris.Setup([sys.argv[0], *options], lambda data: attempt(name, data) and None)
    atheris.Fuzz()


def _write(folder: Path, data: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


def replay(folder: Path | None) -> dict[str, Any]:
    """Run all that was kept under ``coverage``: per file, the lines reached and missed. For a fresh process."""
    import coverage

    measure = coverage.Coverage(data_file=None, branch=True, config_file=False, source_pkgs=["edgeveil"])
    measure.start()
    from tests.fuzz.parsers import TARGETS, attempt
    from tests.fuzz.run import _facts
    from tests.hostile_bundles import museum, zips  # noqa: F401 - which fills it

    for name in TARGETS:
        for data in given(name, folder):
            attempt(name, data)
    for exhibit in museum.EXHIBITS.values():  # some are too large to be mutated
        attempt("archive", exhibit.bundle()[0])
    measure.stop()
    wanted = sorted({target.file for target in TARGETS.values()})
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "coverage.json"
        measure.json_report(outfile=str(report), morfs=[str(ROOT / file) for file in wanted], ignore_errors=True)
        files = json.loads(report.read_text())["files"]
    facts = {file: next(value for path, value in files.items() if path.endswith(file)) for file in wanted}
    return {file: _facts(value["summary"], value["missing_lines"]) for file, value in facts.items()}


def main() -> int:
    if sys.argv[1:2] == ["--atheris"]:
        _atheris(sys.argv[2], sys.argv[3:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=["auto", "own", "atheris"], default="auto")
    parser.add_argument("--corpus", type=Path, help="folder in which what is new is kept")
    parser.add_argument("--out", type=Path, default=RECORD, help="where the record goes")
    parser.add_argument("--replay", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.replay:
        print(json.dumps(replay(options.corpus)))
        return 0
    from tests.fuzz.parsers import TARGETS

    here = importlib.util.find_spec("atheris") is not None
    engine = by_atheris if options.engine == "atheris" or (options.engine == "auto" and here) else own
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.corpus or Path(scratch)).resolve()
        results = {name: engine(name, options.seconds / len(TARGETS), options.seed, folder) for name in TARGETS}
        took = time.monotonic() - started
        count = 0
        for name, facts in results.items():
            for data in facts["findings"].values():
                count += 1
                options.out.with_name(f"finding-{name}-{count}").write_bytes(data)
            facts["findings"] = len(facts["findings"])
        files = {}
        if not count:
            command = [sys.executable, __file__, "--replay", "--corpus", str(folder)]
            files = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
    packages = ["coverage"] + (["atheris"] if engine is by_atheris else [])
    record = {
        "kind": "edgeveil-fuzz-parsers",
        "schema": 1,
        "made_by": f"tests/fuzz/parsers_run.py --seconds {options.seconds:g} --seed {options.seed}",
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}},
        "seconds": round(took),
        "executions": sum(facts["executions"] for facts in results.values()),
        "findings": count,
        "targets": results,
        "coverage": files,
    }
    options.out.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{record['executions']} inputs to {len(results)} parsers, {count} findings; {options.out}")
    return 3 if count else 0


if __name__ == "__main__":
    sys.exit(main())
