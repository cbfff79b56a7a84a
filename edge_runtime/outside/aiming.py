"""The process of an aim that has the operator's terminal, and never more of a picture than its edges.

The service's perturbing half gives its camera up meanwhile, and gets it back whatever ends the aim: a third process
waits for that, and for the time at which it must have ended.
"""

import contextlib
import json
import os
import select
import signal
from typing import Any, Callable, Dict, List, NamedTuple

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.ipc.notes import EDGE_BYTES, EDGE_COLUMNS, EDGE_ROWS

ENTER, CLEAR, LEAVE = (
    b"\x1b[?1049h",
    b"\x1b[H\x1b[2J",
    b"\x1b[?1049l",
)  # the terminal's other screen, which is forgotten
_DOTS = ((0, 3), (1, 4), (2, 5), (6, 7))  # bits of a Braille character, by row and column
_FIRST = 0x2800
MARGIN_S = 3.0


class Camera(NamedTuple):
    """How the service lends its camera. ``lend`` raises ``DeviceFailed`` where it does not; ``give_back`` is called in
    another process, once the aim has ended."""

    lend: Callable[[], None]
    give_back: Callable[[], None]


def run(
    inside: Callable[[Any], int], camera: Camera, terminal: int, until_s: float, clock: Callable[[], float]
) -> None:
    """Show on ``terminal`` what ``inside(ends)`` sends in a process of its own, until ``until_s`` by ``clock``, Ctrl-C
    or the end of the connection. Raises ``DeviceFailed`` or ``BadInput`` with its sentence.
    """
    held, holding = os.pipe()
    guard = _fork(lambda: _give_back(held, holding, camera, until_s + MARGIN_S, clock), [])
    os.close(held)
    try:
        camera.lend()
        _show(inside, holding, terminal, until_s, clock)
    finally:
        os.close(holding)
        os.waitpid(guard, 0)


def _give_back(held: int, holding: int, camera: Camera, until_s: float, clock: Callable[[], float]) -> int:
    """Wait for the end of the process that holds the pipe, however it ends: it may be stopped, too."""
    os.close(holding)
    os.setsid()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    while not select.select([held], [], [], min(max(until_s - clock(), 0.0), 1.0))[0] and clock() < until_s:
        pass
    camera.give_back()
    return 0


def _show(
    inside: Callable[[Any], int], holding: int, terminal: int, until_s: float, clock: Callable[[], float]
) -> None:
    (edges, edges_in), (status, status_in) = os.pipe(), os.pipe()
    child = _fork(lambda: inside((edges_in, status_in)), [edges, status, holding])
    for handle in (edges_in, status_in):
        os.close(handle)
    # They end what waits for the terminal, too, which may take nothing behind a line that hangs.
    numbers = (signal.SIGALRM, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)
    waits = [True]

    def interrupt(number: int, _frame: Any) -> None:
        if waits:
            waits.clear()
            raise InterruptedError(number, "signal")

    before = {number: signal.signal(number, interrupt) for number in numbers}
    shown = False
    try:
        # It ends a call that waits. A loop that does not wait ends by itself, a little earlier.
        signal.setitimer(signal.ITIMER_REAL, max(until_s - clock(), 0.001) + 0.02)
        data = b""
        while clock() < until_s:
            more = os.read(edges, EDGE_BYTES - len(data))
            if not more:
                break
            data += more
            if len(data) == EDGE_BYTES:
                left = "{:.0f} s left; Ctrl-C ends it".format(until_s - clock())
                text, shown = (CLEAR if shown else ENTER + CLEAR) + drawn(data) + left.encode(), True
                while text:
                    text = text[os.write(terminal, text) :]
                data = b""
    except OSError:
        pass  # interrupted, or the terminal is gone
    finally:
        try:  # noqa: SIM105 - a signal may come here, too, and would interrupt a call of suppress; none raises later
            waits.clear()
        except InterruptedError:
            pass
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
        with contextlib.suppress(OSError):
            if shown and select.select([], [terminal], [], 0.25)[1]:
                os.write(terminal, CLEAR + LEAVE)
        os.close(edges)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for number, old in before.items():
            signal.signal(number, old)
        text = b"".join(iter(lambda: os.read(status, 2**16), b""))
        os.close(status)
    document: Dict[str, Any] = json.loads(text.decode() or "{}")
    if document.get("code"):
        kind = BadInput if document["code"] == 2 else DeviceFailed
        raise kind(document["problem"])


def drawn(edges: bytes) -> bytes:
    """The edges as lines of Braille characters: 48 a line, eight dots each."""
    lines = []
    for top in range(0, EDGE_ROWS, 4):
        line = []
        for left in range(0, EDGE_COLUMNS, 2):
            dots = 0
            for row, bits in enumerate(_DOTS):
                for column, bit in enumerate(bits):
                    at = (top + row) * EDGE_COLUMNS + left + column
                    dots |= (edges[at >> 3] >> (7 - (at & 7)) & 1) << bit
            line.append(chr(_FIRST + dots))
        lines.append("".join(line))
    return ("\r\n".join(lines) + "\r\n").encode("utf-8")


def _fork(work: Callable[[], int], closed: List[int]) -> int:
    child = os.fork()
    if child == 0:
        code = 70
        try:
            for handle in closed:
                os.close(handle)
            code = work()
        finally:
            os._exit(code)
    return child
