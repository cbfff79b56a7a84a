"""Which of some values is the largest."""

from typing import Any, Dict

from edgeveil.edge_runtime.errors import FrameDropped
from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.lut import Flow
from edgeveil.edge_runtime.stages.base import INDEX, Entry, Kind, Run, Value, codes_of, from_input
from edgeveil.edge_runtime.util.validate import refuse, whole


class Argmax(Kind):
    """The number of the largest value."""

    name = "table argmax"
    chooses = "op"
    reads = {"input": "unit model row noisy"}
    decides = True

    def make(self, stage: Entry, at: str, flow: Any, *taken: Value) -> Value:
        """As ``Kind``."""
        return INDEX

    def compile(self, stage: Any, context: Any) -> Run:
        """As ``Kind``."""
        return from_input(
            stage, lambda values: values.reshape(len(values), -1).argmax(axis=1).astype(np.int64, copy=False)
        )

    def measure(self, stage: Any, manifest: Any, artefact: str, shapes: Dict[str, Any], counts: Dict[str, int]) -> None:
        """As ``Kind``."""
        counts[stage.output] = int(np.prod(shapes[stage.input]))


class ArgmaxWithin(Argmax):
    """The largest of a row's values within one of ``groups`` equal groups; its number counts over the whole row, so
    that the code identifies the group."""

    name = "table argmax_within"
    reads = {"input": "unit model row noisy", "group": "index"}
    fields = {"groups": whole(1, 2**16)}

    def make(self, stage: Entry, at: str, flow: Any, *taken: Value) -> Value:
        """As ``Kind``."""
        groups, count = stage["groups"], 1
        for size in taken[0].shape or [groups]:
            count *= size
        if count % groups:
            refuse("wrong-value", at + ".groups", "{} values do not make {} equal groups".format(count, groups))
        return INDEX

    def compile(self, stage: Any, context: Any) -> Run:
        """As ``Kind``."""
        source, group, groups, target = stage.input, stage.group, stage.groups, stage.output
        checked = codes_of(context)

        def run(flow: Flow) -> None:
            values = flow[source].reshape(len(flow[source]), -1)
            size, rest = divmod(values.shape[1], groups)
            if rest or not size:
                raise FrameDropped("shape")
            chosen = checked(flow[group], groups)
            rows = np.arange(0, len(values) * groups, groups) + chosen
            within = values.reshape(-1, size).take(rows, 0).argmax(axis=1)
            flow[target] = chosen * size + within.astype(np.int64, copy=False)

        return run
