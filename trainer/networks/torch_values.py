"""Operations of ATen on values alone: activations, arithmetic, axes and shapes. See ``converts``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from keras import layers, ops

from edgeveil.trainer.graphs.pt2 import FLOAT, Dtype
from edgeveil.trainer.networks.torch_models import CONVERTED, Conversion, Value, converts

END = (1 << 63) - 1  # of a slice without one

# Of one value.


def _by_layer(kind: Any, positive: bool = False, **config: Any) -> Callable[..., Value]:
    return lambda c, self, **_: replace(self, tensor=c.layer(kind, self.tensor, **config), positive=positive)


def _by_function(function: Callable[[Any], Any], positive: bool = False) -> Callable[..., Value]:
    return lambda c, self, **_: replace(self, tensor=function(self.tensor), positive=positive)


for _name in ("sigmoid", "tanh", "silu", "selu", "mish"):
    CONVERTED[_name] = _by_layer(layers.Activation, _name == "sigmoid", activation=_name)
CONVERTED["relu"] = _by_layer(layers.ReLU, True)
CONVERTED["relu6"] = _by_layer(layers.ReLU, True, max_value=6.0)
CONVERTED["hardsigmoid"] = _by_layer(layers.Activation, True, activation="hard_sigmoid")
CONVERTED["hardswish"] = _by_layer(layers.Activation, activation="hard_silu")
CONVERTED["log_sigmoid"] = _by_layer(layers.Activation, activation="log_sigmoid")
for _name in ("exp", "sqrt", "square", "abs", "rsqrt", "sigmoid"):
    CONVERTED.setdefault(_name, _by_function(getattr(ops, _name), True))
for _name in ("log", "log1p", "sin", "cos", "erf", "floor", "round", "sign", "expm1", "reciprocal"):
    CONVERTED[_name] = _by_function(getattr(ops, _name))
CONVERTED["neg"] = _by_function(ops.negative)
CONVERTED |= {
    f"{name}_": CONVERTED[name] for name in ("relu", "relu6", "silu", "hardswish", "hardsigmoid", "mish", "selu")
}
for _name in ("relu", "relu6", "silu", "hardswish", "hardsigmoid", "mish", "selu", "sigmoid", "tanh", "dropout"):
    CONVERTED[f"{_name}_"] = CONVERTED[_name]


@converts("gelu")
def _gelu(c: Conversion, self: Value, approximate: str = "none") -> Value:
    return replace(self, tensor=ops.gelu(self.tensor, approximate=approximate == "tanh"), positive=False)


@converts("leaky_relu", "leaky_relu_")
def _leaky(c: Conversion, self: Value, negative_slope: float = 0.01) -> Value:
    return replace(self, tensor=c.layer(layers.LeakyReLU, self.tensor, negative_slope=negative_slope), positive=False)


@converts("elu", "elu_")
def _elu(c: Conversion, self: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    if (scale, input_scale) != (1.0, 1.0):
        raise c.refuse("a scale of 1 was expected")
    return replace(self, tensor=c.layer(layers.ELU, self.tensor, alpha=alpha), positive=False)


@converts("softplus")
def _softplus(c: Conversion, self: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    return replace(self, tensor=ops.softplus(self.tensor * beta) / beta, positive=True)


@converts("prelu")
def _prelu(c: Conversion, self: Value, weight: Any) -> Value:
    slopes, v = c.array("weight"), c.last(self) if len(self.axes) > 2 else c.natural(self)
    assert slopes is not None  # noqa: S101
    rank = len(v.axes)
    shape = (1,) * (rank - 2) + (slopes.size if slopes.size > 1 else v.tensor.shape[-1],)
    array = np.broadcast_to(slopes, shape)
    shared = list(range(1, rank - 1)) or None
    return replace(v, tensor=c.layer(layers.PReLU, v.tensor, [array], ("weight",), shared_axes=shared), positive=False)


@converts("hardtanh", "hardtanh_", "clamp", "clamp_", "clamp_min", "clamp_max", "clip")
def _clamp(c: Conversion, self: Value, min_val: Any = -1.0, max_val: Any = 1.0, **bounds: Any) -> Value:
    low, high = (min_val, max_val) if "hardtanh" in c.node.op else (bounds.get("min"), bounds.get("max"))
    if isinstance(low, Value | np.ndarray) or isinstance(high, Value | np.ndarray):
        raise c.refuse("bounds that are numbers were expected")
    tensor = self.tensor
    if low == 0 and high is not None and high > 0:
        return replace(self, tensor=c.layer(layers.ReLU, tensor, max_value=float(high)), positive=True)
    tensor = tensor if low is None else ops.maximum(tensor, float(low))
    tensor = tensor if high is None else ops.minimum(tensor, float(high))
    return replace(self, tensor=tensor, positive=low is not None and low >= 0)


@converts("softmax", "_softmax", "log_softmax", "_log_softmax")
def _softmax(c: Conversion, self: Value, dim: int, **others: Any) -> Value:
    v = c.natural(self) if self.flat else self
    axis = v.axes[dim]
    if axis == len(v.axes) - 1:
        kind = c.node.op.removeprefix("_")
        return replace(v, tensor=c.layer(layers.Activation, v.tensor, activation=kind), positive=kind == "softmax")
    if "log" in c.node.op:
        return replace(v, tensor=ops.log_softmax(v.tensor, axis=axis), positive=False)
    return replace(v, tensor=c.layer(layers.Softmax, v.tensor, axis=axis), positive=True)


@converts("clone", "contiguous", "detach", "alias", "lift_fresh_copy", "identity", "to", "_to_copy", "type_as")
def _same(c: Conversion, self: Value, **others: Any) -> Value:
    wanted = [one for one in others.values() if isinstance(one, Dtype) and one.number != FLOAT]
    if wanted:
        raise c.refuse("float32 throughout was expected, and it turns values into another kind of numbers")
    return self


# Of two values.


def _aligned(c: Conversion, *parts: Any) -> tuple[list[Any], Value]:
    """Values, weights and numbers as what broadcasts in Keras as in PyTorch, and the value whose axes it has."""
    values = [one for one in parts if isinstance(one, Value)]
    like = max(values, key=lambda one: len(one.axes))
    plain = [isinstance(one, np.ndarray) and (one.size > 1 or c.is_trained(one)) for one in parts]
    if any(len(one.axes) != len(like.axes) or one.flat != like.flat for one in values) or (like.flat and any(plain)):
        parts, like = tuple(c.natural(one) if isinstance(one, Value) else one for one in parts), c.natural(like)
    operands: list[Any] = []
    for one, own in zip(parts, plain, strict=True):
        if isinstance(one, Value):
            fits = len(one.axes) < len(like.axes) or one.flat is not None
            operands.append(one.tensor if fits else c.ordered(one, like.axes).tensor)
        elif own:
            if one.ndim > len(like.axes):
                raise c.refuse("weights of no more axes than the sample were expected")
            operands.append(c.own(one, like.axes).tensor)
        else:
            operands.append(float(one.item()) if isinstance(one, np.ndarray) else one)
    return operands, like


def _of_two(function: Callable[[Any, Any], Any], positive: bool = False) -> Callable[..., Value]:
    def make(c: Conversion, self: Any, other: Any, alpha: float = 1, **others: Any) -> Value:
        if others:
            raise c.refuse(f"it has {', '.join(others)}, which has no counterpart")
        (one, two), like = _aligned(c, self, other)
        above = positive and all(v.positive if isinstance(v, Value) else np.min(v) >= 0 for v in (self, other))
        return replace(like, tensor=function(one, two if alpha == 1 else two * alpha), positive=above)

    return make


CONVERTED |= {"add": _of_two(ops.add, True), "mul": _of_two(ops.multiply, True), "div": _of_two(ops.divide, True)}
CONVERTED |= {"sub": _of_two(ops.subtract), "rsub": _of_two(lambda one, two: two - one)}
CONVERTED |= {"maximum": _of_two(ops.maximum), "minimum": _of_two(ops.minimum)}
CONVERTED |= {f"{name}_": CONVERTED[name] for name in ("add", "sub", "mul", "div")}


@converts("pow", "pow_")
def _power(c: Conversion, self: Any, exponent: Any) -> Value:
    if not isinstance(exponent, int | float):
        raise c.refuse("an exponent that is a number was expected")
    raised = ops.square(self.tensor) if exponent == 2 else ops.power(self.tensor, float(exponent))
    return replace(self, tensor=raised, positive=exponent == 2)


@converts("addcmul")
def _add_product(c: Conversion, self: Any, tensor1: Any, tensor2: Any, value: float = 1) -> Value:
    (one, two, three), like = _aligned(c, self, tensor1, tensor2)
    return replace(like, tensor=one + two * three * value, positive=False)


# Along axes.


@converts("mean", "sum", "amax", "amin")
def _reduced(c: Conversion, self: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    v, rank = c.natural(self) if self.flat else self, len(self.axes)
    dims = {one % rank for one in (range(rank) if dim in (None, []) else [dim] if isinstance(dim, int) else dim)}
    if v.axes.index(0) in dims and v.tensor.shape[0] is None:
        raise c.refuse("each sample for itself was expected, and it goes over the batch")
    function = {"mean": ops.mean, "sum": ops.sum, "amax": ops.max, "amin": ops.min}[c.node.op]
    tensor = function(v.tensor, axis=tuple(sorted(v.axes[one] for one in dims)), keepdims=keepdim)
    left = [axis for one, axis in enumerate(v.axes) if keepdim or one not in dims]
    return Value(tensor, tuple(sorted(left).index(axis) for axis in left), positive=v.positive and c.node.op != "sum")


@converts("cat", "concat", "stack")
def _joined(c: Conversion, tensors: list[Any], dim: int = 0) -> Value:
    values = [one if isinstance(one, Value) else c.natural(one) for one in tensors]
    if c.node.op == "stack":
        values = [_unsqueeze(c, one, dim) for one in values]
    values = [c.natural(one) if one.flat else one for one in values]
    axes, positive = values[0].axes, all(one.positive for one in values)
    parts = [c.ordered(one, axes).tensor for one in values]
    if any(part.shape[axes[0]] is not None for part in parts):
        raise c.refuse("each part was expected to have the batch: it joins weights to the sample without expand")
    return Value(c.layer(layers.Concatenate, parts, axis=axes[dim]), axes, positive=positive)


def _cut(value: Value, dim: int, part: Any) -> Any:
    """Values of an axis, by a slice or a number."""
    axis = value.axes[dim]
    return value.tensor[(*(slice(None) for _ in range(axis)), part)]


@converts("split", "split_with_sizes", "chunk", "tensor_split")
def _parts(c: Conversion, self: Value, dim: int = 0, **sizes: Any) -> list[Value]:
    v = c.natural(self) if self.flat else self
    ((_, how),) = sizes.items()
    has = v.shape[dim]
    if has is None or c.node.op == "tensor_split":
        raise c.refuse("parts along an axis of a fixed size were expected")
    step = -(-has // how) if c.node.op == "chunk" else how
    each = list(step) if isinstance(step, list) else [min(step, has - at) for at in range(0, has, step)]
    starts = np.cumsum([0, *each]).tolist()
    return [replace(v, tensor=_cut(v, dim, slice(*ends))) for ends in zip(starts, starts[1:], strict=False)]


@converts("slice")
def _slice(c: Conversion, self: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    v = c.natural(self) if self.flat else self
    has = v.shape[dim]
    if (start or 0) == 0 and (end is None or end >= (has or END)) and step == 1:
        return v
    if has is None:
        raise c.refuse("each sample for itself was expected, and it takes some of the batch")
    return replace(v, tensor=_cut(v, dim, slice(*slice(start, end, step).indices(has))))


@converts("select", "unbind")
def _select(c: Conversion, self: Any, dim: int = 0, index: int | None = None) -> Any:
    v = c.natural(self) if isinstance(self, np.ndarray) or self.flat else self
    dim %= len(v.axes)
    has, gone = v.shape[dim], v.axes[dim]
    if has is None:
        raise c.refuse("each sample for itself was expected, and it takes one of the batch")
    axes = tuple(axis - (axis > gone) for axis in v.axes if axis != gone)
    selected = [
        Value(_cut(v, dim, one % has), axes, positive=v.positive)
        for one in ([index] if index is not None else range(has))
    ]
    return selected[0] if index is not None else selected


# Shapes.


@converts("permute", "transpose", "t", "numpy_T", "movedim", "swapaxes")
def _permute(c: Conversion, self: Value, dims: Any = None, dim0: int = 0, dim1: int = 1) -> Value:
    if c.node.op == "movedim":
        raise c.refuse("permute was expected")
    v, order = c.natural(self) if self.flat else self, list(range(len(self.axes)))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return replace(v, axes=tuple(v.axes[one] for one in (order if dims is None else dims)))


@converts("squeeze")
def _squeeze(c: Conversion, self: Value, dim: Any = None) -> Value:
    v = c.natural(self) if self.flat else self
    rank = len(v.axes)
    dims = range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    gone = sorted(v.axes[one] for one in {one % rank for one in dims} if v.shape[one] == 1)
    left = [axis for axis in v.axes if axis not in gone]
    tensor = ops.squeeze(v.tensor, axis=tuple(gone)) if gone else v.tensor
    return Value(tensor, tuple(sorted(left).index(axis) for axis in left), positive=v.positive)


@converts("unsqueeze")
def _unsqueeze(c: Conversion, self: Value, dim: int) -> Value:
    v = c.natural(self) if self.flat else self
    rank = len(v.axes)
    axes = list(v.axes)
    axes.insert(dim % (rank + 1), rank)  # the last as it lies
    return Value(ops.expand_dims(v.tensor, -1), tuple(axes), positive=v.positive)


@converts("view", "reshape", "flatten", "unflatten", "_unsafe_view")
def _reshape(c: Conversion, self: Value, **others: Any) -> Value:
    wanted = list(c.program.shapes[c.node.outputs[0]])
    v = c.natural(self) if self.flat else self
    batch = v.shape.index(None)
    if None not in wanted:  # exported for one size of the batch
        if batch:
            raise c.refuse(
                'the batch is merged with others: export it with dynamic_shapes=({0: torch.export.Dim("n")},)'
            )
        wanted[0] = None
    if wanted.count(None) != 1:
        raise c.refuse("one open size, the batch, was expected")
    if tuple(wanted) == v.shape:
        return v
    natural = tuple(range(len(v.axes)))
    if len(wanted) == 2 and wanted[0] is None and v.axes[0] == batch == 0 and v.axes != natural:
        if math.prod(size or 1 for size in v.shape[1:]) == max(size or 1 for size in v.shape[1:]):  # one axis alone
            return Value(ops.reshape(v.tensor, (-1, wanted[1])), (0, 1), positive=v.positive)
        flat = (tuple(v.tensor.shape), v.axes)
        return Value(c.layer(layers.Flatten, v.tensor), (0, 1), flat, v.positive)
    sizes = [-1 if one is None else one for one in wanted]
    return Value(ops.reshape(c.natural(v).tensor, sizes), tuple(range(len(sizes))), positive=v.positive)


@converts("expand", "expand_as", "broadcast_to")
def _expand(c: Conversion, self: Any, size: Any = None, **others: Any) -> Value:
    wanted = c.program.shapes[c.node.outputs[0]]
    if isinstance(self, np.ndarray):  # weights, once for each sample
        count = c.sample[(slice(None), *(slice(0, 1) for _ in c.sample.shape[1:]))] * 0.0
        expanded = ops.reshape(count, (-1, *(1 for _ in wanted[1:]))) + c.own(self, tuple(range(len(wanted)))).tensor
        return Value(expanded, tuple(range(len(wanted))))
    v = c.natural(self) if self.flat else self
    if len(wanted) != len(v.axes):
        raise c.refuse("as many axes as before were expected")
    for dim, (has, gives) in enumerate(zip(v.shape, wanted, strict=True)):
        if has == 1 and gives not in (1, None):
            v = replace(v, tensor=ops.repeat(v.tensor, gives, axis=v.axes[dim]))
    return v


@converts("zeros", "ones", "full")
def _filled(c: Conversion, size: Any, fill_value: float = 0.0, **others: Any) -> np.ndarray:
    sizes = [1 if one is None else one for one in c.program.shapes[c.node.outputs[0]]]  # for each sample the same
    return np.full(sizes, 1.0 if c.node.op == "ones" else fill_value, np.float32)
