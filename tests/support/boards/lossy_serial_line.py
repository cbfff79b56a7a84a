"""A serial cable that flips, drops and inserts bytes, at its own pace, and can be pulled; and a board behind it.

Real pseudo-terminals, a real shell with a real login in front of it where one is asked for; faults are seeded.
"""

from __future__ import annotations

import contextlib
import os
import pty
import random
import select
import signal
import subprocess
import sys
import threading
import time
import tty
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import seeds

LOGIN = """
import getpass, os, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    name = input("edgepi login: ")
    right = getpass.getpass("Password: ") == sys.argv[1]
    with open("tried", "a") as tried:
        tried.write(("right " if right else "wrong ") + name + "\\n")
    if right and name == "pi":
        break
    time.sleep(float(sys.argv[2]))
    print("\\nLogin incorrect\\n")
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
"""


@dataclass
class Faults:
    """What is wrong with the cable, per byte; ``rate`` is bytes a second, 0 for as fast as it goes."""

    flip: float = 0.0
    drop: float = 0.0
    insert: float = 0.0
    rate: float = 0.0
    seed: int = 0
    cuts: tuple[int, ...] = ()  # pulled for a moment after so many bytes
    noise: bytes = b""  # a kernel message that comes now and then from the board
    noise_every: int = 0
    words: dict[bytes, int] = field(default_factory=dict)  # so often, each way, this word comes out otherwise
    instead: dict[bytes, bytes] = field(default_factory=dict)  # as this; without it as so many #


@dataclass
class Board:
    """``port`` is what a workstation opens; ``bytes`` counts what went over the cable, both ways, ``spoilt`` reads of
    it that came out otherwise."""

    port: str
    bytes: int = 0
    spoilt: int = 0
    cuts: int = 0
    dead_until: float = 0.0
    stopped: threading.Event = field(default_factory=threading.Event)


@contextlib.contextmanager
def board(
    folder: Path, faults: Faults | None = None, *, password: str | None = None, delay_s: float = 0.0
) -> Iterator[Board]:
    """A shell on a pseudo-terminal (behind a login where there is a ``password``), at the far end of a cable.

    ``delay_s`` is how long the login takes to say that it failed: 3 s on most boards.
    """
    faults = faults or Faults()
    near, port = pty.openpty()
    tty.setraw(port)
    far, console = pty.openpty()
    shell = ["bash", "--norc", "--noprofile", "-i"]
    if password is not None:
        shell = [sys.executable, "-c", LOGIN, password, str(delay_s)]
    # This Python is its ``python3``, for another may lack numpy.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "HOME": str(folder), "PS1": "$ ", "TERM": "dumb", "PATH": path}

    def start() -> subprocess.Popen:
        return subprocess.Popen(
            shell, stdin=console, stdout=console, stderr=console, cwd=folder, env=environment, start_new_session=True,
            preexec_fn=_own_terminal,
        )  # fmt: skip

    process = start()
    made = Board(os.ttyname(port))
    cable = [
        threading.Thread(target=_carry, args=(near, far, faults, made), kwargs={"from_board": False}, daemon=True),
        threading.Thread(target=_carry, args=(far, near, faults, made), kwargs={"from_board": True}, daemon=True),
    ]
    for direction in cable:
        direction.start()
    try:
        yield made
    finally:
        made.stopped.set()
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(5)
        for direction in cable:
            direction.join(5)
        for handle in (near, port, far, console):
            os.close(handle)


def _own_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _carry(source: int, target: int, faults: Faults, made: Board, *, from_board: bool) -> None:
    """One direction; each has a thread, so that a full buffer on one side never holds the other."""
    rng = random.Random(seeds.seed(faults.seed) + from_board)  # noqa: S311 - faults, not secrets
    free, next_noise, words = 0.0, faults.noise_every, dict(faults.words)
    while not made.stopped.is_set():
        if not select.select([source], [], [], 0.02)[0]:
            continue
        with contextlib.suppress(OSError):
            data = os.read(source, 256)
            made.bytes += len(data)
            if made.cuts < len(faults.cuts) and made.bytes >= faults.cuts[made.cuts]:
                made.cuts += 1
                made.dead_until = time.monotonic() + 1.0
            if time.monotonic() < made.dead_until:
                continue  # nothing passes, and what was under way is gone
            out = _spoilt(data, faults, rng)
            for word in [word for word, left in words.items() if left and word in out]:
                words[word] -= 1
                out = out.replace(word, faults.instead.get(word, b"#" * len(word)), 1)
            made.spoilt += out != data
            if from_board and faults.noise_every and made.bytes >= next_noise:
                next_noise += faults.noise_every
                half = len(out) // 2
                out = out[:half] + faults.noise + out[half:]
            if faults.rate:
                now = time.monotonic()
                free = max(free, now) + len(data) / faults.rate
                if free - now > 0.02:
                    time.sleep(free - now - 0.02)
            while out:
                out = out[os.write(target, out) :]


def _spoilt(data: bytes, faults: Faults, rng: random.Random) -> bytes:
    if not (faults.flip or faults.drop or faults.insert):
        return data
    out = bytearray()
    for byte in data:
        chance = rng.random()
        if chance < faults.drop:
            continue
        if chance < faults.drop + faults.flip:
            byte ^= 1 << rng.randrange(8)
        elif chance < faults.drop + faults.flip + faults.insert:
            out.append(rng.randrange(256))
        out.append(byte)
    return bytes(out)
