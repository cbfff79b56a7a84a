"""ONNX artefacts on ONNX Runtime, 1.10 (Python 3.6) and later: on its CPU provider, or on a GPU."""

import contextlib
import json
import os
import sys
import tempfile
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

import numpy as np
import onnxruntime

from edgeveil.edge_runtime.backends.base import Backend, placement_record
from edgeveil.edge_runtime.backends.engine_cache import engine_cache, facts_of_build
from edgeveil.edge_runtime.device import CPU, CUDA, TENSORRT, NoDevice, accelerator, may_use_cpu

_DTYPES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
}


_CPU = "CPUExecutionProvider"
# In order of preference.
_PROVIDERS = {
    CPU: (_CPU,),
    CUDA: ("CUDAExecutionProvider",),
    TENSORRT: ("TensorrtExecutionProvider", "CUDAExecutionProvider"),
}
_CURE = "Install NVIDIA's onnxruntime-gpu for this system with its CUDA and TensorRT, or choose --device cpu"


class ONNXRuntime(Backend):
    """onnxruntime. ``kernels="reference"`` leaves the graph as it was exported: no fusing, no layout change.

    By default ONNX Runtime silently falls back to the processor when it opens a model and when it runs one. Here both
    are errors, and so are operations on the processor unless the device says ``,cpu``.
    """

    name = "onnxruntime"
    package = "onnxruntime"
    formats = {"onnx": "onnxruntime"}
    devices = {"cuda": ("onnx",), "tensorrt": ("onnx",)}
    and_cpu = ("cuda", "tensorrt")
    slow_to_open = ("tensorrt",)  # it builds an engine first
    calls = "epoll_create1 epoll_ctl epoll_pwait epoll_wait eventfd2 sysinfo uname"

    def _open(self, model: bytes) -> None:
        options = onnxruntime.SessionOptions()
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = (
            levels.ORT_DISABLE_ALL if self._kernels == "reference" else levels.ORT_ENABLE_ALL
        )
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4  # its errors quote values, as an index beyond a table; they are raised as well
        options.add_session_config_entry("session.load_model_format", "ONNX")  # what was looked into is what runs
        if self._threads > 1:
            # Without it, each thread spins on a whole core between frames.
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if self.device == CPU:
            self._session = onnxruntime.InferenceSession(model, options, providers=[_CPU])
            self._counts: Optional[Dict[str, int]] = None
            self._bind_tensors()
        else:
            with tempfile.TemporaryDirectory() as folder:
                options.enable_profiling, options.profile_file_prefix = True, os.path.join(folder, "opened")
                self._session = _open_on_gpu(model, options, self.device, self.precision)
                self._bind_tensors()
                self._counts = self._profile()
        self._version = onnxruntime.__version__

    def _bind_tensors(self) -> None:
        self._in, self._out = self._match_tensors(
            [
                {t.name: (t.shape, _DTYPES.get(t.type, "object"), t.name) for t in tensors}
                for tensors in (self._session.get_inputs(), self._session.get_outputs())
            ]
        )

    def _profile(self) -> Dict[str, int]:
        """Where each operation runs, ``{provider: count}``, seen on zeros. Raises ``NoDevice`` where one may not."""
        self._infer([np.zeros(tensor.shape, tensor.dtype) for tensor in self._inputs])
        with open(self._session.end_profiling(), "rb") as file:
            counts, on_cpu = operations_by_provider(json.loads(file.read().decode("utf-8")))
        if not counts:
            raise NoDevice(
                "{} was asked for, and this onnxruntime's profile does not say where operations ran: choose --device "
                "cpu, or another version of it".format(self.device)
            )
        if on_cpu and not may_use_cpu(self.device):
            raise NoDevice(
                "{} was asked for, and {} of {} operations would run on the processor ({}). Say --device {},cpu to "
                "allow that, or --device cpu".format(
                    self.device, len(on_cpu), sum(counts.values()), ", ".join(sorted(set(on_cpu)))[:200], self.device
                )
            )
        return counts

    def _infer(self, feeds: List[np.ndarray]) -> List[np.ndarray]:
        return [np.asarray(v) for v in self._session.run(self._out, dict(zip(self._in, feeds)))]

    def placement(self) -> Dict[str, Any]:
        """As ``Backend.placement``: all on the CPU provider, or the counts of a profile of the opened model."""
        counts: Dict[str, Any] = {_CPU: "all"} if self._counts is None else self._counts
        devices = [name.replace("ExecutionProvider", "") for name in self._session.get_providers() if name in counts]
        said_by = "the session's providers" if self._counts is None else "ONNX Runtime's profile of one run on zeros"
        graph = "onnxruntime {}, {}".format(
            onnxruntime.__version__, str(self._session.get_session_options().graph_optimization_level).split(".")[-1]
        )
        driver = "not applicable" if devices == ["CPU"] else "not measured"
        return placement_record("+".join(devices), counts, said_by, driver=driver, compiler=graph)

    def close(self) -> None:
        """Release the session."""
        self._session = None


def operations_by_provider(events: Iterable[Dict[str, Any]]) -> Tuple[Dict[str, int], List[str]]:
    """A profile's operations: ``{provider: count}``, and the kinds of those that ran on the processor."""
    nodes = {}
    for event in events:
        facts = event.get("args", {})
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            nodes[event["name"]] = facts["provider"], facts.get("op_name", "?")
    counts: Dict[str, int] = {}
    for provider, _ in nodes.values():
        counts[provider] = counts.get(provider, 0) + 1
    return counts, [kind for provider, kind in nodes.values() if provider == _CPU]


def _open_on_gpu(model: bytes, options: Any, device: str, precision: str) -> Any:
    """A session whose first provider is the one for ``device``. Raises ``NoDevice``."""
    available = onnxruntime.get_available_providers()
    wanted = [name for name in _PROVIDERS[accelerator(device)] if name in available]
    first = _PROVIDERS[accelerator(device)][0]
    if first not in wanted:
        raise NoDevice(
            "{} was asked for, and this onnxruntime {} was built without it (it has {}). {}".format(
                first, onnxruntime.__version__, ", ".join(available), _CURE
            )
        )
    # Keep float32 on GPUs that would cut it to TF32. NVIDIA's libraries read this when they are loaded.
    os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")
    # It reports its fallbacks on standard output, where our JSON goes.
    with contextlib.redirect_stdout(sys.stderr), _engines(model, first, precision) as engines:
        try:
            session = onnxruntime.InferenceSession(
                model,
                options,
                providers=[(name, _provider_options(name, precision, engines)) for name in wanted],
                enable_fallback=0,
            )
        except Exception as error:  # its own exceptions are many, and differ between versions
            problem = " ".join(str(error).split())[:300]
            raise NoDevice("{} did not take the artefact ({}). {}".format(first, problem, _CURE)) from None
    if session.get_providers()[0] != first:
        raise NoDevice(
            "{} was asked for, and onnxruntime opened {} in its place: a library of it or the GPU's driver cannot be "
            "loaded. {}".format(first, session.get_providers()[0], _CURE)
        )
    session.disable_fallback()
    return session


@contextlib.contextmanager
def _engines(model: bytes, provider: str, precision: str) -> Iterator[Optional[str]]:
    """The folder with the engine that this board built of this model before; None where none are kept."""
    cache = engine_cache() if provider == "TensorrtExecutionProvider" else None
    if cache is None:
        yield None
        return
    built_from = facts_of_build(model, provider, onnxruntime.__version__, _provider_options(provider, precision, None))
    with cache.working_folder(built_from) as folder:
        yield folder


def _provider_options(provider: str, precision: str, engines: Optional[str]) -> Dict[str, Any]:
    if provider != "TensorrtExecutionProvider":
        return {}
    options: Dict[str, Any] = {"trt_int8_enable": True} if precision == "int8" else {"trt_fp16_enable": True}
    return options if engines is None else dict(options, trt_engine_cache_enable=True, trt_engine_cache_path=engines)
