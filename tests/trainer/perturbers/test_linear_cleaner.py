"""Cleaners through fit and export: the promise holds on every artefact, whatever it is made of."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline
from edgeveil.trainer.export.export import export
from edgeveil.trainer.linear import linear_problem
from edgeveil.trainer.measures.predictor_metrics import e_utility, promised
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.fitted import decoded
from edgeveil.trainer.train import train

N, FEATURES = 240, 12
RECIPE = """
name = "made-up"
[data]
source = "npz:made-up.npz"
target = "kind"
sensitive = "person"
{data}
[prior]
kind = "counted"
[classifiers]
architecture = "linear"
[perturber]
{perturber}
[budget]
classifier_epochs = 1
epochs = 1
[limits]
target_accuracy = 0.5
"""
CLEANER = 'kind = "cleaner"\neps = 0.05\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Vectors around a mean that is not zero; three numeric labels, and y and z as classes of two of them."""
    folder = tmp_path_factory.mktemp("made-up")
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(N, FEATURES)) * rng.uniform(0.5, 3, FEATURES) + 20).astype(np.float32)
    labels = (x - 20) @ rng.normal(size=(FEATURES, 3)) + rng.normal(size=(N, 3))
    y, z = (labels[:, 0] > 0).astype(int), (labels[:, 2] > 0).astype(int)
    np.savez(folder / "made-up.npz", x=x, y=y, z=z, labels=labels)
    np.save(folder / "a_d.npy", rng.normal(size=(FEATURES, 2)))
    return folder


def recipe(folder: Path, *, data: str = "", perturber: str = CLEANER) -> Recipe:
    return Recipe.parse(RECIPE.format(data=data, perturber=perturber), folder=folder)


def check_promise(exported, run, limit=1e-5):
    """The theorem on every row of the data and on edge cases, for every artefact; in units of max(1, eps)."""
    dataset = run.dataset()
    problem = linear_problem(run.recipe.perturber, dataset.for_training())
    x = dataset.x.astype(np.float32)
    near = np.tile(problem.mean.astype(np.float32), (3, 1))
    near[1] += 1e-12
    near[2] += 1e-3 * x[0]
    x = np.concatenate([x, near])
    expected = promised(problem.a_d, x - problem.mean, problem.eps)
    assert (expected < problem.eps * 0.999).any(), "no edge case"
    errors = {}
    for artefact in exported.manifest["preference"]:
        pipeline = load_pipeline(parse(exported.manifest), exported.members, artefact)
        errors[artefact] = np.abs(e_utility(problem.a_d, x, pipeline.run(x)["frame"]) - expected).max()
        pipeline.close()
    assert max(errors.values()) <= limit, errors
    return errors


@pytest.mark.parametrize(
    ("data", "perturber"),
    [
        ("", CLEANER),
        pytest.param("wanted = 2", CLEANER, marks=pytest.mark.nightly),
        pytest.param("wanted = 1\nhomogeneous = true", CLEANER + 'eps_per = "vector"', marks=pytest.mark.nightly),
        ("", CLEANER + 'operator = "npy:a_d.npy"\nmethod = "approximate"'),
    ],
)
def test_every_artefact_keeps_the_promise(folder, tmp_path, data, perturber):
    run = train(recipe(folder, data=data, perturber=perturber), tmp_path / "run")
    exported = export(run.folder, ["workstation", "jetson-nano"], tmp_path / "export")
    assert exported.manifest["preference"] == [
        "tflite-float32",
        "onnx-float32",
        "tflite-float32-batch256",
        "onnx-float32-batch256",
        "numpy-float32",
    ]
    # Here the mean is 20 and the readings float32: their own rounding is 1e-6 in every feature.
    check_promise(exported, run, limit=1e-4)
    refused = [row for row in exported.report["profiles"] if row["status"].startswith("refused")]
    assert [(row["profile"], row["artefact"]) for row in refused] == [("workstation", "tflite-int8")]
    assert "square" in refused[0]["status"]


@pytest.mark.data
@pytest.mark.nightly  # by day of made-up vectors, above
@pytest.mark.parametrize(("name", "wanted"), [("scene", 1), ("wq", 13)])
def test_exported_graphs_keep_the_promise_on_all_of_scene_and_wq(data_folder, tmp_path, name, wanted):
    found = Recipe.find(name)
    hidden = importlib.import_module(f"edgeveil.trainer.datasets.loaders.{name}").load().label_names[wanted].lower()
    found = found.model_copy(update={"data": found.data.model_copy(update={"wanted": wanted, "sensitive": hidden})})
    run = train(found, tmp_path / "run")
    exported = export(run.folder, ["workstation"], tmp_path / "export")
    assert len(check_promise(exported, run)) == 5


@pytest.mark.nightly  # by day its arithmetic: trainer/test_cleaner.py
def test_exact_asks_for_no_error_at_all(folder, tmp_path):
    run = train(recipe(folder, perturber=CLEANER + 'method = "exact"'), tmp_path / "run")
    dataset = run.dataset()
    x = dataset.x
    out = run.perturber().perturb(x)["frame"]
    assert e_utility(linear_problem(run.recipe.perturber, dataset.for_training()).a_d, x, out).max() < 1e-8
    assert np.abs(out - x).max() > 1


def test_the_code_is_all_that_leaves_and_gives_the_vector_back(folder, tmp_path):
    run = train(recipe(folder), tmp_path / "run")
    frame = export(run.folder, ["coral-dev-board"], tmp_path / "frame")
    code = export(run.folder, ["coral-dev-board"], tmp_path / "code", emit="code")
    assert [output["kind"] for output in code.manifest["outputs"]] == ["code"]
    assert frame.manifest["preference"] == code.manifest["preference"] == ["numpy-float32"]
    x = run.dataset().x
    outputs = [load_pipeline(parse(f.manifest), f.members, "numpy-float32").run(x) for f in (frame, code)]
    sent = outputs[1]["code"]
    assert sent.dtype == np.int16
    assert 32767 / 8.01 <= np.abs(sent.astype(int)).max() <= 32767 / 2, "a power of two with head-room of four"
    entry = code.manifest["tables"]["decoder"]
    decoder = np.load(tmp_path / "code" / entry["file"])
    assert np.abs(decoded(sent, decoder) - outputs[0]["frame"]).max() < 2e-2
    problem = linear_problem(run.recipe.perturber, run.dataset().for_training())
    # An int16 code keeps the error where it was promised.
    error = e_utility(problem.a_d, x, decoded(sent, decoder)) - promised(problem.a_d, x - problem.mean, problem.eps)
    assert np.abs(error).max() < 1e-3


@pytest.mark.nightly  # by day its arithmetic: trainer/test_cleaner.py
def test_laplace_moves_the_predictor_by_eps_on_average(folder, tmp_path):
    run = train(recipe(folder, perturber='kind = "noise"\neps = 0.05'), tmp_path / "run")
    exported = export(run.folder, ["workstation"], tmp_path / "export")
    assert "numpy-float32" not in exported.manifest["preference"]
    dataset = run.dataset()
    problem = linear_problem(run.recipe.perturber, dataset.for_training())
    x = np.repeat(dataset.x, 40, axis=0)
    for artefact in ("onnx-float32-batch256", "tflite-float32-batch256"):
        pipeline = load_pipeline(parse(exported.manifest), exported.members, artefact)
        out = pipeline.run(x)["frame"]
        assert e_utility(problem.a_d, x, out).mean() == pytest.approx(problem.eps, rel=0.05)
        noise = (out - x).ravel()
        assert np.mean(np.abs(noise)) == pytest.approx(run.facts["noise"]["scale"], rel=0.02)
    with pytest.raises(BadInput, match="None of these boards runs an artefact"):
        export(run.folder, ["coral-dev-board"], tmp_path / "other")
    with pytest.raises(BadInput, match="has no code"):
        export(run.folder, ["workstation"], tmp_path / "other", emit="code")


def test_a_keras_model_of_the_user_lends_its_first_layer(folder, tmp_path):
    import keras

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(3), keras.layers.ReLU()])
    model.save(folder / "mine.keras")
    run = train(recipe(folder, perturber=CLEANER + 'operator = "keras:mine.keras"'), tmp_path / "run")
    kernel = np.asarray(model.layers[0].kernel, np.float64)
    a_d = linear_problem(run.recipe.perturber, run.dataset().for_training()).a_d
    np.testing.assert_allclose(a_d @ a_d.T, kernel @ kernel.T, atol=1e-10)


@pytest.mark.parametrize(
    ("data", "perturber", "match"),
    [
        ("", 'kind = "cleaner"\neps = -0.1', "eps"),
        ("", CLEANER + 'operator = "pickle:x"', "operator"),
        ("", CLEANER + 'operator = "npy:nowhere.npy"', "not a .npy file"),
        ("", CLEANER + 'operator = "npy:wrong.npy"', "for 3 features and the vectors have 12"),
        ("", CLEANER + 'operator = "keras:a_d.npy"', "is no file of model.save"),
        ("", CLEANER + "ridge = -1.0", "ridge"),
        ("wanted = 3", CLEANER, "1 to 2 can be wanted"),
        ("wanted = 0", CLEANER, "wanted"),
        ("homogeneous = true", 'kind = "label-only"', "homogeneous"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(folder, tmp_path, data, perturber, match):
    np.save(folder / "wrong.npy", np.ones((3, 1)))
    with pytest.raises(BadInput, match=match):
        train(recipe(folder, data=data, perturber=perturber), tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "data", "match"),
    [
        (lambda a: a.update(x=np.hstack([a["x"], np.ones((N, 2))])), "", "features are constant"),
        (lambda a: a["x"].__setitem__((3, 1), np.nan), "", "NaN"),
        (lambda a: a.update(labels=np.array([["a", "b", "c"]] * N)), "wanted = 1", "Labels must be numbers"),
        (lambda a: a["labels"].__setitem__((0, 0), np.inf), "wanted = 1", "NaN or infinity"),
        (lambda a: a.update(labels=a["labels"][:5]), "wanted = 1", "a row for each"),
        (lambda a: a.pop("labels"), "wanted = 1", "not there"),
        (lambda a: a.update(x=np.ones((N, 4, 4, 1), np.float32) * np.arange(4)), "", "takes feature vectors"),
        (
            lambda a: a.update(x=np.random.default_rng(0).normal(size=(N, 300))),
            "",
            "at least as many samples as features",
        ),
    ],
)
def test_data_that_cannot_be_cleaned_are_refused(folder, tmp_path, change, data, match):
    arrays = dict(np.load(folder / "made-up.npz"))
    change(arrays)
    np.savez(tmp_path / "made-up.npz", **arrays)
    with pytest.raises(BadInput, match=match):
        train(recipe(tmp_path, data=data), tmp_path / "run")
