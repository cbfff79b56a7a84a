"""Fine-tuning with int8's steps: it runs where int8 loses y, and what ships then keeps y in int8."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.models.layers import UnitClip
from edgeveil.trainer.export.converters.tf_lite import TfLite
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.perturbers.int8 import Int8, fine_tune
from edgeveil.trainer.perturbers.prgan import adam
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.checkpoint_score import Judged
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.train import train
from tests.trainer.export.converters.test_keras_litert import outputs

FLOOR = 0.9


def coarse():
    """A generator whose first Dense layer has one large weight, by whose step those that carry y round to 0."""
    features = keras.Input((4,), name="features")
    hidden = keras.layers.ReLU(6.0)(keras.layers.Dense(2, name="dense0")(features))
    change = keras.layers.Activation("tanh")(keras.layers.Dense(4, name="change")(hidden))
    output = UnitClip(name="output")(keras.layers.Add()([features, change]))
    model = keras.Model(features, output)
    first, second = np.zeros((4, 2), np.float32), np.zeros((2, 4), np.float32)
    first[0, 0], first[1, 0], first[2, 1], second[0, 3] = 0.07, -0.07, 20.0, 20.0
    model.get_layer("dense0").set_weights([first, np.array([0.5, 0.0], np.float32)])
    model.get_layer("change").set_weights([second, np.array([0, 0, 0, -10], np.float32)])
    return model


def samples(n=256):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    u = np.full((n, 4), 0.5, np.float32)
    u[:, 0], u[:, 1], u[:, 2] = 0.1 + 0.8 * y, 0.9 - 0.8 * y, rng.random(n)
    u[0], u[1] = 0, 1
    return u, y


def right(made, y):
    return float(((made[:, 3] > 0.5) == y)[2:].mean())


class Log(Run):
    """A run in a folder without a recipe."""

    def __init__(self, folder):
        (folder / "checkpoints").mkdir()
        super().__init__(folder, None, {})


@pytest.fixture
def tuned(tmp_path):
    def tune(section):
        model, (u, y), log = coarse(), samples(), Log(tmp_path)

        def score(network, floor):
            kept = right(predict(network, u), y)
            return Judged({}, (float(kept < floor), -kept), {"acc_y": kept})

        def of(network):
            optimizer = adam(network, section.learning_rate)

            def epoch(_number):
                for _ in range(20):
                    with tf.GradientTape() as tape:
                        made = network(u, training=True)[:, 3]
                        loss = tf.reduce_mean(tf.square(made - tf.constant(y, tf.float32)))
                    optimizer.apply(tape.gradient(loss, network.trainable_variables), network.trainable_variables)
                return {"loss_generator": float(loss)}

            return epoch, lambda _number, floor: score(network, floor), {"optimizer": optimizer}

        how = {"of": of, "score": score, "floor": FLOOR, "chosen": 3, "log": log}
        fine_tune(section, model, {"features": u}, **how)
        return model, log

    return tune


def of_file(model):
    u, y = samples()
    data = TfLite().convert(model, ["int8"], {"features": u})["int8"]
    return right(outputs(data, model, "int8", {"features": u})["output"], y)


def test_y_that_int8_loses_is_kept_after_fine_tuning(tuned, capsys):
    u, y = samples()
    assert (right(predict(coarse(), u), y), of_file(coarse())) == (1.0, pytest.approx(0.5, abs=0.1))
    model, log = tuned(Int8(epochs=10, learning_rate=5e-3))
    assert right(predict(model, u), y) == 1.0
    assert of_file(model) > 0.95
    assert log.facts["int8"]["int8"] < 0.6 < 0.95 < log.facts["int8"]["tuned"]
    assert "loses more than 0.01: fine-tuning" in capsys.readouterr().err
    assert [line["stage"] for line in log.metrics()] == ["int8"] * 10


def test_within_the_margin_nothing_is_trained(tuned, capsys):
    model, log = tuned(Int8(margin=0.9))
    assert all(np.array_equal(a, b) for a, b in zip(model.get_weights(), coarse().get_weights(), strict=True))
    assert log.facts["int8"]["epochs"] == 0
    assert "within `perturber.int8.margin`, 0.9: no fine-tuning" in capsys.readouterr().err


def test_epochs_that_are_no_better_are_not_taken(tuned, capsys):
    model, log = tuned(Int8(epochs=1, learning_rate=1e-9))
    assert all(np.array_equal(a, b) for a, b in zip(model.get_weights(), coarse().get_weights(), strict=True))
    assert log.facts["int8"]["tuned_epoch"] == 0
    assert "no epoch was better, and none is taken" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["digits-prgan", "digits-minimax"])
def test_a_recipe_asks_for_it_and_the_run_records_it(name, tmp_path):
    table = Recipe.find(name).model_dump(exclude_none=True)
    table["perturber"]["int8"] = {"margin": 0.0, "epochs": 1}
    table["perturber"]["generator"] |= {"width": 4, "blocks": 1}
    table["budget"] |= {"quick": {"rows": 900, "classifier_epochs": 1, "epochs": 1}}
    run = train(Recipe.check(table), tmp_path / "run", budget="quick")
    facts = Run.open(run.folder).facts["int8"]
    assert set(facts) >= {"margin", "float32", "int8", "epochs"}
    assert [line["step"] for line in run.metrics("int8")] == [1] * (facts["epochs"] == 1)


def test_a_codebook_has_no_such_key():
    text = Recipe.text("digits-codebook").replace("[budget]", "[perturber.int8]\nepochs = 3\n\n[budget]")
    with pytest.raises(BadInput, match=r"perturber.*int8"):
        Recipe.parse(text)
