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

from typing import Any, Dict, List, NamedTuple, Optional, Set

from edgeveil.edge_runtime.device import forms
from edgeveil.edge_runtime.gone import GONE
from edgeveil.edge_runtime.manifest.count import DRAWS, LARGEST_SCALE, MECHANISMS, MOST_STEPS, check_draw
from edgeveil.edge_runtime.util.validate import (
    bounds,
    identifier,
    mapping,
    one_of,
    positive,
    record,
    refuse,
    sequence,
    sha256,
    shape,
    show,
    text,
    whole,
)

DTYPES = ("uint8", "int8", "uint16", "int16", "int32", "int64", "float32", "float64")
MAX_STAGES = 64
HELD = ("track", "period", "bout")

_PLAIN = ("preprocess", "artefact", "add", "output", "quantise")
_CHOICES = {
    "draw": ("distribution", ("uniform", "channel", "laplace", *DRAWS)),
    "mechanism": ("op", tuple(MECHANISMS)),
    "table": ("op", ("argmax", "argmax_within")),
    "hold": ("op", ("majority", "keep", "first")),
    "synthesis": ("op", ("row",)),
}  # stages of several kinds, and the key that picks one

_KEYS = {
    "preprocess": ("stage", "input", "output", "low", "high"),
    "artefact": ("stage", "model", "inputs", "outputs"),
    "uniform": ("stage", "distribution", "output", "shape"),
    "channel": ("stage", "distribution", "input", "table", "output"),
    "laplace": ("stage", "distribution", "output", "shape", "numerator", "denominator"),
    **DRAWS,
    "argmax": ("stage", "op", "input", "output"),
    "argmax_within": ("stage", "op", "input", "group", "groups", "output"),
    "majority": ("stage", "op", "input", "groups", "output"),
    "keep": ("stage", "op", "input", "by", "output"),
    "first": ("stage", "op", "input", "output"),
    "row": ("stage", "op", "input", "table", "output"),
    "add": ("stage", "input", "noise", "levels", "output"),
    "output": ("stage", "input", "output", "low", "high", "dtype"),
    "quantise": ("stage", "input", "output", "scale", "dtype"),
}  # what each stage must have, and nothing else


class Value(NamedTuple):
    """Its kind as above, and its shape for one frame and its dtype where they are known without a model."""

    kind: str
    shape: Optional[List[int]]
    dtype: Optional[str]


_INDEX = Value("index", [], "int64")


class Dataflow(object):
    """The values that are defined so far. ``walk`` checks the stages, then ``check_outputs`` the outputs."""

    def __init__(self, manifest: Dict[str, Any]) -> None:
        source = manifest["input"]
        self._input = source
        stream = manifest["stream"]
        self._hold = None if stream is None else stream["hold"]  # see HELD; or "frame": nothing is held
        self._held: Set[str] = set()
        self._models = manifest["models"]
        self._tables = manifest["tables"]
        self._values = {source["name"]: Value("raw", source["shape"], source["dtype"])}
        self._drawn: Dict[str, Dict[str, Any]] = {}  # draw stages of lots and steps, until a mechanism uses them up
        self.draws: List[str] = []  # what must be recorded with the golden input
        self.used_models: Set[str] = set()
        self.used_tables: Set[str] = set()

    def walk(self, stages: Any) -> None:
        """Check every stage, in order. Raises ``BundleRefused``."""
        for number, stage in enumerate(sequence(stages, "stages", 1, MAX_STAGES)):
            at = "stages[{}]".format(number)
            variant = self._variant(stage, at)
            record(stage, at, MECHANISMS[stage["op"]].keys if variant == "mechanism" else _KEYS[variant])
            value = getattr(self, "_" + variant)(stage, at)
            if variant == "artefact":
                reads, writes = list(stage["inputs"].values()), list(stage["outputs"].values())
            else:
                self._make(stage["output"], at + ".output", value)
                reads, writes = [stage[key] for key in ("input", "group", "noise") if key in stage], [stage["output"]]
                if variant == "mechanism":
                    reads = [stage["input"], *stage["noise"]]
            if stage["stage"] == "draw":
                self.draws.append(stage["output"])
                self._drawn[stage["output"]] = stage
            # What is made from held values and fresh noise alone tells no more than they do.
            if stage["stage"] == "hold" or all(name in self._held for name in reads):
                self._held.update(writes)
        if self._hold in HELD and not any(stage["stage"] == "hold" for stage in stages):
            refuse("stream-mismatch", "stream", "no stage holds anything")

    @staticmethod
    def _variant(stage: Any, at: str) -> str:
        """The row of ``_KEYS`` for a stage: its name, or what its distribution or op is."""
        if type(stage) is not dict:
            refuse("wrong-type", at, "expected an object, got {}".format(show(stage)))
        if "stage" not in stage:
            refuse("missing-key", at, "the key 'stage' is missing")
        kind = stage["stage"]
        if type(kind) is not str or kind not in _PLAIN + tuple(_CHOICES):
            problem = GONE.get("stage {}".format(kind), "the stage {} is not known to this runtime".format(show(kind)))
            refuse("unsupported-stage", at, problem)
        if kind in _PLAIN:
            return kind
        key, options = _CHOICES[kind]
        if key not in stage:
            refuse("missing-key", at, "the key '{}' is missing".format(key))
        if type(stage[key]) is not str or stage[key] not in options:
            refuse("unsupported-stage", at, "the {} {} is not known to this runtime".format(key, show(stage[key])))
        return "mechanism" if kind == "mechanism" else stage[key]

    def _take(self, name: Any, at: str, kinds: str) -> Value:
        identifier(name, at)
        if name not in self._values:
            refuse("undefined-value", at, "no stage before this one makes '{}'".format(name))
        value = self._values[name]
        if value.kind not in kinds.split():
            reason = "raw-passthrough" if value.kind in ("raw", "unit") else "wrong-value"
            refuse(reason, at, "'{}' is of kind {}, and only {} may come here".format(name, value.kind, kinds))
        return value

    def _make(self, name: Any, at: str, value: Value) -> None:
        identifier(name, at)
        if name in self._values:
            refuse("redefined-value", at, "'{}' is made twice".format(name))
        self._values[name] = value

    def _table_of(self, name: Any, at: str, *dtypes: str) -> Dict[str, Any]:
        identifier(name, at)
        if name not in self._tables:
            refuse("unknown-table", at, "there is no table '{}'".format(name))
        table = self._tables[name]
        if len(table["shape"]) < 2 or table["dtype"] not in dtypes:
            refuse("wrong-value", at, "expected {} of 2 or more dimensions".format(" or ".join(sorted(set(dtypes)))))
        self.used_tables.add(name)
        return table

    def _check_range(self, stage: Dict[str, Any], at: str) -> None:
        bounds(stage, at, self._input["shape"][-1])
        for key in ("low", "high"):
            if stage[key] != self._input[key]:
                refuse("range-mismatch", "{}.{}".format(at, key), "it is not the '{}' of the input".format(key))

    def _preprocess(self, stage: Dict[str, Any], at: str) -> Value:
        value = self._take(stage["input"], at + ".input", "raw")
        self._check_range(stage, at)
        return Value("unit", value.shape, "float32")

    def _artefact(self, stage: Dict[str, Any], at: str) -> None:
        model = identifier(stage["model"], at + ".model")
        if model not in self._models:
            refuse("unknown-model", at + ".model", "there is no model '{}'".format(model))
        self.used_models.add(model)
        ends = {}
        for end in ("inputs", "outputs"):
            ends[end] = mapping(stage[end], "{}.{}".format(at, end), 1)
        for tensor, name in ends["inputs"].items():
            self._take(name, "{}.inputs.{}".format(at, tensor), "unit noise model row noisy")
        for tensor, name in ends["outputs"].items():
            self._make(name, "{}.outputs.{}".format(at, tensor), Value("model", None, None))
        for variant, artefact in self._models[model]["artefacts"].items():
            for end, tensors in ends.items():
                has = {tensor["name"] for tensor in artefact[end]}
                if has != set(tensors):
                    problem = "its tensors are not those of '{}' of the model '{}'".format(variant, model)
                    refuse("tensor-mismatch", "{}.{}".format(at, end), problem)

    def _uniform(self, stage: Dict[str, Any], at: str) -> Value:
        shape(stage["shape"], at + ".shape")
        return Value("noise", stage["shape"], "float32")

    def _laplace(self, stage: Dict[str, Any], at: str) -> Value:
        shape(stage["shape"], at + ".shape")
        for key in ("numerator", "denominator"):
            whole(stage[key], "{}.{}".format(at, key), 1, LARGEST_SCALE)
        return Value("steps", stage["shape"], "int64")

    def _lots(self, stage: Dict[str, Any], at: str) -> Value:
        return Value("lots", *check_draw(stage, at))

    _words = _coin = _integer = _subset = _lots

    def _mechanism(self, stage: Dict[str, Any], at: str) -> Value:
        rules = MECHANISMS[stage["op"]]
        value = self._take(stage["input"], at + ".input", rules.takes)
        if value.kind == "unit" and self._input["low"] is None:
            refuse("wrong-value", at, "an input without a range has no bounds to keep a promise within")
        kinds = "steps" if stage["op"] == "laplace" else "lots"
        noise = []
        for number, name in enumerate(sequence(stage["noise"], at + ".noise", 1)):
            place = "{}.noise[{}]".format(at, number)
            self._take(name, place, kinds)
            if name not in self._drawn:
                refuse("reused-noise", place, "'{}' is used already, and noise hides nothing twice".format(name))
            noise.append(self._drawn.pop(name))
        return Value("report", *rules.check(stage, at, value.shape, noise))

    def _add(self, stage: Dict[str, Any], at: str) -> Value:
        value = self._take(stage["input"], at + ".input", "unit")
        noise = self._take(stage["noise"], at + ".noise", "steps")
        if noise.shape != value.shape:
            refuse("wrong-value", at + ".noise", "its shape {} is not {}".format(noise.shape, value.shape))
        if self._input["low"] is None:
            refuse("wrong-value", at, "an input without a range has no grid to add noise on")
        whole(stage["levels"], at + ".levels", 1, MOST_STEPS)
        return Value("noisy", value.shape, "float32")

    def _channel(self, stage: Dict[str, Any], at: str) -> Value:
        self._take(stage["input"], at + ".input", "index")
        table = self._table_of(stage["table"], at + ".table", "uint32")
        if len(table["shape"]) != 2:
            refuse("wrong-value", at + ".table", "expected two dimensions, got {}".format(len(table["shape"])))
        return _INDEX

    def _argmax(self, stage: Dict[str, Any], at: str) -> Value:
        self._take(stage["input"], at + ".input", "unit model row noisy")
        return _INDEX

    def _argmax_within(self, stage: Dict[str, Any], at: str) -> Value:
        value = self._take(stage["input"], at + ".input", "unit model row noisy")
        self._take(stage["group"], at + ".group", "index")
        groups = whole(stage["groups"], at + ".groups", 1, 2**16)
        count = 1
        for size in value.shape or [groups]:
            count *= size
        if count % groups:
            refuse("wrong-value", at + ".groups", "{} values do not make {} equal groups".format(count, groups))
        return _INDEX

    def _majority(self, stage: Dict[str, Any], at: str) -> Value:
        if self._hold != "track":
            refuse("stream-mismatch", at, "a majority needs a stream that is held by track")
        self._take(stage["input"], at + ".input", "index")
        whole(stage["groups"], at + ".groups", 1, 2**16)
        return _INDEX

    def _keep(self, stage: Dict[str, Any], at: str) -> Value:
        if self._hold not in HELD:
            refuse("stream-mismatch", at, "expected a stream that is held by track, by period or by bout")
        self._take(stage["input"], at + ".input", "index")
        self._take(stage["by"], at + ".by", "index")
        if self._hold in ("period", "bout"):
            self._held.add(stage["by"])  # they keep one value for each class; the class is that of the frame
        elif stage["by"] not in self._held:
            refuse("unheld", at + ".by", "'{}' changes with every frame, and with it what is kept".format(stage["by"]))
        return _INDEX

    def _first(self, stage: Dict[str, Any], at: str) -> Value:
        if self._hold not in ("track", "period"):
            refuse("stream-mismatch", at, "expected a stream that is held by track or by period")
        return self._take(stage["input"], at + ".input", "index report")

    def _row(self, stage: Dict[str, Any], at: str) -> Value:
        self._take(stage["input"], at + ".input", "index")
        table = self._table_of(stage["table"], at + ".table", "float32", self._input["dtype"])
        if table["dtype"] == "float32":
            return Value("row", table["shape"][1:], "float32")
        if table["shape"][1:] != self._input["shape"]:
            refuse("output-mismatch", at + ".table", "its rows do not have the shape of the input")
        return Value("frame", self._input["shape"], self._input["dtype"])

    def _output(self, stage: Dict[str, Any], at: str) -> Value:
        value = self._take(stage["input"], at + ".input", "model row noisy")
        self._check_range(stage, at)
        dtype = one_of(stage["dtype"], at + ".dtype", DTYPES)
        if dtype != self._input["dtype"]:
            refuse("output-mismatch", at + ".dtype", "expected the dtype of the input, {}".format(self._input["dtype"]))
        if value.shape not in (None, self._input["shape"]):
            refuse("output-mismatch", at + ".input", "its shape {} is not that of the input".format(value.shape))
        return Value("frame", self._input["shape"], dtype)

    def _quantise(self, stage: Dict[str, Any], at: str) -> Value:
        value = self._take(stage["input"], at + ".input", "model")
        positive(stage["scale"], at + ".scale")
        dtype = one_of(stage["dtype"], at + ".dtype", ("int8", "int16"))
        return Value("code", value.shape, dtype)

    def check_outputs(self, outputs: Any) -> List[str]:
        """The names of the outputs, in order; the first is the main one."""
        names: List[str] = []
        for number, output in enumerate(sequence(outputs, "outputs", 1)):
            at = "outputs[{}]".format(number)
            decoded = type(output) is dict and "decoder" in output
            record(output, at, ("name", "kind", "tensor", "shape", "dtype") + (("decoder",) if decoded else ()))
            name = identifier(output["name"], at + ".name")
            kind = one_of(output["kind"], at + ".kind", ("frame", "label", "code"))
            if name in names:
                refuse("redefined-value", at + ".name", "two outputs are called '{}'".format(name))
            if (name == "frame") != (kind == "frame"):
                refuse("output-mismatch", at, "the one output of kind frame, and no other, is called 'frame'")
            names.append(name)
            may_leave = {"frame": "frame", "label": "index", "code": "index model code report"}[kind]
            value = self._take(output["tensor"], at + ".tensor", may_leave)
            if self._hold in HELD and output["tensor"] not in self._held:
                refuse("unheld", at + ".tensor", "'{}' changes with every frame of the stream".format(output["tensor"]))
            shape(output["shape"], at + ".shape", 0)
            one_of(output["dtype"], at + ".dtype", DTYPES)
            for key, known in (("shape", value.shape), ("dtype", value.dtype)):
                if known is not None and output[key] != known:
                    refuse("output-mismatch", "{}.{}".format(at, key), "it should be {}".format(show(known)))
            if decoded:
                self._decoder(output, value, at)
        return names

    def _decoder(self, output: Dict[str, Any], value: Value, at: str) -> None:
        """How a receiver makes a sample of what it gets.

        Of a quantised code or a report (r,), x~ = [code, 1] times this table: a row for each place, and one for the 1.
        Of an index, one of its samples in this table (indices, samples of each, ...), drawn evenly.
        """
        if value.kind == "index":
            table = self._table_of(output["decoder"], at + ".decoder", self._input["dtype"])
            if table["shape"][2:] != self._input["shape"]:
                refuse("output-mismatch", at + ".decoder", "expected (indices, samples of each, shape of the input)")
            return
        table = self._table_of(output["decoder"], at + ".decoder", "float32")
        if (
            value.kind not in ("code", "report")
            or len(output["shape"]) != 1
            or table["shape"][:-1] != [output["shape"][0] + 1]
        ):
            refuse("output-mismatch", at + ".decoder", "it decodes a code (r,) by a table (r + 1, features)")


# Artefacts that a vendor's compiler made from another one: what a manifest must say about them.
#
# ``compiled`` of an artefact ``tflite-int8-edgetpu`` has the device it was compiled ``for``, the variant of the same
# model it was made ``from``, the ``sha256`` of that variant's file, and the compiler (``by``). No interpreter here can
# run such a file. Its device tests it against the golden outputs of the variant it was made from, at the same
# tolerance, unless the compiler quantised it anew: then both are its own.


KEY = "compiled"
_TENSOR = ("name", "shape", "dtype", "scale", "zero_point")


def check_compiled(artefacts: Dict[str, Any], at: str) -> None:
    """Raise ``BundleRefused`` unless every compiled variant of a model matches the variant it was made from."""
    for variant, artefact in artefacts.items():
        place = "{}.{}.{}".format(at, variant, KEY)
        ending = variant.rpartition("-")[2]
        if KEY not in artefact:
            if ending in forms():
                refuse("missing-key", place, "a variant with this name must say what it was compiled from")
            continue
        facts = record(artefact[KEY], place, ("for", "from", "sha256", "by"))
        device = one_of(facts["for"], place + ".for", sorted(forms()))
        form = forms()[device]
        if (artefact["format"], artefact["precision"]) != form.made:
            refuse("artefact-mismatch", place + ".for", "{} runs only {}-{}".format(device, *form.made))
        source = identifier(facts["from"], place + ".from")
        if variant != "{}-{}".format(source, device):
            refuse("artefact-mismatch", place, "expected the name {}-{}".format(show(source), device))
        text(facts["by"], place + ".by")
        if KEY in artefacts.get(source, {KEY: None}):
            refuse("unknown-artefact", place + ".from", "the model has no such variant to compile")
        if (artefacts[source]["format"], artefacts[source]["precision"]) != form.source:
            refuse("artefact-mismatch", place + ".from", "{} is compiled from {}-{}".format(device, *form.source))
        if sha256(facts["sha256"], place + ".sha256") != artefacts[source]["sha256"]:
            refuse("artefact-hash", place + ".sha256", "it was compiled from another file of {}".format(source))
        if not form.requantised and artefact["tolerance"] != artefacts[source]["tolerance"]:
            refuse("artefact-mismatch", place, "its tolerance must be that of {}".format(source))
        for end in ("inputs", "outputs"):
            theirs, ours = ([[one[key] for key in _TENSOR] for one in a[end]] for a in (artefacts[source], artefact))
            if ours != theirs:
                refuse("artefact-mismatch", "{}.{}".format(place, end), "expected those of {}".format(source))
