"""ONNX artefacts, and from 2023 on TFLite ones, on OpenVINO's CPU plugin; 2022.3 is the last for the NCS2's boards."""

import os
import tempfile
from typing import Dict

import openvino

from edge_runtime.backends.base import Backend, placed
from edge_runtime.errors import BadInput


def _core_and_version():
    if hasattr(openvino, "Core"):
        return openvino.Core(), openvino.__version__
    from openvino import runtime  # 2022.x keeps everything there

    return runtime.Core(), runtime.get_version()


class OpenVINO(Backend):
    """openvino, in float32 where the processor could do bfloat16. It has no reference kernels."""

    name = "openvino"

    def _open(self, model, threads, kernels):
        if kernels == "reference":
            raise BadInput("openvino has no reference kernels: use the interpreter of the artefact's own format")
        core, version = _core_and_version()
        wanted = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
        known = core.get_property("CPU", "SUPPORTED_PROPERTIES")
        options = {name: value for name, value in wanted.items() if name in known}
        if model[4:8] != b"TFL3":
            network = core.read_model(model, b"")
        elif int(version[:4]) >= 2023:
            network = _read_tflite(core, model)
        else:
            raise BadInput("OpenVINO reads TFLite from 2023 on, and this is {:.8}".format(version))
        compiled = core.compile_model(network, "CPU", options)
        self._request, self._compiled = compiled.create_infer_request(), compiled
        ends = [network.inputs, network.outputs]
        self._in, self._out = self._place(
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
        self._build = version

    def _infer(self, feeds):
        self._request.infer(dict(zip(self._in, feeds)))
        return [self._request.get_output_tensor(number).data for number in self._out]

    def info(self):
        """Name and version of OpenVINO."""
        return dict(self._facts, backend=self.name)

    def placement(self):
        """As ``Backend.placement``: the devices that execute, and the kernels of the graph that OpenVINO made."""
        try:
            device = "+".join(self._compiled.get_property("EXECUTION_DEVICES"))
        except RuntimeError:  # a version before 2022.3 does not know the question
            device = "CPU"  # the one that was asked for; OpenVINO takes no other in its place
        kernels: Dict[str, int] = {}
        for operation in self._compiled.get_runtime_model().get_ordered_ops():
            facts = operation.get_rt_info()
            if _fact(facts, "layerType") not in ("Input", "Const", "Output"):
                kind = _fact(facts, "primitiveType")
                kernels[kind] = kernels.get(kind, 0) + 1
        return placed(device, kernels, "OpenVINO's runtime model", compiler="openvino {}".format(self._build))

    def close(self):
        """Let the compiled model go."""
        self._request = self._compiled = None


def _fact(facts, name):
    value = facts[name]
    return str(getattr(value, "value", value))


def _read_tflite(core, model):
    # Only a file will do for this reader: one that nobody else may open, for as long as it takes.
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.tflite")
        with open(path, "wb") as file:
            file.write(model)
        return core.read_model(path)
