"""ONNX artefacts, and from 2023 on TFLite ones, on OpenVINO: its CPU plugin, or another.

2022.3 is the last for the Neural Compute Stick 2, whose plugin is MYRIAD.
"""

import inspect
import os
import tempfile
from typing import Any, Dict, List, Tuple

import numpy as np
import openvino

from edgeveil.edge_runtime.backends.base import Backend, placement_record
from edgeveil.edge_runtime.device import CPU, MYRIAD, OPENVINO, NoDevice, accelerator, may_use_cpu
from edgeveil.edge_runtime.errors import BadInput


def _core_and_version() -> Tuple[Any, str]:
    if hasattr(openvino, "Core"):
        return openvino.Core(), openvino.__version__
    from openvino import runtime  # 2022.x keeps everything there

    return runtime.Core(), runtime.get_version()


class OpenVINO(Backend):
    """openvino, in float32 where the device can be set to it. It has no reference kernels.

    OpenVINO does not replace a device by another, except for ``HETERO`` and ``AUTO``.
    """

    name = "openvino"
    package = "openvino"
    formats = {"onnx": "openvino", "tflite": '"openvino>=2023"'}
    last = True
    # It reads TFLite from 2023 on, when the stick's plugin was gone.
    devices = {"myriad": ("onnx",), "openvino:": ("onnx", "tflite")}
    and_cpu = ("myriad",)
    hears_usb = ("myriad",)

    def _open(self, model: bytes) -> None:
        if self._kernels == "reference":
            raise BadInput("openvino has no reference kernels: use the interpreter of the artefact's own format")
        core, version = _core_and_version()
        wanted = {
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": self._threads,
            "PERFORMANCE_HINT": "LATENCY",
        }
        place = _openvino_name(self.device)
        if "NPU" in place:
            del wanted["INFERENCE_PRECISION_HINT"]  # it computes in float16 alone, and refuses to be asked for more
        if self.device == CPU:
            known = core.get_property("CPU", "SUPPORTED_PROPERTIES")
        else:
            known = _supported_properties(core, place, version)
            if "CPU" in core.available_devices:
                # Operations that another device passes to the processor take its options from here.
                on_cpu = core.get_property("CPU", "SUPPORTED_PROPERTIES")
                core.set_property("CPU", {name: value for name, value in wanted.items() if name in on_cpu})
        options = {name: value for name, value in wanted.items() if name in known}
        if model[4:8] != b"TFL3":
            network = core.read_model(model, b"")
        elif int(version[:4]) >= 2023:
            network = _read_tflite(core, model)
        else:
            raise BadInput("OpenVINO reads TFLite from 2023 on, and this is {:.8}".format(version))
        compiled = _compile(core, network, place, options)
        self._request, self._compiled = compiled.create_infer_request(), compiled
        # Since 2023 a call can leave out its own copy of the outputs, which _infer reads from the request.
        takes = inspect.signature(self._request.infer).parameters
        self._options = {"share_outputs": True} if "share_outputs" in takes else {}
        ends = [network.inputs, network.outputs]
        self._in, self._out = self._match_tensors(
            [
                {
                    name: (port.shape, port.element_type.to_dtype(), number)
                    for number, port in enumerate(ports)
                    for name in port.names
                }
                for ports in ends
            ]
        )
        self._version, self._place, self._build = version.split("-")[0], place, version

    def _infer(self, feeds: List[np.ndarray]) -> List[np.ndarray]:
        # Written into the request's own memory: a call that is given arrays looks at each of them first. So nothing of
        # the caller's is shared, and what is returned is overwritten by the next call (``Backend.copies``).
        for number, feed in zip(self._in, feeds):
            self._request.get_input_tensor(number).data[...] = feed
        self._request.infer(**self._options)
        return [self._request.get_output_tensor(number).data for number in self._out]

    def placement(self) -> Dict[str, Any]:
        """As ``Backend.placement``: the devices that execute, and the kernels of OpenVINO's compiled graph."""
        try:
            device = "+".join(self._compiled.get_property("EXECUTION_DEVICES"))
        except RuntimeError:  # a version or plugin without that property
            device = self._place  # OpenVINO does not replace it by another
        compiler = "openvino {}".format(self._build)
        driver = "not applicable" if self.device == CPU else "not measured"
        kernels: Dict[str, Any] = {}
        try:
            for operation in self._compiled.get_runtime_model().get_ordered_ops():
                facts = operation.get_rt_info()
                if _runtime_fact(facts, "layerType") not in ("Input", "Const", "Output"):
                    kind = _runtime_fact(facts, "primitiveType")
                    kernels[kind] = kernels.get(kind, 0) + 1
        except (RuntimeError, KeyError):  # not every plugin reports its operations
            if self.device == CPU:
                raise
            return placement_record(
                device, {device: "not measured"}, "OpenVINO's compiled model", driver=driver, compiler=compiler
            )
        return placement_record(device, kernels, "OpenVINO's runtime model", driver=driver, compiler=compiler)

    def close(self) -> None:
        """Release the compiled model."""
        self._request = self._compiled = None


def _openvino_name(device: str) -> str:
    """OpenVINO's own name for a device. It includes every device that may run operations."""
    if device.startswith(OPENVINO):
        return device[len(OPENVINO) :]
    if accelerator(device) == MYRIAD:
        return "HETERO:MYRIAD,CPU" if may_use_cpu(device) else "MYRIAD"
    return "CPU"


def _supported_properties(core: Any, place: str, version: str) -> Any:
    """The properties that a device takes. Raises ``NoDevice`` where it, or one of its parts, is missing."""
    name, _, parts = place.partition(":")
    for part in parts.split(",") if parts else ([] if name in ("AUTO", "HETERO", "MULTI", "BATCH") else [name]):
        wanted = part.partition("(")[0].partition(".")[0]
        available = core.available_devices
        if not any(one.partition(".")[0] == wanted for one in available):
            cure = "; OpenVINO 2022.3.1 and later 2022.3.x are the last with it, none of their wheels has it" * (
                wanted == "MYRIAD"
            )
            raise NoDevice(
                "OpenVINO's device {} was asked for, and OpenVINO {:.8} finds {} here: plug it in, see that this user "
                "may use it, install the plugin it needs{}; or choose --device cpu".format(
                    wanted, version, ", ".join(available) or "none", cure
                )
            )
    try:
        return core.get_property(name, "SUPPORTED_PROPERTIES")
    except RuntimeError:  # an older plugin without that property
        return {}


def _compile(core: Any, network: Any, place: str, options: Dict[str, Any]) -> Any:
    try:
        return core.compile_model(network, place, options)
    except RuntimeError as error:
        if place == "CPU":
            raise
        raise NoDevice(
            "OpenVINO's {} did not take the artefact ({}). Choose another artefact, {}or --device cpu".format(
                place,
                " ".join(str(error).split())[:300],
                "--device myriad,cpu for what it cannot take, " * (place == "MYRIAD"),
            )
        ) from None


def _runtime_fact(facts: Any, name: str) -> str:
    value = facts[name]
    return str(getattr(value, "value", value))


def _read_tflite(core: Any, model: bytes) -> Any:
    # This reader takes files only: a private one, removed afterwards.
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.tflite")
        with open(path, "wb") as file:
            file.write(model)
        return core.read_model(path)
