"""What OpenVINO is asked for by device: float32 where it can be had, and nothing that a device refuses; its memory."""

import importlib
import sys
import types
from typing import ClassVar

import numpy as np
import pytest

from edgeveil.edge_runtime.device import NoDevice

SUPPORTED = {"INFERENCE_PRECISION_HINT": "RW", "PERFORMANCE_HINT": "RW"}


class Core:
    """A plugin that takes every option and no network; ``asked`` are the options of the last."""

    asked: ClassVar[dict] = {}
    available_devices = ("CPU", "GPU", "NPU")

    def get_property(self, _device, _name):
        return SUPPORTED

    def set_property(self, *_):
        pass

    def read_model(self, *_):
        return None

    def compile_model(self, _network, _place, options):
        Core.asked = options
        raise RuntimeError("no such hardware")


@pytest.fixture
def backend(monkeypatch):
    """The module over a stand-in of OpenVINO's."""
    name = "edgeveil.edge_runtime.backends.openvino"
    stand_in = types.SimpleNamespace(Core=Core, __version__="2026.4.1")
    monkeypatch.setitem(sys.modules, "openvino", stand_in)
    monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module(name)
    sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("device", "precision"),
    [("openvino:GPU", "f32"), ("openvino:NPU", None), ("openvino:HETERO:NPU,CPU", None), ("openvino:GPU.1", "f32")],
)
def test_an_npu_is_not_asked_for_float32(backend, device, precision):
    made = backend.OpenVINO.__new__(backend.OpenVINO)
    made.device, made._threads, made._kernels = device, 1, "production"
    with pytest.raises(NoDevice, match="no such hardware"):
        made._open(b"not a TFLite file")
    assert Core.asked.get("INFERENCE_PRECISION_HINT") == precision
    assert Core.asked["PERFORMANCE_HINT"] == "LATENCY"


class Request:
    """Twice the input, in one piece of memory for all calls, as OpenVINO has it; 2022.3 knows no further argument."""

    def __init__(self):
        self.ends, self.shared = np.zeros((2, 1, 3), np.float32), None

    def get_input_tensor(self, _number):
        return types.SimpleNamespace(data=self.ends[0])

    def get_output_tensor(self, _number):
        return types.SimpleNamespace(data=self.ends[1])

    def infer(self, inputs=None):
        assert inputs is None
        np.multiply(self.ends[0], 2, out=self.ends[1])


class Newer(Request):
    """As of OpenVINO 2023.1."""

    def infer(self, inputs=None, share_inputs=False, share_outputs=False):
        assert not share_inputs
        self.shared = share_outputs
        super().infer(inputs)


@pytest.mark.parametrize(("request_of", "shared"), [(Request, None), (Newer, True)])
def test_a_result_does_not_change_with_the_next_frame(backend, monkeypatch, request_of, shared):
    def port(name):
        kind = types.SimpleNamespace(to_dtype=lambda: np.float32)
        return types.SimpleNamespace(shape=(1, 3), element_type=kind, names={name})

    made = request_of()
    compiled = types.SimpleNamespace(create_infer_request=lambda: made)
    network = types.SimpleNamespace(inputs=[port("x")], outputs=[port("y")])
    monkeypatch.setattr(Core, "read_model", lambda *_: network)
    monkeypatch.setattr(Core, "compile_model", lambda *_: compiled)
    facts = {"shape": [1, 3], "dtype": "float32", "scale": None, "zero_point": None}
    ends = {"inputs": [{"name": "x", "tensor": "x", **facts}], "outputs": [{"name": "y", "tensor": "y", **facts}]}
    opened = backend.OpenVINO(b"not a TFLite file", ends)
    first, second = np.array([[1, 2, 3]], np.float32), np.array([[4, 5, 6]], np.float32)
    results = [opened.run({"x": one})["y"] for one in (first, second)]
    assert (np.asarray(results[0]).tolist(), np.asarray(results[1]).tolist()) == ([[2, 4, 6]], [[8, 10, 12]])
    assert first.tolist() == [[1, 2, 3]]
    assert not any(np.shares_memory(np.asarray(one), made.ends) for one in (*results, first, second))
    assert made.shared is shared
