"""A codebook for a stream: from recipe to what leaves of a track, and what a recipe may not ask for."""

import copy

import keras
import numpy as np
import pytest
import tomllib

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.manifest.stream_bound import NONE, ONE_FRAME, stream_bound
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline, load_pipeline
from edgeveil.edge_runtime.stages.random_draws import Channel
from edgeveil.trainer.audit.subject import Bottleneck, bottleneck
from edgeveil.trainer.datasets.base import Dataset, InputSpec, Slices
from edgeveil.trainer.export.export import export
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.measures import black_box
from edgeveil.trainer.networks.training import train_classifiers
from edgeveil.trainer.perturbers.codebook import fit, stream_codes, training
from edgeveil.trainer.perturbers.codebook.fit import assemble as assemble_codebook
from edgeveil.trainer.perturbers.codebook.stream_codes import majority, stream
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.run import Run
from tests.support import seeds
from tests.support.small_runs import fit_codebook

QUICK = {"epochs": 8, "classifier_epochs": 1}


def held(folder, **changes):
    table = tomllib.loads(Recipe.find("digits-codebook").toml())
    table["perturber"] |= {"hold": "track:3", **changes}
    table["limits"]["target_accuracy"] = 0.5  # of so short a training no D_y can be asked for
    recipe = Recipe.check(table)
    recipe = recipe.model_copy(update={"budget": recipe.budget.model_copy(update=QUICK), "seed": seeds.seed(0)})
    run = Run.create(folder / "run", recipe)
    return run, fit_codebook(run)


@pytest.fixture(scope="module")
def of_donors(tmp_path_factory):
    return held(tmp_path_factory.mktemp("held"), codes=4, donors=2)


def test_a_held_codebook_says_one_word_for_a_track(of_donors, tmp_path):
    run, perturber = of_donors
    test = run.dataset().part("test")
    per_row = perturber.perturb(test.x)["label"]
    assert (per_row == test.y).mean() > 0.8
    (tmp_path / "saved").mkdir()
    perturber.save(tmp_path / "saved")
    perturber = FittedPerturber.load(tmp_path / "saved")
    assert perturber.stream == {"hold": "track", "votes": 3, "period_s": None, "acknowledged": None}
    tracks = np.repeat(np.arange(40), 5)
    out = perturber.perturb(test.x[:200], tracks)
    label, code, frame = (out[name].reshape(40, 5, -1) for name in ("label", "code", "frame"))
    undecided = len(run.dataset().y_names)
    assert (label[:, :2] == undecided).all()
    assert len(np.unique(frame[:, :2].reshape(80, -1), axis=0)) == 1
    assert len(np.unique(frame[:, :2])) == 1  # flat
    for value in (label, code, frame):
        assert (value[:, 2:] == value[:, 2:3]).all()
    assert (label[:, 4, 0] == majority(per_row[:200], tracks, 3).reshape(40, 5)[:, 0]).all()
    assert (code[:, 2:] // 4 == label[:, 2:]).all()
    assert len(np.unique(code[:, 2:])) > 4  # tracks draw for themselves
    shown = {row.tobytes() for row in run.dataset().for_training().x}
    assert all(row.astype(test.x.dtype).tobytes() in shown for row in frame[:, 4])


def test_a_held_codebook_draws_its_code_of_the_word_and_nothing_else(of_donors):
    run, perturber = of_donors
    x = run.dataset().part("test").x[:40]
    sent = [perturber.perturb(x) for _ in range(16)]
    labels, codes = (np.stack([out[name] for out in sent]) for name in ("label", "code"))
    assert (labels == labels[0]).all()
    assert (codes // 4 == labels).all()
    assert len(np.unique(codes)) > len(run.dataset().y_names) >= len(np.unique(labels[0]))


def test_a_held_codebook_ships_and_holds_on_the_interpreter(tmp_path):
    run, perturber = held(tmp_path, codes=2, synthesis="centroid")
    run.save_perturber(perturber)
    train_classifiers(run)
    export(run.folder, ["coral-dev-board"], tmp_path / "out")
    folder = ExportFolder.open(tmp_path / "out")
    assert folder.manifest["stream"]["votes"] == 3
    pipeline = load_pipeline(parse(folder.manifest), folder.members, "tflite-int8")
    test = run.dataset().part("test")
    frames = [RawFrame(x, i, track=i % 2) for i, x in enumerate(test.x[:12])]
    out = [pipeline.perturb(frame) for frame in frames]
    pipeline.close()
    on_keras = perturber.perturb(test.x[:12], np.arange(12) % 2)["label"]
    assert [int(frame.outputs["label"]) for frame in out] == on_keras.tolist()
    assert len({frame.data.tobytes() for frame in out[4:]}) <= 2


def followed(pictures=4, **changes):
    """A codebook whose class and code are in the first two and in the last two values of a reading."""
    recipe = Recipe.check(changed(codes=2, **changes))
    u = keras.Input((4,), name="u")
    heads = keras.layers.Dense(2, name="label_logits")(u), keras.layers.Dense(4, name="code_logits")(u)
    encoder = keras.Model(u, heads)
    encoder.set_weights([np.eye(4)[:, :2], np.zeros(2), np.eye(4)[:, [2, 3, 2, 3]], np.zeros(4)])
    spec = InputSpec("vector", (4,), "float32", (0.0,) * 4, (1.0,) * 4)
    data = Dataset("made", np.zeros((1, 4)), *np.zeros((2, 1), int), "ab", "wx", np.ones((2, 2)) / 2, spec, None)
    drawn = np.random.default_rng(0).random((pictures, 4), np.float32)
    return assemble_codebook(data, encoder, drawn, recipe.perturber)


@pytest.mark.parametrize(("hold", "draws"), [("first:1", 1), ("first:3", 3), ("first:3/600s", 3)])
def test_after_so_many_codes_of_a_track_the_last_is_sent_with_its_class_and_picture(hold, draws):
    acknowledge = {"acknowledge": "code-per-frame leaks"} if draws > 1 else {}
    fitted = followed(pictures=16, hold=hold, **acknowledge)
    assert fitted.stream.get("draws", 1) == draws
    assert bottleneck(fitted.description(), fitted.tables) == Bottleneck("code", "code_held", None, 4, False, True)
    assert [one["op"] for one in fitted.stages if one["stage"] == "hold"] == ["first"] * 3  # others keep to no limit
    kind = ONE_FRAME if draws == 1 else NONE
    assert stream_bound({**fitted.description(), "stream": fitted.stream}).kind == kind
    pipeline = Pipeline(parse(fitted.description()), tables=dict(fitted.tables), runners=fitted.runners())
    shown = np.eye(4, dtype=np.float32)
    frames = [RawFrame(shown[y] + shown[2 + c], 0, track=1) for y, c in ((0, 0), (1, 1), (0, 1), (1, 0), (0, 0))]
    out = pipeline.perturb_batch(frames)
    codes = [0, 3, 1]
    assert [int(one.outputs["code"]) for one in out] == [*codes[:draws], *codes[draws - 1 : draws] * (5 - draws)]
    assert all(int(one.outputs["label"]) == int(one.outputs["code"]) // 2 for one in out)
    assert len({one.data.tobytes() for one in out[draws - 1 :]}) == 1  # the donor, too


def test_a_class_keeps_the_code_of_its_first_frame_for_a_bout():
    """One frame of another class between ends nothing, two do."""
    fitted = followed(hold="bout:2", acknowledge="code-per-bout leaks")
    assert fitted.stream["gap"] == 2
    assert bottleneck(fitted.description(), fitted.tables) == Bottleneck("code", "code_held", None, 4, False, True)
    pipeline = Pipeline(parse(fitted.description()), tables=dict(fitted.tables), runners=fitted.runners())

    def sent(shown):
        frames = [RawFrame(np.eye(4, dtype=np.float32)[[int(y), 2 + int(c)]].sum(axis=0), 0) for y, c in shown.split()]
        return " ".join("{label}{code}".format(**pipeline.perturb(frame).outputs) for frame in frames)

    assert sent("00 01 00 11 01 10 11 01") == "00 00 00 13 00 13 13 01"
    assert sent("10 10 10 01 00 10") == "13 13 13 01 01 12"
    pipeline.forget(0)
    assert sent("10") == "12"


def changed(**changes):
    table = copy.deepcopy(tomllib.loads(Recipe.find("digits-codebook").toml()))
    table["perturber"] |= changes
    return table


def test_a_code_for_every_frame_has_to_be_acknowledged_and_is_repeated():
    with pytest.raises(BadInput, match='acknowledge = "code-per-frame leaks"'):
        Recipe.check(changed(hold="frame"))
    recipe = Recipe.check(changed(hold="frame", acknowledge="code-per-frame leaks"))
    found = stream(recipe.perturber.hold, recipe.perturber.acknowledge)
    assert found == {"hold": "frame", "votes": None, "period_s": None, "acknowledged": "code-per-frame leaks"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hold": "track:7", "acknowledge": "code-per-frame leaks"}, '"bout:4" or "first:4" with `acknowledge`'),
        ({"hold": "first:1", "acknowledge": "code-per-frame leaks"}, '"bout:4" or "first:4" with `acknowledge`'),
        ({"hold": "first:10"}, 'several with acknowledge = "code-per-frame leaks"'),
        ({"hold": "first:2/60s", "acknowledge": "code-per-bout leaks"}, 'acknowledge = "code-per-frame leaks"'),
        ({"hold": "first:0"}, "first:0"),
        ({"hold": "first:4/600"}, "first:4/600"),
        ({"hold": "bout:4"}, 'acknowledge = "code-per-bout leaks"'),
        ({"hold": "bout:4", "acknowledge": "code-per-frame leaks"}, 'acknowledge = "code-per-bout leaks"'),
        ({"hold": "frame", "acknowledge": "code-per-bout leaks"}, 'acknowledge = "code-per-frame leaks"'),
        ({"hold": "bout:0", "acknowledge": "code-per-bout leaks"}, "bout:0"),
        ({"hold": "track:0"}, "track:0"),
        ({"hold": "period:600"}, "period:600"),
        ({"hold": "frame", "acknowledge": "yes"}, "acknowledge"),
    ],
)
def test_what_a_stream_may_not_ask_for(changes, says):
    with pytest.raises(BadInput, match=says):
        Recipe.check(changed(**changes))


def test_a_camera_is_a_stream():
    table = tomllib.loads(Recipe.find("depth-codebook").toml())
    table["perturber"]["hold"] = "none"
    with pytest.raises(BadInput, match="these data are streams"):
        Recipe.check(table)


def people(n=4, tracks=6, frames=5):
    """Readings whose y shows, but for the last person's, who shows the other one in every frame of a third."""
    rng = np.random.default_rng(0)
    z = np.repeat(np.arange(n), tracks * frames)
    track = np.repeat(np.arange(n * tracks), frames)
    y = track % 2
    x = y.copy()
    x[(z == n - 1) & (track % 3 == 0)] ^= 1
    rows = rng.permutation(len(y))
    spec = InputSpec("vector", (1,), "int64", 0.0, 1.0)
    slices = Slices(rows, rows[:0], rows[:0])
    names = ("a", "b"), tuple("wxyz"[:n])
    return Dataset("made", x[:, None], y, z, *names, np.full((2, n), 1 / n), spec, slices, track, "session")


def test_the_gate_finds_the_worst_person_by_tracks():
    dataset = people()
    trained = []

    def without(part):
        trained.append(set(part.z))
        return lambda x: x[:, 0]

    found = fit.leave_one_out(dataset, dataset.part("classifiers"), without, 3)
    assert trained == [{1, 2, 3}, {0, 2, 3}, {0, 1, 3}, {0, 1, 2}]
    assert found["worst"] == pytest.approx(4 / 6)
    assert found["each"][1:] == [1.0] * 3
    with pytest.raises(BadInput, match="at least 3"):
        fit.leave_one_out(people(2), people(2).part("classifiers"), without, 3)


def test_the_majority_is_of_the_first_frames_alone():
    assert majority(np.array([0, 1, 1, 0, 0, 0, 2]), np.array([0] * 6 + [1]), 3).tolist() == [1] * 6 + [2]


def test_copies_are_moved_scaled_and_brightened_but_for_the_background():
    rng = np.random.default_rng(0)
    u = np.zeros((50, 20, 16, 1), np.float32)
    u[:, 6:14, 5:11] = 0.5
    same = training.changed_images(u, shift=0, scale=0.0, offset=0.0, rng=rng)
    assert np.array_equal(same, u)
    out = training.changed_images(u, shift=2, scale=0.2, offset=0.1, rng=rng)
    assert out.shape == u.shape
    assert out.dtype == np.float32
    assert (out[:, 0] == 0).all()
    shown = [set(np.unique(one)) - {0.0} for one in out]
    assert all(len(values) == 1 for values in shown)  # a picture is brightened as a whole
    assert 0.39 < min(min(values) for values in shown) < 0.45
    assert len({int((one > 0).sum()) for one in out}) > 3


# The channel as it ships: integers that sum to a power of two.


def test_the_shipped_integers_are_a_channel_and_close():
    q = np.random.default_rng(0).dirichlet(np.ones(5), 5)
    table = stream_codes.integers(q)
    Channel(table)  # the runtime's own check
    assert (table.sum(axis=1) == 2**16).all()
    assert np.abs(table / 2**16 - q).max() <= 2**-16


def test_equal_rows_stay_equal():
    table = stream_codes.integers(np.tile(np.array([1, 1, 1, 4.0]) / 7, (4, 1)))
    assert (table == table[0]).all()
    assert black_box.total_variation(table.astype(float)) == 0
    with pytest.raises(BadInput, match="at most 65536 codes; got 65537"):
        stream_codes.integers(np.ones((1, 2**16 + 1)))


def test_zero_stays_zero():
    table = stream_codes.integers(np.array([[0.3, 0.7, 0.0], [0.0, 0.0, 1.0]]))
    assert not table[0, 2]
    assert table[1].tolist() == [0, 0, 2**16]


def test_donors_are_picked_evenly():
    table = stream_codes.donors_within(2, 4)
    Channel(table)
    assert table.tolist() == [[1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1]]
    with pytest.raises(BadInput, match="power of two; got 3"):
        stream_codes.donors_within(2, 3)
