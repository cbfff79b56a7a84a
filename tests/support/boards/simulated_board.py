"""A board that is a folder of this machine: each command of a flash runs here for real, and the line to it can break.

What lies in ``/etc``, ``/var/lib`` and ``/run/systemd`` of a board lies in the same places below the folder. systemd
alone is simulated: it writes down what it was asked, whether the service is active, and the release that it started.
What only reads the board runs in this process: a start of Python takes longer than all that it does there. Needs root,
as a flash does on a board.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from edgeveil.devices.transports.base import Completed, Progress
from edgeveil.edge_runtime import paths
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.errors import DeviceFailed

READS = ("releases", "rollback", "status")  # a rollback that is refused, at least
PLACES = ("/etc/", "/var/lib/", "/run/systemd/")
SYSTEMCTL = """#!{python}
import json, os, sys
place, root, words = {place!r}, {root!r}, [word for word in sys.argv[1:] if word != "--quiet"]
state = json.load(open(place)) if os.path.exists(place) else {{"active": False, "release": None, "enabled": False}}
if words[0] == "is-active":
    if "--quiet" not in sys.argv:
        print("active" if state["active"] else "failed")
    sys.exit(0 if state["active"] else 3)
settings = os.path.join({etc!r}, "edgeveil/edge.json")
refused = os.path.exists(settings) and "refuses" in open(settings).read()
if words[0] == "restart" and refused:
    state.update(active=False, said="expected another sink; edgeveil.service failed")
    json.dump(state, open(place, "w"))
    sys.exit("the unit failed")
if words[0] in ("start", "restart") and (words[0] == "restart" or not state["active"]):
    if not os.path.exists(os.path.join(root, "current", "bundle.veil")):
        sys.exit("the unit failed")
    state.update(active=True, release=os.path.basename(os.readlink(os.path.join(root, "current"))))
if words[0] == "stop":
    state.update(active=False)
if words[0] == "enable":
    state.update(enabled=True)
json.dump(state, open(place, "w"))
"""
JOURNALCTL = """#!{python}
import json
print(json.load(open({place!r})).get("said", ""))
"""


class SimulatedBoard:
    """A transport to the board in ``folder``.

    ``break_before``: the line breaks for good before the first call with these letters. ``kill``: the command that has
    this word is killed as soon as something is so. ``fail``: the command that has this word does nothing and fails.
    """

    name, trusted, python = "board", True, sys.executable

    def __init__(
        self,
        folder: Path,
        *,
        break_before: str | None = None,
        kill: tuple[str, Callable[[], bool]] | None = None,
        fail: str | None = None,
    ) -> None:
        self.folder, self.root = folder, folder / "opt/edgeveil"
        self.ran: list[list[str]] = []
        self.interpreters, self.failed = {"numpy": np.__version__}, {}  # what its Python loads, and what it does not
        self._break_before, self._kill, self._fail, self._broken = break_before, kill, fail, False
        for place in (*PLACES, "/bin/", "/home/", "/run/systemd/system/"):
            (folder / place.strip("/")).mkdir(parents=True, exist_ok=True)
        words = {"python": sys.executable, "place": str(folder / "systemctl.json"), "root": str(self.root)}
        for name, text in (("systemctl", SYSTEMCTL), ("journalctl", JOURNALCTL)):
            (folder / "bin" / name).write_text(text.format(etc=str(folder / "etc"), **words))
            (folder / "bin" / name).chmod(0o755)

    @property
    def service(self) -> dict:
        """What systemd knows: whether the service is active, of which release, and whether it starts at boot."""
        place = self.folder / "systemctl.json"
        return json.loads(place.read_text()) if place.exists() else {"active": False, "release": None, "enabled": False}

    def run(self, command: Sequence[str], *, data: bytes = b"", timeout_s: float = 120) -> Completed:
        self._call(command)
        if self._fail in command:
            return Completed(1, b"", b"failed")
        words = [str(self.folder) + word if word.startswith(PLACES) else word for word in command]
        for place in PLACES:  # in tests of what is needed
            words = [word.replace(f":{place}", f":{self.folder}{place}") if word[:1] == "[" else word for word in words]
        for place in PLACES:  # in an agent's source
            data = data.replace(b'"' + place.encode(), f'"{self.folder}{place}'.encode())
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "HOME": str(self.folder / "home")}
        if (quick := self._in_process(words, data, environment)) is not None:
            return self._seen_there(*quick)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        try:
            child = subprocess.Popen(words, env=environment, start_new_session=True, **pipes)
        except FileNotFoundError:
            return Completed(127, b"", b"command not found")
        if self._kill is not None and self._kill[0] in words:
            while child.poll() is None and not self._kill[1]():
                time.sleep(0.002)
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            self._broken = True
            raise DeviceFailed("The connection to board was lost.")
        return self._seen_there(*child.communicate(data, timeout=timeout_s), child.returncode)

    def _interpreters(self, _paths: list[str], _more: Sequence[str] = ()) -> tuple[dict, list, dict]:
        return dict(self.interpreters), [], dict(self.failed)

    def _seen_there(self, out: bytes, err: bytes, code: int) -> Completed:
        for place in PLACES:
            out = out.replace(f"{self.folder}{place}".encode(), place.encode())
        return Completed(code, out, err)

    def _in_process(self, words: list[str], data: bytes, environment: dict) -> tuple[bytes, bytes, int] | None:
        """What a command that only reads prints on both outputs, and its exit code; None where it is another one."""
        facts = words[:2] == [self.python, "-"] and b"def gather(" in data
        reads = len(words) > 2 and words[1].endswith(".pyz") and words[2] in READS and Path(words[1]).exists()
        if not facts and not (reads and words[0] == self.python):
            return None
        out, said, code = io.StringIO(), io.StringIO(), 0
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
            for name in ("PATH", "HOME"):
                patch.setenv(name, environment[name])
            for name in ("UNITS", "DEFAULT_PATH"):
                patch.setattr(paths, name, f"{self.folder}{getattr(paths, name)}")
            if facts:
                agent = types.ModuleType("agent")
                exec(data, agent.__dict__)  # noqa: S102 - our own
                agent._interpreters = self._interpreters
                print(json.dumps(agent.gather(words[2], words[3] or None, words[5:], json.loads(words[4]))))
            else:
                code = main(words[2:])
        return out.getvalue().encode(), said.getvalue().encode(), code

    def put(self, data: bytes, path: str, progress: Progress = lambda *_: None) -> None:
        self._call(["put", path])
        Path(path).write_bytes(data)
        progress(len(data), len(data))

    def close(self) -> None:
        pass

    def _call(self, command: Sequence[str]) -> None:
        self._broken = self._broken or (self._break_before is not None and self._break_before in " ".join(command))
        if self._broken:
            raise DeviceFailed("The connection to board was lost.")
        self.ran.append(list(command))
