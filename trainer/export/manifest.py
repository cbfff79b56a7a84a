"""The manifest of an export folder and the members it names, checked by the edge runtime."""

from __future__ import annotations

import importlib.metadata
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices.profiles import OnnxLimits, Profile, TfliteLimits
from edgeveil.edge_runtime.backends import open_backend
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, FrameDropped
from edgeveil.edge_runtime.manifest.model_lint import check
from edgeveil.edge_runtime.manifest.schema import NO_MODEL, check_manifest
from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline
from edgeveil.edge_runtime.pipeline.reconstruction import self_test
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.export import artefact as variants
from edgeveil.trainer.export.artefact import Artefact, artefact_entry, network_macs
from edgeveil.trainer.export.golden import Golden
from edgeveil.trainer.graphs.cost import most_held
from edgeveil.trainer.graphs.files import read
from edgeveil.trainer.graphs.macs import Graph, Op, Tensor
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.recipe.training_sections import CountedBy
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.run import Run, package_versions

# The lint: whether a board can run a file, read from the file itself.
#
# A converter gives no error when it falls back to float, when it picks a newer version of an operation than the board
# has, or when it quantises in a way that an old interpreter reads wrongly. The lint does: each finding names the rule,
# the operation, the tensor and the cure, and any finding refuses the export. What no model may do, wherever it comes
# from, is held by ``edge_runtime.manifest.model_lint``.


ENDS = {"int8": "int8", "int16x8": "int16"}  # of a quantised file: the type of what comes in and goes out


@dataclass(frozen=True)
class Finding:
    """A part of a file that a board cannot run, or would run wrongly."""

    rule: str
    problem: str
    cure: str
    op: Op | None = None
    tensor: Tensor | None = None  # the operation's first output where it is left out

    def text(self) -> str:
        """One line, for a terminal."""
        outputs = self.op.outputs[:1] if self.op else ()
        tensors = outputs if self.tensor is None else (self.tensor,)
        where = [f"operation {self.op.name}"] if self.op else []
        where += [f"tensor {tensor.name!r}" for tensor in tensors]
        return f"{': '.join([self.rule, *filter(None, [', '.join(where)]), self.problem])}. Cure: {self.cure}."


def lint(graph: Graph, precision: str, profile: Profile | None = None, kept: Sequence[str] = ()) -> list[Finding]:
    """The findings about an artefact of that precision (``"int8"``), for every board and then for that one.

    ``kept`` names operations (``CONV_2D-3``) that may be float in it: as many of their kinds.
    """
    findings = _fixed_sizes(graph)
    if graph.format == "tflite":
        findings += _one_scale_per_dense(graph)
    if precision in ENDS:
        tflite = graph.format == "tflite"
        findings += _no_float_in_tflite(graph, ENDS[precision], kept) if tflite else _no_float_in_onnx(graph, kept)
    if profile is None or graph.format == "numpy":
        return findings
    findings += _memory(graph, profile)
    limits = profile.limits(f"{graph.format}-{precision}")
    if isinstance(limits, TfliteLimits):
        findings += _tflite_limits(graph, limits, profile.name)
    if isinstance(limits, OnnxLimits):
        findings += _onnx_limits(graph, limits, profile.name)
    return findings


def refuse(failures: Sequence[tuple[str, str, str | None, list[Finding]]]) -> None:
    """Raise ``BadInput`` with all findings, if there are any: (artefact, model, board or None, findings)."""
    lines = []
    for artefact, model, board, findings in failures:
        if findings:
            where = f" for {board}" if board else ""
            lines.append(f"{artefact} of {model!r} does not pass the lint{where}:")
            lines += [f"  {finding.text()}" for finding in findings]
    if lines:
        raise BadInput("\n".join([*lines, "Nothing was exported."]))


_CURES = {
    "TILE": "resize through tf.raw_ops.ResizeNearestNeighbor(half_pixel_centers=False), not UpSampling2D('nearest')",
    "TRANSPOSE_CONV": "put no BatchNormalization with ReLU after Conv2DTranspose; resize and convolve",
    "RESIZE_NEAREST_NEIGHBOR": "resize through tf.raw_ops.ResizeNearestNeighbor(half_pixel_centers=False)",
    "DEPTH_TO_SPACE": "resize and convolve in place of depth_to_space",
    "LEAKY_RELU": "use ReLU or ReLU6",
    "HARD_SWISH": "use ReLU, ReLU6, or x * sigmoid(x)",
    "GELU": "use ReLU or ReLU6",
    "ELU": "use ReLU or ReLU6",
    "Elu": "use ReLU or ReLU6",
    "Erf": "use ReLU or ReLU6 in place of GELU",
    "SQUARE": "use BatchNormalization, which folds, in place of group, instance or layer normalisation",
    "RSQRT": "use BatchNormalization, which folds, in place of group, instance or layer normalisation",
}


def _cure(op: Op) -> str:
    return _CURES.get(op.kind, "use another operation: docs/reference/boards.md says what is safe everywhere")


def _fixed_sizes(graph: Graph) -> list[Finding]:
    users, makers = graph.users(), graph.makers()
    findings = []
    for tensor in graph.tensors():
        if -1 in tensor.shape:
            op = makers.get(id(tensor)) or next(iter(users.get(id(tensor), [])), None)
            problem = f"a size of the shape {list(tensor.shape)} is left open"
            cure = "give every size of the model's input, and reshape to fixed sizes only"
            findings.append(Finding("dynamic-dimension", problem, cure, op, tensor))
    return findings


MEMORY_SHARE = 0.5  # of a board's memory; its system, the camera's pictures and the interpreter have the rest
_MIB = 2**20


def _memory(graph: Graph, profile: Profile) -> list[Finding]:
    """Weights and the activations held at once must fit in ``MEMORY_SHARE`` of what the smallest such board has."""
    if profile.memory_mib is None:
        return []
    (held, op), weights = most_held(graph), graph.weight_bytes()
    if held + weights <= MEMORY_SHARE * profile.memory_mib * _MIB:
        return []
    problem = (
        f"{held / _MIB:,.0f} MiB of activations at once and {weights / _MIB:,.0f} MiB of weights are needed, and a "
        f"model may take {MEMORY_SHARE:.0%} of the {profile.memory_mib:,} MiB of {profile.name}"
    )
    return [Finding("memory", problem, "stride earlier, use fewer channels, or name a board with more memory", op)]


def _one_scale_per_dense(graph: Graph) -> list[Finding]:
    findings = []
    for op in graph.ops:
        if op.kind == "FULLY_CONNECTED" and op.inputs[1] is not None and len(op.inputs[1].scales) > 1:
            problem = f"{len(op.inputs[1].scales)} scales, where interpreters before 2.14 read the first for all"
            cure = "convert with per-channel quantisation of Dense layers switched off"
            findings.append(Finding("one-scale-per-dense", problem, cure, op, op.inputs[1]))
    return findings


def _but_kept(ops: Sequence[Op], kept: Sequence[str]) -> list[Op]:
    """These operations in float without as many of each kind as are kept, and without the steps to and from them."""
    left = Counter(name.rpartition("-")[0].upper() for name in kept)
    found = []
    for op in ops:
        if not kept or op.kind not in ("QUANTIZE", "DEQUANTIZE"):
            left[op.kind.upper()] -= 1
            found += [op] if left[op.kind.upper()] < 0 else []
    return found


def _no_float_in_tflite(graph: Graph, dtype: str, kept: Sequence[str]) -> list[Finding]:
    findings, named = [], set()
    floats = [op for op in graph.ops if any(one and "float" in one.dtype for one in (*op.inputs, *op.outputs))]
    for op in _but_kept(floats, kept):
        for tensor in (*op.inputs, *op.outputs):
            if tensor is not None and "float" in tensor.dtype and op.name not in named:
                named.add(op.name)
                problem = f"{tensor.dtype} inside an {dtype} artefact: the converter has no {dtype} for {op.kind}"
                if op.kind in ("QUANTIZE", "DEQUANTIZE"):
                    problem = f"{tensor.dtype} inside an {dtype} artefact, at the edge of an operation without {dtype}"
                findings.append(Finding("no-float-island", problem, _cure(op), op, tensor))
    for name, tensor in (*graph.inputs.items(), *graph.outputs.items()):
        if tensor.dtype != dtype or len(tensor.scales) != 1:
            problem = f"{name!r} is {tensor.dtype}, not {dtype} with one scale"
            findings.append(Finding("int8-ends", problem, f"ask the converter for {dtype} in and out", tensor=tensor))
    return findings


_MOVES = ("Reshape", "Transpose", "MaxPool", "Squeeze", "Unsqueeze", "Flatten", "Slice")  # of int8 values as they are


def _no_float_in_onnx(graph: Graph, kept: Sequence[str]) -> list[Finding]:
    """QDQ: every product reads values that were int8, and every result is quantised again."""
    makers, findings = graph.makers(), []

    def reads_float(tensor: Tensor | None) -> bool:
        maker = makers.get(id(tensor))
        while maker is not None and maker.kind in _MOVES:
            maker = makers.get(id(maker.inputs[0]))
        return maker is None or maker.kind != "DequantizeLinear"

    products = [op for op in graph.ops if op.kind in ("Conv", "ConvTranspose", "MatMul", "Gemm")]
    for op in _but_kept([op for op in products if any(map(reads_float, op.inputs[:2]))], kept):
        for tensor in op.inputs[:2]:
            if reads_float(tensor):
                problem = f"{op.kind} reads float32: it was not quantised"
                cure = "quantise it statically, with calibration rows that reach it"
                findings.append(Finding("no-float-island", problem, cure, op, tensor))
    return findings


def _tflite_limits(graph: Graph, limits: TfliteLimits, board: str) -> list[Finding]:
    findings = []
    for op in graph.ops if limits.ops is not None else ():
        most = (limits.ops or {}).get(op.kind)
        if most is None:
            findings.append(Finding("allowed-op", f"{op.kind} is not on the list of {board}", _cure(op), op))
        elif op.version > most:
            problem = f"{op.kind} is of version {op.version}, and {board} reads up to {most}"
            findings.append(Finding("op-version", problem, _cure(op), op))
    needs = graph.min_runtime_version
    if limits.min_runtime_version and needs and _version(needs) > _version(limits.min_runtime_version):
        problem = f"the file asks for a runtime of {needs}, and {board} has that of {limits.min_runtime_version}"
        findings.append(Finding("min-runtime-version", problem, "replace the operations that are new"))
    return findings


def _onnx_limits(graph: Graph, limits: OnnxLimits, board: str) -> list[Finding]:
    findings = []
    cures = f"convert with opset {limits.opset}", f"save it with `model.ir_version = {limits.ir}`"
    given = ("opset", graph.opset, limits.opset), ("IR version", graph.ir, limits.ir)
    for (what, has, most), cure in zip(given, cures, strict=True):
        if has > most:
            findings.append(Finding("onnx-version", f"{what} {has}, and {board} reads up to {most}", cure))
    for op in graph.ops:
        if limits.ops is not None and op.kind not in limits.ops:
            findings.append(Finding("allowed-op", f"{op.kind} is not on the list of {board}", _cure(op), op))
    return findings


def _version(text: str) -> tuple[int, ...]:
    """The first two numbers: 2.5.0 is not newer than 2.5."""
    return tuple(int(part) for part in text.split(".")[:2])


# The network that finds the people who are counted: read from its file, linted, and recorded on golden pictures.


PICTURES = 2
TOLERANCE = 0.05  # of scores between two machines
_OWN = "CUSTOM TFLite_Detection_PostProcess"  # every TFLite interpreter has it, under a name of its own
_ENDS = ("no-float-island", "int8-ends")  # boxes are float, whatever finds them


def detector_section(asked: CountedBy, profiles: Sequence[Profile]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest's ``detector`` and its members. Raises ``BadInput`` where a board cannot run the file."""
    path = Path(asked.file)
    try:
        data = path.read_bytes()
    except OSError as error:
        problem = (error.strerror or "it cannot be read").lower()
        raise BadInput(f"`count.detector.file`: a network was expected at {path}: {problem}.") from None
    form = path.suffix[1:]
    try:
        graph = read(data, form)
    except BadInput as error:
        raise BadInput(f"`count.detector.file`: {path} is no {form} file that can be read: {error}") from None
    entry = _entry(asked, data, graph)
    check(data, graph.format, what="The detector")
    _lint(graph, entry, profiles)
    golden = {"input": "golden/detector.input.npy", "scores": "golden/detector.scores.npy"}
    pictures, scores = _golden(asked, data, entry)
    members = {entry["file"]: data, golden["input"]: npy(pictures), golden["scores"]: npy(scores)}
    rest = asked.model_dump(exclude={"file", "boxes", "scores", "classes"})
    return {"artefact": entry, "golden": golden, **rest}, members


def _entry(asked: CountedBy, data: bytes, graph: Graph) -> dict[str, Any]:
    ends = {"boxes": asked.boxes, "scores": asked.scores}
    ends |= {} if asked.classes is None else {"classes": asked.classes}
    missing = [name for name in ends.values() if name not in graph.outputs]
    if missing or len(graph.inputs) != 1:
        raise BadInput(
            f"`count.detector`: a network with one input and the outputs {', '.join(ends.values())} was expected; "
            f"{asked.file} has {len(graph.inputs)} and {', '.join(sorted(graph.outputs))}. Name its own with `boxes`, "
            "`scores` and `classes`."
        )
    ((name, picture),) = graph.inputs.items()
    precision = "int8" if picture.dtype in ("int8", "uint8") else "float32"
    entry = artefact_entry(
        data,
        graph,
        file=f"artefacts/detector.{graph.format}",
        precision=precision,
        inputs=[name],
        outputs=list(ends.values()),
        max_abs=TOLERANCE,
    )
    for tensor, own in zip([*entry["inputs"], *entry["outputs"]], ["picture", *ends], strict=True):
        tensor["name"] = own
    return entry


def _lint(graph: Graph, entry: dict[str, Any], profiles: Sequence[Profile]) -> None:
    def concerns(finding: Finding) -> bool:
        return finding.rule not in _ENDS and (finding.op is None or finding.op.kind != _OWN)

    name = f"{graph.format}-{entry['precision']}"
    without = [one.name for one in profiles if not any(a.startswith(graph.format + "-") for a in one.artefacts)]
    if without:
        raise BadInput(
            f"`count.detector.file`: {', '.join(without)} runs no {graph.format}: give another format of it."
        )
    boards: list[Profile | None] = [*profiles]
    for board in boards or [None]:
        findings = [one for one in lint(graph, entry["precision"], board) if concerns(one)]
        refuse([(name, "detector", None if board is None else board.name, findings)])


def _golden(asked: CountedBy, data: bytes, entry: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of noise in the range that it takes, and its scores for them here."""
    shape = entry["inputs"][0]["shape"]
    rng = np.random.default_rng(0)
    pictures = rng.uniform(asked.low, asked.high, (PICTURES, *shape[1:])).astype(np.float32)
    try:
        runner = open_backend(entry["format"], data, entry)
    except DeviceFailed as error:
        raise BadInput(f"`count.detector.file`: {asked.file} does not run here: {error}") from None
    try:
        scores = [np.asarray(runner.run({"picture": one[None]})["scores"]) for one in pictures]
    except FrameDropped as drop:
        raise BadInput(f"`count.detector.file`: {asked.file} fails on a picture ({drop.reason}).") from None
    finally:
        runner.close()
    return pictures, np.concatenate(scores).astype(np.float32)


PACKAGES = (
    "tensorflow", "tensorflow-cpu", "keras", "numpy", "tf2onnx", "onnx", "onnxruntime", "onnxconverter-common",
    "ai-edge-litert",
)  # fmt: skip


def not_audited() -> dict[str, Any]:
    """The manifest's ``privacy`` without an audit."""
    return {"file": None, "card": None, "page": None, "speaks_of": {}, "pipeline": {}}


def build(
    run: Run,
    fitted: FittedPerturber,
    made: Sequence[Artefact],
    profiles: Sequence[Profile],
    golden: Golden,
    outputs: Mapping[str, Mapping[str, np.ndarray]],
    calibrated: str,
    packages: Sequence[str] = PACKAGES,
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Manifest and members ``{name: bytes}``.

    ``made`` are the artefacts in order of preference, ``golden`` the vectors and ``outputs`` those of each artefact for
    them; ``calibrated`` is the mark of what they were calibrated and compared on, ``packages`` are those whose versions
    are recorded. Class names of z, their counts, and paths are left out.
    Raises ``BadInput`` where the edge runtime would refuse the manifest, or where its self-test fails here.
    """
    members: dict[str, bytes] = {}
    for one in made:
        members |= {one.entries[model]["file"]: data for model, data in one.data.items()}
    tables = {}
    for name, table in fitted.tables.items():
        tables[name] = {"file": f"tables/{name}.npy", "shape": list(table.shape), "dtype": table.dtype.name}
        members[f"tables/{name}.npy"] = npy(table)
    golden_entry = _manifest_golden(golden, outputs, members)
    description = fitted.description()
    if "training" in description:
        description["training"]["marks"]["calibration"] = calibrated
    counted = _counted(run.recipe, profiles, members)
    dataset, recipe, names = run.dataset(), run.recipe, [one.name for one in made]
    manifest = {
        "schema": 1,
        "name": recipe.name,
        "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "development": False,
        "security_version": 1,
        "audience": "",
        **description,
        "input": {**description["input"], **({} if recipe.sensor is None else {"sensor": recipe.sensor})},
        "capture": _capture(recipe, fitted.input),
        **counted,
        "perturber": {
            **description["perturber"],
            "target": recipe.data.target,
            "sensitive": recipe.data.sensitive,
            "target_classes": list(dataset.y_names),
        },
        "models": {
            model: {**network_macs(network)._asdict(), "artefacts": {one.name: one.entries[model] for one in made}}
            for model, network in fitted.models.items()
        },
        "preference": names,
        "profiles": {profile.name: _facts(profile, names) for profile in profiles},
        "tables": tables,
        "golden": golden_entry,
        "privacy": not_audited(),
        "provenance": {
            "edgeveil": importlib.metadata.version("edgeveil"),
            "recipe_sha256": run.recipe_sha256(),
            "packages": package_versions(packages),
        },
    }
    checked = check_manifest(manifest, sealed=False)
    for name in names or [NO_MODEL]:
        pipeline = load_pipeline(checked, members, name)
        self_test(pipeline, checked, members, name)
        pipeline.close()
    return manifest, members


def _counted(recipe: Recipe, profiles: Sequence[Profile], members: dict[str, bytes]) -> dict[str, Any]:
    """What is counted, and the network that finds the people, whose files are added to ``members``."""
    if recipe.count is None:
        return {}
    if recipe.count.detector is None:
        return {"count": recipe.count.manifest()}
    section, files = detector_section(recipe.count.detector, profiles)
    members |= files
    return {"count": recipe.count.manifest(), "detector": section}


def _capture(recipe: Recipe, spec: InputSpec) -> dict[str, Any] | None:
    """How a sensor's frames become samples; None where they are samples already."""
    if recipe.data.series is not None and spec.series is not None:
        return recipe.data.series.capture(spec.shape[1], spec.series.rate_hz)
    return None if recipe.capture is None else recipe.capture.manifest()


def npy(array: np.ndarray) -> bytes:
    """The bytes of a ``.npy`` file, without pickles."""
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


def _manifest_golden(
    golden: Golden, outputs: Mapping[str, Mapping[str, np.ndarray]], members: dict[str, bytes]
) -> dict[str, Any]:
    def put(name: str, array: np.ndarray) -> str:
        members[f"golden/{name}.npy"] = npy(array)
        return f"golden/{name}.npy"

    return {
        "input": put("input", golden.x),
        "draws": {name: put(f"draws.{name}", values) for name, values in golden.draws.items()},
        "outputs": {
            artefact: {name: put(f"{artefact}.{name}", value) for name, value in by_name.items()}
            for artefact, by_name in outputs.items()
        },
    }


def _facts(profile: Profile, names: Sequence[str]) -> dict[str, list[str]]:
    facts = profile.facts()
    mine = [name for name in names if variants.runs_on(name, facts["artefacts"])]
    backends = [*facts["backends"], "numpy"] if variants.NUMPY in mine else facts["backends"]
    return {"artefacts": sorted(mine, key=lambda name: _place(name, facts["artefacts"])), "backends": backends}


def _place(name: str, preferred: Sequence[str]) -> tuple[int, int]:
    """The board's order; numpy last, and batches after single frames."""
    at = preferred.index(variants.base(name)) if variants.base(name) in preferred else len(preferred)
    return variants.batch(name), at
