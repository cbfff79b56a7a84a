"""Does what the stages say fit together, and is what leaves them perturbed?

The stages are walked once, in order. Every value that flows has a *kind*, and the kinds are where privacy is checked
before any model runs: nothing ``raw`` or merely rescaled (``unit``) may leave or reach an output stage, and neither may
``noise`` or ``steps``, with which a reader could undo what they did.

==========  =====================================================  ================================
kind        is made by                                             may go to
==========  =====================================================  ================================
raw         the input                                              preprocess
unit        preprocess                                             artefact, argmax
noise       draw uniform                                           artefact
steps       draw laplace                                           add
noisy       add                                                    artefact, argmax, output
model       artefact                                               artefact, argmax*, output, quantise; leaves as code
index       argmax, argmax_within, draw channel, hold              channel, row, group, hold; may leave as label or code
row         synthesis                                              artefact, argmax, output
frame       output                                                 may leave as frame
code        quantise                                               may leave as code
==========  =====================================================  ================================

Where the manifest holds a stream, what leaves must be *held* besides: made by a hold stage, or of what is and of noise.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from edgeveil.edge_runtime.formats.validate import (
    bounds,
    identifier,
    mapping,
    one_of,
    real,
    record,
    refuse,
    sequence,
    shape,
    show,
    whole,
)

DTYPES = ("uint8", "int8", "uint16", "int16", "int32", "int64", "float32", "float64")
MAX_STAGES = 64
LARGEST_SCALE = 2**40  # as edgeveil.edge_runtime.pipeline.random_draws has it
MOST_LEVELS = 2**20  # float32 holds every place on such a grid

_STAGES: Dict[str, Tuple[str, Tuple[str, ...]]] = {
    "preprocess": ("", ()),
    "artefact": ("", ()),
    "draw": ("distribution", ("uniform", "channel", "laplace")),
    "table": ("op", ("argmax", "argmax_within")),
    "hold": ("op", ("majority", "keep")),
    "synthesis": ("op", ("row",)),
    "add": ("", ()),
    "output": ("", ()),
    "quantise": ("", ()),
}  # and the key that picks one of several kinds of it

_KEYS = {
    "preprocess": ("stage", "input", "output", "low", "high"),
    "artefact": ("stage", "model", "inputs", "outputs"),
    "uniform": ("stage", "distribution", "output", "shape"),
    "channel": ("stage", "distribution", "input", "table", "output"),
    "laplace": ("stage", "distribution", "output", "shape", "numerator", "denominator"),
    "argmax": ("stage", "op", "input", "output"),
    "argmax_within": ("stage", "op", "input", "group", "groups", "output"),
    "majority": ("stage", "op", "input", "groups", "output"),
    "keep": ("stage", "op", "input", "by", "output"),
    "synthesis": ("stage", "op", "input", "table", "output"),
    "add": ("stage", "input", "noise", "levels", "output"),
    "output": ("stage", "input", "output", "low", "high", "dtype"),
    "quantise": ("stage", "input", "output", "scale", "dtype"),
}  # what each stage must have, and nothing else

# A value on its way: its kind as above, and its shape for one frame and dtype where they are known without a model.
Value = NamedTuple("Value", [("kind", str), ("shape", Optional[List[int]]), ("dtype", Optional[str])])


class Dataflow(object):
    """The values that are defined so far. ``walk`` goes through the stages, ``check_outputs`` looks at what leaves."""

    def __init__(self, manifest: Dict[str, Any]) -> None:
        source = manifest["input"]
        self._input = source
        stream = manifest["stream"]
        self._hold = None if stream is None else stream["hold"]  # "track", "period", or "frame": nothing is held
        self._held: Set[str] = set()
        self._models = manifest["models"]
        self._tables = manifest["tables"]
        self._values = {source["name"]: Value("raw", source["shape"], source["dtype"])}
        self.draws: List[str] = []  # what must be recorded beside the golden input
        self.used_models: Set[str] = set()
        self.used_tables: Set[str] = set()

    def walk(self, stages: Any) -> None:
        """Check every stage, in order. Raises ``BundleRefused``."""
        for number, stage in enumerate(sequence(stages, "stages", 1, MAX_STAGES)):
            at = "stages[{}]".format(number)
            variant = self._variant(stage, at)
            record(stage, at, _KEYS[variant])
            getattr(self, "_" + variant)(stage, at)
            if variant == "artefact":
                reads, writes = list(stage["inputs"].values()), list(stage["outputs"].values())
            else:
                reads, writes = [stage[key] for key in ("input", "group", "noise") if key in stage], [stage["output"]]
            # What is made of held values and of fresh noise alone tells no more than they do.
            if all(name in self._held for name in reads):
                self._held.update(writes)
        if self._hold in ("track", "period") and not any(stage["stage"] == "hold" for stage in stages):
            refuse("stream-mismatch", "stream", "it is to be held, and no stage holds anything")

    @staticmethod
    def _variant(stage: Any, at: str) -> str:
        """Which row of ``_KEYS`` a stage must look like: its name, a draw's distribution or a table's op."""
        if type(stage) is not dict:
            refuse("wrong-type", at, "expected an object, got {}".format(show(stage)))
        if "stage" not in stage:
            refuse("missing-key", at, "the key 'stage' is missing")
        kind = stage["stage"]
        if type(kind) is not str or kind not in _STAGES:
            refuse("unsupported-stage", at, "the stage {} is not known to this runtime".format(show(kind)))
        key, options = _STAGES[kind]
        if not key:
            return kind
        if key not in stage:
            refuse("missing-key", at, "the key '{}' is missing".format(key))
        if type(stage[key]) is not str or stage[key] not in options:
            refuse("unsupported-stage", at, "the {} {} is not known to this runtime".format(key, show(stage[key])))
        return stage[key] if kind in ("draw", "table", "hold") else kind

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

    def _table_of(self, stage: Dict[str, Any], at: str, rank: int, dtype: str) -> Dict[str, Any]:
        name = identifier(stage["table"], at + ".table")
        if name not in self._tables:
            refuse("unknown-table", at + ".table", "there is no table '{}'".format(name))
        table = self._tables[name]
        if len(table["shape"]) < rank or table["dtype"] != dtype:
            refuse("wrong-value", at + ".table", "expected {} of {} or more dimensions".format(dtype, rank))
        self.used_tables.add(name)
        return table

    def _check_range(self, stage: Dict[str, Any], at: str) -> None:
        bounds(stage, at, self._input["shape"][-1])
        for key in ("low", "high"):
            if stage[key] != self._input[key]:
                refuse("range-mismatch", "{}.{}".format(at, key), "it is not the '{}' of the input".format(key))

    def _preprocess(self, stage: Dict[str, Any], at: str) -> None:
        value = self._take(stage["input"], at + ".input", "raw")
        self._check_range(stage, at)
        self._make(stage["output"], at + ".output", Value("unit", value.shape, "float32"))

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

    def _uniform(self, stage: Dict[str, Any], at: str) -> None:
        shape(stage["shape"], at + ".shape")
        self._make(stage["output"], at + ".output", Value("noise", stage["shape"], "float32"))
        self.draws.append(stage["output"])

    def _laplace(self, stage: Dict[str, Any], at: str) -> None:
        shape(stage["shape"], at + ".shape")
        for key in ("numerator", "denominator"):
            whole(stage[key], "{}.{}".format(at, key), 1, LARGEST_SCALE)
        self._make(stage["output"], at + ".output", Value("steps", stage["shape"], "int64"))
        self.draws.append(stage["output"])

    def _add(self, stage: Dict[str, Any], at: str) -> None:
        value = self._take(stage["input"], at + ".input", "unit")
        noise = self._take(stage["noise"], at + ".noise", "steps")
        if noise.shape != value.shape:
            refuse("wrong-value", at + ".noise", "its shape {} is not {}".format(noise.shape, value.shape))
        if self._input["low"] is None:
            refuse("wrong-value", at, "an input without a range has no grid to add noise on")
        whole(stage["levels"], at + ".levels", 1, MOST_LEVELS)
        self._make(stage["output"], at + ".output", Value("noisy", value.shape, "float32"))

    def _channel(self, stage: Dict[str, Any], at: str) -> None:
        self._take(stage["input"], at + ".input", "index")
        table = self._table_of(stage, at, 2, "uint32")
        if len(table["shape"]) != 2:
            refuse("wrong-value", at + ".table", "expected two dimensions, got {}".format(len(table["shape"])))
        self._make(stage["output"], at + ".output", Value("index", [], "int64"))
        self.draws.append(stage["output"])

    def _argmax(self, stage: Dict[str, Any], at: str) -> None:
        self._take(stage["input"], at + ".input", "unit model row noisy")
        self._make(stage["output"], at + ".output", Value("index", [], "int64"))

    def _argmax_within(self, stage: Dict[str, Any], at: str) -> None:
        value = self._take(stage["input"], at + ".input", "unit model row noisy")
        self._take(stage["group"], at + ".group", "index")
        groups = whole(stage["groups"], at + ".groups", 1, 2**16)
        count = 1
        for size in value.shape or [groups]:
            count *= size
        if count % groups:
            refuse("wrong-value", at + ".groups", "{} values do not make {} equal groups".format(count, groups))
        self._make(stage["output"], at + ".output", Value("index", [], "int64"))

    def _majority(self, stage: Dict[str, Any], at: str) -> None:
        if self._hold != "track":
            refuse("stream-mismatch", at, "a majority is of a track, and the stream is not held by track")
        self._take(stage["input"], at + ".input", "index")
        whole(stage["groups"], at + ".groups", 1, 2**16)
        self._make(stage["output"], at + ".output", Value("index", [], "int64"))
        self._held.add(stage["output"])

    def _keep(self, stage: Dict[str, Any], at: str) -> None:
        if self._hold not in ("track", "period"):
            refuse("stream-mismatch", at, "nothing can be kept: the stream is held neither by track nor by period")
        self._take(stage["input"], at + ".input", "index")
        self._take(stage["by"], at + ".by", "index")
        if self._hold == "period":
            self._held.add(stage["by"])  # a period keeps one value for each class; the class is that of the frame
        elif stage["by"] not in self._held:
            refuse("unheld", at + ".by", "'{}' changes with every frame, and with it what is kept".format(stage["by"]))
        self._make(stage["output"], at + ".output", Value("index", [], "int64"))
        self._held.add(stage["output"])

    def _synthesis(self, stage: Dict[str, Any], at: str) -> None:
        self._take(stage["input"], at + ".input", "index")
        table = self._table_of(stage, at, 2, "float32")
        self._make(stage["output"], at + ".output", Value("row", table["shape"][1:], "float32"))

    def _output(self, stage: Dict[str, Any], at: str) -> None:
        value = self._take(stage["input"], at + ".input", "model row noisy")
        self._check_range(stage, at)
        dtype = one_of(stage["dtype"], at + ".dtype", DTYPES)
        if dtype != self._input["dtype"]:
            refuse("output-mismatch", at + ".dtype", "a frame leaves as it came, as {}".format(self._input["dtype"]))
        if value.shape not in (None, self._input["shape"]):
            refuse("output-mismatch", at + ".input", "its shape {} is not that of the input".format(value.shape))
        self._make(stage["output"], at + ".output", Value("frame", self._input["shape"], dtype))

    def _quantise(self, stage: Dict[str, Any], at: str) -> None:
        value = self._take(stage["input"], at + ".input", "model")
        if real(stage["scale"], at + ".scale", 0) == 0:
            refuse("bad-value", at + ".scale", "expected more than 0")
        dtype = one_of(stage["dtype"], at + ".dtype", ("int8", "int16"))
        self._make(stage["output"], at + ".output", Value("code", value.shape, dtype))

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
            may_leave = {"frame": "frame", "label": "index", "code": "index model code"}[kind]
            value = self._take(output["tensor"], at + ".tensor", may_leave)
            if self._hold in ("track", "period") and output["tensor"] not in self._held:
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
        """A receiver has x~ = [code, 1] times this table: a row for each place of the code, and one for the 1."""
        table = self._table_of({"table": output["decoder"]}, at, 2, "float32")
        if value.kind != "code" or len(output["shape"]) != 1 or table["shape"][:-1] != [output["shape"][0] + 1]:
            refuse("output-mismatch", at + ".decoder", "it decodes a quantised code (r,) by a table (r + 1, features)")
