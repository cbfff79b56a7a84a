"""What the leak test does to a service: bugs put into it, guards taken away, and the search for what got out.

``BUGS`` and ``GUARDS`` are lines of Python that each of the two processes runs before it does anything else: a bug is
something a guard stands against; without its guard the secret must be found, or the guard is not one.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path

from tests.support import live_fakes

# Two records a tick of a vector, which no manifest signs, so that one frame is still held when the next is made.
TWO_SLOTS = """
from edgeveil.edge_runtime import frames
from edgeveil.edge_runtime.pipeline import crops
from edgeveil.edge_runtime.ipc import counters
counters.schedule = lambda manifest, fps=None: counters.Schedule(1 / fps, 2, "previous", 60.0, 1)
crops.Capture.frames = lambda self, frame: [(n, frames.RawFrame(frame._data.copy(), 0)) for n in (0, 1)]
"""
BUGS = {
    "": "",
    # An interpreter's tensors lie in one arena: what was an output is the next input's place.
    "arena": TWO_SLOTS
    + """
from edgeveil.edge_runtime.pipeline import pipeline
leave, arena = pipeline.Pipeline._end, []
def in_an_arena(self, stages, flow, draws, tracks):
    for old in arena:
        old[...] = flow[self.input]
    out, drawn = leave(self, stages, flow, draws, tracks)
    if draws is None:
        arena.append(out["frame"].copy())  # no array of the flow, which is erased
        out["frame"] = arena[-1].view()
    return out, drawn
pipeline.Pipeline._end = in_an_arena
""",
    # A perturber that hands on what it was given, in the clothes of what it should give.
    "impostor": """
from edgeveil.edge_runtime import frames; from edgeveil.edge_runtime.pipeline import perturber
class Impostor:
    def __init__(self, frame):
        import numpy
        self.outputs, self.drawn = {"frame": frame._data.copy(), "label": numpy.int64(0)}, 0
real = perturber.Perturber.postprocess
perturber.Perturber.postprocess = lambda self, f: Impostor(f.frame) if f.frame._data.any() else real(self, f)
""",
}
GUARDS = {
    "copy at the boundary": """
from edgeveil.edge_runtime import frames
import types
def without_a_copy(self, index, outputs, maker=None, slot=0, tick_ns=None, drawn=0):
    values = {"index": index, "outputs": types.MappingProxyType(dict(outputs)), "slot": slot, "tick_ns": tick_ns}
    values["data"], values["drawn"] = outputs[next(iter(outputs))], drawn
    for name, value in values.items():
        object.__setattr__(self, name, value)
frames.PerturbedFrame.__init__ = without_a_copy
frames.PerturbedFrame.of_rows = classmethod(lambda cls, indices, outputs, maker=None, drawn=(): [
    cls(index, {name: value[row, ...] for name, value in outputs.items()}) for row, index in enumerate(indices)
])
""",
    "perturbed frames alone": """
from edgeveil.edge_runtime.ipc import record
record.type = lambda thing: record.PerturbedFrame
""",
    "no network": """
from edgeveil.edge_runtime.sandbox import isolation
isolation.Isolation.enter = lambda self, namespace=True, account=None: "nothing"
""",
    "errors without their words": """
from edgeveil.edge_runtime import errors; from edgeveil.edge_runtime.pipeline import live
errors.describe = live.describe = str
""",
    "closed outputs": """
import subprocess
subprocess.DEVNULL = None
""",
    "no files": """
from edgeveil.edge_runtime.sandbox import hardening
hardening.no_files = lambda: None
""",
}
# What each guard stands against: faults of the source, a bug
AGAINST = {
    "copy at the boundary": ("", "arena"),
    "perturbed frames alone": ("", "impostor"),
    "no network": ("send=10", ""),
    "errors without their words": ("error=10", ""),
    "closed outputs": ("say=10", ""),
    "no files": ("file=10", ""),
}


def forms(piece: bytes) -> Iterable[bytes]:
    """A part of the secret as it may lie in a file, a log or a message."""
    yield piece
    yield piece.hex().encode()
    yield repr(piece).encode()[2:-1]
    yield json.dumps(repr(piece)).encode()[3:-2]
    for separator in (",", ", ", " "):
        yield separator.join(str(value) for value in piece).encode()
    for offset in range(3):
        # Characters of base64 that hang on these bytes alone.
        yield base64.b64encode(bytes(offset) + piece)[4:-4]


NEEDLES = [form for start in (0, 22, 44) for form in forms(live_fakes.SECRET[start : start + 20])]


def found_in(*haystacks: bytes | Path) -> bool:
    """Whether any form of the secret is in these bytes, files, or files of these folders."""
    for haystack in haystacks:
        if isinstance(haystack, Path):
            data = [path.read_bytes() for path in sorted(haystack.rglob("*")) if path.is_file()]
        else:
            data = [haystack]
        if any(needle in one for needle in NEEDLES for one in data):
            return True
    return False
