"""A finished model, or a plain function, as a perturber: nothing of it is trained here.

A Keras model becomes one network from the unit cube to the unit cube, with what it expects of a sample before and after
it, and is converted as any other. A .tflite or .onnx file ships byte for byte; where it expects something else than the
unit cube, two small networks of its format stand before and after it. Nothing of a stranger's is ever unpickled.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from edgeveil.edge_runtime.errors import BadInput, EdgeVeilError
from edgeveil.edge_runtime.manifest.detector import MAX_BUNDLE_BYTES
from edgeveil.models.filters import FUNCTIONS, OUTPUT, SAMPLE, End, Takes, ends, named, otsu, parse, shown
from edgeveil.trainer.datasets.base import Dataset, InputSpec
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.export.artefact import artefact_entry, network_macs
from edgeveil.trainer.graphs import keras_file
from edgeveil.trainer.networks.own import graph_of, ranges, read_given
from edgeveil.trainer.perturbers.base import as_perturber
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.networks import PICKLES, EndOrNone, Pair, Size, check_channels, is_range
from edgeveil.trainer.recipe.perturber import Perturber
from edgeveil.trainer.runs.fitted import (
    FittedPerturber,
    GivenFile,
    constant,
    frame_output,
    output_stage,
    preprocess_stage,
    unchanged,
)

if TYPE_CHECKING:
    from edgeveil.trainer.runs.run import Log

FILES = ("keras", "pt2", "onnx", "tflite")
TRIED = 64  # samples by which a range is found and two passes are compared
MOST_OUTSIDE = 0.5  # of the values that a model gives: beyond that it gives no samples
OTHERWISE = 1e-3  # of the range: two passes of one kernel differ by less
LEAST_SPREAD = 0.1  # of that of samples: below it, a range is none that a model works on
TAKES = ("low", "high", "gives", "layout", "colours", "size")  # keys about what a model expects
_KINDS = f"a file .{', .'.join(FILES)}"


class Wrapped(Perturber):
    """A finished model or a plain function, as it is: it may hide little, which the audit measures."""

    kinds = ("wrapped",)
    titles = ("A given model",)
    baseline = True
    not_private = "nothing is known of what a given model was trained on"

    kind: Literal["wrapped"] = Field(description="A finished model or a plain function.")
    model: str = Field(
        min_length=1,
        description="A .keras, .pt2, .onnx or .tflite file, relative to the recipe, with one input and one output of a "
        "sample's shape; or, of pictures, blur:sigma=6, mosaic:8 (pixels of a square), silhouette:threshold=0.4 (of "
        "the range; left out: found in training rows by Otsu's rule).",
    )
    low: EndOrNone = Field(
        default=None,
        description="What the model expects for the smallest value of a sample, or of each channel. "
        "Left out: `low` and `high` are found among 0 to 1, -1 to 1, 0 to 255, ImageNet's and the data's own range.",
    )
    high: EndOrNone = Field(default=None, description="The same for the largest value.")
    gives: Pair = Field(default=None, description="Range of what it gives. Left out: `low` to `high`.")
    layout: Literal["last", "first"] | None = Field(
        default=None, description="Whether it takes channels last or first. Left out: found by its shape."
    )
    colours: Literal["rgb", "bgr"] = Field(default="rgb", description="The order of colours that it takes.")
    size: Size = Field(
        default=None,
        description="Height and width that it takes, where samples have others: they are resized, and back.",
    )

    @model_validator(mode="after")
    def _stated(self) -> Wrapped:
        kind, suffix = self.model.partition(":")[0], Path(self.model).suffix[1:].lower()
        if kind in FUNCTIONS:
            parse(self.model)
            if (self.low, self.high, self.gives, self.layout, self.size) != (None,) * 5 or self.colours != "rgb":
                raise ValueError(f"no low, high, gives, layout, colours or size for the function {kind}")
        elif suffix in PICKLES:
            raise ValueError(
                f"{_KINDS}, and no .{suffix}, which can run code of its writer's when it is read: write the model with "
                "model.save(FILE.keras) or torch.export.save(torch.export.export(...), FILE.pt2)"
            )
        elif suffix not in FILES:
            raise ValueError(f"{_KINDS}, or {', '.join(one.example for one in FUNCTIONS.values())}")
        if (self.low is None) != (self.high is None):
            raise ValueError("low and high, or neither")
        for low, high in ((self.low, self.high), self.gives or (0.0, 1.0)):
            if low is not None and high is not None and not is_range(low, high):
                raise ValueError("a range whose low is below its high")
        return self

    def resolved(self, folder: Path) -> Perturber:
        """See ``Perturber.resolved``."""
        if self.model.partition(":")[0] in FUNCTIONS:
            return self
        return self.model_copy(update={"model": str((folder / Path(self.model).expanduser()).resolve())})

    def check(self, dataset: Dataset) -> None:
        """See ``Perturber``: all that can be said of the model, on training rows."""
        self.tried_on(dataset)

    def fit(self, dataset: Dataset, *, log: Log, **_: Any) -> FittedPerturber:
        """The model between the stages of every perturber; what it takes is printed and recorded.

        Raises ``BadInput``, as ``check`` does.
        """
        fitted, facts, text = self.tried_on(dataset)
        log.record(wrapped=facts)
        say(text)
        return fitted

    @classmethod
    def draft(cls, kind: str, dataset: Dataset, *, apart: float, stream: bool) -> str:
        """See ``Perturber.draft``."""
        why = ' # .keras, .pt2, .onnx or .tflite; of pictures also "blur:sigma=6", "mosaic:8", "silhouette"\n'
        return super().draft(kind, dataset, apart=apart, stream=stream) + f'model = "mine.keras"{why}'

    def tried_on(self, dataset: Dataset) -> tuple[FittedPerturber, dict[str, Any], str]:
        """The perturber, its facts for run.json, and a sentence about what the model takes.

        Raises ``BadInput``, with the reason, for what cannot ship or is no perturber of such samples.
        """
        x = fit_and_validation(dataset, "perturber")[0].x[:TRIED]
        facts: dict[str, Any]
        if self.model.partition(":")[0] in FUNCTIONS:
            network, text = _function(self.model, dataset)
            fitted, facts = as_perturber(dataset.input, network, kind="wrapped", model="wrapped"), {"function": text}
            sentence = f"The function is {text}."
        else:
            one = _Model(Path(self.model), dataset.input, self)
            takes, is_detected = self._takes(one, dataset.unit(x))
            outside = one.check(takes, dataset.unit(x))
            fitted, facts = one.fitted(takes), {"takes": asdict(takes), "outside": outside}
            sentence = f"{one.path.name} takes {takes.text()}{' (found)' if is_detected else ''}."
            if outside > 0.01:
                sentence += f" {outside:.0%} of the values that it gives lie outside its range and are clipped."
        telling, through = ~constant(x), unchanged(dataset.input, x, fitted.frames(x))
        if 2 * through.sum() > telling.sum():
            raise BadInput(
                f"{self.model}: {through.sum()} of {telling.sum()} samples come out unchanged, so it hides nothing. "
                "Give a model that perturbs, or state the range that it takes: low and high."
            )
        return fitted, facts, sentence

    def _takes(self, one: _Model, u: np.ndarray) -> tuple[Takes, bool]:
        """What the model takes, and whether some of it was found: ``u`` (n, *shape) are samples in the unit cube."""
        stated = None if one.path.suffix.lower() == ".pt2" else self.layout  # it is channels last by now
        takes = Takes(layout=one.layout(stated, self.size), colours=self.colours)
        if self.colours == "bgr" and one.spec.shape[-1] != 3:
            raise BadInput(f"colours=bgr: samples of three colours were expected; these are of {one.spec.shape}.")
        if self.size is not None:
            takes = replace(takes, size=(self.size[0], self.size[1]))
        low: Any = self.low
        high: Any = self.high
        is_detected = False
        check_channels(one.path.name, self, one.spec.shape[-1])
        if low is None or high is None:
            low, high = one.find_range(takes, u, self.gives)
            is_detected = one.spec.low is not None
        back_low, back_high = self.gives or (low, high)
        low, high, back_low, back_high = (
            tuple(end) if isinstance(end, list | tuple) else float(end) for end in (low, high, back_low, back_high)
        )
        return replace(takes, low=low, high=high, gives_low=back_low, gives_high=back_high), is_detected


# A model of a file: what it takes, whether it does the same each time, and its networks.


class _Model:
    """A file that was given, for samples of ``spec``. Raises ``BadInput``, in one sentence, for what cannot ship."""

    def __init__(self, path: Path, spec: InputSpec, stated: Wrapped) -> None:
        self.path, self.spec = path, spec
        data = _bytes(path)
        self.keras = _keras(path, spec, stated) if path.suffix.lower() in (".keras", ".pt2") else None
        if self.keras is None:
            self.file = _given(path, data)
            tensors = (self.file.entry["inputs"][0], self.file.entry["outputs"][0])
            shapes = [tuple(one["shape"]) for one in tensors]
            if any(shape[:1] != (1,) or min(shape) < 1 for shape in shapes):
                raise BadInput(
                    f"{path}: one sample at a time and every size fixed was expected, (1, ...); its shapes are "
                    f"{shapes[0]} and {shapes[1]}, -1 where one is open. Export it for a batch of 1."
                )
            self.shape, self.gives = shapes[0][1:], shapes[1][1:]
            runner = self.file.runner()
            self.call: Callable[[np.ndarray], np.ndarray] = lambda values: runner.run({SAMPLE: values})[OUTPUT]
        else:
            (first,), (last,) = self.keras.inputs, self.keras.outputs
            self.shape, self.gives = tuple(first.shape[1:]), tuple(last.shape[1:])
            model = self.keras
            self.call = lambda values: np.asarray(model(values, training=False))

    def layout(self, stated: str | None, size: Sequence[int] | None) -> str:
        """Where the model has its channels, by its shape. Raises ``BadInput`` where that is none of the data's."""
        own = self.spec.shape
        sample = own if size is None else (*size, own[-1])
        if size is not None and self.spec.kind != "image":
            raise BadInput(f"size is for pictures, and these are {self.spec.plural}: leave it out.")
        turned = (sample[-1], *sample[:-1])
        detected = "last" if self.shape == sample else "first" if self.shape == turned and len(own) > 1 else None
        if stated == "first" and turned == sample == self.shape:
            detected = "first"
        if detected is None:
            resize = ""
            if self.spec.kind == "image" and len(self.shape) == 3:
                high, wide = self.shape[:2] if self.shape[2] == own[2] else self.shape[1:]
                resize = f", or add size={wide}x{high}, by which samples are resized, and back"
            raise BadInput(
                f"{self.path}: a model of samples of the shape {sample} was expected, as the data have; it takes "
                f"{self.shape}. Give one of that shape{resize}."
            )
        if stated is not None and stated != detected:
            raise BadInput(
                f"{self.path}: layout={stated} was stated, and its input {self.shape} has channels {detected}: the "
                f"samples are {own}, channels last. Write layout={detected}."
            )
        if self.gives != self.shape:
            raise BadInput(
                f"{self.path}: an output of the input's kind was expected, of the shape {self.shape}; it gives "
                f"{self.gives}. Give a model whose output is a perturbed sample."
            )
        return detected

    def find_range(self, takes: Takes, u: np.ndarray, gives: Sequence[float] | None) -> tuple[End, End]:
        """The first range within which the model gives values that differ, as samples do. Raises ``BadInput``."""
        if self.spec.low is None or self.spec.high is None:
            return 0.0, 1.0
        of_data, usual = ranges(self.spec, takes.colours)
        tried = dict.fromkeys((*usual, *of_data))
        for low, high in tried:
            back = gives or (low, high)
            v = self.run(replace(takes, low=low, high=high, gives_low=back[0], gives_high=back[1]), u)
            if _outside(v) <= MOST_OUTSIDE / 10 and v.std() >= LEAST_SPREAD * u.std():
                return low, high
        texts = ", ".join(f"{shown(low)} to {shown(high)}" for low, high in tried)
        raise BadInput(
            f"{self.path}: with samples of the ranges {texts}, what it gives lies outside the same range, or hardly "
            "varies. State what it expects as low and high, and what it gives as gives; or give a model "
            "whose output is a perturbed sample."
        )

    def run(self, takes: Takes, u: np.ndarray) -> np.ndarray:
        """v (n, *shape) for u (n, *shape), unclipped. Raises ``BadInput`` where the model fails or gives no number."""
        before, after = ends(self.spec.shape, takes, self.shape)
        try:
            given = np.asarray(self.call(np.asarray(before(u) if before else u, np.float32)))
            v = np.asarray(after(given) if after else given)
        except (EdgeVeilError, ValueError, TypeError, RuntimeError) as error:  # of Keras, TensorFlow, an interpreter
            raise BadInput(f"{self.path} does not run here on a sample: {_first_line(error)}.") from None
        if not np.isfinite(v).all():
            raise BadInput(f"{self.path} gives values that are not finite for samples of the data: state low and high.")
        return v

    def check(self, takes: Takes, u: np.ndarray) -> float:
        """The share of values outside the range. Raises ``BadInput`` for a model that is not the same each time."""
        first, again = self.run(takes, u), self.run(takes, u)
        alone = self.run(takes, u[:3][::-1])[::-1]
        if np.abs(first - again).max() > OTHERWISE:
            raise BadInput(
                f"{self.path}: two passes over the same samples differ, so it draws at random or keeps a value between "
                f"frames. Build it without such layers: a generator takes its noise from a draw stage."
            )
        if np.abs(first[:3] - alone).max() > OTHERWISE:
            raise BadInput(
                f"{self.path}: what it gives for a sample depends on the other samples of its batch, as "
                "BatchNormalization in training mode does. Build it with training=False."
            )
        outside = _outside(first)
        if self.spec.low is not None and outside > MOST_OUTSIDE:
            raise BadInput(
                f"{self.path}: samples were expected, from {shown(takes.gives_low)} to {shown(takes.gives_high)}, "
                f"and {outside:.0%} of what it gives lies outside. State low and high, and gives where it gives "
                "another range; or give a model whose output is a perturbed sample."
            )
        return outside

    def fitted(self, takes: Takes) -> FittedPerturber:
        """The model as a perturber: one Keras model, or the file with small networks before and after it."""
        import keras

        before, after = ends(self.spec.shape, takes, self.shape)
        if self.keras is not None:
            h = sample = keras.Input(self.spec.shape, name=SAMPLE)
            for network in (before, self.keras, after):
                h = h if network is None else network(h)
            return as_perturber(self.spec, keras.Model(sample, _last(self.spec, h)), kind="wrapped", model="wrapped")
        models: dict[str, Any] = {"before": before, "wrapped": self.file, "after": after}
        models = {name: network for name, network in models.items() if network is not None}
        flow, stages = "u", [preprocess_stage(self.spec)]
        for name in models:
            output = "v" if name == list(models)[-1] else f"{name}_out"
            stages.append({"stage": "artefact", "model": name, "inputs": {SAMPLE: flow}, "outputs": {OUTPUT: output}})
            flow = output
        stages.append(output_stage(self.spec))
        return FittedPerturber("wrapped", self.spec, tuple(stages), (frame_output(self.spec),), models=models)


def _bytes(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        problem = (error.strerror or "it cannot be read").lower()
        raise BadInput(f"A model was expected at {path}: {problem}. Name a file .{', .'.join(FILES)}.") from None
    if len(data) > MAX_BUNDLE_BYTES:
        raise BadInput(
            f"{path} has {len(data) / 2**20:.0f} MiB, and a bundle has room for {MAX_BUNDLE_BYTES // 2**20}: give a "
            "smaller model."
        )
    return data


def _keras(path: Path, spec: InputSpec, stated: Wrapped) -> Any:
    """The Keras model of a file, with open sizes as the data have them."""
    import keras

    sample = spec.shape if stated.size is None else (*stated.size, spec.shape[-1])
    model, config = read_given(path, sample, stated.layout)
    counts = [len(getattr(model, end, ())) for end in ("inputs", "outputs")]
    if counts != [1, 1]:
        raise BadInput(
            f"{path}: a model with one input and one output was expected; it has {counts[0]} and {counts[1]}. Build "
            "one from a sample to a perturbed sample."
        )
    if called := _as_in_training(config):
        raise BadInput(
            f"{path}: {', '.join(called)} runs as in training, where layers draw at random or look at the whole batch. "
            "Build it without training=True."
        )
    wide = [one.path for one in model.variables if "float64" in str(one.dtype)]
    if wide or "float64" in str(model.inputs[0].dtype):
        raise BadInput(
            f"{path}: float32 was expected, and {wide[0] if wide else 'its input'} is float64, which no board's "
            'interpreter takes. Build it with keras.config.set_floatx("float32"), and load its weights.'
        )
    if str(model.inputs[0].dtype) != "float32":
        raise BadInput(f"{path}: an input of float32 was expected; it takes {model.inputs[0].dtype}.")
    (shape,) = [tuple(one.shape[1:]) for one in model.inputs]
    if None in shape and len(shape) == len(spec.shape):
        sized = tuple(own if one is None else one for one, own in zip(shape, spec.shape, strict=True))
        model = keras.models.clone_model(model, input_tensors=keras.Input(sized, name=SAMPLE))
        model.set_weights(read_given(path, sample)[0].get_weights())
    network_macs(model)  # refuses what no board can be told the cost of
    return model


def _given(path: Path, data: bytes) -> GivenFile:
    """The file with the manifest's entry for it."""
    form = path.suffix[1:].lower()
    graph = graph_of(path, data, "ship", "a perturbed sample")
    first, last = [*graph.inputs.items(), *graph.outputs.items()]
    quantised = any("Quantize" in op.kind or op.kind.startswith("QLinear") for op in graph.ops if form == "onnx")
    precision = "int8" if quantised or first[1].dtype in ("int8", "uint8") else "float32"
    names = {"inputs": [first[0]], "outputs": [last[0]]}
    entry = artefact_entry(data, graph, file=f"wrapped.{form}", precision=precision, **names, max_abs=0.0)
    for end, own in (("inputs", SAMPLE), ("outputs", OUTPUT)):
        entry[end][0]["name"] = own
    return GivenFile(data, entry)


def _as_in_training(config: Any) -> list[str]:
    """The layers that a model's config calls with ``training=True``, by class and name."""
    return [
        f"{layer.get('class_name')} {layer.get('config', {}).get('name', '')!r}"
        for layer in keras_file.tables(config)
        for node in layer.get("inbound_nodes") or ()
        if isinstance(node, dict) and node.get("kwargs", {}).get("training") is True
    ]


def _outside(v: np.ndarray) -> float:
    """The share of values that lie more than a hundredth outside the unit cube."""
    return float(((v < -0.01) | (v > 1.01)).mean())


def _last(spec: InputSpec, h: Any) -> Any:
    """The output of that name, in the unit cube where samples have a range."""
    layers = importlib.import_module("edgeveil.models.layers")
    return named(h) if spec.low is None else layers.UnitClip(name=OUTPUT)(h)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")


# A plain function of pictures.


def _function(text: str, dataset: Dataset) -> tuple[Any, str]:
    """The network of a function's text for such data, and the text in full. Raises ``BadInput``."""
    import keras

    spec, name, value = dataset.input, text.partition(":")[0], parse(text)
    if spec.kind != "image":
        raise BadInput(f"{name} is for pictures, and these are {spec.plural}: give a model.")
    if name == "mosaic" and value is not None and value > max(spec.shape[:2]):
        raise BadInput(
            f"mosaic:{value:g}: squares within the pictures of {spec.shape[1]}x{spec.shape[0]} were expected."
        )
    if value is None:
        value = otsu(dataset.unit(fit_and_validation(dataset, "perturber")[0].x[: 16 * TRIED]))
    sample = keras.Input(spec.shape, name=SAMPLE)
    network = keras.Model(sample, _last(spec, FUNCTIONS[name].build(sample, value)))
    return network, f"{name}:{FUNCTIONS[name].key}={value:.6g}"
