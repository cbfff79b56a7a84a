"""Checks that the stages fit together, and that every output is perturbed.

The stages are checked once, in order. Every value has a *kind*, and the kinds enforce privacy before any model runs:
nothing ``raw`` or merely rescaled (``unit``) may leave or reach an output stage, and neither may ``noise`` or
``steps``, with which a receiver could undo the perturbation. ``lots`` are used up: each goes to one mechanism alone.

==========  =====================================================  ================================
kind        is made by                                             may go to
==========  =====================================================  ================================
raw         the input                                              preprocess
unit        preprocess                                             artefact, argmax, mechanism
noise       draw uniform                                           artefact
steps       draw laplace                                           add, mechanism laplace
lots        draw words, coin, integer, subset                      mechanism
report      mechanism, hold first                                  hold first, rappor-again; may leave as code
noisy       add                                                    artefact, argmax, output
model       artefact                                               artefact, argmax*, output, quantise; leaves as code
index       argmax, argmax_within, draw channel, hold              channel, row, group, hold, mechanism;
                                                                   may leave as label or code
row         synthesis                                              artefact, argmax, output
frame       output, synthesis of whole samples                     may leave as frame
code        quantise                                               may leave as code
==========  =====================================================  ================================

Where the manifest holds a stream, every output must also be *held*: made by a hold stage or from held values and
noise.
"""

from typing import Any, Dict, Iterable, List, Set

from edgeveil.edge_runtime.device import forms
from edgeveil.edge_runtime.errors import GONE
from edgeveil.edge_runtime.stages import STAGES, choices, reads_and_writes
from edgeveil.edge_runtime.stages.base import DTYPES, HOLDS, Value
from edgeveil.edge_runtime.util import validate as field
from edgeveil.edge_runtime.util.validate import Problem, Table

MAX_STAGES = 64
_LEAVES = {"frame": "frame", "label": "index", "code": "index model code report"}
_OUTPUT: Table = {
    "name": field.identifier(),
    "kind": field.one_of(_LEAVES),
    "tensor": field.identifier(),
    "shape": field.shape(0),
    "dtype": field.one_of(DTYPES),
    "decoder?": field.identifier(),
}


class Dataflow(object):
    """The values that are defined so far. ``walk`` checks the stages, then ``check_outputs`` the outputs."""

    def __init__(self, manifest: Dict[str, Any]) -> None:
        source = manifest["input"]
        self.input, self._manifest = source, manifest
        stream = manifest["stream"]
        self.hold = None if stream is None else stream["hold"]  # see HOLDS; or "frame": nothing is held
        self.limited = stream is not None and "draws" in stream
        self.held: Set[str] = set()
        self.models = manifest["models"]
        self._tables = manifest["tables"]
        self._values = {source["name"]: Value("raw", source["shape"], source["dtype"])}
        self._drawn: Dict[str, Dict[str, Any]] = {}  # draw stages of lots and steps, until a mechanism uses them up
        self.draws: List[str] = []  # what must be recorded with the golden input
        self.used_models: Set[str] = set()
        self.used_tables: Set[str] = set()
        self.outputs: List[str] = []  # their names, in order; the first is the main one

    def walk(self) -> None:
        """Check every stage, in order. Raises ``BundleRefused``."""
        holds, stages = False, self._manifest["stages"]
        field.check(stages, "stages", field.each(field.ANY, 1, MAX_STAGES), self._manifest)
        for number, stage in enumerate(stages):
            at = "stages[{}]".format(number)
            kind = self._kind(stage, at)
            field.check(stage, at, field.record(kind.table(), rule=kind.rule), self._manifest)
            value = kind.check(stage, at, self)
            if value is not None:
                self.add(stage["output"], at + ".output", value)
            reads, writes = reads_and_writes(stage)
            if stage["stage"] == "draw":
                self.draws.append(stage["output"])
                self._drawn[stage["output"]] = stage
            # What is made from held values and fresh noise alone tells no more than they do.
            if kind.held or all(name in self.held for name in reads):
                self.held.update(writes)
            holds = holds or kind.held
        if self.hold in HOLDS and not holds:
            field.refuse("stream-mismatch", "stream", "no stage holds anything")

    @staticmethod
    def _kind(stage: Any, at: str) -> Any:
        """The kind of a stage."""
        if type(stage) is not dict:
            field.refuse("wrong-type", at, "expected an object, got {}".format(field.show(stage)))
        if "stage" not in stage:
            field.refuse("missing-key", at, "the key 'stage' is missing")
        name, known = stage["stage"], choices()
        if type(name) is not str or name not in known:
            problem = GONE.get(
                "stage {}".format(name), "the stage {} is not known to this runtime".format(field.show(name))
            )
            field.refuse("unsupported-stage", at, problem)
        key = known[name]
        if key and key not in stage:
            field.refuse("missing-key", at, "the key '{}' is missing".format(key))
        kind = STAGES.find("{} {}".format(name, stage[key]) if key else name)
        if kind is None or (key and type(stage[key]) is not str):
            field.refuse(
                "unsupported-stage", at, "the {} {} is not known to this runtime".format(key, field.show(stage[key]))
            )
        return kind.load()()

    def use(self, name: str, at: str, kinds: str) -> Dict[str, Any]:
        """The draw stage of ``name``, of one of ``kinds``, which no other mechanism has. Raises ``BundleRefused``."""
        self.take(name, at, kinds)
        if name not in self._drawn:
            field.refuse("reused-noise", at, "'{}' is used already, and noise hides nothing twice".format(name))
        return self._drawn.pop(name)

    def take(self, name: str, at: str, kinds: str) -> Value:
        """The value ``name``, of one of ``kinds``. Raises ``BundleRefused``."""
        if name not in self._values:
            field.refuse("undefined-value", at, "no stage before this one makes '{}'".format(name))
        value = self._values[name]
        if value.kind not in kinds.split():
            reason = "raw-passthrough" if value.kind in ("raw", "unit") else "wrong-value"
            field.refuse(reason, at, "'{}' is of kind {}, and only {} may come here".format(name, value.kind, kinds))
        return value

    def add(self, name: str, at: str, value: Value) -> None:
        """A value that a stage makes. Raises ``BundleRefused``."""
        if name in self._values:
            field.refuse("redefined-value", at, "'{}' is made twice".format(name))
        self._values[name] = value

    def table(self, name: str, at: str, *dtypes: str) -> Dict[str, Any]:
        """The entry of a table of such a dtype, which is used then. Raises ``BundleRefused``."""
        if name not in self._tables:
            field.refuse("unknown-table", at, "there is no table '{}'".format(name))
        table = self._tables[name]
        if len(table["shape"]) < 2 or table["dtype"] not in dtypes:
            field.refuse(
                "wrong-value", at, "expected {} of 2 or more dimensions".format(" or ".join(sorted(set(dtypes))))
            )
        self.used_tables.add(name)
        return table

    def check_range(self, stage: Dict[str, Any], at: str) -> None:
        """The range of a stage is that of the input. Raises ``BundleRefused``."""
        for key in ("low", "high"):
            if stage[key] != self.input[key]:
                field.refuse("range-mismatch", "{}.{}".format(at, key), "it is not the '{}' of the input".format(key))

    def check_outputs(self) -> None:
        """Check every output. Raises ``BundleRefused``."""
        outputs = self._manifest["outputs"]
        field.check(outputs, "outputs", field.each(field.record(_OUTPUT), 1), self._manifest)
        for number, output in enumerate(outputs):
            at, name, tensor = "outputs[{}]".format(number), output["name"], output["tensor"]
            if name in self.outputs:
                field.refuse("redefined-value", at + ".name", "two outputs are called '{}'".format(name))
            if (name == "frame") != (output["kind"] == "frame"):
                field.refuse("output-mismatch", at, "the one output of kind frame, and no other, is called 'frame'")
            self.outputs.append(name)
            value = self.take(tensor, at + ".tensor", _LEAVES[output["kind"]])
            if self.hold in HOLDS and tensor not in self.held:
                field.refuse("unheld", at + ".tensor", "'{}' changes with every frame of the stream".format(tensor))
            for key, known in (("shape", value.shape), ("dtype", value.dtype)):
                if known is not None and output[key] != known:
                    field.refuse(
                        "output-mismatch", "{}.{}".format(at, key), "it should be {}".format(field.show(known))
                    )
            if "decoder" in output:
                self._decoder(output, value, at)

    def _decoder(self, output: Dict[str, Any], value: Value, at: str) -> None:
        """How a receiver makes a sample of what it gets.

        Of a quantised code or a report (r,), x~ = [code, 1] times this table: a row for each place, and one for the 1.
        Of an index, one of its samples in this table (indices, samples of each, ...), drawn evenly.
        """
        if value.kind == "index":
            table = self.table(output["decoder"], at + ".decoder", self.input["dtype"])
            if table["shape"][2:] != self.input["shape"]:
                field.refuse(
                    "output-mismatch", at + ".decoder", "expected (indices, samples of each, shape of the input)"
                )
            return
        table = self.table(output["decoder"], at + ".decoder", "float32")
        if (
            value.kind not in ("code", "report")
            or len(output["shape"]) != 1
            or table["shape"][:-1] != [output["shape"][0] + 1]
        ):
            field.refuse("output-mismatch", at + ".decoder", "it decodes a code (r,) by a table (r + 1, features)")


# Artefacts that a vendor's compiler made from another one: what a manifest must say about them.
#
# ``compiled`` of an artefact ``tflite-int8-edgetpu`` has the device it was compiled ``for``, the variant of the same
# model it was made ``from``, the ``sha256`` of that variant's file, and the compiler (``by``). No interpreter here can
# run such a file. Its device tests it against the golden outputs of the variant it was made from, at the same
# tolerance, unless the compiler quantised it anew: then both are its own.


KEY = "compiled"
COMPILED: Table = {
    "for": lambda *_: field.one_of(sorted(forms())),
    "from": field.identifier(),
    "by": field.text(),
    "sha256": field.sha256(),
}
_TENSOR = ("name", "shape", "dtype", "scale", "zero_point")


def compiled_problems(artefacts: Dict[str, Any]) -> Iterable[Problem]:
    """Where a compiled variant of a model does not match the variant it was made from."""
    for variant, artefact in artefacts.items():
        place = "{}.{}".format(variant, KEY)
        if KEY not in artefact:
            if variant.rpartition("-")[2] in forms():
                yield "missing-key", place, "a variant with this name must say what it was compiled from"
            continue
        facts = artefact[KEY]
        device, source = facts["for"], facts["from"]
        form = forms()[device]
        if (artefact["format"], artefact["precision"]) != form.made:
            yield "artefact-mismatch", place + ".for", "{} runs only {}-{}".format(device, *form.made)
        if variant != "{}-{}".format(source, device):
            yield "artefact-mismatch", place, "expected the name {}-{}".format(field.show(source), device)
        if KEY in artefacts.get(source, {KEY: None}):
            yield "unknown-artefact", place + ".from", "the model has no such variant to compile"
        made_of = artefacts[source]
        if (made_of["format"], made_of["precision"]) != form.source:
            yield "artefact-mismatch", place + ".from", "{} is compiled from {}-{}".format(device, *form.source)
        if facts["sha256"] != made_of["sha256"]:
            yield "artefact-hash", place + ".sha256", "it was compiled from another file of {}".format(source)
        if not form.requantised and artefact["tolerance"] != made_of["tolerance"]:
            yield "artefact-mismatch", place, "its tolerance must be that of {}".format(source)
        for end in ("inputs", "outputs"):
            theirs, ours = ([[one[key] for key in _TENSOR] for one in a[end]] for a in (made_of, artefact))
            if ours != theirs:
                yield "artefact-mismatch", "{}.{}".format(place, end), "expected those of {}".format(source)
