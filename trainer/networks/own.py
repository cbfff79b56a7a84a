"""A user's own networks: what ``build(spec)`` of their file makes, and classifiers that they have trained.

All that is taken is a Functional or Sequential model of Keras' own layers, or a module of PyTorch, which becomes one
(``torch_models``); so a run opens without the user's file, and nothing of it is ever unpickled.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import json
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.manifest.model_lint import problems
from edgeveil.models.filters import End
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.graphs import keras_file
from edgeveil.trainer.graphs.files import read
from edgeveil.trainer.graphs.keras_file import OURS, foreign_parts, tables
from edgeveil.trainer.graphs.macs import Graph
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.networks import NETWORKS, Given, check_channels, own_function
from edgeveil.trainer.tensorflow_quiet import load_tensorflow

TRIED = 6  # samples by which passes are compared
OTHERWISE = 1e-3  # of the largest value: two passes of the same kernels differ by less
RANGES: tuple[tuple[End, End], ...] = ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0))  # that models usually take
# Of colours less their mean, over their deviation, as models trained on ImageNet take them: of red, green and blue.
IMAGENET: tuple[tuple[float, ...], tuple[float, ...]] = ((-2.1179, -2.0357, -1.8044), (2.2489, 2.4286, 2.64))
INSTALL_TORCH = "pip install 'edgeveil[trainer,torch]'"


@dataclass(frozen=True)
class Spec:
    """What a network is built for: samples of ``shape`` in the unit cube, from ``low`` to ``high``.

    A classifier gives logits (n, ``classes``). Of a generator ``classes`` is None: it gives samples, and takes
    [samples, noise (n, ``noise``)] where ``noise`` is above 0. ``low`` and ``high`` are None of data without a range.
    """

    shape: tuple[int, ...]
    classes: int | None
    low: float | None = 0.0
    high: float | None = 1.0
    noise: int = 0

    @property
    def inputs(self) -> list[tuple[int, ...]]:
        """The shape of each input, without the batch."""
        return [self.shape, *([(self.noise,)] if self.noise else [])]

    def samples(self) -> list[np.ndarray]:
        """Seeded values for each input."""
        rng = np.random.default_rng(0)
        return [rng.random((TRIED, *shape), np.float32) for shape in self.inputs]


def ranges(spec: InputSpec, colours: str) -> tuple[list[tuple[End, End]], list[tuple[End, End]]]:
    """The ranges by which a model is tried: those of the data, and those that models of such samples usually take."""
    of_data: list[tuple[End, End]] = []
    usual = [*RANGES]
    if spec.kind == "image" and spec.shape[-1] == 3:
        order = -1 if colours == "bgr" else 1
        usual.append((IMAGENET[0][::order], IMAGENET[1][::order]))
    if spec.low is not None and spec.high is not None:
        low, high = float(np.min(spec.low)), float(np.max(spec.high))
        of_data.append((low, high))
        if spec.dtype == "uint8":  # models are made for 0 to 255, which data may not reach
            of_data += [(_between(*ends, low / 255), _between(*ends, high / 255)) for ends in usual]
    return of_data, usual


def _between(low: End, high: End, share: float) -> End:
    between = (1 - share) * np.asarray(low) + share * np.asarray(high)
    return tuple(between.tolist()) if isinstance(low, tuple) else float(between)


class Own:
    """A network by a function of the user's; it stands where a ``Network`` does. ``name`` is for messages.

    ``folder`` is that of the user's file, whose other modules the function may import.
    """

    def __init__(self, name: str, function: Callable[..., Any], kind: str, folder: Path | None = None) -> None:
        self.name, self.function, self.folder = name, function, folder
        known = NETWORKS.kinds().items()
        self.another = next(name for name, one in known if one.facts.get("tried") == 1 and kind in one.facts["of"])

    def build(self, spec: InputSpec, *, settings: Any, classes: int = 0, noise: int = 0) -> Any:
        """See ``Network.build``. Raises ``BadInput``, in one sentence, for what cannot be trained, saved or shipped."""
        import keras

        end = None if spec.low is None else 1.0
        requested = Spec(tuple(spec.shape), classes or None, None if end is None else 0.0, end, noise)
        try:
            inspect.signature(self.function).bind(requested)
        except (TypeError, ValueError):
            raise BadInput(f"{self.name}: a function of one argument was expected, build(spec).") from None
        torch = sys.modules.get("torch")
        if torch is not None:  # which Keras, on TensorFlow, does not seed
            torch.manual_seed(random.getrandbits(63))
        try:
            with _beside(self.folder):
                model = self.function(requested)
        except Exception as error:
            file = getattr(getattr(self.function, "__code__", None), "co_filename", "")
            raise BadInput(f"{self.name} fails for {requested}: {_of(error, file)}.{_install(error)}") from None
        if is_module(model):
            model = _torch_models().of_module(model, self.name, requested.inputs)
        model = checked(model, self.name, requested)
        if classes:  # an export of label-only, and the audit's, finds its output by that name
            logits = [one for one in model.layers if one.name == "logits"]
            if logits and model.output_names != ["logits"]:
                raise BadInput(f'{self.name}: a layer "logits" that is the last was expected: give it another name.')
            last = model.outputs[0] if logits else keras.layers.Activation("linear", name="logits")(model.outputs[0])
            return keras.Model(model.inputs[0], last)
        layers = importlib.import_module(OURS)
        ends = [keras.Input(shape, name=name) for shape, name in zip(requested.inputs, ("sample", "noise"))]
        generated = _call(model, ends)
        if end is None:
            output = keras.layers.Activation("linear", name="output")(generated)
        else:
            output = layers.UnitClip(returns=settings.clip == "returns", name="output")(generated)
        return keras.Model(ends if noise else ends[0], output, name="generator")


def of_file(architecture: str, kind: str) -> Own | None:
    """The network of ``FILE.py:FUNCTION``, for samples of a ``kind``; None for a name. The file is run.

    Raises ``BadInput`` where it cannot be imported, or has no such function.
    """
    place = own_function(architecture)
    if place is None:
        return None
    path, name = place
    short = f"{path.name}:{name}"
    if not path.is_file():
        raise BadInput(f"{short}: a file was expected at {path}; there is none. It is needed to train.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {reason(error)}.") from None
    _announce(path, hashlib.sha256(data).hexdigest())
    namespace: dict[str, Any] = {"__name__": f"edgeveil_own_{path.stem}", "__file__": str(path)}
    try:
        with _beside(path.parent):
            exec(compile(data, str(path), "exec"), namespace)  # noqa: S102  the bytes whose hash was printed
    except (Exception, SystemExit) as error:
        raise BadInput(f"{path} cannot be imported: {_of(error, str(path))}.{_install(error)}") from None
    if not callable(namespace.get(name)):
        known = sorted(one for one, value in namespace.items() if inspect.isfunction(value) and not one.startswith("_"))
        raise BadInput(f"{path} has no function {name}; it has {', '.join(known) or 'none'}.")
    return Own(short, namespace[name], kind, path.parent)


@functools.cache
def _announce(path: Path, sha256: str) -> None:
    """Print, once in a process, whose code is about to be run."""
    say(f"Running code of the recipe: {path}, SHA-256 {sha256}.")


@contextmanager
def _beside(folder: Path | None) -> Iterator[None]:
    """Modules of ``folder`` can be imported in the block, and are forgotten after it: another recipe has its own."""
    if folder is None:
        yield
        return
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()  # a module may have been written a moment ago
    try:
        yield
    finally:
        sys.path[:] = before
        for name, module in list(sys.modules.items()):
            if Path(getattr(module, "__file__", None) or "/").is_relative_to(folder):
                del sys.modules[name]


def checked(model: Any, name: str, spec: Spec) -> Any:
    """A user's model, found fit: of Keras' layers, float32, right shapes, the same at each pass; without a softmax.

    Raises ``BadInput`` with ``name``, the reason and the cure.
    """
    import keras

    if not isinstance(model, keras.Model):
        expected = "a keras.Model or a torch.nn.Module was expected"
        raise BadInput(f"{name}: {expected}; got {type(model).__module__}.{type(model).__qualname__}.")
    if type(model).__module__.partition(".")[0] != "keras" or not getattr(model, "inputs", None):
        raise BadInput(f"{name}: a Functional or Sequential model that begins with keras.Input was expected.")
    try:
        text = model.to_json()
        config = json.loads(text)
        if foreign := foreign_parts(config):
            raise BadInput(f"{name} has {foreign}, whose code a saved model lacks: build it of Keras' own layers.")
        keras.models.model_from_json(text)  # as it will be read, without functions of the user's
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"{name}: a saved model would not open: {_of(error)}.") from None
    first = [one["config"].get("name") for one in tables(config) if _data_format(one) == "channels_first"]
    if first:
        raise BadInput(f"{name}: channels last were expected, and the layer {first[0]!r} has channels first.")
    wide = [one for one in (*model.variables, *model.inputs) if "float64" in str(one.dtype)]
    if wide:
        what = getattr(wide[0], "path", f"the input {wide[0].name}")
        raise BadInput(f"{name}: float32 was expected, and {what} is float64: build it under set_floatx('float32').")
    _check_shapes(model, name, spec)
    if spec.classes is not None:
        model = _without_softmax(model, name)
    _check_passes(model, name, spec)
    return model


def _check_shapes(model: Any, name: str, spec: Spec) -> None:
    takes, gives = [tuple(one.shape[1:]) for one in model.inputs], [tuple(one.shape[1:]) for one in model.outputs]
    if [len(one) for one in takes] != [len(one) for one in spec.inputs] or not all(map(_fits, takes, spec.inputs)):
        sample = spec.shape
        turned = takes[0] == (sample[-1], *sample[:-1]) if len(sample) > 1 else False
        why = " Its channels are first: build it with channels last." if turned else ""
        raise BadInput(f"{name}: inputs of the shapes {spec.inputs} were expected; it takes {takes}.{why}")
    if spec.classes is None:
        if len(gives) != 1 or not _fits(gives[0], spec.shape):
            raise BadInput(f"{name}: one output of a sample's shape {spec.shape} was expected; it gives {gives}.")
    elif gives != [(spec.classes,)]:
        one = " Of a single logit h, without its sigmoid, make keras.layers.Concatenate()([0 * h, h])."
        why = one if (gives, spec.classes) == ([(1,)], 2) else ""
        expected = f"logits of {spec.classes} classes were expected, {(spec.classes,)}"
        raise BadInput(f"{name}: {expected}; it gives {gives}.{why}")


def _fits(found: Sequence[int | None], wanted: Sequence[int]) -> bool:
    return len(found) == len(wanted) and all(one in (None, other) for one, other in zip(found, wanted, strict=True))


def _without_softmax(model: Any, name: str) -> Any:
    """A last layer with a softmax gives its logits from now on, and one that is a softmax goes: the same classes.

    Raises ``BadInput`` for one with a sigmoid.
    """
    import keras

    last = model
    while isinstance(last, keras.Model):
        last = last.outputs[0]._keras_history.operation
    if getattr(last, "activation", None) is keras.activations.sigmoid:
        raise BadInput(f"{name} ends with a sigmoid, and logits were expected: leave it out.")
    if getattr(last, "activation", None) in (keras.activations.softmax, keras.activations.log_softmax):
        last.activation = keras.activations.linear
    if isinstance(last, keras.layers.Softmax) and last is model.outputs[0]._keras_history.operation:
        return keras.Model(model.inputs, last.input)
    return model


def _check_passes(model: Any, name: str, spec: Spec) -> None:
    """Raise ``BadInput`` for a model that fails, draws at random, keeps a state, or looks at the whole batch."""
    values = spec.samples()
    few = [one[:3][::-1] for one in values]
    try:
        first, again, part = (_run(model, one) for one in (values, values, few))
    except Exception as error:
        raise BadInput(f"{name} does not run on samples of the shape {spec.shape}: {_of(error)}.") from None
    if not np.isfinite(first).all():
        raise BadInput(f"{name} gives values that are not finite for samples from 0 to 1.")
    if _differ(first, again):
        layer = _first_layer(model, values, values, slice(None))
        raise BadInput(
            f"{name}: two passes over the same samples differ, by {layer}: it draws at random or keeps a state. Leave "
            "it out, or let it act in training alone."
        )
    if _differ(first[:3], part[::-1]):
        layer = _first_layer(model, values, few, slice(None, None, -1))
        raise BadInput(
            f"{name}: what it gives for a sample depends on the batch, by {layer}, as in training: build it without "
            "training=True."
        )
    sums = first.sum(axis=-1)
    if spec.classes is not None and spec.classes > 1 and first.min() >= 0 and np.abs(sums - 1).max() < OTHERWISE:
        end = (
            f"end it with Dense({spec.classes}), or a trained one before them: keras.Model(model.inputs, LAYER.output)"
        )
        raise BadInput(f"{name} gives probabilities, and logits were expected: {end}.")


def _run(model: Any, values: Sequence[np.ndarray]) -> Any:
    out = _call(model, values)
    return [np.asarray(one) for one in out] if isinstance(out, list) else np.asarray(out)


def _call(model: Any, values: Sequence[Any]) -> Any:
    """Without training=False, which would hide a layer that was built with training=True."""
    many = isinstance(getattr(model, "_functional", model).input, list | tuple)
    return model(list(values) if many else values[0])


def _differ(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.abs(one - other).max() > OTHERWISE * max(1.0, float(np.abs(one).max())))


def _first_layer(model: Any, values: Sequence[np.ndarray], others: Sequence[np.ndarray], back: slice) -> str:
    """The first layer whose output for the same samples differs in two passes, by class and name."""
    import keras

    layers = [one for one in model.layers if len(one._inbound_nodes) == 1 and hasattr(one.output, "shape")]
    probe = keras.Model(model.inputs, [one.output for one in layers])
    first, again = _run(probe, values), _run(probe, others)
    for layer, one, other in zip(layers, first, again, strict=True):
        if _differ(one[: len(other)], other[back]):
            return f"the layer {layer.name!r} ({type(layer).__name__})"
    return "one of its layers"


def _data_format(one: dict[str, Any]) -> Any:
    config = one.get("config")
    return config.get("data_format") if isinstance(config, dict) else None


def _install(error: BaseException) -> str:
    """How to install PyTorch, where an import of it failed."""
    return f" Install it: {INSTALL_TORCH}" if getattr(error, "name", None) == "torch" else ""


def _of(error: BaseException, file: str = "") -> str:
    """An error in a user's code: its class and first line, and the last line of their ``file`` that it passed."""
    where, at = "", error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == file:
            where = f" (line {at.tb_lineno} of {Path(file).name})"
        at = at.tb_next
    lines = [line.strip() for line in re.sub(r"\x1b\[\d*m", "", str(error)).splitlines() if line.strip()]
    told = next((line for line in lines if not line.startswith("Exception encountered")), "no reason given")
    return f"{type(error).__name__}: {told[:200].rstrip('.')}{where}"


# A model of a file.


def _torch_models() -> Any:
    return importlib.import_module("edgeveil.trainer.networks.torch_models")  # which loads Keras


def is_module(model: Any) -> bool:
    """Whether it is a module of PyTorch, which is not imported for that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


@contextmanager
def saved(model: Any, file: Path, shape: Callable[[], tuple[int, ...]], *, replace: bool, kept: Path) -> Iterator[None]:
    """Within the block, ``file`` has a model that was given as an object. It goes if the block fails without ``kept``.

    A module of PyTorch becomes a Keras model for samples of ``shape()``. Raises ``BadInput`` where the file exists, or
    the model is neither.
    """
    if not is_module(model) and not hasattr(model, "save"):
        raise BadInput(
            f"A Keras model or a module of PyTorch was expected; got {type(model).__module__}."
            f"{type(model).__qualname__}. Read a .keras with keras.models.load_model; write what torch.export gives "
            "with torch.export.save, and name that .pt2: as trained of [classifiers.target] or "
            "[classifiers.sensitive], or as the model of wrap."
        )
    existed = file.exists()
    if existed and not replace:
        raise BadInput(f"{file} exists and is not overwritten. Name another folder.")
    if is_module(model):
        load_tensorflow()
        model = _torch_models().of_module(model, type(model).__qualname__, [shape()])
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        if not (existed and _are_alike(model, file)):  # a resumed run knows its files by their hashes
            model.save(file)
        yield
    except BaseException:
        if not existed and not kept.exists():
            file.unlink(missing_ok=True)
        raise


def _are_alike(model: Any, file: Path) -> bool:
    """Whether a Keras model has the layers and weights of a file; Keras writes the same model as other bytes."""
    try:
        before = keras_file.read(file)
    except BadInput:
        return False

    def layers(one: Any) -> list[Any]:
        return [[type(part), {**part.get_config(), "name": None}] for part in one._flatten_layers(include_self=False)]

    both = model.get_weights(), before.get_weights()
    return layers(model) == layers(before) and all(map(np.array_equal, *both)) and len(both[0]) == len(both[1])


def read_given(path: Path, shape: tuple[int, ...], layout: str | None = None) -> tuple[Any, Any]:
    """A user's saved Keras model and its config, or those of a .pt2 of PyTorch or a .onnx for samples of ``shape``.

    Raises ``BadInput`` where that is none, or would run code of its own.
    """
    if path.suffix.lower() == ".onnx":
        model = importlib.import_module("edgeveil.trainer.networks.onnx_models").of_file(path, [shape], layout)
        return model, json.loads(model.to_json())
    if path.suffix.lower() == ".pt2":
        return (model := _torch_models().of_file(path, [shape], layout)), json.loads(model.to_json())
    return keras_file.read(path), keras_file.config(path)


def graph_of(path: Path, data: bytes, cannot: str, gives: str) -> Graph:
    """The graph of anybody's .onnx or .tflite file: whole, in one file, of built-in operations, with float32 weights.

    Raises ``BadInput`` with what it ``cannot`` do otherwise. It ``gives`` one output, of one input.
    """
    form = path.suffix[1:].lower()
    if faults := problems(data, form):
        raise BadInput(f"{path} cannot {cannot}: {faults[0].text}; {faults[0].cure}.")
    try:
        graph = read(data, form)
    except BadInput as error:
        raise BadInput(f"{path} cannot {cannot}: {error}") from None
    if (len(graph.inputs), len(graph.outputs)) != (1, 1):
        raise BadInput(
            f"{path}: a model with one input and one output was expected; it has {len(graph.inputs)} and "
            f"{len(graph.outputs)}. Export one from a sample to {gives}."
        )
    wide = [tensor.name for tensor in graph.tensors() if tensor.dtype == "float64"]
    if wide:
        raise BadInput(f"{path}: float32 was expected, and {wide[0]} is float64. Export it with float32 weights.")
    return graph


class Trained:
    """The model of a ``[classifiers.target]``, for samples of ``spec`` and so many classes. Raises ``BadInput``."""

    def __init__(self, section: Given, spec: InputSpec, classes: int) -> None:
        self.path, self.spec = Path(str(section.trained)), spec
        shape = tuple(spec.shape) if section.size is None else (*section.size, spec.shape[-1])
        if spec.kind != "image" and (section.size is not None or section.colours == "bgr"):
            raise BadInput(f"{self.path.name}: size and colours are of pictures, and these are {spec.plural}.")
        if section.colours == "bgr" and spec.shape[-1] != 3:
            raise BadInput(f"{self.path.name}: colours are of three channels; samples have {spec.shape[-1]}.")
        check_channels(self.path.name, section, spec.shape[-1])
        model = read_given(self.path, shape)[0]
        takes = tuple(getattr(model, "input_shape", ()) or ())[1:]
        if spec.kind == "image" and takes[2:] == shape[2:] and None not in takes and takes != shape:
            raise BadInput(
                f"{self.path.name}: pictures of {shape[0]} x {shape[1]} were expected; it takes "
                f"{takes[0]} x {takes[1]}. "
                f"State size = [{takes[0]}, {takes[1]}], to which samples are brought for it."
            )
        self.model = checked(model, self.path.name, Spec(shape, classes))

    def classifier(self, section: Given) -> Any:
        """A model from the unit cube to logits, with what ``section`` states before the user's model."""
        import keras

        from edgeveil.models.layers import fixed_dense

        h = sample = keras.Input(self.spec.shape, name="sample")
        if section.size is not None:
            h = keras.layers.Resizing(*section.size, name="resized")(h)
        if section.colours == "bgr":
            h = fixed_dense(np.eye(3)[::-1], "bgr")(h)
        if (section.low, section.high) != (0.0, 1.0):
            low, high = np.asarray(section.low, np.float64), np.asarray(section.high, np.float64)
            h = keras.layers.Rescaling((high - low).tolist(), low.tolist(), name="range")(h)
        logits = keras.layers.Activation("linear", name="logits")(_call(self.model, [h]))
        return keras.Model(sample, logits)
