"""A headless Chromium that shows one page at a time, spoken to over two pipes; nothing is needed but its binary."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import DeviceFailed
from tests.support import programs

# --no-sandbox: in a container its own sandbox cannot be made. It is shown pages of this checkout alone.
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-pipe",
)
FIRST_FREE = 10  # Chromium reads from 3 and writes to 4: our ends must be neither
PHONE = 600  # pixels; narrower pages are shown as a phone does
HEIGHT = 900
WAIT_S = 60.0


class Chromium:
    """A browser; close it, or use it in ``with``. Raises ``DeviceFailed`` where it does not start or answer."""

    def __init__(self) -> None:
        found = programs.find("chromium")
        if found is None:
            raise DeviceFailed("Chromium was expected on PATH, and is not there: apt-get install chromium.")
        self._folder = tempfile.TemporaryDirectory(prefix="edgeveil-chromium-", ignore_cleanup_errors=True)
        pipes = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE) for end in (*os.pipe(), *os.pipe())]
        its_in, self._to, self._from, its_out = pipes

        def place() -> None:
            os.dup2(its_in, 3)
            os.dup2(its_out, 4)

        self._process = subprocess.Popen(
            [found, *ARGUMENTS, f"--user-data-dir={self._folder.name}"],
            preexec_fn=place,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(its_in)
        os.close(its_out)
        self._number, self._rest, self._events, self._session = 0, b"", [], ""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.send("Page.enable")
        self.version = self.send("Browser.getVersion")["product"]

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol and its result."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            asked["sessionId"] = self._session
        self._write(asked)
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                break
            self._events.append(answer.get("method"))
        if "error" in answer:
            raise DeviceFailed(f"Chromium refused {method}: {answer['error']['message']}")
        return dict(answer["result"])

    def show(self, url: str, *, width: int, dark: bool = False, wait_s: float = 0.3) -> None:
        """Show a page ``width`` pixels wide, in the dark scheme or the light one; returns when it has loaded."""
        size = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": width < PHONE}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        self.send("Page.navigate", url=url)
        while "Page.loadEventFired" not in self._events:
            self._events.append(self._read().get("method"))
        time.sleep(wait_s)

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        found = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise DeviceFailed(f"The page could not answer: {found['exceptionDetails'].get('text')}")
        return found["result"].get("value")

    def picture(self, *, height: int | None = None) -> bytes:
        """The page as PNG, all of it or its upper ``height`` pixels."""
        width, whole = self.evaluate("[innerWidth, Math.ceil(document.body.getBoundingClientRect().bottom + scrollY)]")
        clip = {"x": 0, "y": 0, "width": width, "height": height or whole, "scale": 1}
        found = self.send("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(found["data"])

    def close(self) -> None:
        """End it, with the processes that it started."""
        with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._folder.cleanup()

    def _write(self, asked: dict[str, Any]) -> None:
        data = json.dumps(asked).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._from], [], [], WAIT_S)[0]:
                raise DeviceFailed(f"Chromium has not answered for {WAIT_S:.0f} s.")
            piece = os.read(self._from, 1 << 16)
            if not piece:
                raise DeviceFailed("Chromium ended by itself.")
            self._rest += piece
        answer, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(answer))


def file_url(path: Path) -> str:
    """The address of a file."""
    return path.resolve().as_uri()
