"""ONNX artefacts on ONNX Runtime's CPU provider, 1.10 (Python 3.6) and later."""

import numpy as np
import onnxruntime

from edge_runtime.backends.base import Backend, placed

_DTYPES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
}


class ONNXRuntime(Backend):
    """onnxruntime. ``kernels="reference"`` leaves the graph as it was exported: no fusing, no layout change."""

    name = "onnxruntime"

    def _open(self, model, threads, kernels):
        options = onnxruntime.SessionOptions()
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_DISABLE_ALL if kernels == "reference" else levels.ORT_ENABLE_ALL
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        if threads > 1:
            # Else its threads burn a whole core each between frames.
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._place(
            [
                {t.name: (t.shape, _DTYPES.get(t.type, "object"), None) for t in tensors}
                for tensors in (self._session.get_inputs(), self._session.get_outputs())
            ]
        )
        self._in = [tensor.tensor for tensor in self._inputs]
        self._out = [tensor.tensor for tensor in self._outputs]
        self._facts = {"threads": threads, "kernels": kernels}

    def _infer(self, feeds):
        return [np.asarray(v) for v in self._session.run(self._out, dict(zip(self._in, feeds)))]

    def info(self):
        """Name and version of ONNX Runtime."""
        return dict(self._facts, backend=self.name, version=onnxruntime.__version__)

    def placement(self):
        """As ``Backend.placement``: the session's providers; with one of them, it has all operations."""
        providers = self._session.get_providers()
        devices = [name.replace("ExecutionProvider", "") for name in providers]
        counts = {name: "all" if len(providers) == 1 else "not measured" for name in providers}
        graph = "onnxruntime {}, {}".format(
            onnxruntime.__version__, str(self._session.get_session_options().graph_optimization_level).split(".")[-1]
        )
        driver = "not applicable" if devices == ["CPU"] else "not measured"
        return placed("+".join(devices), counts, "the session's providers", driver=driver, compiler=graph)

    def close(self):
        """Let the session go."""
        self._session = None
