"""XNNPACK logs once in a process, on stderr, that its delegate was created; no option or log level stops that line.

A model of one operation provokes it here, with stderr redirected. Real models are opened with stderr unchanged, so that
an interpreter's messages about them, or about a crash, are seen.
"""

import binascii
import os
from typing import Any, Set

_NOTICE = b"INFO: "

# One RELU of one float32. tests/edge_runtime/backends/test_xnnpack_notice.py builds the same bytes from the schema.
ONE_RELU = binascii.a2b_base64(
    "GAAAAFRGTDMAAA4AFAAQAAwACAAAAAQADgAAABAAAAAcAAAAtAAAAAMAAAABAAAACAAAAAQABAAEAAAAAQAAABAAAAAMABQAEAAMAAgABAAMAAAA"
    "EAAAADwAAABAAAAARAAAAAEAAAAQAAAAAAAKAAwAAAAIAAQACgAAAAgAAAAMAAAAAQAAAAEAAAABAAAAAAAAAAEAAAABAAAAAQAAAAAAAAACAAAA"
    "IAAAAAQAAADu////BAAAAAEAAAABAAAAAAAGAAgABAAGAAAABAAAAAEAAAABAAAAAQAAABAAAAAMAAwACwAAAAAABAAMAAAAEwAAAAAAABM="
)

_done: Set[str] = set()


def drop_notice(library: Any) -> None:
    """Provoke and drop the line of ``library`` (``ai_edge_litert.interpreter``, ``tflite_runtime.interpreter``).

    Once a process. Other output to stderr meanwhile is passed on.
    """
    if library.__name__ in _done:
        return
    _done.add(library.__name__)
    try:
        kept = os.dup(2)
    except OSError:
        return  # stderr is closed
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.dup2(writer, 2)
    os.close(writer)
    try:
        library.Interpreter(model_content=ONE_RELU, num_threads=1).allocate_tensors()
    except (RuntimeError, ValueError):
        pass  # a failure here comes again with the real model, and is reported then
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        _pass_on(reader)


def _pass_on(reader: int) -> None:
    try:
        written = os.read(reader, 1 << 16)
    except BlockingIOError:  # nothing was written
        written = b""
    os.close(reader)
    rest = b"".join(line for line in written.splitlines(True) if not line.startswith(_NOTICE))
    if rest:
        os.write(2, rest)
