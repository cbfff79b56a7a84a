"""What is up: one process and one record for each kind of board, in the cache; keys; waiting for ssh."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from scripts.emulation.trees import NoBoard, run


def key(folder: Path, name: str) -> None:
    """A key, made anew: ``host`` is a board's, ``user`` is the one that may log in."""
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "emulated", "-f", str(folder / name)])


def authorize(root: Path, public: Path) -> None:
    """Let the user's key in as root, and as pi where there is one."""
    for name, owner in (("root", 0), ("home/pi", 1000)):
        if not (root / name).exists():
            continue
        file = root / name / ".ssh/authorized_keys"
        shutil.copy(public, file)
        shutil.chown(file, owner, owner)
        file.chmod(0o600)


def free_port(wanted: int) -> int:
    """``wanted``, or any that is free for 0. Raises ``NoBoard`` where it is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError as error:
            raise NoBoard(f"port {wanted} cannot be listened on ({error.strerror}); name another with --port") from None
        return probe.getsockname()[1]


def begin(command: list[str], state: Path, port: int, log: Path, root: Path | None, patience_s: float) -> dict:
    """Start a board's process, wait until its ssh answers, and record it."""
    with (state / "process.log").open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, cwd="/"
        )
    started = time.monotonic()
    while not _answers(port):
        ended = process.poll()
        if ended is not None or time.monotonic() - started > patience_s:
            _kill(process.pid)
            process.wait()
            tail = log.read_text(errors="replace").strip()[-400:] if log.exists() else ""
            why = f"it ended with {ended}" if ended is not None else f"no ssh within {patience_s:.0f} s"
            raise NoBoard(f"the emulated board did not come up: {why}. Its last words: {tail}")
        time.sleep(0.2)
    try:
        host = _host_key(state, port)
    except NoBoard:
        _kill(process.pid)
        process.wait()
        raise
    (state / "known_hosts").write_text(f"[127.0.0.1]:{port} {' '.join(host)}\n")
    target = f"ssh://root@127.0.0.1:{port}"
    login = {"address": target, "identity": str(state / "user"), "known_hosts": str(state / "known_hosts")}
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in login.items()]
    (state / "boards.toml").write_text("".join(["[board.emulated]\n", *lines]))
    record = {
        "target": target,
        "boards": str(state / "boards.toml"),
        "port": port,
        "identity": str(state / "user"),
        "known_hosts": str(state / "known_hosts"),
        "root": str(root) if root else None,
        "log": str(log),
        "pid": process.pid,
        "born": _born(process.pid),
        "seconds": round(time.monotonic() - started, 1),
    }
    (state / "board.json").write_text(json.dumps(record, indent=1) + "\n")
    return record


def up_already(state: Path) -> dict | None:
    """The record of a board that is up, else None."""
    try:
        record = json.loads((state / "board.json").read_text())
    except (OSError, ValueError):
        return None
    return record if _born(record["pid"]) == record["born"] else None


def end(state: Path) -> bool:
    """Stop it and remove what it wrote. False where none was up."""
    record = up_already(state)
    if record is not None:
        # All of its processes: those of a user-mode board are in a process namespace that ends with the first.
        _kill(record["pid"])
        deadline = time.monotonic() + 20
        while _born(record["pid"]) == record["born"] and time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(record["pid"], os.WNOHANG)
            time.sleep(0.05)
    shutil.rmtree(state, ignore_errors=True)
    return record is not None


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # it was started as the leader of a group of its own


def _host_key(state: Path, port: int) -> list[str]:
    """The board's host key. A card loses the one that it had, and the board makes its own: who answers is asked."""
    if (state / "host.pub").exists():
        return (state / "host.pub").read_text().split()[:2]
    return run(["ssh-keyscan", "-T", "100", "-t", "ed25519", "-p", str(port), "127.0.0.1"]).split()[1:3]


def _born(pid: int) -> str | None:
    """When a process began: a number that comes again for another one has another. None: there is none, or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as line:
            line.settimeout(5)
            return line.recv(4) == b"SSH-"
    except OSError:
        return False
