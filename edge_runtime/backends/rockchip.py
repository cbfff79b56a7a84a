"""Compiled files (.rknn) on the NPU of a Rockchip RK3588, by RKNN Toolkit Lite 2.

Numbers are exchanged as float32. Nothing of this ran on an NPU: it follows the toolkit's API reference
(github.com/airockchip/rknn-toolkit2, doc/03_Rockchip_RKNPU_API_Reference_RKNN_Toolkit2).
"""

import os
import tempfile
from typing import Any, Dict, List

import numpy as np
from rknnlite.api import RKNNLite

from edgeveil.edge_runtime.backends.base import Backend, placement_record
from edgeveil.edge_runtime.device import NoDevice


class RKNNToolkitLite(Backend):
    """rknnlite, on one core of the NPU that the driver chooses. It has no reference kernels."""

    name = "rknn-toolkit-lite2"
    package = "rknnlite"
    formats = {"rknn": "rknn-toolkit-lite2"}
    devices = {"rk3588": ("rknn",)}
    compiled = {"rk3588": (("onnx", "float32"), ("rknn", "int8"), "--compiler-python")}

    def _open(self, model: bytes) -> None:
        self._version = "unknown"
        self._toolkit = RKNNLite()
        # It reads files only: a private one, removed afterwards.
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.rknn")
            with open(path, "wb") as file:
                file.write(model)
            self._done("load_rknn", self._toolkit.load_rknn(path))
        self._done("init_runtime", self._toolkit.init_runtime())
        # Once opened, the toolkit tells the versions of its library and of the driver.
        self._version = " ".join(str(self._toolkit.get_sdk_version() or "unknown").split())[:80]
        # Images are given as the file takes them; it transposes them itself.
        self._layout = ["nchw" if len(tensor.shape) == 4 else None for tensor in self._inputs]

    def _done(self, step: str, code: Any) -> None:
        """Raise ``NoDevice`` where a step of the toolkit failed: it returns a code in place of an exception."""
        if code != 0:
            self._toolkit.release()
            raise NoDevice(
                "the RKNN toolkit did not open the artefact on an {} ({} gave {}): see that this is one, that its "
                "librknnrt is of the compiler's version or later, and that this user may open /dev/dri; or choose "
                "--device cpu".format(self.device, step, code)
            )

    def _infer(self, feeds: List[np.ndarray]) -> List[np.ndarray]:
        results = self._toolkit.inference(inputs=feeds, data_format=self._layout)
        return [np.asarray(value).reshape(tensor.shape) for value, tensor in zip(results, self._outputs)]

    def placement(self) -> Dict[str, Any]:
        """As ``Backend.placement``: the toolkit does not tell what the NPU leaves to the processor."""
        return placement_record(
            "NPU+CPU",
            {"NPU+CPU": "not measured"},
            "the RKNN toolkit opened it",
            driver=self._version,
            compiler="rknn-toolkit2",
        )

    def close(self) -> None:
        """Release the NPU."""
        self._toolkit.release()
