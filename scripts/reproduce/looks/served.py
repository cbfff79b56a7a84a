"""A service of the runtime whose preview a page shows."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from edgeveil.devices.zipapp import build_zipapp
from edgeveil.edge_runtime.errors import DeviceFailed

START_S = 180  # of a busy machine


@contextlib.contextmanager
def served(bundle: Path, trust: Path, source: Sequence[str], out: Path) -> Iterator[str]:
    """The address of the preview while ``bundle`` runs on ``source``, the words after --source; its log is in ``out``.

    From its first tick on. Raises ``DeviceFailed`` where there is none.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(build_zipapp(out / "edgeveil-edge.pyz")), "run", str(bundle)]
    command += ["--trust", str(trust), "--source", *source, "--sink", f"preview:{port}"]
    log = out / "service.log"
    with log.open("w") as said:
        service = subprocess.Popen(command, stdout=said, stderr=said)
    url, end = f"http://127.0.0.1:{port}/", time.monotonic() + START_S
    try:
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}state.json", timeout=5) as answer:  # noqa: S310 - its own address
                if json.load(answer)["tick"] is not None:
                    break
            if service.poll() is not None or time.monotonic() > end:
                raise DeviceFailed(f"The service showed no preview: {log.read_text()[-400:]}")
            time.sleep(0.2)
        yield url
    finally:
        service.terminate()
        service.wait()
