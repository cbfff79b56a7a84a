"""What a model says batch after batch is what Keras' own ``predict`` says, bit for bit, and no graph is traced."""

import logging

import keras
import numpy as np
import pytest

from edgeveil.trainer.graphs import prediction
from edgeveil.trainer.graphs.prediction import asked_once, keep_answers, predict, recall_answers


def model(inputs, outputs):
    """Images and numbers in, one or two outputs."""
    given = [keras.Input((4, 4, 1)), keras.Input((3,))][:inputs]
    h = keras.layers.Flatten()(keras.layers.Conv2D(2, 3, activation="relu")(given[0]))
    h = keras.layers.Concatenate()([h, given[1]]) if inputs == 2 else h
    said = [keras.layers.Dense(2 + number, name=f"out_{number}")(h) for number in range(outputs)]
    return keras.Model(given if inputs > 1 else given[0], said if outputs > 1 else said[0])


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_it_is_what_keras_predicts(inputs, outputs):
    rng = np.random.default_rng(0)
    values = [rng.random((10, 4, 4, 1), np.float32), rng.random((10, 3), np.float32)][:inputs]
    network = model(inputs, outputs)
    found = predict(network, values if inputs > 1 else values[0], batch=4)
    expected = network.predict(values if inputs > 1 else values[0], batch_size=4, verbose=0)
    assert isinstance(found, list) == (outputs > 1)
    for ours, theirs in zip(*([one] if outputs == 1 else one for one in (found, expected)), strict=True):
        assert np.array_equal(ours, theirs)


def test_many_models_trace_no_graphs(caplog):
    with caplog.at_level(logging.WARNING, logger="tensorflow"):
        for _ in range(8):
            predict(model(1, 1), np.zeros((3, 4, 4, 1), np.float32))
    assert caplog.messages == []


class Counting:
    """A stand-in for a model that counts the samples it computes."""

    def __init__(self):
        self.computed = 0

    def __call__(self, values, training):
        self.computed += len(values)
        return values * 2


def test_large_samples_come_in_smaller_batches(monkeypatch):
    monkeypatch.setattr(prediction, "BATCH_BYTES", 4 * 12 * 5)
    batches = []

    def model(x, *, training):
        batches.append(len(x))
        return x

    values = np.arange(11 * 12, dtype=np.float32).reshape(11, 12)
    assert np.array_equal(predict(model, values), values)
    assert batches == [5, 5, 1]
    predict(model, values, batch=3)
    assert batches[3:] == [3, 3, 3, 2]
    predict(model, np.zeros((2, 400), np.float32))
    assert batches[7:] == [1, 1]


def test_within_the_block_each_sample_is_computed_once():
    asked, other = Counting(), Counting()
    first = np.array([[1.0], [2.0], [1.0], [3.0]], np.float32)
    second = np.array([[3.0], [4.0]], np.float32)
    with asked_once(asked):
        assert np.array_equal(predict(asked, first, batch=2), first * 2)
        assert np.array_equal(predict(asked, [second]), second * 2)
        predict(other, first)
    assert (asked.computed, other.computed) == (4, 4)
    predict(asked, second)
    assert asked.computed == 6


def test_a_block_within_a_block_keeps_what_is_known():
    asked, values = Counting(), np.array([[1.0], [2.0]], np.float32)
    with asked_once(asked):
        with asked_once(asked):
            predict(asked, values)
        predict(asked, values)
    assert asked.computed == 2


def test_what_was_kept_is_recalled_by_a_model_with_the_same_weights(tmp_path, monkeypatch):
    values = np.random.default_rng(0).random((6, 4, 4, 1), np.float32)
    network = model(1, 1)
    with asked_once(network):
        said = predict(network, values)
        keep_answers(tmp_path, network)
    same, other = keras.models.clone_model(network), model(1, 1)
    same.set_weights(network.get_weights())
    computed = []
    monkeypatch.setattr(prediction, "_computed", lambda asked, arrays, _: computed.append(asked) or np.zeros((6, 2)))
    with asked_once(same, other):
        recall_answers(tmp_path, same, other)
        assert np.array_equal(predict(same, values), said)
        predict(other, values)
    assert computed == [other]


def test_kept_answers_that_cannot_be_read_are_no_answers(tmp_path):
    network, values = model(1, 1), np.ones((2, 4, 4, 1), np.float32)
    with asked_once(network):
        predict(network, values)
        keep_answers(tmp_path, network)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:40])
    with asked_once(network):
        recall_answers(tmp_path, network)
        assert predict(network, values).shape == (2, 2)
