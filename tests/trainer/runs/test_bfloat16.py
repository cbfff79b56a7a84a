"""A fixed classifier in bfloat16: the same network, to its 8 bits, and only where that is a gain."""

import numpy as np
import pytest
import tensorflow as tf

from edgeveil.models.classifiers import small, table1_mnist
from edgeveil.trainer.runs.checkpoint_score import in_bfloat16

SHAPE = (28, 28, 1)


@pytest.fixture
def able(tmp_path):
    """What Linux says of a processor that multiplies bfloat16."""
    path = tmp_path / "cpuinfo"
    path.write_text("model name\t: one\nflags\t\t: fpu avx512f avx512_bf16 vaes\n")
    return path


def slope(model, x):
    """The logits, and their gradient by x."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        logits = model(x, training=False)
        loss = tf.reduce_sum(tf.nn.log_softmax(logits)[:, 0])
    return logits, np.array(tape.gradient(loss, x))


def test_logits_and_gradients_are_those_of_the_network_to_8_bits(able):
    model = table1_mnist(SHAPE, 2)
    other = in_bfloat16(model, processor=able)
    assert other is not model
    assert {layer.compute_dtype for layer in other.layers[1:-1]} == {"bfloat16"}
    assert {variable.dtype for variable in other.weights} == {"float32"}
    x = tf.constant(np.random.default_rng(0).random((8, *SHAPE), np.float32))
    (logits, gradient), (near, other_gradient) = slope(model, x), slope(other, x)
    assert near.dtype == tf.float32
    assert 0 < np.abs(near - logits).max() < 0.03 * np.abs(logits).max()
    flat, other_flat = gradient.ravel(), other_gradient.ravel()
    assert np.dot(flat, other_flat) > 0.99 * np.linalg.norm(flat) * np.linalg.norm(other_flat)


def test_a_small_network_and_an_unable_processor_keep_float32(able, tmp_path):
    model = small(SHAPE, 2)
    assert in_bfloat16(model, processor=able) is model
    unable = tmp_path / "unable"
    unable.write_text("flags\t\t: fpu avx2 avx512f\nbugs\t\t: avx512_bf16\n")
    large = table1_mnist(SHAPE, 2)
    assert in_bfloat16(large, processor=unable) is large
    assert in_bfloat16(large, processor=tmp_path / "none") is large
