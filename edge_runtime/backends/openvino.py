"""ONNX artefacts, and from 2023 on TFLite ones, on OpenVINO: its CPU plugin, or the one that was asked for.

2022.3 is the last for the Neural Compute Stick 2, whose plugin is MYRIAD.
"""

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
    """openvino, in float32 where the device knows that and could do less. It has no reference kernels.

    OpenVINO takes no other device in the place of one: only ``HETERO`` and ``AUTO`` do, where they are asked for.
    """

    name = "openvino"

    def _open(self, model: bytes, threads: int, kernels: str) -> None:
        if kernels == "reference":
            raise BadInput("openvino has no reference kernels: use the interpreter of the artefact's own format")
        core, version = _core_and_version()
        wanted = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
        place = _openvino_name(self.device)
        if self.device == CPU:
            known = core.get_property("CPU", "SUPPORTED_PROPERTIES")
        else:
            known = _supported_properties(core, place, version)
            if "CPU" in core.available_devices:
                # What reaches the processor by way of another device takes its options from here.
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
        self._facts = {"version": version.split("-")[0], "threads": threads, "kernels": kernels}
        self._asked, self._build = place, version

    def _infer(self, feeds: List[np.ndarray]) -> List[np.ndarray]:
        self._request.infer(dict(zip(self._in, feeds)))
        return [self._request.get_output_tensor(number).data for number in self._out]

    def info(self) -> Dict[str, Any]:
        """Name and version of OpenVINO."""
        return dict(self._facts, backend=self.name)

    def placement(self) -> Dict[str, Any]:
        """As ``Backend.placement``: the devices that execute, and the kernels of the graph that OpenVINO made."""
        try:
            device = "+".join(self._compiled.get_property("EXECUTION_DEVICES"))
        except RuntimeError:  # a version or plugin that does not know the question
            device = self._asked  # OpenVINO takes no other in its place
        compiler = "openvino {}".format(self._build)
        driver = "not applicable" if self.device == CPU else "not measured"
        kernels: Dict[str, Any] = {}
        try:
            for operation in self._compiled.get_runtime_model().get_ordered_ops():
                facts = operation.get_rt_info()
                if _runtime_fact(facts, "layerType") not in ("Input", "Const", "Output"):
                    kind = _runtime_fact(facts, "primitiveType")
                    kernels[kind] = kernels.get(kind, 0) + 1
        except (RuntimeError, KeyError):  # not every plugin tells what it made of the operations
            if self.device == CPU:
                raise
            return placement_record(
                device, {device: "not measured"}, "OpenVINO's compiled model", driver=driver, compiler=compiler
            )
        return placement_record(device, kernels, "OpenVINO's runtime model", driver=driver, compiler=compiler)

    def close(self) -> None:
        """Let the compiled model go."""
        self._request = self._compiled = None


def _openvino_name(device: str) -> str:
    """OpenVINO's own word for a device. Whatever else may run operations is in that word, and in no other way."""
    if device.startswith(OPENVINO):
        return device[len(OPENVINO) :]
    if accelerator(device) == MYRIAD:
        return "HETERO:MYRIAD,CPU" if may_use_cpu(device) else "MYRIAD"
    return "CPU"


def _supported_properties(core: Any, place: str, version: str) -> Any:
    """The properties that a device takes. Raises ``NoDevice`` where it, or one it is made of, is not there."""
    name, _, parts = place.partition(":")
    for part in parts.split(",") if parts else ([] if name in ("AUTO", "HETERO", "MULTI", "BATCH") else [name]):
        wanted = part.partition("(")[0].partition(".")[0]
        there = core.available_devices
        if not any(one.partition(".")[0] == wanted for one in there):
            cure = "; OpenVINO 2022.3.1 and later 2022.3.x are the last with it, none of their wheels has it" * (
                wanted == "MYRIAD"
            )
            raise NoDevice(
                "OpenVINO's device {} was asked for, and OpenVINO {:.8} finds {} here: plug it in, see that this user "
                "may use it, install the plugin it needs{}; or choose --device cpu".format(
                    wanted, version, ", ".join(there) or "none", cure
                )
            )
    try:
        return core.get_property(name, "SUPPORTED_PROPERTIES")
    except RuntimeError:  # a plugin of the older kind, which does not know the question
        return {}


def _compile(core: Any, network: Any, place: str, options: Dict[str, Any]) -> Any:
    problem = ""
    try:
        return core.compile_model(network, place, options)
    except RuntimeError as error:
        if place == "CPU":
            raise
        problem = " ".join(str(error).split())[:300]
    raise NoDevice(
        "OpenVINO's {} did not take the artefact ({}). Choose another artefact, {}or --device cpu".format(
            place, problem, "--device myriad,cpu for what it cannot take, " * (place == "MYRIAD")
        )
    )


def _runtime_fact(facts: Any, name: str) -> str:
    value = facts[name]
    return str(getattr(value, "value", value))


def _read_tflite(core: Any, model: bytes) -> Any:
    # Only a file will do for this reader: one that nobody else may open, for as long as it takes.
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.tflite")
        with open(path, "wb") as file:
            file.write(model)
        return core.read_model(path)
