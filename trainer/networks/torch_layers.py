"""Operations of ATen that are layers of Keras: convolutions, norms, pooling and others. See ``converts``."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from keras import layers, ops

from edgeveil.trainer.networks.torch_models import MOST_VALUES, Conversion, Value, converts


def _each(value: int | Sequence[int], count: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * count if len(values) == 1 else values


def _channels_last(array: np.ndarray) -> np.ndarray:
    """A kernel (out, in, ...) as Keras has it, (..., in, out)."""
    return np.transpose(array, (*range(2, array.ndim), 1, 0))


# Convolutions and dense layers.


@converts("conv1d", "conv2d", "convolution")
def _conv(
    c: Conversion,
    input: Value,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    transposed: bool = False,
    output_padding: Any = 0,
) -> Value:
    if transposed:
        return _conv_transpose(c, input, weight, bias, stride, padding, output_padding, groups, dilation)
    kernel, biases = c.array("weight"), c.array("bias")
    assert kernel is not None  # noqa: S101
    rank = kernel.ndim - 2
    if rank not in (1, 2):
        raise c.refuse("convolutions along one or two axes were expected")
    stride, dilation = _each(stride, rank), _each(dilation, rank)
    h, same = c.last(input), padding == "same"
    if not isinstance(padding, str):
        padding = _each(padding, rank)
        wide = [by * (size - 1) for by, size in zip(dilation, kernel.shape[2:], strict=True)]
        same = set(stride) == {1} and [2 * one for one in padding] == wide
        if not same:
            h = _zeros_around(c, h, [(one, one) for one in padding])
    config: dict[str, Any] = {
        "kernel_size": kernel.shape[2:],
        "strides": tuple(stride),
        "dilation_rate": tuple(dilation),
        "padding": "same" if same else "valid",
        "use_bias": biases is not None,
    }
    if groups > 1 and groups == h.tensor.shape[-1]:
        kind = layers.DepthwiseConv1D if rank == 1 else layers.DepthwiseConv2D
        config["depth_multiplier"] = kernel.shape[0] // groups
        parted = kernel.reshape(groups, -1, *kernel.shape[2:])
        arrays = [np.transpose(parted, (*range(2, parted.ndim), 0, 1))]
    else:
        kind = layers.Conv1D if rank == 1 else layers.Conv2D
        config |= {"filters": kernel.shape[0], "groups": groups}
        arrays = [_channels_last(kernel)]
    arrays += [] if biases is None else [biases]
    return Value(c.layer(kind, h.tensor, arrays, ("weight", "bias"), **config), h.axes)


@converts("conv_transpose1d", "conv_transpose2d")
def _conv_transpose(
    c: Conversion,
    input: Value,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Value:
    kernel, biases = c.array("weight"), c.array("bias")
    assert kernel is not None  # noqa: S101
    rank = kernel.ndim - 2
    stride, padding, more = (_each(one, rank) for one in (stride, padding, output_padding))
    if groups != 1 or rank not in (1, 2) or set(_each(dilation, rank)) != {1}:
        raise c.refuse("a transposed convolution of one group, without dilation, along one or two axes was expected")
    h, sizes = c.last(input), kernel.shape[2:]
    kind = layers.Conv1DTranspose if rank == 1 else layers.Conv2DTranspose
    between = list(zip(sizes, stride, padding, more, strict=True))
    same = all(size - step == 2 * pad and not extra for size, step, pad, extra in between)
    config = {
        "filters": kernel.shape[1],
        "kernel_size": sizes,
        "strides": tuple(stride),
        "use_bias": biases is not None,
    }
    config["padding"] = "same" if same else "valid"
    # (in, out, ...) to (..., out, in)
    arrays = [_channels_last(kernel), *([] if biases is None else [biases])]
    output = c.layer(kind, h.tensor, arrays, ("weight", "bias"), **config)
    if not same:
        cut = []
        for has, (size, step, pad, extra), is_long in zip(h.tensor.shape[1:], between, output.shape[1:], strict=False):
            cut.append((pad, is_long - pad - ((has - 1) * step - 2 * pad + size + extra)))
        if min(map(min, cut)) < 0:
            raise c.refuse("an output_padding above the padding has no counterpart")
        cropping = layers.Cropping1D(cut[0]) if rank == 1 else layers.Cropping2D(tuple(cut))
        output = cropping(output) if any(map(any, cut)) else output
    return Value(output, h.axes)


@converts("linear", "addmm", "mm")
def _linear(c: Conversion, input: Any = None, weight: Any = None, bias: Any = None, **others: Any) -> Value:
    keys, turn = ("weight", "bias"), True
    if weight is None:  # addmm(self, mat1, mat2), mm(self, mat2)
        keys, turn = ("mat2", "self" if "mat1" in others else ""), False
        input, weight = others.get("mat1", others["self"]), others["mat2"]
        if isinstance(weight, Value):
            return _matmul(c, input, weight)
    kernel, biases = c.array(keys[0]), c.array(keys[1]) if keys[1] else None
    assert kernel is not None  # noqa: S101
    kernel, h, axes = kernel.T if turn else kernel, c.natural(input) if input.flat is None else input, input.axes
    if input.flat is not None:  # the kernel's rows in the order in which the values lie
        shape, order = input.flat
        rows = np.arange(math.prod(shape[1:])).reshape(shape[1:]).transpose([axis - 1 for axis in order[1:]]).ravel()
        turned = np.empty_like(kernel)
        turned[rows] = kernel
        kernel = turned
    axes = tuple(range(len(h.axes)))
    arrays = [kernel, *([] if biases is None else [biases])]
    config = {"units": kernel.shape[1], "use_bias": biases is not None}
    return Value(c.layer(layers.Dense, h.tensor, arrays, keys, **config), axes)


@converts("matmul", "bmm")
def _matmul(c: Conversion, self: Any, other: Any = None, mat2: Any = None) -> Value:
    one, two = c.natural(self), c.natural(mat2 if other is None else other)
    product = ops.matmul(one.tensor, two.tensor)
    return Value(product, tuple(range(len(product.shape))))


@converts("scaled_dot_product_attention")
def _attention(
    c: Conversion,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    if attn_mask is not None or is_causal or enable_gqa or dropout_p:
        raise c.refuse("attention without a mask, groups and dropout was expected")
    q, k, v = (c.natural(one).tensor for one in (query, key, value))
    order = (*range(len(k.shape) - 2), len(k.shape) - 1, len(k.shape) - 2)
    scores = ops.matmul(q * (scale or 1 / math.sqrt(q.shape[-1])), ops.transpose(k, order))
    return Value(ops.matmul(ops.softmax(scores, axis=-1), v), tuple(range(len(q.shape))))


@converts("lstm", "gru")
def _recurrent(
    c: Conversion,
    input: Value,
    hx: Any,
    params: list[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> list[Value]:
    lstm = c.node.op == "lstm"
    starts = hx if isinstance(hx, list) else [hx]
    if not batch_first or not has_biases or any(not isinstance(one, np.ndarray) or one.any() for one in starts):
        raise c.refuse("batch_first=True, biases and a start of zeros were expected")
    h, order, ends = c.natural(input).tensor, (0, 1, 2, 3) if lstm else (1, 0, 2), []

    def gates(array: np.ndarray) -> np.ndarray:  # PyTorch's order of gates to Keras'
        parts = np.split(array, len(order))
        return np.concatenate([parts[one] for one in order])

    for number in range(num_layers):
        sides, states = [], []
        for side in range(1 + bidirectional):
            at = 4 * (number * (1 + bidirectional) + side)
            names = c.node.args["params"][at : at + 4]
            into, again, one, two = (gates(np.asarray(c.values[ref.name])) for ref in names)
            bias = one + two if lstm else np.stack([one, two])
            config = {"units": again.shape[1], "return_sequences": True, "return_state": True}
            kind = layers.LSTM if lstm else layers.GRU
            keys = [ref.name for ref in names]
            outputs = c.layer(kind, h, [into.T, again.T, bias], keys, go_backwards=bool(side), **config)
            sides.append(ops.flip(outputs[0], axis=1) if side else outputs[0])
            states.append(outputs[1:])
        h = ops.concatenate(sides, axis=-1) if bidirectional else sides[0]
        if number < num_layers - 1 and dropout:
            h = c.layer(layers.Dropout, h, rate=dropout)
        ends += states
    last = [ops.stack(parts, axis=1) for parts in zip(*ends, strict=True)]
    return [Value(h, (0, 1, 2)), *(Value(one, (1, 0, 2)) for one in last)]


# Norms.


@converts("batch_norm", "_native_batch_norm_legit_no_training")
def _batch_norm(
    c: Conversion,
    input: Value,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = False,
) -> list[Value]:
    if training or running_mean is None:
        raise c.refuse("it runs as in training: call model.eval(), and let it keep its running mean")
    h = c.last(input) if len(input.axes) > 2 else c.natural(input)
    parameters = [c.array(key) for key in ("weight", "bias", "running_mean", "running_var")]
    config = {
        "momentum": 1 - (momentum or 0.1),
        "epsilon": eps,
        "scale": weight is not None,
        "center": bias is not None,
    }
    arrays = [one for one in parameters if one is not None]
    normalised = c.layer(layers.BatchNormalization, h.tensor, arrays, ("weight", "bias", "running_mean"), **config)
    return [Value(normalised, h.axes)]


@converts("layer_norm", "native_layer_norm")
def _layer_norm(
    c: Conversion,
    input: Value,
    normalized_shape: list[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enable: bool = False,
) -> list[Value]:
    h, arrays = c.natural(input), [one for one in (c.array("weight"), c.array("bias")) if one is not None]
    config = {"scale": weight is not None, "center": bias is not None, "epsilon": eps}
    axis = -1 if len(normalized_shape) == 1 else tuple(range(-len(normalized_shape), 0))
    normalised = c.layer(layers.LayerNormalization, h.tensor, arrays, ("weight", "bias"), axis=axis, **config)
    return [Value(normalised, h.axes)]


@converts("group_norm", "instance_norm")
def _group_norm(
    c: Conversion,
    input: Value,
    num_groups: int = -1,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    use_input_stats: bool = True,
    **others: Any,
) -> Value:
    if not use_input_stats:
        raise c.refuse("an instance norm by each sample's own values was expected")
    h, arrays = c.last(input), [one for one in (c.array("weight"), c.array("bias")) if one is not None]
    groups = num_groups if num_groups > 0 else h.tensor.shape[-1]
    config = {"groups": groups, "epsilon": eps, "scale": weight is not None, "center": bias is not None}
    return Value(c.layer(layers.GroupNormalization, h.tensor, arrays, ("weight", "bias"), **config), h.axes)


@converts("dropout", "feature_dropout", "native_dropout", "alpha_dropout")
def _dropout(c: Conversion, input: Value, p: float, train: bool) -> Value:
    if train:
        raise c.refuse("it draws at random in inference: call model.eval(), or pass training=self.training")
    return replace(input, tensor=c.layer(layers.Dropout, input.tensor, rate=p)) if p else input


# Pooling and sizes.


def _zeros_around(c: Conversion, h: Value, sides: Sequence[tuple[int, int]]) -> Value:
    """Zeros around the axes between the batch and the channels, of a value with channels last."""
    if not any(map(any, sides)):
        return h
    if min(map(min, sides)) < 0:
        raise c.refuse("a padding below 0 has no counterpart")
    around = layers.ZeroPadding1D(sides[0]) if len(sides) == 1 else layers.ZeroPadding2D(tuple(sides))
    return replace(h, tensor=around(h.tensor))


@converts("max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d", "max_pool2d_with_indices")
def _pool(
    c: Conversion,
    self: Value,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: Any = None,
) -> list[Value]:
    rank, largest = len(self.axes) - 2, c.node.op.startswith("max")
    if rank < 1:
        raise c.refuse("samples with a batch were expected")
    sizes, padding = _each(kernel_size, rank), _each(padding, rank)
    steps = _each(stride, rank) if stride else sizes
    h = c.last(self)
    sides = [(one, one) if isinstance(one, int) else one for one in padding]
    whole = [has + sum(side) for has, side in zip(h.tensor.shape[1:], sides, strict=False)]
    over = [(has - size) % step for has, size, step in zip(whole, sizes, steps, strict=True)]
    if set(_each(dilation, rank)) != {1} or divisor_override is not None or (ceil_mode and any(over)):
        raise c.refuse("pooling without dilation, ceil_mode and divisor_override was expected")
    if math.prod(whole) > MOST_VALUES:
        raise c.refuse(f"its padding makes more than {MOST_VALUES} values of a sample")
    is_padded, shares = any(map(any, sides)), np.ones(1, np.float32)
    for has, side, size, step in zip(h.tensor.shape[1:], sides, sizes, steps, strict=False):
        within = np.pad(np.ones(has), side)  # of each window, what lies within the sample
        counts = [size / max(1.0, within[at : at + size].sum()) for at in range(0, len(within) - size + 1, step)]
        shares = np.multiply.outer(shares, np.array(counts, np.float32))
    if is_padded and largest and not h.positive:
        # As -inf around, which no int8 has: each window over the edge holds what is mirrored there.
        h = replace(h, tensor=ops.pad(h.tensor, [(0, 0), *sides, (0, 0)], mode="symmetric"))
    else:
        h = _zeros_around(c, h, sides)
    kinds = {(1, True): layers.MaxPooling1D, (1, False): layers.AveragePooling1D, (2, True): layers.MaxPooling2D}
    kind = kinds.get((rank, largest), layers.AveragePooling2D)
    pooled = c.layer(kind, h.tensor, pool_size=tuple(sizes), strides=tuple(steps), padding="valid")
    if is_padded and not largest and not count_include_pad:
        pooled = pooled * c.own(shares[..., None]).tensor
    return [replace(h, tensor=pooled)]


@converts(
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d", "_adaptive_avg_pool2d"
)
def _adaptive_pool(c: Conversion, self: Value, output_size: Any) -> list[Value]:
    h, rank, largest = c.last(self), len(self.axes) - 2, "max" in c.node.op
    has, gives = h.tensor.shape[1:-1], _each(output_size, rank)
    gives = [own if one is None else one for one, own in zip(gives, has, strict=True)]
    if set(gives) == {1}:
        kinds = {(1, True): layers.GlobalMaxPooling1D, (1, False): layers.GlobalAveragePooling1D}
        kinds |= {(2, True): layers.GlobalMaxPooling2D, (2, False): layers.GlobalAveragePooling2D}
        return [replace(h, tensor=c.layer(kinds[rank, largest], h.tensor, keepdims=True))]
    if any(own % one for own, one in zip(has, gives, strict=True)):
        if largest:
            raise c.refuse(f"its windows differ in size, from {tuple(has)} to {tuple(gives)}: let them be the same")
        tensor = h.tensor
        for axis, (own, one) in enumerate(zip(has, gives, strict=True), 1):
            at = np.arange(own)[:, None]  # window k is from floor(k own / one) to ceil((k + 1) own / one)
            inside = (at >= np.arange(one) * own // one) & (at < -(-(np.arange(one) + 1) * own // one))
            matrix = c.own((inside / inside.sum(axis=0)).astype(np.float32)).tensor
            tensor = ops.moveaxis(ops.matmul(ops.moveaxis(tensor, axis, -1), matrix), -1, axis)
        return [replace(h, tensor=tensor)]
    windows = [own // one for own, one in zip(has, gives, strict=True)]
    kinds = {(1, True): layers.MaxPooling1D, (1, False): layers.AveragePooling1D}
    kinds |= {(2, True): layers.MaxPooling2D, (2, False): layers.AveragePooling2D}
    return [replace(h, tensor=c.layer(kinds[rank, largest], h.tensor, pool_size=tuple(windows)))]


@converts("upsample_nearest1d", "upsample_nearest2d", "upsample_bilinear2d")
def _upsample(
    c: Conversion,
    input: Value,
    output_size: Any = None,
    align_corners: bool = False,
    scale_factors: Any = None,
    **others: Any,
) -> Value:
    h, sizes = c.last(input), c.program.shapes[c.node.outputs[0]][2:]
    if align_corners:
        raise c.refuse("align_corners=False was expected")
    if len(sizes) == 1:
        times, rest = divmod(sizes[0] or 0, h.tensor.shape[1])
        if rest:
            raise c.refuse("a whole factor was expected")
        return replace(h, tensor=c.layer(layers.UpSampling1D, h.tensor, size=times))
    if "nearest" in c.node.op:
        nearest = importlib.import_module("edgeveil.models.layers").ResizeNearest
        return replace(h, tensor=c.layer(nearest, h.tensor, height=sizes[0], width=sizes[1]))
    return replace(h, tensor=c.layer(layers.Resizing, h.tensor, height=sizes[0], width=sizes[1]))


@converts("pixel_shuffle")
def _pixel_shuffle(c: Conversion, self: Value, upscale_factor: int) -> Value:
    h, r = c.last(self), upscale_factor
    _, high, wide, deep = h.tensor.shape
    parted = ops.reshape(h.tensor, (-1, high, wide, deep // r**2, r, r))
    shuffled = ops.reshape(ops.transpose(parted, (0, 1, 4, 2, 5, 3)), (-1, high * r, wide * r, deep // r**2))
    return Value(shuffled, h.axes)


@converts("pad", "constant_pad_nd", "reflection_pad1d", "reflection_pad2d")
def _pad(
    c: Conversion,
    self: Value,
    pad: list[int] | None = None,
    mode: str = "constant",
    value: Any = None,
    padding: list[int] | None = None,
) -> Value:
    pad, mode = (pad, mode) if padding is None else (padding, "reflect")
    assert pad is not None  # noqa: S101
    if mode not in ("constant", "reflect") and not (mode == "replicate" and max(pad) <= 1):
        raise c.refuse(f"a padding of zeros, or reflect, was expected; it is {mode}")
    if min(pad) < 0:
        raise c.refuse("a padding below 0 has no counterpart")
    v = c.natural(self) if self.flat else self
    widths = [(0, 0)] * len(v.axes)
    for k in range(len(pad) // 2):
        widths[v.axes[len(v.axes) - 1 - k]] = (pad[2 * k], pad[2 * k + 1])
    if mode == "constant":
        return replace(v, tensor=ops.pad(v.tensor, widths, constant_values=value or 0.0), positive=False)
    return replace(v, tensor=ops.pad(v.tensor, widths, mode="symmetric" if mode == "replicate" else mode))
