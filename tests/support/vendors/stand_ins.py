"""Stand-ins with the interfaces of vendors' compilers and runtimes; what is not real is what they compile and compute.

``rknn_python`` is a Python with rknn-toolkit2, whose simulator here is ONNX Runtime and rounds to 255 steps;
``hailo`` has the commands of Hailo's Dataflow Compiler; ``runtimes`` has the modules of the two boards, which run what
these "compiled".
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

_RKNN = """
import os
import numpy as np, onnx, onnxruntime

class RKNN:
    def __init__(self, verbose=False):
        assert verbose
    def config(self, target_platform):
        self.chip = target_platform
        return 0
    def load_onnx(self, model):
        self.model = open(model, "rb").read()
        return 0
    def build(self, do_quantization, dataset):
        lines = open(dataset).read().split()
        assert do_quantization and all(np.load(one).dtype == np.float32 for one in lines)
        for place, node in enumerate(onnx.load_from_string(self.model).graph.node):
            if node.op_type == "Min":
                print("No lowering found for: min-22, node type = Min, use CustomOperatorLower instead.")
            where = "CPU" if node.op_type == "Reshape" else "NPU"
            print("D RKNN: [00:00:00.000] %d    %s   INT8     %s    (1,8,8,1)" % (place, node.op_type, where))
        return {build}
    def export_rknn(self, path):
        open(path, "wb").write({magic} + self.chip.encode().ljust(8) + self.model)
        return 0
    def init_runtime(self):
        self.session = onnxruntime.InferenceSession(self.model)
        return 0
    def inference(self, inputs, data_format):
        names = [one.name for one in self.session.get_inputs()]
        found = self.session.run(None, dict(zip(names, inputs)))
        return [np.rint(one * 255) / np.float32(255) for one in found]
    def release(self):
        pass
"""
_RKNN_LITE = """
import numpy as np, onnxruntime

class RKNNLite:
    def load_rknn(self, path):
        data = open(path, "rb").read()
        self.model = data[12:]
        return 0 if data[:12] == b"RKNNrk3588  " else -1
    def init_runtime(self):
        self.session = onnxruntime.InferenceSession(self.model)
        return 0
    def get_sdk_version(self):
        return "2.5.0"
    def inference(self, inputs, data_format):
        names = [one.name for one in self.session.get_inputs()]
        found = self.session.run(None, dict(zip(names, inputs)))
        return [np.rint(one * 255) / np.float32(255) for one in found]
    def release(self):
        pass
"""
_HAILO_COMPILER = """
import sys
from pathlib import Path
import numpy as np
words = sys.argv[1:]
if words == ["--version"]:
    sys.exit(print("Hailo Dataflow Compiler v{version}"))
chip = words[words.index("--hw-arch") + 1]
if words[:3] == ["parser", "tf", "model.tflite"]:
    Path("model.har").write_bytes(Path(words[2]).read_bytes())
elif words[:2] == ["optimize", "model.har"]:
    assert np.load(words[words.index("--calib-set-path") + 1]).dtype == np.float32
    Path("model_optimized.har").write_bytes(Path(words[1]).read_bytes())
elif words[:2] == ["compiler", "model_optimized.har"]:
    Path("model.hef").write_bytes({magic} + chip.encode().ljust(8) + Path(words[1]).read_bytes())
else:
    sys.exit("error: unknown command")
"""
_HAILO_PLATFORM = """
import contextlib, types
import numpy as np
from ai_edge_litert.interpreter import Interpreter

__version__ = "{version}"
HERE = "{chip}"
FormatType = types.SimpleNamespace(FLOAT32="float32")
HailoStreamInterface = types.SimpleNamespace(PCIe="pcie")

class HEF:
    def __init__(self, data):
        self.chip, self.interpreter = data[4:12].decode().strip(), Interpreter(model_content=data[12:])
        self.interpreter.allocate_tensors()
    def _infos(self, details, kind):
        return [types.SimpleNamespace(name="model/%s_layer%d" % (kind, n), shape=tuple(one["shape"][1:]), of=one)
                for n, one in enumerate(details, 1)]
    def get_input_vstream_infos(self):
        return self._infos(self.interpreter.get_input_details(), "input")
    def get_output_vstream_infos(self):
        return self._infos(self.interpreter.get_output_details(), "output")
    def get_original_names_from_vstream_name(self, name):
        every = self.get_input_vstream_infos() + self.get_output_vstream_infos()
        return [one.of["name"] for one in every if one.name == name]

class Device:
    def __init__(self, name):
        facts = types.SimpleNamespace(device_architecture="DeviceArchitecture." + HERE.upper())
        self.control = types.SimpleNamespace(identify=lambda: facts)
    @staticmethod
    def scan():
        return ["0000:01:00.0"]

class ConfigureParams:
    @staticmethod
    def create_from_hef(hef, interface):
        return {}

class _Params:
    @staticmethod
    def make(network, format_type):
        return format_type

InputVStreamParams = OutputVStreamParams = _Params

class VDevice:
    def __enter__(self):
        return self
    def __exit__(self, *_):
        return False
    def create_infer_model(self, data):  # HailoRT 4 has it too, and knows no Hailo-10H
        assert type(data) is bytes
        if data[4:12].decode().strip() != HERE:
            raise RuntimeError("HAILO_HEF_NOT_COMPATIBLE_WITH_DEVICE")
        return InferModel(data)
    def configure(self, hef, params):
        if HERE == "hailo10h":
            raise RuntimeError("HAILO_NOT_IMPLEMENTED")  # as src/vdevice/vdevice_hrpc_client.cpp
        if hef.chip != HERE:
            raise RuntimeError("HAILO_HEF_NOT_COMPATIBLE_WITH_DEVICE")
        return [_Network(hef)]

class _Network:
    def __init__(self, hef):
        self.hef = hef
    def create_params(self):
        return {}
    def activate(self, params):
        return contextlib.nullcontext()

class InferStream:
    def __init__(self, info):
        self.name, self.shape, self.format = info.name, list(info.shape), "uint8"
    def set_format_type(self, kind):
        self.format = kind

class InferModel:
    def __init__(self, data):
        self.hef = HEF(data)
        self._inputs = [InferStream(one) for one in self.hef.get_input_vstream_infos()]
        self._outputs = [InferStream(one) for one in self.hef.get_output_vstream_infos()]
    inputs = property(lambda self: list(self._inputs))
    outputs = property(lambda self: list(self._outputs))
    def configure(self):
        assert {one.format for one in self._inputs + self._outputs} == {"float32"}
        return ConfiguredInferModel(self)

class ConfiguredInferModel:
    def __init__(self, model):
        self.model = model
    def __enter__(self):
        return self
    def __exit__(self, *_):
        self.model = None
    def create_bindings(self, input_buffers, output_buffers):
        for ends, buffers in ((self.model._inputs, input_buffers), (self.model._outputs, output_buffers)):
            for end in ends:
                one = buffers[end.name]
                assert one.flags.c_contiguous and one.dtype == np.float32 and list(one.shape) == end.shape
        return input_buffers, output_buffers
    def run(self, bindings, timeout):
        ((given, results),) = bindings
        network = InferVStreams(types.SimpleNamespace(hef=self.model.hef), "float32", "float32")
        for name, value in network.infer({name: one[None] for name, one in given.items()}).items():
            results[name][...] = value[0]

class InferVStreams:
    def __init__(self, network, inputs, outputs):
        assert (inputs, outputs) == ("float32", "float32")
        self.hef = network.hef
    def __enter__(self):
        return self
    def __exit__(self, *_):
        return False
    def infer(self, given):
        run = self.hef.interpreter
        for info in self.hef.get_input_vstream_infos():
            assert given[info.name].dtype == np.float32
            run.set_tensor(info.of["index"], given[info.name].reshape(info.of["shape"]))
        run.invoke()
        return {info.name: run.get_tensor(info.of["index"]) for info in self.hef.get_output_vstream_infos()}
"""


def rknn_python(folder: Path, *, version: str = "2.5.0", build: int = 0, magic: bytes = b"RKNN") -> Path:
    """A Python whose rknn-toolkit2 has that version; ``build`` is the code that its build returns."""
    package = folder / "packages"
    (package / "rknn").mkdir(parents=True)
    (package / "rknn/__init__.py").touch()
    (package / "rknn/api.py").write_text(_RKNN.replace("{build}", str(build)).replace("{magic}", repr(magic)))
    facts = package / f"rknn_toolkit2-{version}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: rknn-toolkit2\nVersion: {version}\n")
    # -I would leave the packages out.
    return _program(folder / "python", f'shift\nPYTHONPATH={package} exec {sys.executable} "$@"')


def hailo(folder: Path, *, version: str = "3.33.0", magic: bytes = b"\x01HEF") -> Path:
    """A folder for PATH with Hailo's command of that version."""
    folder.mkdir()
    script = folder / "compile.py"
    script.write_text(_HAILO_COMPILER.replace("{version}", version).replace("{magic}", repr(magic)))
    _program(folder / "hailo", f'exec {sys.executable} {script} "$@"')
    return folder


def runtimes(folder: Path, *, chip: str = "hailo8", version: str = "4.23.0") -> Path:
    """A folder for sys.path with the modules of HailoRT, for that chip, and of RKNN Toolkit Lite 2."""
    (folder / "rknnlite").mkdir(parents=True)
    (folder / "rknnlite/__init__.py").touch()
    (folder / "rknnlite/VERSION").write_text("2.5.0")
    (folder / "rknnlite/api.py").write_text(_RKNN_LITE)
    (folder / "hailo_platform.py").write_text(_HAILO_PLATFORM.replace("{version}", version).replace("{chip}", chip))
    return folder


def _program(path: Path, script: str) -> Path:
    path.write_text(f"#!{shutil.which('sh')}\n{script}\n")
    path.chmod(0o755)
    return path
