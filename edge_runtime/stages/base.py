"""What every stage kind has, with what holds for most of them."""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from edgeveil.edge_runtime.errors import FrameDropped
from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.lut import Flow
from edgeveil.edge_runtime.util.validate import ANY, Rule, Table, each, identifier

DTYPES = ("uint8", "int8", "uint16", "int16", "int32", "int64", "float32", "float64")
HOLDS = ("track", "period", "bout")  # of a stream; one that is held by frame holds nothing

Run = Callable[[Flow], None]
Entry = Mapping[str, Any]  # a stage of a manifest's JSON


class Value(NamedTuple):
    """Its kind (``manifest.dataflow``), and its shape for one frame and its dtype, None where a model decides."""

    kind: str
    shape: Optional[List[int]]
    dtype: Optional[str]


INDEX = Value("index", [], "int64")


class Kind(object):
    """A stage kind. ``chooses``: the key that picks one of several kinds of one stage.

    ``reads`` has for each key with a value's name the kinds of value that may come there, ``fields`` the table of all
    other keys but ``writes``, the names that it makes, and ``rule`` what no table can state of it. A stage has these
    keys and no others. ``charges``: what it makes costs epsilon and is covered by it. ``reports``: a collector
    estimates from what it makes. ``held``: it keeps a value for a track, period or bout; ``repeats``: one that was
    charged once. ``decides``: it picks the largest of what a model computes; ``rounds``: it rounds that to what is
    sent. Near a tie, kernels may disagree on either.
    """

    name: str
    chooses = ""
    reads: Dict[str, str] = {}
    fields: Table = {}
    rule: Optional[Rule] = None
    writes: Tuple[str, ...] = ("output",)
    charges = False
    reports = False
    held = False
    repeats = False
    decides = False
    rounds = False

    def table(self) -> Table:
        """The table of such a stage."""
        names = {"noise": each(identifier(), 1)}
        chosen = {key: ANY for key in ("stage", self.chooses) if key}
        read = {key: identifier() for key in self.reads}
        return dict(chosen, **read, **self.fields, **{key: names.get(key, identifier()) for key in self.writes})

    def check(self, stage: Entry, at: str, flow: Any) -> Any:
        """What a stage with its keys makes, in ``flow`` (``manifest.dataflow``). Raises ``BundleRefused``."""
        taken = [flow.take(stage[key], "{}.{}".format(at, key), kinds) for key, kinds in self.reads.items()]
        return self.make(stage, at, flow, *taken)

    def make(self, stage: Entry, at: str, flow: Any, *taken: Value) -> Value:
        """What the stage makes of the values ``taken``. Raises ``BundleRefused``."""
        raise NotImplementedError

    def compile(self, stage: Any, context: Any) -> Run:
        """The stage as a function of the flow, in the context of ``pipeline.compiler``. Raises ``BadInput``."""
        raise NotImplementedError

    def measure(self, stage: Any, manifest: Any, artefact: str, shapes: Dict[str, Any], counts: Dict[str, int]) -> None:
        """Add the shape of what it makes to ``shapes``, or the number of values of an index to ``counts``."""


def same_shape(stage: Any, _manifest: Any, _artefact: str, shapes: Dict[str, Any], _counts: Dict[str, int]) -> None:
    """``Kind.measure`` of a stage that works on each value alone."""
    shapes[stage.output] = shapes[stage.input]


def from_input(stage: Any, function: Callable[[np.ndarray], Any]) -> Run:
    """A stage whose output is ``function`` of its input."""
    source, target = stage.input, stage.output

    def run(flow: Flow) -> None:
        flow[target] = function(flow[source])

    return run


def _checked_codes(codes: np.ndarray, count: int) -> np.ndarray:
    # A negative code would silently index from the end. Of one frame, a list is quicker than two reductions.
    if codes.dtype.kind not in "iu" or codes.ndim != 1 or not all(0 <= code < count for code in codes.tolist()):
        raise FrameDropped("code-range")
    return codes.astype(np.int64, copy=False)


def codes_of(context: Any) -> Callable[[np.ndarray, int], np.ndarray]:
    """How codes are brought below a count. Where a promise is made none is dropped: which one was would tell."""
    if not getattr(context, "promises", False):
        return _checked_codes
    return lambda codes, count: _checked_codes(np.minimum(codes, count - 1), count)
