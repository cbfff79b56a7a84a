"""XNNPACK says once in a process, on stderr, that it was created, and no option or log level stops it.

It says so here, over a model of one operation, with nobody listening. Models that matter are opened with stderr as it
is: what an interpreter says of them, or as it crashes, is seen.
"""

import base64
import os
from typing import Any, Set

_SAID = b"INFO: "

# One RELU of one float32. tests/edge_runtime/backends/test_greeting.py builds the same bytes from the schema.
ONE_RELU = base64.b64decode(
    "GAAAAFRGTDMAAA4AFAAQAAwACAAAAAQADgAAABAAAAAcAAAAtAAAAAMAAAABAAAACAAAAAQABAAEAAAAAQAAABAAAAAMABQAEAAMAAgABAAMAAAA"
    "EAAAADwAAABAAAAARAAAAAEAAAAQAAAAAAAKAAwAAAAIAAQACgAAAAgAAAAMAAAAAQAAAAEAAAABAAAAAAAAAAEAAAABAAAAAQAAAAAAAAACAAAA"
    "IAAAAAQAAADu////BAAAAAEAAAABAAAAAAAGAAgABAAGAAAABAAAAAEAAAABAAAAAQAAABAAAAAMAAwACwAAAAAABAAMAAAAEwAAAAAAABM="
)

_heard: Set[str] = set()


def hear_out(library: Any) -> None:
    """Have ``library`` (``ai_edge_litert.interpreter`` or ``tflite_runtime.interpreter``) say it, once a process.

    What else is written to stderr meanwhile is passed on.
    """
    if library.__name__ in _heard:
        return
    _heard.add(library.__name__)
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
        pass  # what fails here fails with the model that matters, and is said of that
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        _pass_on(reader)


def _pass_on(reader: int) -> None:
    try:
        said = os.read(reader, 1 << 16)
    except BlockingIOError:  # nothing was said
        said = b""
    os.close(reader)
    rest = b"".join(line for line in said.splitlines(True) if not line.startswith(_SAID))
    if rest:
        os.write(2, rest)
