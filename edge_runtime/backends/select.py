"""Which interpreter runs an artefact here, on which device: the one named, or the first installed that opens it."""

import binascii
import importlib.util
import os
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

from edgeveil.edge_runtime import device as devices
from edgeveil.edge_runtime.backends.base import Backend
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.kinds import backends, formats
from edgeveil.edge_runtime.registry import Kind

KERNELS = ("production", "reference")


class NoBackend(DeviceFailed):
    """No interpreter here can run the artefact. The user can install one: exit code 2."""

    exit_code = 2


def available(format: str) -> List[str]:
    """The names of the installed backends for a format (``"tflite"``), the preferred one first. Imports none."""
    return [kind.name for kind in kinds_of_format(format) if _is_here(kind)]


def backends_for(format: str) -> List[str]:
    """The names of all backends that run a format, installed or not."""
    return [kind.name for kind in kinds_of_format(format)]


def open_backend(
    format: str,
    model: bytes,
    artefact: Mapping[str, Any],
    *,
    backend: str = "auto",
    threads: int = 1,
    kernels: str = "production",
    device: str = "cpu",
) -> Backend:
    """A ready backend for the artefact's bytes ``model``, described by its manifest entry ``artefact``.

    ``backend`` is a name, or ``"auto"`` for the first that opens the model. ``kernels="reference"`` selects the
    interpreter's plain kernels, slow and the same on every machine. ``device`` is one of ``edge_runtime.device``.
    Raises ``BadInput`` for an unknown name, ``NoBackend`` (a ``DeviceFailed``), which names what to install, where
    nothing here can run the format or an ONNX file names others, ``NoDevice`` where that device cannot be had.
    """
    kinds = kinds_of_format(format)
    if kernels not in KERNELS:
        raise BadInput("expected kernels production or reference; got {!r}".format(kernels))
    if backend != "auto":
        # Of another package only where it is named: to what it calls, the filter of system calls has no list.
        kinds = [kind for kind in kinds_of_format(format, every=True) if kind.name == backend]
        if not kinds:
            names = ", ".join(backends_for(format))
            raise BadInput("expected a backend that runs {} ({}, or auto); got {!r}".format(format, names, backend))
    kinds = _for_device(kinds, format, model, kernels, device)
    problem = problem_of(model) if format == "onnx" else None
    if problem:
        raise NoBackend("no backend can run this onnx artefact: {}. Export it again, all in one file".format(problem))
    reasons = []
    for kind in kinds:
        if not _is_here(kind):
            continue
        try:
            opened: Backend = kind.load()(model, artefact, threads=threads, kernels=kernels, device=device)
            return opened
        except devices.NoDevice:
            raise
        except Exception as error:  # every interpreter has its own; nothing of a frame exists yet
            reasons.append("{} said: {}".format(kind.name, _first_line(error)))
    installs = " or ".join(_how_to_install(kind.facts["formats"][format]) for kind in kinds)
    if reasons:
        raise NoBackend("no installed backend can run this {} artefact ({})".format(format, "; ".join(reasons)))
    raise NoBackend("no backend for {} artefacts is installed here: {}".format(format, installs))


def _how_to_install(what: str) -> str:
    """The command of a package; a sentence that begins with "install" as it is, for what pip does not find."""
    return what if what.startswith("install ") else "pip install {}".format(what)


def _for_device(rows: List[Kind], format: str, model: bytes, kernels: str, device: str) -> List[Kind]:
    """The ``rows`` that can use the device. Raises ``BadInput`` where none can, or the file is not for it."""
    able = devices.backends_on(devices.check_device(device), format)
    if format == "tflite":
        devices.check_compiled(model, device)
    if device == devices.CPU and format in devices.compiled_formats():
        words = " or ".join(word for word, form in devices.forms().items() if form.made[0] == format)
        raise BadInput("a {} artefact runs on its accelerator alone: choose --device {}".format(format, words))
    if able is None:
        return rows
    found = [row for row in rows if row.name in able]
    if not found:
        raise BadInput(
            "the device {} does not run {} artefacts by {}: choose another artefact or backend, or --device cpu".format(
                device, format, " or ".join(row.name for row in rows)
            )
        )
    if kernels == "reference":
        raise BadInput("reference kernels run on the processor only: leave out the device {}".format(device))
    return found


def _is_here(kind: Kind) -> bool:
    return importlib.util.find_spec(kind.facts["package"]) is not None


def kinds_of_format(format: str, *, every: bool = False) -> List[Kind]:
    """Our backends that run a format, the preferred one first; ``every`` one, those of other packages too.

    Raises ``BadInput`` for a format that there is not.
    """
    found = [kind for kind in backends(every=every) if format in kind.facts["formats"]]
    if not found:
        raise BadInput("expected an artefact in the format {}; got {!r}".format(" or ".join(formats()), format))
    return found


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return "{}: {}".format(type(error).__name__, lines[0] if lines else "no message")[:300]


# An ONNX file's bytes, read without a library: its nodes, and whether its weights lie in other files.
#
# ONNX Runtime opens whatever path such a file names, and what it reads there becomes part of what is sent. A signed
# artefact is one file. Field numbers are those of onnx.proto, the wire format that of protocol buffers.


_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_DEPTH = 64  # protocol buffers take 100; graphs nest where operations have bodies, as If and Loop have
# message: the fields that are messages, and which; of the others, none holds a tensor
_INNER: Dict[str, Dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
_NONE = "it is damaged, or no ONNX model"
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14


class OnnxNode(NamedTuple):
    """One node of a graph, a function or a branch: every operation and domain that it names (of a field that is there
    twice, readers differ in which they take), how many inputs, and whether ``training_mode`` is set."""

    kinds: Set[str]
    domains: Set[str]
    inputs: int
    trains: bool


class Damaged(Exception):
    """These bytes are no ONNX model. The text is the end of a sentence."""


def problem_of(model: bytes) -> Optional[str]:
    """Why no interpreter should get this file; None for an ONNX model that is whole in itself."""
    try:
        for message, begin, end in messages(model):
            if message == "tensor":
                for field, _, value, _ in _fields(model, begin, end):
                    if field == _EXTERNAL_DATA or (field == _DATA_LOCATION and value):
                        return "its weights are in another file"
    except Damaged as error:
        return str(error)
    return None


def messages(model: bytes) -> Iterator[Tuple[str, int, int]]:
    """Name (of ``_INNER``), begin and end of every message that may hold a node or a tensor, at any depth.

    Raises ``Damaged``.
    """
    waiting = [("model", 0, len(model), 0)]
    while waiting:
        message, begin, end, depth = waiting.pop()
        if depth > _MOST_DEPTH:
            raise Damaged("its graphs are nested deeper than {} messages".format(_MOST_DEPTH))
        yield message, begin, end
        inner = _INNER[message]
        for field, kind, value, length in _fields(model, begin, end) if inner else ():
            if field in inner and kind == _BYTES:
                waiting.append((inner[field], value, value + length, depth + 1))


def node_of(model: bytes, begin: int, end: int) -> OnnxNode:
    """The node whose message is there."""
    kinds: Set[str] = set()
    domains: Set[str] = set()
    inputs, trains = 0, False
    for field, kind, value, length in _fields(model, begin, end):
        if kind != _BYTES:
            continue
        if field == 1:
            inputs += 1
        elif field in (4, 7):
            (kinds if field == 4 else domains).add(model[value : value + length].decode("utf-8", "replace"))
        elif field == 5:
            trains = trains or _sets_training(model, value, value + length)
    return OnnxNode(kinds, domains, inputs, trains)


def _sets_training(model: bytes, begin: int, end: int) -> bool:
    """Whether an attribute is a ``training_mode`` other than 0."""
    name, number = b"", 0
    for field, kind, value, length in _fields(model, begin, end):
        if field == 1 and kind == _BYTES:
            name = model[value : value + length]
        elif field == 3 and kind == _VARINT:
            number = number or value
    return name == b"training_mode" and number != 0


def _fields(data: bytes, at: int, end: int) -> Iterator[Tuple[int, int, int, int]]:
    """Number, kind, value and length of each field of one message; the value of bytes is where they begin."""
    while at < end:
        key, at = _varint(data, at, end)
        field, kind = (key & 0xFFFFFFFF) >> 3, key & 7  # C++ reads 32 bits of it
        value, length = at, 0
        if kind == _VARINT:
            value, at = _varint(data, at, end)
        elif kind == _BYTES:
            length, value = _varint(data, at, end)
            at = value + length
        elif kind in (_FIXED32, _FIXED64):
            at += 4 if kind == _FIXED32 else 8
        else:
            raise Damaged(_NONE)
        if at > end:
            raise Damaged(_NONE)
        yield field, kind, value, length


def _varint(data: bytes, at: int, end: int) -> Tuple[int, int]:
    value = 0
    for place in range(10):
        if at >= end:
            break
        value |= (data[at] & 0x7F) << 7 * place
        at += 1
        if data[at - 1] < 0x80:
            return value, at
    raise Damaged(_NONE)


# XNNPACK logs once in a process, on stderr, that its delegate was created; no option or log level stops that line.
#
# A model of one operation provokes it here, with stderr redirected. Real models are opened with stderr unchanged, so
# that an interpreter's messages about them, or about a crash, are seen.


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
