"""Which interpreter runs an artefact here, on which device: the one named, or the first installed that opens it."""

import binascii
import importlib.util
import os
from typing import Any, List, Mapping, Set

from edgeveil.edge_runtime import device as devices
from edgeveil.edge_runtime.backends.base import Backend
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.kinds import backends, formats
from edgeveil.edge_runtime.manifest.model_lint import problems
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
    for problem in problems(model, format) if format == "onnx" else ():
        if problem.rule == "whole":
            raise NoBackend("no backend can run this onnx artefact: {}. Cure: {}".format(problem.text, problem.cure))
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
    usable = [row for row in rows if row.name in able]
    if not usable:
        raise BadInput(
            "the device {} does not run {} artefacts by {}: choose another artefact or backend, or --device cpu".format(
                device, format, " or ".join(row.name for row in rows)
            )
        )
    if kernels == "reference":
        raise BadInput("reference kernels run on the processor only: leave out the device {}".format(device))
    return usable


def _is_here(kind: Kind) -> bool:
    return importlib.util.find_spec(kind.facts["package"]) is not None


def kinds_of_format(format: str, *, every: bool = False) -> List[Kind]:
    """Our backends that run a format, the preferred one first; ``every`` one, those of other packages too.

    Raises ``BadInput`` for a format that there is not.
    """
    kinds = [kind for kind in backends(every=every) if format in kind.facts["formats"]]
    if not kinds:
        raise BadInput("expected an artefact in the format {}; got {!r}".format(" or ".join(formats()), format))
    return kinds


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return "{}: {}".format(type(error).__name__, lines[0] if lines else "no message")[:300]


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
        saved = os.dup(2)
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
        os.dup2(saved, 2)
        os.close(saved)
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
