"""A module of PyTorch, or a .pt2 file of one, as a Keras model: exported once, from then on like any other.

``torch.export`` writes the module as a graph of ATen operations; each becomes a layer of Keras with the module's
weights, trainable where they are there, or a function of ``keras.ops``. What comes out is compared with the module on
random samples. PyTorch has channels first, (n, c, h, w), and samples here have them last: values are kept channels
last, so no convolution is turned, and ``Value.axes`` has where each of PyTorch's axes lies.
"""

from __future__ import annotations

import copy
import importlib
import io
import math
import operator
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.graphs.pt2 import DTYPES, Dtype, Node, Program, Ref, read_pt2
from edgeveil.trainer.networks.own import INSTALL_TORCH

OTHERWISE = 1e-4  # of the largest value: converted and own differ by less
MOST_VALUES = 1 << 26  # of one sample in one layer
MOST_AT_ONCE = 256  # samples in one pass of the original
# On whole numbers alone, of sizes.
SIZES = {f"_operator.{name}": getattr(operator, name) for name in ("add", "sub", "mul", "floordiv", "neg")}
# What is computed once, from weights alone, besides what is converted.
FOLDED = {
    "_weight_norm",
    "arange",
    "zeros",
    "ones",
    "full",
    "zeros_like",
    "ones_like",
    "linalg_vector_norm",
    "scalar_tensor",
}
FOLDED |= {"div", "clone", "detach", "to", "t", "lift_fresh_copy", "_to_copy", "rsqrt", "sqrt"}


@dataclass(frozen=True)
class Value:
    """A value of the graph: a Keras tensor whose axis ``axes[k]`` is axis k of PyTorch's.

    ``flat``: it was flattened as it lay, from values of that shape and those axes, with the batch. ``positive``: none
    is below 0.
    """

    tensor: Any
    axes: tuple[int, ...]
    flat: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    positive: bool = False

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Its shape in PyTorch's order, None for the batch."""
        return tuple(self.tensor.shape[axis] for axis in self.axes)


CONVERTED: dict[str, Callable[..., Any]] = {}


def converts(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers how operations of these names are made.

    The function takes the ``Conversion`` and the arguments by PyTorch's names, and returns a ``Value``, or a list of
    them. What it cannot make, it refuses in one sentence.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        CONVERTED.update(dict.fromkeys(names, function))
        return function

    return register


def load_torch(name: str) -> Any:
    """PyTorch. Raises ``BadInput`` with the line that installs it, where ``name`` needs it."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise BadInput(f"{name} needs PyTorch to be converted and compared. Install it: {INSTALL_TORCH}") from None


def of_module(module: Any, name: str, shapes: Sequence[tuple[int, ...]]) -> Any:
    """A module as a Keras model for inputs of ``shapes``, channels last, without the batch.

    The module gets each input channels first. A copy of it is exported, in inference on the CPU: it stays as it is.
    Raises ``BadInput`` for what fails, has no counterpart, or differs.
    """
    torch = load_torch(name)
    if any(isinstance(one, torch.jit.ScriptModule) for one in module.modules()):
        raise BadInput(
            f"{name}: a ScriptModule of torch.jit was given, which torch.export does not take. Give the module that it "
            "was made of, with its weights: module.load_state_dict(scripted.state_dict())."
        )
    for path, one in (*module.named_parameters(), *module.named_buffers()):
        if one.is_floating_point() and one.dtype != torch.float32:
            kind = str(one.dtype).removeprefix("torch.")
            raise BadInput(f"{name}: float32 was expected, and {path} is {kind}: call .float() on the module.")
    try:
        module = module.module if isinstance(module, torch.nn.DataParallel) else module
        module = getattr(module, "_orig_mod", module)  # that of torch.compile
        module = copy.deepcopy(module).cpu().eval()
    except Exception as error:
        raise BadInput(
            f"{name} cannot be copied: {first_line(error)}. Give one whose weights are parameters."
        ) from None
    samples = tuple(torch.zeros((2, *_first(shape)), dtype=torch.float32, device="cpu") for shape in shapes)
    takes = " and ".join(str(tuple(one.shape)) for one in samples)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            module(*samples)
        except Exception as error:
            raise BadInput(
                f"{name} does not run on {takes}, channels first as PyTorch has them: {first_line(error)}."
            ) from None
        try:
            sizes = tuple({0: torch.export.Dim("batch", min=1)} for _ in samples)
            program = torch.export.export(module, samples, dynamic_shapes=sizes)
            known = torch.export.default_decompositions()
            ops = {one.target for one in program.graph.nodes if one.op == "call_function"}
            if others := {one: known[one] for one in ops if one in known and not _is_known(one)}:
                program = program.run_decompositions(others)
            archive = io.BytesIO()
            torch.export.save(program, archive)
        except Exception as error:
            raise BadInput(
                f"{name}: torch.export cannot write it as a graph, for any batch: {first_line(error)}. Let no branch "
                "depend on values or on the batch."
            ) from None
    return converted(read_pt2(archive, name), name, shapes)


def of_file(path: Path, shapes: Sequence[tuple[int, ...]], layout: str | None = None) -> Any:
    """A .pt2 file as a Keras model for inputs of ``shapes``, channels last, without the batch. Raises ``BadInput``.

    Where its channels lie is read off the shape that it was exported for; ``layout`` "first" or "last" decides where
    both fit.
    """
    load_torch(path.name)
    return converted(read_pt2(path, path.name), path.name, shapes, layout)


def converted(
    program: Program, name: str, shapes: Sequence[tuple[int, ...]], layout: str | None = None, walk: Any = None
) -> Any:
    """The Keras model of a graph, equal to it on random samples. ``walk`` is another class of ``Conversion``."""
    firsts = _layouts(program, name, shapes, layout)
    inputs = [keras.Input(shape) for shape in shapes]
    of = (walk or Conversion)(program, name, inputs[0])
    for at, one, first in zip(program.inputs, inputs, firsts, strict=True):
        rank = len(one.shape)
        of.values[at] = Value(one, (0, rank - 1, *range(1, rank - 1)) if first else tuple(range(rank)))
    for node in program.nodes:
        of.convert(node)
    output = of.values[program.output]
    if not isinstance(output, Value):
        raise BadInput(f"{name}: its output does not depend on the sample.")
    output = of.natural(output) if output.flat else output
    rank = len(output.axes)
    if firsts[0] and rank == len(shapes[0]) + 1:
        last = of.ordered(output, (0, rank - 1, *range(1, rank - 1))).tensor
    else:
        last = of.natural(output).tensor
    last = keras.layers.Activation("linear")(last) if last is inputs[0] else last
    model = keras.Model(inputs if inputs[1:] else inputs[0], last)
    of.compare(model, inputs, firsts)
    return model


def _first(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[-1], *shape[:-1])


def _layouts(program: Program, name: str, shapes: Sequence[tuple[int, ...]], layout: str | None) -> list[bool]:
    """Of each input, whether its channels are first."""
    takes = [program.shapes[one][1:] for one in program.inputs]
    channels_first = []
    for own, shape in zip(takes, shapes, strict=False):
        fits = [kind for kind, one in (("first", _first(shape)), ("last", shape)) if _fits(own, one)]
        if layout in fits:
            fits = [str(layout)]
        channels_first.append(bool(fits) and fits[0] == "first" and len(shape) > 1)
        if not fits or len(takes) != len(shapes):
            channels_first.clear()
            break
    if not channels_first:
        raise BadInput(
            f"{name}: inputs of the shapes {[_first(one) for one in shapes]}, channels first, or {list(shapes)} were "
            f"expected, without the batch; it takes {takes}. Export it for such samples."
        )
    return channels_first


def _fits(own: tuple[int | None, ...], shape: tuple[int, ...]) -> bool:
    return len(own) == len(shape) and all(one in (None, other) for one, other in zip(own, shape, strict=True))


def _is_known(target: Any) -> bool:
    return str(target).split(".")[1] in _table().keys() | FOLDED


def _table() -> dict[str, Any]:
    for name in ("torch_layers", "torch_values"):
        importlib.import_module(f"edgeveil.trainer.networks.{name}")
    return CONVERTED


def first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {(lines or ['no reason given'])[0][:200].rstrip('.')}"


class Conversion:
    """A walk over a graph: the Keras tensor, or the array of weights, of each value so far."""

    original = "PyTorch"
    cure = "Write the layer with other operations"
    open_batch = 'export it with dynamic_shapes=({0: torch.export.Dim("n")},)'

    def __init__(self, program: Program, name: str, sample: Any) -> None:
        self.program, self.name, self.sample = program, name, sample
        self.values: dict[str, Value | np.ndarray | None] = dict(program.weights)
        self.trained = set(program.trained)
        self.node: Node
        self._layers: dict[tuple[Any, ...], Any] = {}
        self._names: dict[str, int] = {}
        self._folded: dict[str, tuple[str, ...]] = {}
        self._same: dict[str, str] = {}  # of weights that are computed anew at each call of a module, the first

    def refuse(self, why: str) -> BadInput:
        """The error of the operation at hand."""
        return BadInput(f"{self.name}: {self.node.where}: {why}.")

    def convert(self, node: Node) -> None:
        """Add the results of one operation."""
        self.node = node
        if node.op in SIZES or (node.op, node.overload) == ("sym_size", "int"):
            self.values[node.outputs[0]] = None
            return
        wide = [one for one in node.outputs if self.program.dtypes.get(one) == 8]
        wide += [
            self.program.names[one] for one in node.refs() if one in self.program.weights and _is_wide(self.values[one])
        ]
        if wide:
            raise self.refuse(f"float32 was expected, and {wide[0]} is float64: call .float() on the module")
        args = {key: self._argument(one) for key, one in node.args.items()}
        refs = list(node.refs())
        if all(isinstance(self.values[one], np.ndarray) for one in refs) and node.op in _table().keys() | FOLDED:
            first = self._folded.setdefault(f"{node.op} {node.args}", node.outputs)
            self._same.update(zip(node.outputs, first, strict=True))
            results = _execute(node, {one: _tensor(self.values[one]) for one in refs})
            self.trained.update(node.outputs if self.trained.intersection(refs) else ())
            self.values.update(zip(node.outputs, (one.detach().numpy() for one in results), strict=True))
            return
        if node.op not in _table():
            raise BadInput(
                f"{self.name}: {node.where} has no counterpart in Keras here. Write the layer with other operations, "
                "or export the network to .onnx and take `edgeveil wrap`."
            )
        try:
            as_keras = _table()[node.op](self, **args)
        except BadInput:
            raise
        except Exception as error:
            raise self.refuse(f"it cannot be converted: {first_line(error)}") from None
        for at, one in zip(node.outputs, as_keras if isinstance(as_keras, list) else [as_keras], strict=False):
            if isinstance(one, Value) and math.prod(size or 1 for size in one.tensor.shape) > MOST_VALUES:
                raise self.refuse(f"a sample becomes more than {MOST_VALUES} values. Give a smaller model")
            self.values[at] = one

    def _argument(self, one: Any) -> Any:
        if isinstance(one, list):
            return [self._argument(each) for each in one]
        return self.values[one.name] if isinstance(one, Ref) else one

    # What the operations of torch_layers are made with.

    def layer(
        self, kind: Any, value: Any, arrays: Sequence[np.ndarray] = (), key: Sequence[str] = (), **config: Any
    ) -> Any:
        """The tensor of a layer with weights ``arrays`` for ``value``; of the same arguments ``key`` the same layer."""
        refs = [one.name if isinstance(one := self.node.args.get(name), Ref) else name for name in key]
        refs = [self._same.get(one, one) for one in refs]
        at = (kind, repr(config), *refs)
        layer = self._layers.get(at) if arrays else None
        if layer is None:
            trainable = not arrays or bool(self.trained.intersection(refs))
            layer = self._layers[at] = kind(**config, name=self._name(), trainable=trainable)
            output = layer(value)
            if arrays:
                layer.set_weights([np.asarray(one, np.float32) for one in arrays])
            return output
        return layer(value)

    def _name(self) -> str:
        base = re.sub(r"\W", "_", f"{self.node.module}_{self.node.op}" if self.node.module else self.node.op).strip("_")
        self._names[base] = count = self._names.get(base, 0) + 1
        return base if count == 1 else f"{base}_{count}"

    def array(self, key: str) -> np.ndarray | None:
        """The weights of an argument; None where it is left out. Raises ``BadInput`` where samples decide them."""
        one = self.node.args.get(key)
        weights = self.values[one.name] if isinstance(one, Ref) else None
        if isinstance(weights, Value):
            raise self.refuse(f"its {key} was expected to be a weight, and is computed from the sample")
        return weights

    def ordered(self, value: Value, axes: tuple[int, ...]) -> Value:
        """The value as it lies with those axes."""
        if value.flat is not None:
            value = self._unflattened(value)
        if value.axes == axes:
            return value
        turned = [value.axes[axes.index(axis)] for axis in range(len(axes))]
        return replace(value, tensor=keras.ops.transpose(value.tensor, turned), axes=axes)

    def natural(self, value: Any) -> Value:
        """The value with axes as PyTorch has them; of weights, a tensor of their own."""
        if isinstance(value, np.ndarray):
            return self.own(value)
        return self.ordered(value, tuple(range(len(value.axes))))

    def last(self, value: Value) -> Value:
        """The value (n, c, ...) with its channels last."""
        rank = len(value.axes)
        return self.ordered(value, (0, rank - 1, *range(1, rank - 1)))

    def _unflattened(self, value: Value) -> Value:
        shape, axes = value.flat or ((), ())
        h = keras.ops.transpose(keras.ops.reshape(value.tensor, (-1, *shape[1:])), axes)
        return Value(keras.ops.reshape(h, (-1, math.prod(shape[1:]))), (0, 1), positive=value.positive)

    def is_trained(self, array: np.ndarray) -> bool:
        """Whether weights are a parameter, which training changes."""
        return any(one is array and name in self.trained for name, one in self.values.items())

    def own(self, array: np.ndarray, axes: tuple[int, ...] | None = None) -> Value:
        """Weights that no layer holds, as a tensor without a batch: with their axes, or as a value of ``axes`` lies."""
        axes = tuple(range(array.ndim)) if axes is None else axes
        key = (id(array), axes)
        if key not in self._layers:
            turned = np.transpose(array.reshape((1,) * (len(axes) - array.ndim) + array.shape), np.argsort(axes))
            weight = importlib.import_module("edgeveil.models.layers").Weight
            layer = weight(turned.shape, name=self._name(), trainable=self.is_trained(array))
            layer.set_weights([np.asarray(turned, np.float32)])
            self._layers[key] = layer(self.sample)
        return Value(self._layers[key], axes)

    # Is it the same as the module?

    def results(self, samples: dict[str, np.ndarray]) -> dict[str, Any]:
        """Every value of the original, for such inputs."""
        tensors = {name: _tensor(one) for name, one in {**self.program.weights, **samples}.items()}
        for node in self.program.nodes:
            try:
                tensors.update(zip(node.outputs, _execute(node, tensors), strict=False))
            except Exception as error:
                count = len(next(iter(samples.values())))
                raise BadInput(
                    f"{self.name}: {node.where} does not run on {count} samples: {first_line(error)}."
                ) from None
        return tensors

    def compare(self, model: Any, inputs: Sequence[Any], firsts: Sequence[bool]) -> None:
        """Raise ``BadInput`` with the first layer that differs from the module's, on random samples."""
        rng = np.random.default_rng(0)
        count = self.program.shapes[self.program.inputs[0]][0] or 8  # in one pass of the module
        if count > MOST_AT_ONCE:
            raise BadInput(f"{self.name}: a batch of at most {MOST_AT_ONCE} was expected; it takes {count}.")
        samples = [rng.random((8 * count, *one.shape[1:]), np.float32) for one in inputs]
        passes: list[dict[str, Any]] = []
        for start in range(0, 8 * count, count):
            parts = (one[start : start + count] for one in samples)
            turned = (np.moveaxis(one, -1, 1) if first else one for one, first in zip(parts, firsts, strict=True))
            passes.append(self.results(dict(zip(self.program.inputs, turned, strict=True))))
        own = np.concatenate([np.asarray(one[self.program.output]) for one in passes])
        if firsts[0] and own.ndim == samples[0].ndim:
            own = np.moveaxis(own, 1, -1)
        if not _far(np.asarray(model(samples if samples[1:] else samples[0], training=False)), own):
            return
        few = [one[:count] for one in samples]
        for node in self.program.nodes:
            for name in node.outputs:
                if isinstance(value := self.values.get(name), Value):
                    computed = np.asarray(keras.Model(inputs, self.natural(value).tensor)(few, training=False))
                    if worst := _far(computed, np.asarray(passes[0][name])):
                        raise BadInput(
                            f"{self.name}: {node.where} gives other values in Keras than in {self.original}, by "
                            f"{worst:.2g} of the largest. {self.cure}."
                        )
        raise BadInput(
            f"{self.name}: what it gives for a sample depends on the batch of {count} that it was exported for: "
            f"{self.open_batch}."
        )


def _far(found: np.ndarray, own: np.ndarray) -> float:
    """By how much of the largest value two arrays differ; 0 within what rounding does."""
    if found.shape != own.shape:
        return math.inf
    far = float(np.abs(found - own).max() / max(1.0, float(np.abs(own).max()))) if own.size else 0.0
    return 0.0 if far <= OTHERWISE else far  # NaN is far


def _is_wide(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float64


def _tensor(array: Any) -> Any:
    return sys.modules["torch"].from_numpy(np.array(array))


def _execute(node: Node, tensors: dict[str, Any]) -> list[Any]:
    """The results of one operation by PyTorch. Only what is converted or folded is ever called."""
    torch: Any = sys.modules["torch"]

    def argument(one: Any) -> Any:
        if isinstance(one, list):
            return [argument(each) for each in one]
        if isinstance(one, Dtype):
            return torch.from_numpy(np.zeros(0, DTYPES[one.number])).dtype
        return tensors[one.name] if isinstance(one, Ref) else one

    args = {key: argument(one) for key, one in node.args.items()}
    if node.op in SIZES:
        return [SIZES[node.op](*args.values())]
    if node.op not in _table().keys() | FOLDED | {"sym_size"}:
        raise ValueError(f"{node.op} is none of the operations that are converted")
    if node.op in ("view", "_unsafe_view"):  # whose values may lie in another order here
        return [args["self"].reshape(args["size"])]
    result = getattr(getattr(torch.ops.aten, node.op), node.overload)(**args)
    return list(result) if isinstance(result, list | tuple) else [result]
