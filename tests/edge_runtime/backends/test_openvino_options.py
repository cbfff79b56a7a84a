"""What OpenVINO is asked for by device: float32 where it can be had, and nothing that a device refuses."""

import importlib
import sys
import types
from typing import ClassVar

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
