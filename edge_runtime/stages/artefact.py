"""The stage that runs a model: its inputs from the flow, the interpreter, and its outputs into the flow."""

from typing import Any, Dict

from edgeveil.edge_runtime.errors import BadInput, FrameDropped
from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.lut import Flow, LutArray, lazy
from edgeveil.edge_runtime.stages.base import Entry, Kind, Run, Value
from edgeveil.edge_runtime.util.validate import identifier, mapping, refuse


class Artefact(Kind):
    """A model, in whichever of its artefacts runs. ``inputs`` and ``outputs``: tensor of the model to value."""

    name = "artefact"
    fields = {"model": identifier(), "inputs": mapping(identifier(), 1), "outputs": mapping(identifier(), 1)}
    writes = ()

    def check(self, stage: Entry, at: str, flow: Any) -> None:
        """As ``Kind``; what it makes is in the flow already."""
        model, ends = stage["model"], {end: stage[end] for end in ("inputs", "outputs")}
        if model not in flow.models:
            refuse("unknown-model", at + ".model", "there is no model '{}'".format(model))
        flow.used_models.add(model)
        for tensor, name in ends["inputs"].items():
            flow.take(name, "{}.inputs.{}".format(at, tensor), "unit noise model row noisy")
        for tensor, name in ends["outputs"].items():
            flow.add(name, "{}.outputs.{}".format(at, tensor), Value("model", None, None))
        for variant, artefact in flow.models[model]["artefacts"].items():
            for end, tensors in ends.items():
                has = {tensor["name"] for tensor in artefact[end]}
                if has != set(tensors):
                    problem = "its tensors are not those of '{}' of the model '{}'".format(variant, model)
                    refuse("tensor-mismatch", "{}.{}".format(at, end), problem)

    def compile(self, stage: Any, context: Any) -> Run:
        """As ``Kind``."""
        return ModelStage(stage, context)

    def measure(self, stage: Any, manifest: Any, artefact: str, shapes: Dict[str, Any], counts: Dict[str, int]) -> None:
        """As ``Kind``."""
        for tensor in manifest.models[stage.model].artefacts[artefact].entry["outputs"]:
            shapes[stage.outputs[tensor["name"]]] = tuple(tensor["shape"][1:])


class ModelStage(object):
    """A stage ``artefact`` of the manifest; ``preprocess``, ``infer`` and ``postprocess`` may run on three threads."""

    def __init__(self, stage: Any, context: Any) -> None:
        runner = context.runners.get(stage.model)
        if runner is None:
            raise BadInput("a stage names the model {!r}, which does not exist".format(stage.model))
        self._inputs, self._outputs = list(stage.inputs.items()), list(stage.outputs.items())
        self._x = context.input
        self._promises = context.promises
        # A network in training has real tensors: nothing to convert.
        self._preprocess, self._postprocess = (
            getattr(runner, part, lambda values: values) for part in ("preprocess", "postprocess")
        )
        self._infer = getattr(runner, "infer", runner.run)

    def __call__(self, flow: Flow) -> None:
        self.preprocess(flow)
        self.infer(flow)
        self.postprocess(flow)

    def preprocess(self, flow: Flow) -> None:
        """Convert the inputs from the flow to the interpreter's tensors."""
        flow.between = self._preprocess(Flow({tensor: flow.lazy(name) for tensor, name in self._inputs}))

    def infer(self, flow: Flow) -> None:
        """Run the interpreter."""
        feeds, flow.between = flow.between, self._infer(flow.between)
        if isinstance(feeds, list):  # else it is a flow over the same arrays
            flow.used += feeds

    def postprocess(self, flow: Flow) -> None:
        """Convert the interpreter's tensors and put them into the flow."""
        values, flow.between = self._postprocess(flow.between), None
        n = len(flow[self._x])
        for tensor, name in self._outputs:
            value = lazy(values, tensor)
            if len(value) != n:
                raise FrameDropped("shape")
            # The values of a lookup table are finite: the backend has checked that.
            if type(value) is not LutArray and not np.isfinite(value).all():
                if not self._promises:
                    raise FrameDropped("not-finite")
                value = np.where(np.isfinite(value), value, np.float32(0))  # to drop the frame would tell
            flow[name] = value
