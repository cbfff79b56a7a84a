"""Finished runs without training, for the export tests: digits, their slices, and networks with made-up weights."""

from pathlib import Path

import numpy as np

from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.perturbers import label_only as floor
from edgeveil.trainer.perturbers.base import as_perturber
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.fitted import FittedPerturber, frame_output, output_stage, preprocess_stage
from edgeveil.trainer.runs.run import Run
from tests.support import seeds
from tests.support.export_models import classifier, trained_like

IMAGE = InputSpec("image", (8, 8, 1), "uint8", 0.0, 16.0)
VECTOR = InputSpec("vector", (5,), "float32", (0.0, -1.0, 0.0, 2.0, -100.0), (1.0, 1.0, 10.0, 3.0, 100.0))


def generator(spec=IMAGE, **changes):
    artefact = {"stage": "artefact", "model": "generator", "inputs": {"image": "u"}, "outputs": {"output": "v"}}
    stages = (preprocess_stage(spec), artefact, output_stage(spec))
    return FittedPerturber("prgan", spec, stages, (frame_output(spec),), **changes)


def label_only(spec=IMAGE):
    stages = (
        preprocess_stage(spec),
        {"stage": "artefact", "model": "classifier", "inputs": {"image": "u"}, "outputs": {"logits": "logits"}},
        {"stage": "table", "op": "argmax", "input": "logits", "output": "label"},
        {"stage": "synthesis", "op": "row", "input": "label", "table": "means", "output": "v"},
        output_stage(spec),
    )
    label = {"name": "label", "kind": "label", "tensor": "label", "shape": [], "dtype": "int64"}
    return FittedPerturber("label-only", spec, stages, (frame_output(spec), label))


def prgan_run(folder, *, network=None):
    """A run whose perturber is a generator of ours (or ``network``, a Keras model from image to output)."""
    run = _started(folder)
    if network is None:
        from edgeveil.models.generators import conv_generator

        network = trained_like(conv_generator((8, 8, 1), width=8, halvings=1, blocks=1))
    run.save_perturber(as_perturber(run.dataset().input, network, kind="prgan"))
    return run


def label_only_run(folder):
    """A run whose perturber sends the class that a made-up classifier sees, drawn as that class's mean."""
    run = _started(folder)
    run.save_perturber(floor.from_classifier(run.dataset(), run.classifiers()["target"]))
    return run


def noise_run(folder):
    """A run whose generator takes noise from a draw stage beside the image."""
    import keras

    run = _started(folder)
    spec = run.dataset().input
    image, noise = keras.Input((8, 8, 1), name="image"), keras.Input((4,), name="noise")
    plane = keras.layers.Reshape((8, 8, 1))(keras.layers.Dense(64)(noise))
    h = keras.layers.Conv2D(4, 3, padding="same", activation="relu")(keras.layers.Add()([image, plane]))
    output = keras.layers.Conv2D(1, 3, padding="same", activation="sigmoid", name="output")(h)
    stages = (
        preprocess_stage(spec),
        {"stage": "draw", "distribution": "uniform", "output": "noise", "shape": [4]},
        {
            "stage": "artefact",
            "model": "generator",
            "inputs": {"image": "u", "noise": "noise"},
            "outputs": {"output": "v"},
        },
        output_stage(spec),
    )
    network = trained_like(keras.Model([image, noise], output))
    run.save_perturber(FittedPerturber("prgan", spec, stages, (frame_output(spec),), models={"generator": network}))
    return run


def numbers_of(folder: Path) -> dict[str, np.ndarray]:
    """Every array of an export folder's golden vectors."""
    return {path.stem: np.load(path, allow_pickle=False) for path in sorted((folder / "golden").glob("*.npy"))}


def _started(folder):
    run = Run.create(folder, Recipe.find("digits-prgan").model_copy(update={"seed": seeds.seed(0)}))
    run.dataset()
    for name in ("target", "sensitive"):
        classifier().save(folder / "classifiers" / f"{name}.keras")
    return run
