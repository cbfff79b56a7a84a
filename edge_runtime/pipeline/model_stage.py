"""The stage that runs a model: its numbers out of the flow, through the interpreter, and into the flow again."""

from typing import Any, Mapping

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, FrameDropped
from edgeveil.edge_runtime.lut import Flow, Looked, held


class ModelStage(object):
    """A stage ``artefact`` of the manifest: whole, or ``encode``, ``infer`` and ``decode``, by three threads."""

    def __init__(self, stage: Mapping[str, Any], context: Any) -> None:
        runner = context.runners.get(stage["model"])
        if runner is None:
            raise BadInput("a stage names the model {!r}, which is not there".format(stage["model"]))
        self._inputs, self._outputs = list(stage["inputs"].items()), list(stage["outputs"].items())
        self._x = context.input
        # A network that is no artefact yet has nothing to encode.
        self._encode, self._decode = (getattr(runner, part, lambda values: values) for part in ("encode", "decode"))
        self._infer = getattr(runner, "infer", runner.run)

    def __call__(self, flow: Flow) -> None:
        self.encode(flow)
        self.infer(flow)
        self.decode(flow)

    def encode(self, flow: Flow) -> None:
        """What the interpreter takes, out of the flow."""
        flow.between = self._encode(Flow({tensor: flow.held(name) for tensor, name in self._inputs}))

    def infer(self, flow: Flow) -> None:
        """The interpreter alone."""
        feeds, flow.between = flow.between, self._infer(flow.between)
        if isinstance(feeds, list):  # else it is a flow of what the flow has anyway
            flow.used += feeds

    def decode(self, flow: Flow) -> None:
        """What the interpreter returned, into the flow."""
        values, flow.between = self._decode(flow.between), None
        n = len(flow[self._x])
        for tensor, name in self._outputs:
            value = held(values, tensor)
            if len(value) != n:
                raise FrameDropped("shape")
            # What comes out of a table is finite: the backend looked at the table.
            if type(value) is not Looked and not np.isfinite(value).all():
                raise FrameDropped("not-finite")
            flow[name] = value
