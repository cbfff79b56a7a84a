"""TFLite artefacts on ai-edge-litert or the older tflite-runtime, one interpreter with two names."""

import ctypes
import importlib
from typing import Any, Dict, List, Set

import numpy as np

from edgeveil.edge_runtime.backends.base import Backend, placement_record
from edgeveil.edge_runtime.backends.select import drop_notice
from edgeveil.edge_runtime.device import EDGETPU, EDGETPU_OPERATION, NoDevice

EDGETPU_LIBRARY = "libedgetpu.so.1"  # the name it is installed under (google-coral/libedgetpu, Makefile)
_CURE = "or choose --device cpu and an artefact that was not compiled"


class LiteRT(Backend):
    """ai-edge-litert. ``kernels="reference"`` is BUILTIN_REF: the same bytes on every version and processor."""

    name = "ai-edge-litert"
    package = "ai_edge_litert"
    formats = {"tflite": "ai-edge-litert"}
    devices = {"edgetpu": ("tflite",)}
    compiled = {"edgetpu": (("tflite", "int8"), ("tflite", "int8"), "edgetpu_compiler on PATH")}
    calls = "dup dup2 dup3 epoll_create1 epoll_ctl epoll_pwait epoll_wait eventfd2 pipe2 sysinfo uname"  # its notice
    copies = True

    def _open(self, model: bytes) -> None:
        library = importlib.import_module(self.package + ".interpreter")
        drop_notice(library)
        types = library.OpResolverType
        options = {
            "model_content": model,
            "num_threads": self._threads,
            "experimental_op_resolver_type": types.BUILTIN_REF if self._kernels == "reference" else types.AUTO,
        }
        if self.device == EDGETPU:
            self._interpreter = _open_on_edge_tpu(library, options)
        else:
            self._interpreter = library.Interpreter(**options)
            self._interpreter.allocate_tensors()
        self._in, self._out = self._match_tensors(
            [
                {d["name"]: (d["shape"].tolist(), d["dtype"], d["index"]) for d in details}
                for details in (self._interpreter.get_input_details(), self._interpreter.get_output_details())
            ]
        )
        self._version = getattr(importlib.import_module(self.package), "__version__", "unknown")

    def _infer(self, feeds: List[np.ndarray]) -> List[np.ndarray]:
        interpreter = self._interpreter
        for index, feed in zip(self._in, feeds):
            interpreter.set_tensor(index, feed)
        interpreter.invoke()
        # get_tensor copies, so nothing outside points into the interpreter's memory.
        return [interpreter.get_tensor(index) for index in self._out]

    def placement(self) -> Dict[str, Any]:
        """As ``Backend.placement``: how many operations XNNPACK and, on an Edge TPU, libedgetpu took over.

        Operations that ``edgetpu_compiler`` merged into one count as one.
        """
        own = "reference kernels" if self._kernels == "reference" else "built-in kernels"
        on_device = self.device == EDGETPU
        where = {"driver": EDGETPU_LIBRARY, "compiler": "edgetpu_compiler"} if on_device else {}
        try:
            nodes = self._interpreter._get_ops_details()
        except AttributeError:  # not part of the public interface
            said_by = "libedgetpu took it" if on_device else "no delegate for a device was asked for"
            return placement_record("Edge TPU+CPU" if on_device else "CPU", {own: "not measured"}, said_by, **where)
        taken = _delegated(nodes)
        on_tpu = {number for number in taken if nodes[number]["op_name"] == EDGETPU_OPERATION.decode()}
        rest = sum(node["op_name"] != "DELEGATE" for node in nodes) - len(taken)
        counts = {"Edge TPU": len(on_tpu), "XNNPACK": len(taken - on_tpu), own: rest}
        kernels = {kind: n for kind, n in counts.items() if n}
        device = "CPU" if not on_tpu else "Edge TPU" if len(kernels) == 1 else "Edge TPU+CPU"
        return placement_record(device, kernels, "the interpreter's list of operations", **where)

    def close(self) -> None:
        """Release the interpreter."""
        self._interpreter = None


def _open_on_edge_tpu(library: Any, options: Dict[str, Any]) -> Any:
    """An interpreter whose compiled operations libedgetpu has taken over. Raises ``NoDevice``."""
    # Tried first: the package's own loading prints a traceback where there is no library.
    try:
        driver = ctypes.CDLL(EDGETPU_LIBRARY)
    except OSError as error:
        problem = str(error)
        raise NoDevice(
            "an Edge TPU was asked for, and its library cannot be loaded ({}): install libedgetpu (libedgetpu1-std), "
            "{}".format(problem[:200], _CURE)
        ) from None
    if not hasattr(driver, "tflite_plugin_create_delegate"):
        raise NoDevice(
            "the {} here is no delegate of TFLite: install libedgetpu anew, {}".format(EDGETPU_LIBRARY, _CURE)
        )
    try:
        delegate = library.load_delegate(EDGETPU_LIBRARY)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise NoDevice(
            "libedgetpu opened no Edge TPU ({}): plug it in, see that this user may use it (its group, udev's rule) "
            "and that no other process has it, {}".format(reason[:200], _CURE)
        ) from None
    try:
        interpreter = library.Interpreter(experimental_delegates=[delegate], **options)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise NoDevice(
            "the Edge TPU did not take the artefact ({}): use the libedgetpu of the compiler's version, {}".format(
                reason[:300], _CURE
            )
        ) from None
    return interpreter


def _delegated(nodes: List[Dict[str, Any]]) -> Set[int]:
    """The numbers of the operations that a delegate runs: all on the way back from its outputs to its inputs.

    The interpreter lists the model's operations and after them the delegates' own, each of which replaces several.
    """
    makes: Dict[int, int] = {}
    for number, node in enumerate(nodes):
        if node["op_name"] != "DELEGATE":
            makes.update((int(tensor), number) for tensor in node["outputs"])
    taken: Set[int] = set()
    for node in nodes:
        if node["op_name"] == "DELEGATE":
            inputs = {int(tensor) for tensor in node["inputs"]}
            ahead = [int(tensor) for tensor in node["outputs"]]
            while ahead:
                tensor = ahead.pop()
                maker = makes.get(tensor)
                if tensor in inputs or maker is None or maker in taken:
                    continue
                taken.add(maker)
                ahead.extend(int(one) for one in nodes[maker]["inputs"])
    return taken


class TFLiteRuntime(LiteRT):
    """tflite-runtime: Python 3.7 to 3.11, and only with numpy 1."""

    name = "tflite-runtime"
    package = "tflite_runtime"
    formats = {"tflite": 'tflite-runtime "numpy<2"'}
    first = True  # of a process: it does not start once another library of TensorFlow's has been loaded
