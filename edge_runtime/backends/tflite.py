"""TFLite artefacts on ai-edge-litert or the older tflite-runtime: one interpreter under two names."""

import importlib
from typing import Dict, Set

from edge_runtime.backends.base import Backend, placed


class LiteRT(Backend):
    """ai-edge-litert. ``kernels="reference"`` is BUILTIN_REF: the same bytes on every version and processor."""

    name = "ai-edge-litert"
    copies = True
    _package = "ai_edge_litert"

    def _open(self, model, threads, kernels):
        library = importlib.import_module(self._package + ".interpreter")
        types = library.OpResolverType
        self._interpreter = library.Interpreter(
            model_content=model,
            num_threads=threads,
            experimental_op_resolver_type=types.BUILTIN_REF if kernels == "reference" else types.AUTO,
        )
        self._interpreter.allocate_tensors()
        self._in, self._out = self._place(
            [
                {d["name"]: (d["shape"].tolist(), d["dtype"], d["index"]) for d in details}
                for details in (self._interpreter.get_input_details(), self._interpreter.get_output_details())
            ]
        )
        self._facts = {"threads": threads, "kernels": kernels}

    def _infer(self, feeds):
        interpreter = self._interpreter
        for index, feed in zip(self._in, feeds):
            interpreter.set_tensor(index, feed)
        interpreter.invoke()
        # get_tensor copies, so nothing outside points into the interpreter's memory.
        return [interpreter.get_tensor(index) for index in self._out]

    def info(self):
        """Name and version of the interpreter."""
        version = getattr(importlib.import_module(self._package), "__version__", "unknown")
        return dict(self._facts, backend=self.name, version=version)

    def placement(self):
        """As ``Backend.placement``: how many operations XNNPACK, the only delegate asked for, took over."""
        own = "reference kernels" if self._facts["kernels"] == "reference" else "built-in kernels"
        try:
            nodes = self._interpreter._get_ops_details()
        except AttributeError:  # it is not in the public part of the interpreter
            return placed("CPU", {own: "not measured"}, "no delegate for a device was asked for")
        taken = _delegated(nodes)
        rest = sum(node["op_name"] != "DELEGATE" for node in nodes) - len(taken)
        counts = {"XNNPACK": len(taken), own: rest}
        return placed("CPU", {kind: n for kind, n in counts.items() if n}, "the interpreter's list of operations")

    def close(self):
        """Let the interpreter go."""
        self._interpreter = None


def _delegated(nodes):
    """The numbers of the operations that a delegate runs: all on the way back from what it gives to what it takes.

    The interpreter lists the operations it was given and behind them the delegates' own, which stand for several.
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
    _package = "tflite_runtime"
