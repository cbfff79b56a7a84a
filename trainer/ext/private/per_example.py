"""Gradients of a Keras model, clipped example by example and summed, in one forward and one backward pass.

The gradient of a layer's weights for one example is a product of what went into the layer and of the loss's gradient at
what came out, so its norm needs no pass of its own (Goodfellow, "Efficient Per-Example Gradient Computations", 2015;
Rochette et al. 2019 for convolutions). Both are recorded while the model runs; the clipped sum is the same product with
weighted examples.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

from edgeveil.edge_runtime.errors import BadInput

Loss = Callable[[Any, Any], Any]  # the model's outputs and the labels -> the loss of each example (batch,)
TINY = 1e-30


class Clipped:
    """Clipped sums of the gradients of ``model``'s trainable ``weights``.

    Dense and Conv2D layers go by their formulas; a model with any other layer that has weights, or one that uses a
    layer twice, goes through ``tf.vectorized_map``, which is slower. Raises ``BadInput`` for a layer in which one
    example changes what another one gets.
    """

    def __init__(self, model: Any) -> None:
        layers = list(_layers(model))
        for layer in layers:
            if type(layer).__name__ == "BatchNormalization":
                raise BadInput(
                    f"The layer {layer.name} (BatchNormalization) mixes the examples of a lot, so that one's share "
                    "cannot be clipped. Use a network without batch statistics."
                )
        self._model = model
        self._layers = [layer for layer in layers if layer.trainable_weights]
        self.weights = [weight for layer in self._layers for weight in layer.trainable_weights]
        known = all(type(layer).__name__ in ("Dense", "Conv2D") for layer in self._layers)
        self.by_formula = known and self._each_runs_once()

    def _each_runs_once(self) -> bool:
        import tensorflow as tf

        blank = [tf.zeros((1, *tensor.shape[1:]), tensor.dtype) for tensor in self._model.inputs]
        with tf.GradientTape() as tape, _recorded(self._layers, tape) as calls:
            self._model(blank[0] if len(blank) == 1 else blank, training=False)
        return all(len(calls[layer.name]) == 1 for layer in self._layers)

    def sums(self, inputs: Any, labels: Any, loss: Loss, clip: float, mask: Any) -> tuple[list[Any], Any]:
        """(a sum for each of ``weights``, norms (batch,)): each example's gradient g times min(1, ``clip`` / |g|).

        ``inputs`` and ``labels`` (batch, ...) are tensors or structures of them; ``mask`` (batch,) is 1 for examples
        and 0 for padding.
        """
        method = self._by_formula if self.by_formula else self._by_mapping
        return method(inputs, labels, loss, clip, mask)

    def _by_formula(self, inputs: Any, labels: Any, loss: Loss, clip: float, mask: Any) -> tuple[list[Any], Any]:
        import tensorflow as tf

        with tf.GradientTape(watch_accessed_variables=False) as tape:
            with _recorded(self._layers, tape) as calls:
                outputs = self._model(inputs, training=False)
            total = tf.reduce_sum(loss(outputs, labels))
        noted = [calls[layer.name][0] for layer in self._layers]
        slopes = tape.gradient(total, [call.tap for call in noted], unconnected_gradients="zero")
        products = [_Product.from_call(*one) for one in zip(self._layers, noted, slopes, strict=True)]
        norms = tf.sqrt(tf.add_n([one.squared(layer) for one, layer in zip(products, self._layers, strict=True)]))
        shares = _shares(norms, clip, mask)
        sums = [total for one, layer in zip(products, self._layers, strict=True) for total in one.summed(layer, shares)]
        return sums, norms

    def _by_mapping(self, inputs: Any, labels: Any, loss: Loss, clip: float, mask: Any) -> tuple[list[Any], Any]:
        import tensorflow as tf

        values = [weight.value for weight in self.weights]

        def gradient(example: Any) -> list[Any]:
            alone, label = tf.nest.map_structure(lambda part: part[None], example)
            with tf.GradientTape() as tape:
                mine = loss(self._model(alone, training=False), label)[0]
            return tape.gradient(mine, values, unconnected_gradients="zero")

        gradients = tf.vectorized_map(gradient, (inputs, labels))
        squared = [tf.reduce_sum(tf.reshape(one, (tf.shape(one)[0], -1)) ** 2, axis=1) for one in gradients]
        norms = tf.sqrt(tf.add_n(squared))
        return [tf.tensordot(_shares(norms, clip, mask), one, 1) for one in gradients], norms


def _layers(model: Any) -> Iterator[Any]:
    """Every layer, those of models inside it too."""
    for layer in model.layers:
        if hasattr(layer, "layers"):
            yield from _layers(layer)
        else:
            yield layer


def _shares(norms: Any, clip: float, mask: Any) -> Any:
    import tensorflow as tf

    return mask * tf.minimum(1.0, clip / tf.maximum(norms, TINY))


class _Call(NamedTuple):
    """What went into a layer, and a zero that was added to what came out before its activation."""

    taken: Any
    tap: Any


@contextmanager
def _recorded(layers: list[Any], tape: Any) -> Iterator[dict[str, list[_Call]]]:
    """While it is open, every layer notes its calls."""
    import tensorflow as tf

    calls: dict[str, list[_Call]] = {layer.name: [] for layer in layers}

    def noting(layer: Any) -> Callable[[Any], Any]:
        plain, activation = layer.call, layer.activation

        def call(inputs: Any, **_: Any) -> Any:
            layer.activation = None
            try:
                out = plain(inputs)
            finally:
                layer.activation = activation
            tap = tf.zeros_like(out)
            tape.watch(tap)
            calls[layer.name].append(_Call(inputs, tap))
            return out + tap if activation is None else activation(out + tap)

        return call

    for layer in layers:
        layer.call = noting(layer)
    try:
        yield calls
    finally:
        for layer in layers:
            del layer.call  # the class's own is behind it


class _Product(NamedTuple):
    """The kernel's gradient is left^T right: ``left`` (batch, places, in), ``right`` (batch, places, out).

    A Dense layer has one place for each row that it is given, a convolution one for each pixel that comes out.
    """

    left: Any
    right: Any

    @classmethod
    def from_call(cls, layer: Any, call: _Call, slope: Any) -> _Product:
        """Of a recorded call and the loss's gradient at its outcome."""
        import tensorflow as tf

        taken = call.taken
        if type(layer).__name__ == "Conv2D":
            taken = tf.image.extract_patches(
                taken,
                (1, *layer.kernel_size, 1),
                (1, *layer.strides, 1),
                (1, *layer.dilation_rate, 1),
                layer.padding.upper(),
            )
        batch = tf.shape(taken)[0]
        return cls(tf.reshape(taken, (batch, -1, taken.shape[-1])), tf.reshape(slope, (batch, -1, slope.shape[-1])))

    def squared(self, layer: Any) -> Any:
        """The squared norm of each example's gradient (batch,)."""
        import tensorflow as tf

        places, size = self.left.shape[1], self.left.shape[-1] * self.right.shape[-1]
        if places is not None and places**2 <= size:
            # |left^T right|^2 without the product: the two kernels of places, multiplied.
            kernel = tf.reduce_sum(
                tf.matmul(self.left, self.left, transpose_b=True) * tf.matmul(self.right, self.right, transpose_b=True),
                axis=(1, 2),
            )
        else:
            kernel = tf.reduce_sum(tf.matmul(self.left, self.right, transpose_a=True) ** 2, axis=(1, 2))
        if not layer.use_bias:
            return kernel
        return kernel + tf.reduce_sum(tf.reduce_sum(self.right, axis=1) ** 2, axis=1)

    def summed(self, layer: Any, shares: Any) -> list[Any]:
        """The sum of all gradients, each times its share: of the kernel, and of the bias where there is one."""
        import tensorflow as tf

        right = self.right * shares[:, None, None]
        left, flat = (tf.reshape(part, (-1, part.shape[-1])) for part in (self.left, right))
        kernel = tf.reshape(tf.matmul(left, flat, transpose_a=True), layer.kernel.shape)
        return [kernel, tf.reduce_sum(flat, axis=0)] if layer.use_bias else [kernel]


# What training by noisy, clipped sums costs: epsilon at delta of the Poisson-subsampled Gaussian mechanism.
#
# Two accountants bound the same loss from above: Rényi divergences (Mironov 2017) and the discretised privacy loss
# distribution, rounded towards more loss. The smaller of two valid bounds is a valid bound, and is what is claimed.
# Neighbours are data sets of which one has one unit more.


GRID, FINE_GRID, FINE_BELOW = 1e-4, 1e-5, 0.5  # of privacy losses; below that epsilon the coarse grid shows
MOST_EPSILON = 50.0
CLOSE = 1e-3  # relative, of sigma
LEAST_NOISE = 0.05  # times the clip
HOPELESS = 1e4  # epsilon, above all that is promised


@dataclass(frozen=True)
class Claim:
    """Epsilon at ``delta`` after ``steps`` lots, in each of which a unit is with probability ``rate``; noise of
    ``sigma`` times the clip. ``rdp`` and ``pld`` are both bounds, ``grid`` that of ``pld``."""

    epsilon: float
    delta: float
    rate: float
    sigma: float
    steps: int
    rdp: float
    pld: float
    grid: float
    accountant: str

    def as_dict(self) -> dict[str, Any]:
        """For a record."""
        return asdict(self)


def claim(*, rate: float, sigma: float, steps: int, delta: float) -> Claim:
    """What a training spends. Raises ``BadInput`` for settings that mean nothing, or where no bound is finite."""
    _check(rate, steps, delta)
    if not (sigma > 0 and math.isfinite(sigma)):
        raise BadInput(f"Expected noise of more than 0 times the clip; got {sigma}.")
    rdp, grid = by_rdp(rate, sigma, steps, delta), GRID
    # The grid of such losses would fill the memory.
    pld = by_pld(rate, sigma, steps, delta, grid) if rdp <= HOPELESS else math.inf
    if min(rdp, pld) < FINE_BELOW:
        grid = FINE_GRID
        pld = by_pld(rate, sigma, steps, delta, grid)
    epsilon = min(rdp, pld)
    if not math.isfinite(epsilon):
        raise BadInput(
            f"No finite bound for noise of {sigma:g} times the clip in {steps:,} lots of a share of {rate:g}: use more "
            "noise, fewer steps or smaller lots."
        )
    accountant = f"dp-accounting {version('dp-accounting')}"
    return Claim(epsilon, delta, rate, sigma, steps, rdp, pld, grid, accountant)


@functools.lru_cache(maxsize=64)
def noise_for(epsilon: float, *, rate: float, steps: int, delta: float) -> Claim:
    """The least noise whose claim is at most ``epsilon``, to a thousandth. Raises ``BadInput``."""
    _check(rate, steps, delta)
    if not 0 < epsilon <= MOST_EPSILON:
        raise BadInput(f"Expected an epsilon above 0 and up to {MOST_EPSILON:g}; got {epsilon}.")

    from scipy import optimize  # an export, which adds no noise, would load it too

    def over(log_sigma: float) -> float:
        return math.log(_bound(rate, math.exp(log_sigma), steps, delta) / epsilon)

    low = high = 0.0
    while over(high) > 0:
        high += 1
    while over(low) <= 0 and low > math.log(LEAST_NOISE):
        low -= 0.5
    sigma = math.exp(optimize.brentq(over, low, high, xtol=CLOSE) if over(low) > 0 else low)
    while (claimed := claim(rate=rate, sigma=sigma, steps=steps, delta=delta)).epsilon > epsilon:
        sigma *= 1 + CLOSE
    return claimed


def _bound(rate: float, sigma: float, steps: int, delta: float) -> float:
    """A bound that is quick to compute, for the search; no claim."""
    rough = 10 * (GRID if (rdp := by_rdp(rate, sigma, steps, delta)) > FINE_BELOW else FINE_GRID)
    bound = min(rdp, by_pld(rate, sigma, steps, delta, rough))
    return max(bound, 1e-9) if math.isfinite(bound) else 1e9


def _check(rate: float, steps: int, delta: float) -> None:
    if not 0 < rate <= 1:
        raise BadInput(f"Expected lots of a share above 0 and up to 1 of all units; got {rate}.")
    if steps < 1:
        raise BadInput(f"Expected at least one step; got {steps}.")
    if not 0 < delta < 1:
        raise BadInput(f"Expected a delta between 0 and 1; got {delta}.")


def by_rdp(rate: float, sigma: float, steps: int, delta: float) -> float:
    """The bound by Rényi divergences."""
    from dp_accounting import rdp

    accountant = rdp.RdpAccountant(neighboring_relation=_one_more())
    with _quiet():
        return float(accountant.compose(_event(rate, sigma, steps)).get_epsilon(delta))


def by_pld(rate: float, sigma: float, steps: int, delta: float, grid: float) -> float:
    """The bound by privacy losses that are rounded up to a multiple of ``grid``."""
    from dp_accounting import pld

    accountant = pld.PLDAccountant(neighboring_relation=_one_more(), value_discretization_interval=grid)
    return float(accountant.compose(_event(rate, sigma, steps)).get_epsilon(delta))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without a line for each order that does not converge: it is left out of the bound, which stays one."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _one_more() -> Any:
    from dp_accounting import NeighboringRelation

    return NeighboringRelation.ADD_OR_REMOVE_ONE


def _event(rate: float, sigma: float, steps: int) -> Any:
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

    return SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(sigma)), steps)
