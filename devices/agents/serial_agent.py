"""The board's end of a serial console: takes requests as messages, runs commands, puts files, answers.

A request or answer is one line of JSON and then bytes. ``run`` runs a command with the bytes on its stdin; ``append``
writes them into a file from an offset on. Sent by ``devices/transports/serial.py``, right behind the
source of ``serial_link``, without its import.
"""

import json
import os
import select
import subprocess
import termios
import tty
from typing import Any, Dict, Tuple

from edgeveil.devices.agents.serial_link import LineBroken, Link

SILENCE_S = 90  # after this the other end is gone, and the console is given back
READY = b"edgeveil-serial-ready"
HANG_UP = b"edgeveil-hang-up"  # plain text: the sender may not know whether this program or a shell is there


def answer(request: bytes) -> Tuple[Dict[str, Any], bytes]:
    """Execute one request; returns (facts, bytes)."""
    head, _, data = request.partition(b"\n")
    ask = json.loads(head.decode("utf-8"))
    if ask["op"] == "run":
        process = subprocess.Popen(  # noqa: S603 - a user of the console may do this anyway
            ask["command"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            out, err = process.communicate(data, timeout=ask["timeout_s"])
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return {"timed_out": True}, b""
        return {"code": process.returncode, "out": len(out)}, out + err
    with open(ask["path"], "r+b" if ask["at"] else "wb") as file:
        file.seek(ask["at"])
        file.truncate()
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return {"size": ask["at"] + len(data)}, b""


def serve(link: Link) -> None:
    """Answer until the other end hangs up or nothing has come for ``SILENCE_S``."""
    while True:
        try:
            request = link.receive(SILENCE_S)
            try:
                facts, data = answer(request)
            except (OSError, ValueError, KeyError) as error:
                facts, data = {"error": str(error)}, b""
            link.send(json.dumps(facts).encode("ascii") + b"\n" + data)
        except LineBroken:
            return


def main() -> None:
    """Serve on this terminal, and restore its settings at the end."""
    before = termios.tcgetattr(0)

    def read(seconds: float) -> bytes:
        return os.read(0, 65536) if select.select([0], [], [], seconds)[0] else b""

    def write(data: bytes) -> None:
        while data:
            data = data[os.write(1, data) :]

    try:
        tty.setraw(0)
        write(b"\r\n" + READY + b"\r\n")
        serve(Link(read, write, hang_up=HANG_UP))
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


if __name__ == "__main__":
    main()
