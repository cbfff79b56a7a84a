"""A given model or function: to an export folder, a sealed bundle and a board's self-test; and what cannot ship."""

import json
import pickle
import zipfile

import keras
import numpy as np
import pytest

from edgeveil.devices.flashing.flash import flash
from edgeveil.devices.flashing.records import Facts, Wanted
from edgeveil.devices.flashing.wheels import read_inputs
from edgeveil.edge_runtime.api import Perturber, RawFrame
from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.models.filters import FUNCTIONS, Takes, ends, otsu
from edgeveil.trainer import datasets
from edgeveil.trainer.export.converters.tf2onnx import Tf2Onnx
from edgeveil.trainer.export.converters.tf_lite import TfLite
from edgeveil.trainer.graphs import keras_file
from edgeveil.trainer.networks.own import IMAGENET
from edgeveil.trainer.perturbers.wrapped import Wrapped
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.sealing import seal as seal_module
from edgeveil.trainer.sealing.keys import keygen
from edgeveil.trainer.sealing.trust_file import TrustFolder
from edgeveil.trainer.wrap import wrap
from tests.support.boards import owners
from tests.support.export_runs import prgan_run
from tests.support.once import nightly_but
from tests.support.small_runs import small_recipe

MOST = 16.0  # of digits' values
DRIVER = {"libedgetpu": "16.0"}
HAS = {"numpy": "1.26.4", "tflite-runtime": "2.5.0", "onnxruntime": "1.11.0", "cv2": "4.11.0"}  # of a board


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """A folder with models, a recipe of digits and a run whose D_y and D_z are taken: nothing is trained."""
    import onnx
    from onnx import TensorProto
    from onnx import helper as of

    folder, layers = tmp_path_factory.mktemp("given"), keras.layers
    keras.utils.set_random_seed(0)  # a tanh of other weights may stay above 0
    run = prgan_run(folder / "run")
    run.record(classifiers={})
    limits = run.recipe.limits.model_copy(update={"target_accuracy": 0.01})
    (folder / "data.toml").write_text(run.recipe.model_copy(update={"limits": limits}).toml())

    @keras.saving.register_keras_serializable(package="test")
    class Drawing(layers.Layer):
        def call(self, inputs):
            return inputs * keras.random.uniform((1,))

    def save(name, make, shape=(8, 8, 1), **more):
        sample = keras.Input(shape, **more)
        model = keras.Model(sample, make(sample))
        model.save(folder / f"{name}.keras")
        return model

    def squashed(h):
        return layers.Conv2D(1, 3, padding="same", activation="sigmoid")(h)

    save("blur", lambda h: FUNCTIONS["blur"].build(h, 1.0))
    save("called", lambda h: squashed(layers.Dropout(0.5, name="drops")(h, training=True)))
    save("norm", lambda h: squashed(layers.BatchNormalization(name="norm")(h, training=True)))
    save("draws", lambda h: Drawing()(h))
    save("batch", lambda h: h / (1 + keras.ops.mean(h, axis=0, keepdims=True)))
    save("large", squashed, (16, 16, 1))
    save("logits", lambda h: layers.Dense(2)(layers.Flatten()(h)))
    save("code", lambda h: layers.Lambda(lambda x: x)(h))
    save("same", lambda h: layers.Activation("linear")(h))
    save("outside", lambda h: layers.Rescaling(1000.0)(squashed(h)))
    save("signed", lambda h: layers.Activation("tanh")(layers.Conv2D(1, 3, padding="same")(h)))
    save("gelu", lambda h: squashed(layers.Activation("gelu")(h)))
    one, other = keras.Input((8, 8, 1)), keras.Input((8, 8, 1))
    keras.Model([one, other], layers.Add()([one, other])).save(folder / "two.keras")
    save("wide", lambda h: layers.Conv2D(1, 3, padding="same", dtype="float64")(h))

    def graph(name, nodes, shape=(1, 8, 8, 1), kind=TensorProto.FLOAT):
        both = [[of.make_tensor_value_info(end, kind, shape)] for end in "xy"]
        made = of.make_model(of.make_graph(nodes, "g", *both), opset_imports=[of.make_opsetid("", 13)], ir_version=7)
        (folder / f"{name}.onnx").write_bytes(made.SerializeToString())

    graph("first", [of.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1] * 4)], (1, 1, 8, 8))
    graph("draws", [of.make_node("RandomNormalLike", ["x"], ["r"]), of.make_node("Add", ["x", "r"], ["y"])])
    graph("wide", [of.make_node("Sigmoid", ["x"], ["y"])], kind=TensorProto.DOUBLE)
    graph("open", [of.make_node("Sigmoid", ["x"], ["y"])], ("N", 8, 8, 1))
    assert onnx.load(folder / "first.onnx").ir_version == 7
    (folder / "pickle.keras").write_bytes(pickle.dumps({}))
    with zipfile.ZipFile(folder / "torch.keras", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({}))
    for name in ("rubbish.onnx", "rubbish.tflite"):
        (folder / name).write_bytes(b"no model")
    return folder


@pytest.fixture(scope="module")
def digits(given):
    return datasets.load(Recipe.find(given / "data.toml")).for_training()


def smoothed(x, weight):
    """The weighted mean of each pixel's neighbours within the picture; ``weight`` of a distance down and across."""
    high, wide = x.shape
    out = np.zeros_like(x)
    for row, column in np.ndindex(high, wide):
        down, across = np.arange(high)[:, None] - row, np.arange(wide)[None] - column
        weights = weight(down, across) * np.ones_like(x)
        out[row, column] = (weights * x).sum() / weights.sum()
    return out


def blurred(x, _):
    return smoothed(x, lambda i, j: np.exp(-(i**2 + j**2) / 2) * (abs(i) <= 3) * (abs(j) <= 3))


def mosaic(x, _):
    return np.kron(x.reshape(2, 4, 2, 4).mean(axis=(1, 3)), np.ones((4, 4)))


def silhouette(x, threshold):
    return MOST * (x / MOST > threshold)


def pooled(x, _):
    return smoothed(x, lambda i, j: (abs(i) <= 1) & (abs(j) <= 1))


# What is given; the board; what it takes; what it is by numpy; whether the file is in the bundle as it is.
WHOLE_WAY = [
    ("blur.keras", "jetson-nano", (), blurred, False),  # by day the network of silhouette, which is converted too
    ("blur.onnx", "jetson-nano", (), blurred, True),  # by day first.onnx
    ("blur.tflite", "raspberry-pi-cpu", (), blurred, True),  # by day first.onnx: the same code for both formats
    ("first.onnx", "jetson-nano", (("low", -1.0), ("high", 1.0)), pooled, True),
    ("blur:sigma=1", "jetson-nano", (), blurred, False),  # by day silhouette
    ("mosaic:4", "jetson-nano", (), mosaic, False),  # by day silhouette
    ("silhouette", "coral-usb", (), silhouette, False),
]


@pytest.mark.parametrize(
    ("model", "board", "takes", "expected", "as_it_is"),
    nightly_but(WHOLE_WAY, WHOLE_WAY[3], WHOLE_WAY[6]),
    ids=[one[0] for one in WHOLE_WAY],
)
def test_it_ships_and_computes_what_it_did(model, board, takes, expected, as_it_is, given, digits, tmp_path, capsys):
    file, takes = given / model, dict(takes)
    if model in ("blur.onnx", "blur.tflite"):
        to = Tf2Onnx() if file.suffix == ".onnx" else TfLite()
        file.write_bytes(to.convert(keras_file.read(given / "blur.keras"), ["float32"])["float32"])
    exported = wrap(
        str(file) if file.exists() else model,
        str(given / "data.toml"),
        tmp_path / "it-export",
        profiles=[board],
        settings=takes,
        classifiers=given / "run",
    )
    assert exported.run == tmp_path / "it"
    assert exported.report["lint"]
    names = [name for name, data in exported.members.items() if file.exists() and data == file.read_bytes()]
    assert bool(names) == as_it_is
    assert ("before" in exported.manifest["models"]) == bool(as_it_is and takes)
    assert max(row["max_abs"] for row in exported.report["parity"]) <= 1
    said = capsys.readouterr().err
    assert "The function is" in said or f"{model} takes low={takes.get('low', 0):g}, " in said
    keys = keygen(tmp_path / "keys").parent
    seal_module.seal(tmp_path / "it-export", keys / "signing.key", tmp_path / "it.veil", allow_unaudited=True)
    sealed = read_bundle(tmp_path / "it.veil", open_trust(keys)).manifest
    assert set(sealed.models) == set(exported.manifest["models"])
    root = TrustFolder.init(tmp_path / "root", [keys / "signing.pub"], passphrase=owners.SECRET).folder
    facts = Facts("aarch64", "3.11.2", 10**10, False, True, True, interpreters=HAS, drivers=DRIVER)
    inputs, flashed = read_inputs(tmp_path / "it.veil", board, root, None), owners.Watched(owners.Recorded(), facts)
    plan = flash(inputs, flashed, Wanted("camera:0", ("none",)), dry_run=True).plan
    assert [step.kind for step in plan.steps] == ["trust", "upload", "install", "service", "start"]
    threshold = otsu(digits.unit(digits.part("perturber").x))
    with Perturber.open(tmp_path / "it.veil", trust=keys) as perturber:  # tests itself on the golden vectors
        for x in digits.part("test").x[:4]:
            sent = perturber.perturb(RawFrame(x, index=0)).data[..., 0].astype(float)
            assert np.abs(sent - expected(x[..., 0].astype(float), threshold)).max() <= 1
    # Opened again without the file that was given.
    again = exported.run and json.loads((exported.run / "run.json").read_text())["wrapped"]
    assert set(again) in ({"function"}, {"takes", "outside"})


REFUSED = [
    ("called.keras", {}, r"Dropout 'drops' runs as in training"),
    ("norm.keras", {}, r"BatchNormalization 'norm' runs as in training"),
    ("draws.keras", {}, "has Drawing, whose code would be run"),
    ("batch.keras", {}, "depends on the other samples of its batch"),
    ("draws.onnx", {}, "cannot ship: RandomNormalLike draws from a generator"),
    ("blur.keras", {"layout": "first"}, r"layout=first was stated, and its input \(8, 8, 1\) has channels last"),
    ("first.onnx", {"layout": "last"}, r"layout=last was stated, and its input \(1, 8, 8\) has channels first"),
    ("blur.keras", {"colours": "bgr"}, "samples of three colours were expected"),
    ("wide.keras", {}, "float32 was expected, and .* is float64"),
    ("wide.onnx", {}, "float32 was expected, and x is float64"),
    ("large.keras", {}, r"of the shape \(8, 8, 1\) was expected.* it takes \(16, 16, 1\).* add size=16x16"),
    ("open.onnx", {}, r"every size fixed was expected.*\(-1, 8, 8, 1\)"),
    ("two.keras", {}, "one input and one output was expected; it has 2 and 1"),
    ("logits.keras", {}, r"an output of the input's kind was expected.* it gives \(2,\)"),
    ("outside.keras", {}, "lies outside the same range, or hardly varies. State what it expects as low"),
    ("outside.keras", {"low": 0.0, "high": 1.0}, r"\d+% of what it gives lies outside"),
    ("same.keras", {}, "samples come out unchanged, so it hides nothing"),
    ("code.keras", {}, "has Lambda, whose code would be run"),
    ("pickle.keras", {}, r"is no file of model.save\(FILE.keras\)"),
    ("torch.keras", {}, r"is no file of model.save\(FILE.keras\)"),
    ("rubbish.onnx", {}, "cannot ship: it is damaged, or no ONNX model"),
    ("rubbish.tflite", {}, "cannot ship: it lacks the identifier of a TFLite file"),
    ("missing.keras", {}, "A model was expected at .*: no such file"),
    ("mosaic:9", {}, "squares within the pictures of 8x8 were expected"),
]


@pytest.mark.parametrize(("model", "takes", "sentence"), REFUSED)
def test_what_cannot_ship_is_refused_before_anything_is_trained(model, takes, sentence, given, digits):
    place = model if ":" in model else str(given / model)
    with pytest.raises(BadInput, match=sentence) as caught:
        Wrapped(kind="wrapped", model=place, **takes).check(digits)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model", ["signed.keras", "first.onnx"])
def test_a_range_of_each_channel_ships_with_the_model(model, given, digits):
    fitted, _, text = Wrapped(kind="wrapped", model=str(given / model), low=[-1.0], high=[3.0]).tried_on(digits)
    assert "takes low=[-1], high=[3]" in text
    alike, _, _ = Wrapped(kind="wrapped", model=str(given / model), low=-1.0, high=3.0).tried_on(digits)
    assert np.allclose(fitted.frames(digits.x[:4]), alike.frames(digits.x[:4]), atol=1e-4)


def test_a_range_is_found(given, digits):
    for model, low, high in (("signed", -1.0, 1.0), ("blur", 0.0, 1.0)):
        _, facts, text = Wrapped(kind="wrapped", model=str(given / f"{model}.keras")).tried_on(digits)
        assert (facts["takes"]["low"], facts["takes"]["high"], "(found)" in text) == (low, high, True)
    one = Wrapped(kind="wrapped", model=str(given / "large.keras"), size="16x16", low=0.0, high=1.0)
    assert Wrapped(kind="wrapped", model="m.keras", size="24x16", gives="0:2.5").model_dump(
        include={"size", "gives"}
    ) == {"size": [16, 24], "gives": [0.0, 2.5]}
    fitted, facts, _ = one.tried_on(digits)
    assert facts["takes"]["size"] == (16, 16)
    assert fitted.frames(digits.x[:2]).shape == (2, 8, 8, 1)


@pytest.mark.parametrize("order", [1, -1], ids=["rgb", "bgr"])
def test_the_range_of_imagenet_is_found_where_no_other_fits(order, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    np.savez(tmp_path / "small.npz", x=rng.integers(0, 256, (200, 8, 8, 3)).astype(np.uint8), y=y, z=rng.permutation(y))
    data = datasets.load(small_recipe(tmp_path / "small.npz", kind="label-only")).for_training()
    low, high = (np.array(end[::order]) for end in IMAGENET)
    layers, sample = keras.layers, keras.Input((8, 8, 3))
    inside = layers.Rescaling((2 / (high - low)).tolist(), (-2 * low / (high - low)).tolist())(sample)
    pooled = layers.AveragePooling2D(3, 1, padding="same")(keras.ops.abs(inside - 1))
    gives = layers.Rescaling((high - low).tolist(), low.tolist())(pooled)
    keras.Model(sample, gives).save(tmp_path / "m.keras")
    stated = Wrapped(kind="wrapped", model=str(tmp_path / "m.keras"), colours="rgb" if order == 1 else "bgr")
    _, facts, text = stated.tried_on(data)
    assert (facts["takes"]["low"], facts["takes"]["high"]) == (tuple(low), tuple(high))
    assert f"takes low=[{low[0]:g}, " in text


def test_colours_axes_and_size_come_back():
    u = np.random.default_rng(0).random((2, 4, 6, 3), np.float32)
    takes = Takes(low=-1.0, high=1.0, gives_low=-1.0, gives_high=1.0, layout="first", colours="bgr")
    before, after = ends((4, 6, 3), takes, (3, 4, 6))
    inside = np.asarray(before(u))
    assert np.allclose(inside, np.moveaxis(2 * u[..., ::-1] - 1, -1, 1), atol=1e-6)
    assert np.allclose(after(inside), u, atol=1e-6)
    low, high = np.array([-2.0, 0.0, 1.0]), np.array([2.0, 5.0, 3.0])  # of each channel, in the model's order
    of_each = Takes(tuple(low), tuple(high), tuple(low), tuple(high), layout="first", colours="bgr")
    before, after = ends((4, 6, 3), of_each, (3, 4, 6))
    inside = np.asarray(before(u))
    assert np.allclose(inside, np.moveaxis(low + u[..., ::-1] * (high - low), -1, 1), atol=1e-6)
    assert np.allclose(after(inside), u, atol=1e-6)
    before, after = ends((6, 3), Takes(tuple(low), tuple(high)), (6, 3))
    assert np.allclose(np.asarray(before(u[:, 0])), low + u[:, 0] * (high - low), atol=1e-6)
    before, after = ends((4, 6, 3), Takes(size=(8, 12)), (8, 12, 3))
    assert (before(u).shape, after(before(u)).shape) == ((2, 8, 12, 3), (2, 4, 6, 3))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["m.pt"], "expected a file .keras, .pt2, .onnx, .tflite, and no .pt"),
        (["m.h5"], "and no .h5, which can run code of its writer's"),
        (["m.txt"], "or blur:sigma=6, mosaic:8, silhouette"),
        (["blur:much"], "expected blur:sigma=6, or another number"),
        (["blur:sigma=1", "--set", "low=0", "--set", "high=1"], "expected no low, high"),
        (
            ["blur.keras", "--set", "size=8"],
            '`size`: expected a width and a height as "64x48", or height and width as [48, 64]; got 8',
        ),
        (["blur.keras", "--set", "gives=1"], '`gives`: expected a range as "0:1", or [0.0, 1.0]; got 1'),
        (["blur:sigma=1", "--set", "colour=bgr"], 'such as budget.classifier_epochs (did you mean "colours"?)'),
        (
            ["blur:sigma=1", "--set", "low"],
            '--set: expected KEY=VALUE such as low=-1 or budget.classifier_epochs=3; got "low"',
        ),
        (["blur.keras", "--set", "low=dark"], "`low`: expected a finite number, or a list of one for each channel"),
        (["blur.keras", "--set", "low=[0, 0]", "--set", "high=1"], "blur.keras: low was expected to be a number, or a"),
        (["blur.keras", "--set", "budget.epoch=3"], '`budget.epoch` is not a key of a recipe (did you mean "epochs"?)'),
        (["blur.keras", "--set", "layout=middle"], "`layout`: expected "),
        (["blur.keras", "--set", "low=1"], "expected low and high, or neither"),
        (
            ["first.onnx", "--set", "low=0", "--set", "high=1", "--for", "coral-usb"],
            "ships as it is, as onnx-float32, and coral-usb does not run that",
        ),
        pytest.param(  # after D_y and D_z; by day the word above
            ["gelu.keras", "--for", "coral-usb"], "does not pass the lint for coral-usb", marks=pytest.mark.nightly
        ),
    ],
)
def test_a_wrong_word_ends_with_2_and_leaves_nothing(words, sentence, given, tmp_path, edgeveil, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, *more = words
    place = given / model if (given / model).exists() else model
    common = ["--data", given / "data.toml", "--classifiers", given / "run", "--out", "it-export"]
    code, _, said = edgeveil("wrap", place, *common, *more)
    assert (code, sentence in said) == (2, True), said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["train", "export"])
def test_an_interrupt_leaves_nothing(step, given, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        (tmp_path / "it" if step == "train" else tmp_path).mkdir(exist_ok=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(f"edgeveil.trainer.wrap.{step}", interrupted)
    with pytest.raises(KeyboardInterrupt):
        wrap(
            "blur:sigma=1",
            str(given / "data.toml"),
            tmp_path / "it-export",
            profiles=["workstation"],
            classifiers=given / "run",
        )
    assert list(tmp_path.iterdir()) == []
