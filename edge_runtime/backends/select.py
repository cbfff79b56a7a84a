"""Which interpreter runs an artefact here, on which device: the one named, or the first installed that opens it."""

import importlib
import importlib.util
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from edgeveil.edge_runtime import device as devices
from edgeveil.edge_runtime.backends.base import Backend
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed

Row = Tuple[str, str, str, str, str]
# format -> backends in the order they are tried: name, module to look for, our module, class, what to install
_BACKENDS: Dict[str, Tuple[Row, ...]] = {
    "tflite": (
        ("ai-edge-litert", "ai_edge_litert", "tflite", "LiteRT", "ai-edge-litert"),
        ("tflite-runtime", "tflite_runtime", "tflite", "TFLiteRuntime", 'tflite-runtime "numpy<2"'),
        ("openvino", "openvino", "openvino", "OpenVINO", '"openvino>=2023"'),
    ),
    "onnx": (
        ("onnxruntime", "onnxruntime", "onnx", "ONNXRuntime", "onnxruntime"),
        ("openvino", "openvino", "openvino", "OpenVINO", "openvino"),
    ),
    "hef": (("hailo-platform", "hailo_platform", "hailo", "HailoRT", "HailoRT's wheel from hailo.ai"),),
    "rknn": (("rknn-toolkit-lite2", "rknnlite", "rockchip", "RKNNToolkitLite", "rknn-toolkit-lite2"),),
    "numpy": (("numpy", "numpy", "numpy_linear", "NumPy", "numpy"),),
}

FORMATS = tuple(_BACKENDS)
KERNELS = ("production", "reference")


class NoBackend(DeviceFailed):
    """No interpreter here can run the artefact. The user can install one: exit code 2."""

    exit_code = 2


def available(format: str) -> List[str]:
    """The names of the installed backends for a format (``"tflite"``), the preferred one first. Imports none."""
    return [row[0] for row in _rows(format) if importlib.util.find_spec(row[1]) is not None]


def backends_for(format: str) -> List[str]:
    """The names of all backends that run a format, installed or not."""
    return [row[0] for row in _rows(format)]


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
    rows: Sequence[Row] = _rows(format)
    if kernels not in KERNELS:
        raise BadInput("expected kernels production or reference; got {!r}".format(kernels))
    if backend != "auto":
        rows = [row for row in rows if row[0] == backend]
        if not rows:
            names = ", ".join(backends_for(format))
            raise BadInput("expected a backend that runs {} ({}, or auto); got {!r}".format(format, names, backend))
    rows = _rows_for_device(rows, format, model, kernels, device)
    problem = _problem_of_onnx(model) if format == "onnx" else None
    if problem:
        raise NoBackend("no backend can run this onnx artefact: {}. Export it again, all in one file".format(problem))
    reasons = []
    for name, probe, module, cls, _ in rows:
        if importlib.util.find_spec(probe) is None:
            continue
        try:
            found = getattr(importlib.import_module("edgeveil.edge_runtime.backends." + module), cls)
            return found(model, artefact, threads=threads, kernels=kernels, device=device)
        except devices.NoDevice:
            raise
        except Exception as error:  # every interpreter has its own; nothing of a frame exists yet
            reasons.append("{} said: {}".format(name, _first_line(error)))
    installs = " or ".join("pip install {}".format(row[4]) for row in rows)
    if reasons:
        raise NoBackend("no installed backend can run this {} artefact ({})".format(format, "; ".join(reasons)))
    raise NoBackend("no backend for {} artefacts is installed here: {}".format(format, installs))


def _rows_for_device(rows: Sequence[Row], format: str, model: bytes, kernels: str, device: str) -> Sequence[Row]:
    """The ``rows`` that can use the device. Raises ``BadInput`` where none can, or the file is not for it."""
    able = devices.backends_on(devices.check_device(device), format)
    if format == "tflite":
        devices.check_compiled(model, device)
    if device == devices.CPU and format in devices.COMPILED_FORMATS:
        words = " or ".join(word for word, form in devices.FORMS.items() if form.made[0] == format)
        raise BadInput("a {} artefact runs on its accelerator alone: choose --device {}".format(format, words))
    if able is None:
        return rows
    found = [row for row in rows if row[0] in able]
    if not found:
        raise BadInput(
            "the device {} does not run {} artefacts by {}: choose another artefact or backend, or --device cpu".format(
                device, format, " or ".join(row[0] for row in rows)
            )
        )
    if kernels == "reference":
        raise BadInput("reference kernels run on the processor only: leave out the device {}".format(device))
    return found


def _rows(format: str) -> Tuple[Row, ...]:
    if format not in _BACKENDS:
        raise BadInput("expected an artefact in the format {}; got {!r}".format(" or ".join(FORMATS), format))
    return _BACKENDS[format]


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return "{}: {}".format(type(error).__name__, lines[0] if lines else "no message")[:300]


def _problem_of_onnx(model: bytes) -> Optional[str]:
    from edgeveil.edge_runtime.backends.onnx_file import problem_of  # a start with another format is spared it

    return problem_of(model)
