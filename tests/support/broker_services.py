"""The service as a process of its own, with the fakes of ``live_fakes``, for tests that look at it from without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.checkout import ROOT

START = """
import json, sys
sys.path[:0] = {paths!r}
from tests.support import live_fakes, machine_identifier
from edgeveil.edge_runtime import kinds
machine_identifier.use()
facts = {{"sensor": "wifi", "gives": "WiFi strengths"}}
kinds.SOURCES.kinds()["fake"] = kinds.SOURCES["simulate"]._replace(facts=facts)
from edgeveil.edge_runtime.cli import main as cli; from edgeveil.edge_runtime.outside import process_table
process_table.command = live_fakes.command
{first}
sys.exit(cli.main(json.loads(sys.argv[1])))
"""


def file_arguments(made: Any, source: str, *sinks: str) -> list[str]:
    """The command line of a run from a file, which prints its document."""
    words = ["run", str(made.path), "--trust", str(made.trust), "--source", source, "--json"]
    return words + [word for sink in sinks for word in ("--sink", str(sink))]


def arguments(made: Any, source: str, *sinks: str, **flags: Any) -> list[str]:
    """The command line of a service without health pages at 25 ticks a second."""
    flags = {"log": "json", "fps": 25, "health": "off", "hang-after": 1, **flags}
    words = [*file_arguments(made, source, *sinks), "--as-root"]
    return words + [word for name, value in flags.items() for word in (f"--{name}", str(value))]


def start(words: list[str], folder: Path, first: str = "", **options: Any) -> subprocess.Popen[str]:
    """The service as a process with the fake source; faults that come once leave their marks in ``folder``.

    ``first`` is run in the outside before it starts.
    """
    code = START.format(paths=[str(ROOT)], first=first)
    environment = dict(os.environ, FAKES_FOLDER=str(folder))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([sys.executable, "-c", code, json.dumps(words)], env=environment, text=True, **pipes)


def finish(process: subprocess.Popen[str], timeout_s: float = 40) -> tuple[int, Any, list[dict[str, Any]]]:
    """Exit code, the document on stdout or None, and the events on stderr."""
    try:
        out, err = process.communicate(timeout=timeout_s)
    finally:
        process.kill()
    assert "Traceback" not in err, err
    events = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    return process.returncode, json.loads(out) if out else None, events
