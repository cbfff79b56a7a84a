"""A live source of our own making for tests of the two processes, and the bundle it is made for.

``fake:N?fps=50&...`` gives N frames (0: for ever) of ``WIDE`` bytes. Its faults are words of the text, each with the
frame before which it comes; several are parted by ``&``: ``disconnect=20``, ``stall=20``, ``error=20``, ``drop=20``,
``hang=20``, ``crash=20``, ``wrong=20``; ``late=20`` takes a second, ``pause=20`` an hour; ``say=20``, ``send=20`` and
``file=20`` try to bring the frame out; ``absent=2`` cannot be opened the first two times.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np

from edgeveil.edge_runtime import sources
from edgeveil.edge_runtime.errors import Disconnected, FrameDropped, Stalled
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.sandbox import isolation
from edgeveil.edge_runtime.sources.base import Source, now_ns
from tests.support import machine_identifier
from tests.support.checkout import ROOT

WIDE = 64
SECRET = bytes(np.random.default_rng([77]).integers(1, 16, WIDE).astype(np.uint8))


def wide_example(**capture: Any) -> tuple[dict[str, Any], dict[str, bytes]]:
    """As ``bundles.numpy_example``, for vectors of ``WIDE`` features: the largest one's number, and its class's row."""
    from tests.support import bundles  # slow to load, in each process of a service

    manifest, members = bundles.numpy_example()
    rng = np.random.default_rng(3)
    means = rng.random((WIDE, WIDE)).astype(np.float32)
    x = rng.integers(0, 16, (8, WIDE)).astype(np.uint8)
    label = x.argmax(axis=1)
    members |= {
        "tables/means.npy": bundles.npy(means),
        "golden/input.npy": bundles.npy(x),
        "golden/numpy.frame.npy": bundles.npy(np.rint(means[label] * 16).astype(np.uint8)),
        "golden/numpy.label.npy": bundles.npy(label.astype(np.int64)),
    }
    manifest["name"] = "wide-example"
    manifest["input"]["shape"] = [WIDE]
    manifest["tables"]["means"]["shape"] = [WIDE, WIDE]
    manifest["outputs"][0]["shape"] = [WIDE]
    if capture:
        manifest["capture"] = capture
    return manifest, members


class FakeSource(Source):
    """See the top of this file. ``opened`` counts how often a process has opened one, so that a fault comes once."""

    live = True
    opened = 0

    def __init__(self, place: str):
        count, _, text = place.partition("?")
        self.count = int(count)
        self.options = {name: float(value) for name, value in parse_qsl(text)}
        FakeSource.opened += 1
        self.next_index = 0 if FakeSource.opened == 1 else FakeSource.last
        if FakeSource.opened <= self.options.get("absent", 0):
            raise Disconnected("there is no fake camera here; plug one in")
        self.period = 1 / self.options.get("fps", 50)
        self.due = time.monotonic()
        self.name = "fake"

    last = 0

    def next(self) -> RawFrame | None:
        index, self.next_index = self.next_index, self.next_index + 1
        FakeSource.last = self.next_index
        if self.count and index >= self.count:
            return None
        self.due = max(self.due + self.period, time.monotonic() - self.period)
        time.sleep(max(self.due - time.monotonic(), 0))
        for fault, at in self.options.items():
            # A new process begins at 0 again, and a camera that kills each of them is another test.
            if fault not in ("fps", "busy") and at == index and not _happened(fault):
                self.fail(fault)
        data = np.frombuffer(SECRET, np.uint8).copy()
        data[index % WIDE] = 16
        if self.options.get("wrong") == index:
            data = data[:5]
        return RawFrame(data, index, now_ns())

    def fail(self, fault: str) -> None:
        if fault == "disconnect":
            raise Disconnected("the fake camera was unplugged")
        if fault == "stall":
            raise Stalled("the fake camera stands still")
        if fault == "error":
            raise RuntimeError(f"the driver read {SECRET!r}")
        if fault == "drop":
            raise FrameDropped("unreadable")
        if fault == "hang":
            # C code that keeps Python's lock for ever.
            ctypes.PyDLL(None).pause()
        if fault == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if fault == "late":
            time.sleep(1)
        if fault == "pause":
            time.sleep(3600)
        if fault in HOSTILE:
            HOSTILE[fault]()


def _say() -> None:
    """What a library prints when it chokes on a frame."""
    for handle in (0, 1, 2):
        with contextlib.suppress(OSError):
            os.write(handle, SECRET)


def _send() -> None:
    """What a decoder does that a frame has taken over: it calls home."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, kind) as out:
            out.connect(("127.0.0.1", int(os.environ["FAKES_PORT"])))
            out.sendall(SECRET)


def _file() -> None:
    """What a library does that keeps what it could not read."""
    for folder in (os.environ["TMPDIR"], os.environ["FAKES_FOLDER"]):
        with contextlib.suppress(OSError):
            (Path(folder) / "debug.bin").write_bytes(SECRET)


HOSTILE = {"say": _say, "send": _send, "file": _file}


def _happened(fault: str) -> bool:
    """Whether this fault has been, in this service; leaves a mark in a folder of the test's."""
    folder = os.environ.get("FAKES_FOLDER")
    if not folder:
        return False
    try:
        (Path(folder) / fault).touch(exist_ok=False)
    except FileExistsError:
        return True
    return False


def install() -> None:
    """In this process, ``fake:`` is a source."""
    machine_identifier.use()
    real = sources.open_source

    def open_source(text: str, spec: Any, capture: Any = None, **options: Any) -> Source:
        if text.startswith("fake:"):
            return FakeSource(text.partition(":")[2])
        return real(text, spec, capture, **options)

    sources.open_source = open_source
    # Started by root, the fakes leave their marks in a folder of root's.
    isolation.Isolation.settle = lambda self, backends: None


def command(module: str, first: str = "") -> list[str]:
    """As ``process_table.command``, with the fakes; ``first`` is run before the module is loaded."""
    ours = {name: value for name, value in os.environ.items() if name.startswith("FAKES_")}  # not inherited
    code = (
        f"import os, sys; os.environ.update({ours!r}); sys.path[:1] = [{str(ROOT)!r}]; "
        "from tests.support import live_fakes; "
        f"live_fakes.install(); {first}\nfrom edgeveil.edge_runtime.{module} import main; sys.exit(main(sys.argv[1:]))"
    )
    return [sys.executable, "-c", code]
