"""A network that is compiled with its optimizer's variables made learns the same, and is traced once for its steps."""

import numpy as np

from edgeveil.trainer.graphs.prediction import compile_built


def fitted(compile_):
    """The weights after two epochs, and how often the network was called while ``fit`` traced it."""
    import keras

    keras.utils.set_random_seed(0)
    calls = []

    class Counted(keras.layers.ReLU):
        def call(self, inputs):
            calls.append(1)
            return super().call(inputs)

    x = keras.Input((4,))
    model = keras.Model(x, keras.layers.Dense(1)(Counted()(keras.layers.Dense(8)(x))))
    compile_(model, keras.optimizers.Adam(1e-2), "mse")
    before, rng = len(calls), np.random.default_rng(0)
    rows = rng.normal(size=(64, 4)).astype(np.float32)
    model.fit(rows, rows[:, :1], batch_size=16, epochs=2, verbose=0)
    return model.get_weights(), len(calls) - before


def test_what_is_learned_is_the_same_and_less_is_traced():
    usual, often = fitted(lambda model, optimizer, loss: model.compile(optimizer, loss, jit_compile=False))
    built, seldom = fitted(compile_built)
    assert all(np.array_equal(a, b) for a, b in zip(usual, built, strict=True))
    assert seldom < often
