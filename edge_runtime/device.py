"""The devices that run an artefact, by name: the processor, or one accelerator, without a fallback.

============================ ================= ===================================================================
word                         interpreter       what runs the operations
============================ ================= ===================================================================
``cpu``                      all               the processor; the default
``edgetpu``                  TFLite            the Edge TPU, by libedgetpu; what ``edgetpu_compiler`` left to the
                                               processor when the file was made stays there
``myriad``                   OpenVINO 2022.3   the Neural Compute Stick 2, in float16
``cuda``                     ONNX Runtime      the GPU, in the artefact's own precision
``tensorrt``                 ONNX Runtime      the GPU, by an engine that TensorRT builds here, float16 where the
                                               artefact is float; what it leaves goes to the same GPU by CUDA
``myriad,cpu`` and the like  as without it     the same, and the processor for the operations it cannot take
``openvino:WORDS``           OpenVINO          what OpenVINO calls so: ``openvino:GPU``, ``openvino:HETERO:CPU``
``hailo8``, ``hailo8l``      HailoRT 4         the Hailo-8 or Hailo-8L, by a file of Hailo's Dataflow Compiler 3
``hailo10h``                 HailoRT 5         the Hailo-10H, by a file of Hailo's Dataflow Compiler 5
``rk3588``                   RKNN Toolkit Lite the NPU of Rockchip's RK3588, by a file of RKNN Toolkit 2
============================ ================= ===================================================================
"""

import re
from typing import Any, Dict, NamedTuple, Optional, Set, Tuple

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.kinds import backends

CPU, EDGETPU, MYRIAD, CUDA, TENSORRT = "cpu", "edgetpu", "myriad", "cuda", "tensorrt"
AND_CPU = ",cpu"
OPENVINO = "openvino:"


class Form(NamedTuple):
    """A vendor's ``compiler``, what it makes an accelerator's file of, and that file: format and precision of each."""

    source: Tuple[str, str]
    made: Tuple[str, str]
    compiler: str

    @property
    def requantised(self) -> bool:
        """Whether the compiler chose the scales itself, so that the outputs are not those of the source."""
        return self.source[1] != self.made[1]


OPEN_S, BUILD_S = 180.0, 1800.0
_OPENVINO_WORDS = r"[A-Z][A-Za-z0-9_.:,()-]{0,79}"
# The one operation into which edgetpu_compiler puts all that it compiles; only libedgetpu can read it.
EDGETPU_OPERATION = b"edgetpu-custom-op"


class NoDevice(DeviceFailed):
    """The requested device is not available here; nothing ran on another one instead. Exit code 4."""


def words(*, every: bool = False) -> Tuple[str, ...]:
    """The words of devices, without those that OpenVINO itself gives; ``every`` one, of other packages too."""
    names = [CPU]
    for kind in backends(every=every):
        for device in kind.facts.get("devices", ()):
            names += [device] * (device != OPENVINO) + [device + AND_CPU] * (device in kind.facts.get("and_cpu", ()))
    return tuple(dict.fromkeys(names))


def forms() -> Dict[str, Form]:
    """The accelerators that run nothing but a vendor compiler's file, each with that file."""
    return {device: Form(*form) for kind in backends() for device, form in kind.facts.get("compiled", {}).items()}


def compiled_formats() -> Set[str]:
    """The formats that only vendors' compilers make."""
    return {form.made[0] for form in forms().values() if form.made[0] != form.source[0]}


def check_device(text: str) -> str:
    """``text`` if it names a device; raises ``BadInput``."""
    if text in words() or (text.startswith(OPENVINO) and re.fullmatch(_OPENVINO_WORDS, text[len(OPENVINO) :])):
        return text
    if text in words(every=True):
        return text
    raise BadInput(
        "expected the device {}, or {}HETERO:CPU and the like; got {!r}".format(" | ".join(words()), OPENVINO, text)
    )


def backends_on(device: str, format: str) -> Optional[Tuple[str, ...]]:
    """The names of the backends that run a format on a device; None for the processor: all that know the format."""
    if device == CPU:
        return None
    word = OPENVINO if device.startswith(OPENVINO) else accelerator(device)
    able = [kind for kind in backends() if word in kind.facts.get("devices", ())]
    able = able or [kind for kind in backends(every=True) if word in kind.facts.get("devices", ())]
    return tuple(kind.name for kind in able if format in kind.facts["devices"][word])


def accelerator(device: str) -> str:
    """The device without its ``,cpu``: ``cuda`` of ``cuda,cpu``."""
    return device[: -len(AND_CPU)] if device.endswith(AND_CPU) and not device.startswith(OPENVINO) else device


def open_limit_s(device: str) -> float:
    """The most seconds that opening an artefact and its self-test may take there.

    TensorRT builds an engine first: 5 minutes were reported of a Jetson Nano, 10 of an Orin (neo-ai-dlr issue 220,
    roboflow inference issue 2703). The rest is what a slow card and an emulator take.
    """
    return BUILD_S if _is("slow_to_open", device) else OPEN_S


def _is(fact: str, device: str) -> bool:
    return any(accelerator(device) in kind.facts.get(fact, ()) for kind in backends())


def may_use_cpu(device: str) -> bool:
    """Whether operations that the accelerator cannot run may run on the processor."""
    return device == CPU or device.endswith(AND_CPU)


def hears_of_usb(device: str) -> bool:
    """Whether its driver needs udev to announce a USB device that came back under another number: the Compute Stick.

    udev announces only in the network namespace of the system. libedgetpu looks for its stick itself.
    """
    return _is("hears_usb", device) or (device.startswith(OPENVINO) and "MYRIAD" in device)


def suits(artefact: Any, device: str) -> bool:
    """Whether an artefact (``manifest.Artefact``) is one for ``device``."""
    if artefact.compiled_for is not None or device in forms():
        return bool(artefact.compiled_for == device)
    return backends_on(device, artefact.format) != ()


def check_compiled(model: bytes, device: str) -> None:
    """Raise ``BadInput`` if a TFLite file for the Edge TPU would run elsewhere, or another one on it."""
    compiled = EDGETPU_OPERATION in model
    if device == EDGETPU and not compiled:
        raise BadInput(
            "this artefact was not compiled for the Edge TPU, which would run none of it: export with "
            "edgetpu_compiler on PATH and seal that, or choose --device cpu"
        )
    if compiled and device != EDGETPU:
        raise BadInput(
            "this artefact was compiled for the Edge TPU and runs nowhere else: choose --device edgetpu, or another "
            "artefact for {}".format(device)
        )
