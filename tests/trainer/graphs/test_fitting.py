"""Networks are fitted bit for bit as Keras' own ``fit`` does."""

import keras
import numpy as np
import pytest

from edgeveil.trainer.graphs import fitting

ROWS = 150  # with batches of 16, the last has 6 rows; and there are more batches than one piece has, of 4
PATIENCE = 2


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch):
    monkeypatch.setattr(fitting, "STEPS", 4)


def data(outputs):
    rng = np.random.default_rng(0)
    x, side = rng.normal(size=(ROWS, 4, 4, 1)).astype(np.float32), rng.normal(size=(ROWS, 3))
    sort = ((x.mean((1, 2, 3)) > 0) ^ (side[:, 0] > 0)).astype(np.int64)
    known = {"": sort, "a": {"a": side[:, :1]}, "ab": {"a": side[:, :1], "b": sort}, "list": [sort, side[:, :1]]}
    return [x, side], known[outputs]


def network(outputs):
    """With batch norm, dropout, a penalty of its weights and, one seed given, one start; and its losses."""
    keras.utils.set_random_seed(4)
    x, side = keras.Input((4, 4, 1)), keras.Input((3,))
    h = keras.layers.BatchNormalization()(keras.layers.Conv2D(4, 3)(x))
    h = keras.layers.Concatenate()([keras.layers.Flatten()(keras.layers.Dropout(0.2)(h)), side])
    h = keras.layers.Dense(16, activation="relu", kernel_regularizer="l2")(h)
    entropy, squared = keras.losses.SparseCategoricalCrossentropy(from_logits=True), keras.losses.MeanSquaredError()
    number, logits = keras.layers.Dense(1, name="a")(h), keras.layers.Dense(2, name="b")(h)
    said, loss = {
        "": (logits, entropy),
        "a": ({"a": number}, {"a": squared}),
        "ab": ({"a": number, "b": logits}, {"a": squared, "b": entropy}),
        "list": ([logits, number], [entropy, squared]),
    }[outputs]
    return keras.Model([x, side], said), loss


def cut(arrays, rows):
    if isinstance(arrays, dict):
        return {name: values[rows] for name, values in arrays.items()}
    return [values[rows] for values in arrays] if isinstance(arrays, list) else arrays[rows]


def both(outputs, *, stop, epochs=8, rate=8e-2, weights=None):
    """(model, losses of its epochs) by Keras and by ours."""
    inputs, known = data(outputs)
    fit, held = slice(0, 110), slice(110, None)
    learn, judged = (cut(inputs, fit), cut(known, fit)), (cut(inputs, held), cut(known, held))
    theirs, loss = network(outputs)
    theirs.compile(keras.optimizers.AdamW(rate), loss, loss_weights=weights, jit_compile=False)
    callbacks = [
        keras.callbacks.TerminateOnNaN(),
        keras.callbacks.EarlyStopping("val_loss" if stop else "loss", patience=PATIENCE, restore_best_weights=True),
    ]
    more = {"validation_data": judged, "validation_batch_size": fitting.STOP_BATCH} if stop else {}
    callbacks = callbacks if stop else []
    history = theirs.fit(*learn, batch_size=16, epochs=epochs, callbacks=callbacks, verbose=0, **more).history["loss"]
    ours, loss = network(outputs)
    losses = []
    total = fitting.total(loss, weights)
    settings = {"stop": judged, "patience": PATIENCE} if stop else {}
    report = lambda epoch, mean: losses.append((epoch, mean))  # noqa: E731
    adam = keras.optimizers.AdamW(rate)
    fitting.fit(ours, *learn, total, adam, batch=16, epochs=epochs, report=report, **settings)
    return (theirs, history), (ours, losses)


@pytest.mark.parametrize(
    ("outputs", "stop", "weights"),
    [("", True, None), ("", False, None), ("a", False, None), ("ab", True, None), ("list", False, [1.0, 3.0])],
)
def test_what_keras_learns_is_learned(outputs, stop, weights):
    (theirs, history), (ours, losses) = both(outputs, stop=stop, weights=weights)
    assert [epoch for epoch, _ in losses] == list(range(1, len(history) + 1))
    assert np.allclose([mean for _, mean in losses], history, rtol=1e-5)
    assert (len(history) < 8) == (stop and outputs == "")  # which was stopped before its end
    assert all(np.array_equal(a, b) for a, b in zip(theirs.get_weights(), ours.get_weights(), strict=True))


def test_a_loss_that_is_not_finite_ends_it():
    _, (_, losses) = both("", stop=False, rate=1e30)
    assert len(losses) < 8
    assert not np.isfinite(losses[-1][1])
