"""A classifier of another package: one wide hidden layer, for vectors; and one by a function of its own."""

from edgeveil.trainer.networks.base import Network


class Wide(Network):
    """One wide hidden layer."""

    names = ("wide",)
    role = "classifier"
    of = ("vector",)

    @classmethod
    def build(cls, spec, *, settings, classes=0, noise=0):
        """256 hidden units."""
        import keras

        x = keras.Input(spec.shape, name="sample")
        hidden = keras.layers.Dense(256, activation="relu")(x)
        return keras.Model(x, keras.layers.Dense(classes, name="logits")(hidden))


def build(spec):
    """No hidden layer."""
    import keras

    x = keras.Input(spec.shape)
    return keras.Model(x, keras.layers.Dense(spec.classes)(x))
