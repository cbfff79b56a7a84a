"""A classifier that a user has trained: taken with what it expects, and what looks wrong is named in one sentence."""

import hashlib
import re
import zipfile

import keras
import numpy as np
import pytest

import edgeveil
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.networks import own, training
from edgeveil.trainer.networks.training import take_own
from edgeveil.trainer.runs.run import Run
from tests.support.small_runs import small_recipe

# y is whether red is above the middle; all are made by hand.


def reader(factor=1.0, middle=0.5, channel=0, sign=1, softmax=False, size=4, weights=None):
    """Logits of the two classes by one channel's mean, whose range is 0 to ``factor``, or by a sum of theirs."""
    of_each = np.eye(3, dtype=np.float32)[channel] if weights is None else np.array(weights, np.float32)
    weights = of_each[:, None] * np.array([-10, 10], np.float32) * sign / factor
    last = keras.layers.Dense(2, activation="softmax" if softmax is True else None)
    end = [keras.layers.Softmax()] if softmax == "layer" else []
    model = keras.Sequential([keras.Input((size, size, 3)), keras.layers.GlobalAveragePooling2D(), last, *end])
    last.set_weights([weights, np.array([1, -1], np.float32) * 10 * sign * middle / factor])
    return model


@pytest.fixture(scope="module")
def coloured(tmp_path_factory):
    """A folder with pictures whose red is y and whose blue and green are noise."""
    folder, rng = tmp_path_factory.mktemp("coloured"), np.random.default_rng(0)
    y = rng.permutation(np.arange(200) % 2)
    x = rng.integers(0, 256, (200, 4, 4, 3))
    x[..., 0] = np.where(y, 230, 25)[:, None, None]
    x[..., 2] = 128
    np.savez(folder / "small.npz", x=x.astype(np.uint8), y=y, z=rng.permutation(y))
    return folder


def taken(folder, tmp_path, model, suffix=".keras", **stated):
    """The run of a recipe whose D_y is ``model``, before any training."""
    file = tmp_path / f"dy{suffix}"
    if suffix == ".onnx":
        model.predict(np.zeros((1, *model.input_shape[1:])), verbose=0)  # Keras exports what was called
        model.export(file, format="onnx", verbose=False)
    elif model is not None:
        model.save(file)
    section = {"architecture": "small", "target": {"trained": str(file), **stated}}
    recipe = small_recipe(folder / "small.npz", kind="label-only", classifiers=section)
    run = Run.create(tmp_path / "run", recipe, replace=True)
    take_own(run)
    return run


@pytest.mark.parametrize(
    ("model", "stated"),
    [
        ({}, {}),
        ({"softmax": True}, {"suffix": ".onnx"}),
        (
            {"channel": 2, "size": 6, "factor": 255.0, "middle": 127.5},
            {"suffix": ".onnx", "colours": "bgr", "size": [6, 6], "high": 255.0},
        ),
        ({"softmax": True}, {}),
        ({"softmax": "layer"}, {}),
        ({"factor": 255.0, "middle": 127.5}, {"high": 255.0}),
        ({"channel": 2, "size": 6}, {"colours": "bgr", "size": [6, 6]}),
    ],
)
def test_a_trained_classifier_is_taken_with_what_it_expects(model, stated, coloured, tmp_path, capsys):
    run = taken(coloured, tmp_path, reader(**model), **stated)
    assert run.facts["classifiers"] == {"target": {"validation_accuracy": 1.0}}
    said = " ".join(capsys.readouterr().err.split())
    file = f"dy{stated.get('suffix', '.keras')}"
    assert f"{file} reads y in 100.0% of validation; always guessing the commonest class, 5" in said
    (record,) = run.recipe.files
    assert record.sha256 == hashlib.sha256((tmp_path / file).read_bytes()).hexdigest()
    assert record.text is None


WRONG = {
    "range": (
        {"factor": 255.0, "middle": 127.5},
        {},
        r"range looks wrong: with low = 0 and high = 255 it is right in 100",
    ),
    "range from -1": ({"factor": 2.0, "middle": 0.0}, {}, "range looks wrong: with low = -1 and high = 1"),
    "colours": ({"channel": 2}, {}, 'order of colours looks wrong: with colours = "bgr" it is right in 100.0%. State'),
    "both": (
        {"channel": 2, "factor": 255.0, "middle": 127.5},
        {},
        "range and order of colours look wrong: with low = 0",
    ),
    "classes": ({"sign": -1}, {}, r"order of classes looks wrong: in another it is right in 100.0%.*those of 0, 1\."),
    "something else": ({"channel": 1}, {}, "No usual range, order of colours or order of classes mends that"),
    "range of .onnx": (
        {"factor": 255.0, "middle": 127.5},
        {"suffix": ".onnx"},
        "dy.onnx reads y in .* range looks wrong: with low = 0 and high = 255",
    ),
    "size": ({"size": 6}, {}, r"pictures of 4 x 4 were expected; it takes 6 x 6\. State size = \[6, 6\]"),
}


@pytest.mark.parametrize(("model", "stated", "says"), WRONG.values(), ids=WRONG)
def test_what_looks_wrong_is_named(model, stated, says, coloured, tmp_path):
    with pytest.raises(BadInput, match=says):
        taken(coloured, tmp_path, reader(**model), **stated)


@pytest.mark.parametrize(("low", "right"), [(0.0, 75.0), (-1.0, None)])
def test_a_range_that_reads_clearly_better_is_named_where_guessing_is_beaten_too(
    low, right, coloured, tmp_path, capsys
):
    given = dict(np.load(coloured / "small.npz"))
    given["x"][..., 0] = np.where(given["y"], 230, np.where(np.arange(200) % 4 < 2, 25, 135))[:, None, None]
    np.savez(tmp_path / "small.npz", **given)  # half of y = 0 lies between 0 of -1 to 1, and that of 0 to 1
    model = reader(factor=1.0, middle=0.2)
    run = taken(tmp_path, tmp_path, model, low=low)
    accuracy = run.facts["classifiers"]["target"]["validation_accuracy"]
    text = " ".join(capsys.readouterr().err.split())
    if right is None:
        assert (accuracy, "looks wrong" in text) == (1.0, False)
    else:
        assert 0.6 < accuracy < 0.9
        assert "Its range looks wrong: with low = -1 and high = 1 it is right in 100.0%. State that." in text


# Red - 2 blue of what is normalised as for ImageNet, over 0.9: with no other range that is tried.
NORMALISED = {"low": [-2.1179, -2.0357, -1.8044], "high": [2.2489, 2.4286, 2.64]}


@pytest.mark.parametrize("order", [1, -1], ids=["rgb", "bgr"])
def test_a_range_of_each_channel_is_taken_in_the_models_order_and_found(order, coloured, tmp_path, capsys):
    model = reader(weights=[1.0, 0.0, -2.0][::order], middle=0.9)
    stated = {key: one[::order] for key, one in NORMALISED.items()} | {"colours": "rgb" if order == 1 else "bgr"}
    run = taken(coloured, tmp_path, model, **stated)
    assert run.facts["classifiers"]["target"] == {"validation_accuracy": 1.0}
    assert "looks wrong" not in capsys.readouterr().err
    ends = " and ".join(f"{key} = {one[::order]}" for key, one in NORMALISED.items())
    with pytest.raises(BadInput, match=re.escape(f"range looks wrong: with {ends} it is right in 100.0%. State that")):
        taken(coloured, tmp_path, model, colours=stated["colours"])
    with pytest.raises(BadInput, match=r"dy.keras: low was expected to be a number, or a list of 3, .* got 2\."):
        taken(coloured, tmp_path, model, low=[0.0, 0.0])


def confused(rng, strength, leaning, swapped=(), rows=2000, classes=10):
    """A confusion of rows that are read by random utilities, with so much for the right class and for some others."""
    true = rng.integers(0, classes, rows)
    utility = rng.gumbel(size=(rows, classes)) + leaning * rng.normal(size=classes)
    utility[np.arange(rows), true] += strength
    utility[:, list(swapped)] = utility[:, list(swapped)[1:] + list(swapped)[:1]]
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (true, utility.argmax(axis=1)), 1)
    return counts


def test_classes_in_each_others_places_are_named_and_a_weak_classifier_has_none():
    names, rng = tuple("abcdefghij"), np.random.default_rng(0)
    for swapped in ((3, 5), (1, 4, 8)):
        says = training.exchanged_classes(confused(rng, 4.0, 0.5, swapped), names)
        assert all(f"{names[one]} is read as" in says for one in swapped)
        assert says.count("is read as") == len(swapped)
        assert says.endswith("those of a, b, c, d, e, f, g, h, i, j.")
    for draw in range(200):
        weak = confused(
            rng, (0.1, 0.5, 1.0, 2.0)[draw % 4], (0, 0.5, 1.0, 2.0)[draw // 4 % 4], rows=(200, 2000)[draw % 2]
        )
        assert training.exchanged_classes(weak, names) == ""
    assert training.exchanged_classes(confused(rng, 4.0, 0.5, (3, 5), rows=20), names) == ""  # too few to be sure
    leaning = np.array([[300, 600], [600, 300]])  # both surely read as the other more often, and not three times so
    assert training.exchanged_classes(leaning, ("a", "b")) == ""
    assert training.exchanged_classes(np.array([[100, 600], [600, 100]]), ("a", "b")) != ""


def test_two_swapped_classes_of_several_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(400) % 4)
    x = np.broadcast_to(np.eye(4)[y][:, :, None, None] * 200, (400, 4, 4, 1)).astype(np.uint8)
    np.savez(tmp_path / "small.npz", x=x, y=y, z=rng.permutation(y))
    model = keras.Sequential([keras.Input((4, 4, 1)), keras.layers.AveragePooling2D((1, 4)), keras.layers.Flatten()])
    order = keras.layers.Dense(4, use_bias=False)
    model.add(order)
    for taken_as in ([0, 1, 2, 3], [0, 2, 1, 3]):
        order.set_weights([np.eye(4, dtype=np.float32)[taken_as]])
        if taken_as[1] == 1:
            assert taken(tmp_path, tmp_path, model).facts["classifiers"]["target"] == {"validation_accuracy": 1.0}
            continue
        with pytest.raises(
            BadInput, match=r"reads y in [45]\d.*1 is read as 2 in .*, 2 is read as 1 in .*of 0, 1, 2, 3\."
        ):
            taken(tmp_path, tmp_path, model)


def test_one_change_is_named_where_two_are_hardly_better(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(400) % 2)
    wrong = rng.random(400)
    x = np.full((400, 4, 4, 3), 128, np.uint8)
    for channel, share in ((0, 0.08), (2, 0.05)):
        x[..., channel] = np.where(y ^ (wrong < share), 230, 25)[:, None, None]
    np.savez(tmp_path / "small.npz", x=x, y=y, z=rng.permutation(y))
    with pytest.raises(BadInput, match=r"range looks wrong: with low = -1 and high = 0\.8\d+ it is right in 9"):
        taken(tmp_path, tmp_path, reader(factor=2.0, middle=0.0))


@pytest.mark.parametrize(
    ("factor", "middle", "says"),
    [(0.25, 0.06, r"low = 0 and high = 0\.2\d+"), (0.4, -0.85, r"low = -1 and high = -0\.5\d+")],
)
def test_samples_over_255_are_tried_of_bytes_that_end_below(factor, middle, says, coloured, tmp_path):
    given = dict(np.load(coloured / "small.npz"))
    given["x"] = (given["x"] // 4).astype(np.uint8)
    np.savez(tmp_path / "small.npz", **given)
    with pytest.raises(BadInput, match=f"with {says} it is right in 100"):
        taken(tmp_path, tmp_path, reader(factor=factor, middle=middle))


def test_the_range_of_the_data_is_among_those_that_are_tried(coloured, tmp_path, monkeypatch):
    monkeypatch.setattr(own, "RANGES", ())
    with pytest.raises(BadInput, match="with low = 0 and high = 255 it is right in 100"):
        taken(coloured, tmp_path, reader(factor=255.0, middle=127.5))


def test_a_file_with_code_in_it_is_refused_before_it_is_read(coloured, tmp_path, monkeypatch):
    monkeypatch.setattr(keras.saving, "load_model", pytest.fail)
    x = keras.Input((4, 4, 3))
    keras.Model(x, keras.layers.Lambda(lambda v: v[:, 0, 0, :2])(x)).save(tmp_path / "dy.keras")
    with pytest.raises(BadInput, match=r"dy.keras has Lambda, whose code would be run"):
        taken(coloured, tmp_path, None)
    reader().save(tmp_path / "plain.keras")
    with zipfile.ZipFile(tmp_path / "plain.keras") as old, zipfile.ZipFile(tmp_path / "other.keras", "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, data.replace(b'"keras.layers"', b'"os"') if name == "config.json" else data)
    for data, says in (
        ((tmp_path / "other.keras").read_bytes(), "whose code would be run"),
        (b"0", "is no file of model.save"),
    ):
        (tmp_path / "dy.keras").write_bytes(data)
        with pytest.raises(BadInput, match=says):
            taken(coloured, tmp_path, None)


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"trained": ""}, r"`classifiers\.target\.trained`"),
        (
            {"trained": "dy.keras", "size": "4"},
            r"`classifiers\.target\.size`: expected a width and a height as \"64x48\"",
        ),
        ({"trained": "dy.pt"}, r"a \.pt can run code of its writer's when it is read\. .*torch\.export"),
        ({"trained": "dy.tflite"}, r"a file of Keras, \.keras, of PyTorch, \.pt2, or \.onnx; others are no"),
        ({"trained": "dy.keras", "low": 1.0}, "low below high"),
        ({"trained": "dy.keras", "low": [0.0, 2.0], "high": [1.0, 1.0]}, "low below high"),
        ({"trained": "dy.keras", "low": ["0"]}, r"`classifiers\.target\.low`.*a list of one for each channel"),
        ({"trained": "dy.keras", "size": [0, 4]}, 'a width and a height as "64x48", or '),
        ({"trained": "dy.keras", "colors": "bgr"}, r"`classifiers\.target\.colors` .*did you mean \"colours\""),
    ],
)
def test_a_section_of_a_trained_classifier(section, says):
    with pytest.raises(BadInput, match=says):
        small_recipe(None, classifiers={"architecture": "small", "target": section})


def test_what_an_object_expects_is_stated_beside_it(coloured, tmp_path, monkeypatch):
    file = tmp_path / "mine.toml"
    file.write_text(
        small_recipe(coloured / "small.npz", kind="label-only", classifiers={"architecture": "small"}).toml()
    )
    monkeypatch.setattr("edgeveil.trainer.train._train", lambda run, *_, **__: run)
    recipe = edgeveil.load_recipe(file, {"classifiers.target.high": 255.0, "classifiers.target.size": "6x5"})
    assert recipe.classifiers.target.size == [5, 6]  # as on the command line
    recipe = edgeveil.load_recipe(file, {"classifiers.target.high": 255.0})
    run = edgeveil.train(recipe, tmp_path / "run", target=reader(factor=255.0, middle=127.5))
    assert run.facts["classifiers"]["target"] == {"validation_accuracy": 1.0}
    assert Run.open(run.folder).recipe.classifiers.target.high == 255.0
    before = sorted(tmp_path.iterdir())
    with pytest.raises(
        BadInput, match=r"classifiers.target.trained: a file .keras, .pt2 or .onnx was expected.*target=MODEL"
    ):
        edgeveil.train(recipe, tmp_path / "other")
    assert sorted(tmp_path.iterdir()) == before


def test_models_are_given_as_objects(coloured, tmp_path, monkeypatch):
    given = dict(np.load(coloured / "small.npz"))
    given["x"][..., 2] = np.where(given["z"], 230, 25)[:, None, None]
    np.savez(tmp_path / "small.npz", **given)
    recipe = small_recipe(tmp_path / "small.npz", kind="label-only", classifiers={"architecture": "small"})
    monkeypatch.setattr("edgeveil.trainer.train._train", lambda run, *_, **__: run)
    run = edgeveil.train(recipe, tmp_path / "run", target=reader(), sensitive=reader(channel=2))
    assert set(run.facts["classifiers"]) == {"target", "sensitive"}
    assert run.facts["classifiers"]["target"] == {"validation_accuracy": 1.0}
    assert sorted(one.name for one in tmp_path.glob("*.keras")) == ["run-sensitive.keras", "run-target.keras"]
    with pytest.raises(BadInput, match=r"run-target.keras exists and is not overwritten"):
        edgeveil.train(recipe, tmp_path / "run", target=reader())
    given_again = {"sensitive": reader(channel=2), "resume": True}  # other objects, and the same models
    assert edgeveil.train(recipe, tmp_path / "run", target=reader(), **given_again).facts["state"] is not None
    with pytest.raises(BadInput, match="was started with another recipe"):
        edgeveil.train(recipe, tmp_path / "run", target=reader(middle=0.4), **given_again)
    with pytest.raises(BadInput, match=r"got builtins.dict\. Read a .keras with keras.models.load_model; .*torch"):
        edgeveil.train(recipe, tmp_path / "other", target={})
    before = sorted(tmp_path.iterdir())
    with pytest.raises(BadInput):  # it is no perturber: 2 logits
        edgeveil.wrap(reader(), given, tmp_path / "export", profiles=["workstation"], budget="quick")
    assert sorted(tmp_path.iterdir()) == before  # neither the model nor the data that were written for it
