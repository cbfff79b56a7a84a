"""What a stream keeps: the class that a track votes for, and values that are drawn once for a track, period or bout."""

from typing import Any, Dict

from edgeveil.edge_runtime.lut import Flow
from edgeveil.edge_runtime.stages.base import HOLDS, INDEX, Entry, Kind, Run, Value, codes_of, from_input
from edgeveil.edge_runtime.util.validate import refuse, whole


class _Hold(Kind):
    chooses = "op"
    held = True
    by = ()  # type: tuple  # how a stream may be held that has such a stage
    needs = ""
    limits = False  # whether it keeps to the stream's ``draws``

    def check(self, stage: Entry, at: str, flow: Any) -> Any:
        """As ``Kind``."""
        if flow.hold not in self.by:
            refuse("stream-mismatch", at, self.needs)
        if flow.limited and not self.limits:
            refuse("stream-mismatch", at, "the stream has 'draws', and only 'hold first' keeps to them")
        return super(_Hold, self).check(stage, at, flow)


class Majority(_Hold):
    """The class of most frames of a track: it changes once, after so many frames, whatever they show."""

    name = "hold majority"
    reads = {"input": "index"}
    fields = {"groups": whole(1, 2**16)}
    by = ("track",)
    needs = "a majority needs a stream that is held by track"
    votes = True

    def make(self, stage: Entry, at: str, flow: Any, *taken: Value) -> Value:
        """As ``Kind``."""
        return INDEX

    def compile(self, stage: Any, context: Any) -> Run:
        """As ``Kind``."""
        groups, target, memory, checked = stage.groups, stage.output, context.track_memory, codes_of(context)
        return from_input(stage, lambda labels: memory.majority(target, checked(labels, groups), groups))

    def measure(self, stage: Any, manifest: Any, artefact: str, shapes: Dict[str, Any], counts: Dict[str, int]) -> None:
        """As ``Kind``."""
        counts[stage.output] = stage.groups + 1  # one more until the track has voted


class Keep(_Hold):
    """One value for each class ``by`` of a track, period or bout."""

    name = "hold keep"
    reads = {"input": "index", "by": "index"}
    by = HOLDS
    needs = "expected a stream that is held by track, by period or by bout"
    repeats = True

    def make(self, stage: Entry, at: str, flow: Any, *taken: Value) -> Value:
        """As ``Kind``."""
        if flow.hold in ("period", "bout"):
            flow.held.add(stage["by"])  # they keep one value for each class; the class is that of the frame
        elif stage["by"] not in flow.held:
            refuse("unheld", at + ".by", "'{}' changes with every frame, and with it what is kept".format(stage["by"]))
        return INDEX

    def compile(self, stage: Any, context: Any) -> Run:
        """As ``Kind``."""
        source, by, target, memory = stage.input, stage.by, stage.output, context.track_memory

        def run(flow: Flow) -> None:
            flow[target] = memory.keep(target, flow[source], flow[by])

        return run

    def measure(self, stage: Any, manifest: Any, artefact: str, shapes: Dict[str, Any], counts: Dict[str, int]) -> None:
        """As ``Kind``."""
        counts[stage.output] = counts[stage.input]


class First(_Hold):
    """The value of the first frame of each track or period; of its first ``draws`` frames, each its own, then the last
    one's."""

    name = "hold first"
    reads = {"input": "index report"}
    by = ("track", "period")
    needs = "expected a stream that is held by track or by period"
    limits = True
    repeats = True

    def make(self, stage: Entry, at: str, flow: Any, *taken: Value) -> Value:
        """As ``Kind``."""
        return taken[0]

    def compile(self, stage: Any, context: Any) -> Run:
        """As ``Kind``."""
        target, memory = stage.output, context.track_memory
        return from_input(stage, lambda values: memory.first(target, values))
