"""``edgeveil recipe new`` writes a commented recipe that trains on what it was shown."""

import re

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.util.simulated_scene import Scene
from edgeveil.trainer import datasets
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.recipe.perturber import KINDS
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.scaffold.given import Given
from edgeveil.trainer.scaffold.look import look
from edgeveil.trainer.scaffold.new import write_recipe
from edgeveil.trainer.train import train
from tests.support import once
from tests.support.small_runs import ROWS, write_npz
from tests.trainer.datasets.made_pictures import write_folder

pytestmark = pytest.mark.usefixtures("few_trees")


def made(folder, data, **words):
    """The recipe that is written for an .npz, and its text."""
    write_recipe(Given(f"npz:{data}"), folder / "mine.toml", **words)
    return Recipe.find(folder / "mine.toml"), (folder / "mine.toml").read_text()


def trained(recipe, folder):
    """A run of it, cut short."""
    few = recipe.budget.quick.model_copy(update={"classifier_epochs": 3, "epochs": 2})
    changes = {
        "budget": recipe.budget.model_copy(update={"quick": few}),
        "classifiers": recipe.classifiers.model_copy(update={"look": None}),
    }
    if recipe.perturber.kind == "codebook":
        changes["perturber"] = recipe.perturber.model_copy(update={"steps": 20, "dropout": 0.0})
    return train(recipe.model_copy(update=changes), folder / "run", budget="quick")


def test_it_trains_on_vectors(tmp_path):
    recipe, _ = made(tmp_path, write_npz(tmp_path))
    assert recipe.name == "small-codebook"
    run = trained(recipe, tmp_path)
    assert run.perturber().input.kind == "vector"


@pytest.mark.nightly  # by day vectors, above
def test_it_trains_on_images(tmp_path):
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, ROWS), rng.integers(0, 2, ROWS)
    x = rng.integers(0, 60, (ROWS, 10, 12)).astype(np.uint8)
    x[y == 1, :5] += 120
    x[z == 1, :, :6] += 60
    recipe, _ = made(tmp_path, write_npz(tmp_path, x=x, y=y, z=np.where(z, "Zoë", 'a "quoted" name')), kind="prgan")
    assert recipe.perturber.generator.halvings == 1
    run = trained(recipe, tmp_path)
    assert run.perturber().input.shape == (10, 12, 1)


@pytest.mark.parametrize("kind", KINDS.kinds())
def test_every_kind_of_perturber_can_be_asked_for(kind, tmp_path):
    recipe, _ = made(tmp_path, write_npz(tmp_path), kind=kind)
    assert (recipe.name, recipe.perturber.kind) == (f"small-{kind}", kind)
    datasets.load(recipe.with_budget("quick"))
    assert (recipe.certificate is not None) == (kind == "codebook")
    generator = getattr(recipe.perturber, "generator", None)
    # What nothing is clipped in has no such key.
    assert generator is None or (generator.clip == "returns") == (generator.latent is None)


def test_one_report_need_not_say_y(tmp_path):
    """A limit ten points below the forest's would end every training with exit code 3."""
    write_npz(tmp_path)
    for kind in ("local", "label-only"):
        write_recipe(Given(f"npz:{tmp_path / 'small.npz'}"), tmp_path / f"{kind}.toml", kind=kind)
    local, other = (Recipe.find(tmp_path / f"{kind}.toml") for kind in ("local", "label-only"))
    assert local.perturber.of == "reading"
    assert local.limits.target_accuracy == 0.01 < 0.3 < other.limits.target_accuracy
    assert "only the mean of many is" in (tmp_path / "local.toml").read_text()


@pytest.mark.slow
# By day "prgan" trains on images, above.
@pytest.mark.parametrize("kind", once.nightly_but(("prgan", "cleaner"), "cleaner"))
def test_what_was_asked_for_trains(kind, tmp_path):
    run = trained(made(tmp_path, write_npz(tmp_path), kind=kind)[0], tmp_path)
    assert run.perturber().kind == kind


def test_a_codebook_takes_as_many_people_for_a_mean_as_there_are_and_donors_only_with_consent(tmp_path):
    subject = np.arange(ROWS) // 10
    path = write_npz(tmp_path, subject=subject)
    write_recipe(Given(f"npz:{path}"), tmp_path / "means.toml", kind="codebook")
    found = Recipe.find(tmp_path / "means.toml").perturber
    assert (found.synthesis, found.fewest_subjects) == ("centroid", 10)
    path = write_npz(tmp_path, consent=np.ones(ROWS, bool))
    write_recipe(Given(f"npz:{path}"), tmp_path / "donors.toml", kind="codebook")
    assert Recipe.find(tmp_path / "donors.toml").perturber.synthesis == "donor"


def test_a_kind_that_does_not_suit_is_refused(tmp_path):
    path = write_npz(tmp_path, x=np.zeros((ROWS, 8, 8), np.uint8) + np.arange(ROWS, dtype=np.uint8)[:, None, None] % 9)
    with pytest.raises(BadInput, match="cleaner is for vectors"):
        write_recipe(Given(f"npz:{path}"), tmp_path / "mine.toml", kind="cleaner")
    with pytest.raises(BadInput, match=r'expected one of codebook.*got "gan"'):
        write_recipe(Given(f"npz:{path}"), tmp_path / "mine.toml", kind="gan")


def test_it_says_what_it_saw(tmp_path):
    _, text = made(tmp_path, write_npz(tmp_path))
    assert "300 vectors of shape (6,), float32. Slices of 100, 100, 100 rows, cut row by row:" in text
    assert "too few for a fourth, so adversaries learn on folds of the test" in text
    assert 'source = "npz:small.npz"' in text
    assert "by always guessing the commonest of its 2 classes" in text
    comments = [line for line in text.splitlines() if "#" in line]
    assert len(comments) > 12


def test_it_says_that_a_slice_is_for_adversaries_alone_where_there_are_rows_enough(tmp_path):
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, (2, 800))
    x = rng.normal(size=(800, 6)).astype(np.float32) + y[:, None]
    _, text = made(tmp_path, write_npz(tmp_path, x=x, y=y, z=z))
    assert "Slices of 200, 200, 200, 200 rows, cut row by row:" in text
    assert "adversaries alone, and the test" in text


def test_it_warns_where_there_is_nothing_to_read(tmp_path):
    _, text = made(tmp_path, write_npz(tmp_path, x=np.random.default_rng(0).normal(size=(ROWS, 6)).astype(np.float32)))
    assert "there may be little to keep" in text
    assert "there may be little to hide" in text
    # A floor below guessing would say that y need not be read, and D_y would be trained further in vain.
    guessing = float(re.search(r"y: .*\(([0-9.]+)% by always guessing", text)[1]) / 100
    assert Recipe.find(tmp_path / "mine.toml").limits.target_accuracy > guessing


def test_a_file_elsewhere_is_named_in_full(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "recipes").mkdir()
    path = write_npz(tmp_path / "data")
    write_recipe(Given(f"npz:{path}"), tmp_path / "recipes" / "mine.toml")
    assert Recipe.find(tmp_path / "recipes" / "mine.toml").data.source == f"npz:{path.resolve()}"


def test_nothing_is_overwritten_or_half_written(tmp_path):
    path = write_npz(tmp_path)
    (tmp_path / "mine.toml").write_text("mine")
    with pytest.raises(BadInput, match="it is not overwritten"):
        write_recipe(Given(f"npz:{path}"), tmp_path / "mine.toml")
    assert (tmp_path / "mine.toml").read_text() == "mine"
    bad = write_npz(tmp_path, x=np.full((ROWS, 6), np.nan))
    with pytest.raises(BadInput, match="NaN or infinite"):
        write_recipe(Given(f"npz:{bad}"), tmp_path / "other.toml")
    assert not (tmp_path / "other.toml").exists()


@pytest.mark.parametrize(
    ("data", "out", "says"),
    [
        ("digits", "mine.toml", 'got "digits". digits comes with EdgeVeil'),
        ("npz:", "mine.toml", 'expected as "npz:FILE"'),
        ("npz:none.npz", "mine.toml", "there is no such file"),
        ("npz:none.npz", "mine.txt", r"ends in \.toml"),
    ],
)
def test_wrong_arguments_get_one_sentence(data, out, says, tmp_path):
    with pytest.raises(BadInput, match=says):
        write_recipe(Given(data), tmp_path / out)


def test_a_codebook_prices_the_finest_label_of_the_file_and_names_the_others(tmp_path):
    rng = np.random.default_rng(0)
    age = rng.permutation(ROWS) % 6
    _, text = made(
        tmp_path,
        write_npz(tmp_path, z=(age >= 3).astype(int), label_age=age, label_hand=rng.integers(0, 2, ROWS)),
        kind="codebook",
    )
    assert 'family = "finest"  # z is a grouping of "age" (6 classes)' in text
    assert '# To hide other labels of the file too: sensitive = ["z", "hand"]' in text
    assert len(datasets.load(Recipe.find(tmp_path / "mine.toml")).as_priced().z_names) == 6
    write_recipe(Given(f"npz:{tmp_path / 'small.npz'}"), tmp_path / "other.toml", kind="label-only")
    assert "family" not in (tmp_path / "other.toml").read_text()


def test_the_usual_kind_is_what_holds(tmp_path):
    path = write_npz(tmp_path)
    assert "what it sends can be counted" in write_recipe(Given(f"npz:{path}"), tmp_path / "codes.toml")[0]
    assert Recipe.find(tmp_path / "codes.toml").perturber.kind == "codebook"


def test_where_the_rows_are_too_few_for_codes_it_is_label_only_and_says_why(tmp_path):
    rng = np.random.default_rng(0)
    path = write_npz(tmp_path, z=rng.integers(0, 12, ROWS), y=np.arange(ROWS) % 2)  # 24 cells of y and z
    note, *_ = write_recipe(Given(f"npz:{path}"), tmp_path / "mine.toml")
    assert note == (
        "The perturber is label-only: codes are learned from 100 rows here, and 120 are needed. Another is asked for "
        "with --kind."
    )
    assert Recipe.find(tmp_path / "mine.toml").perturber.kind == "label-only"
    write_recipe(Given(f"npz:{path}"), tmp_path / "asked.toml", kind="codebook")
    assert Recipe.find(tmp_path / "asked.toml").perturber.kind == "codebook"


def test_y_and_z_have_the_users_names(tmp_path):
    path = write_npz(tmp_path)
    write_recipe(Given(f"npz:{path}", "Activity", "Age Group"), tmp_path / "mine.toml")
    data = Recipe.find(tmp_path / "mine.toml").data
    assert (data.target, data.sensitive) == ("activity", "age-group")
    assert "keeps activity, hides age-group" in (tmp_path / "mine.toml").read_text()
    datasets.load(Recipe.find(tmp_path / "mine.toml"))


def test_several_columns_are_kept_and_hidden_together(tmp_path):
    rng = np.random.default_rng(5)  # not that of y and z
    side, hand = rng.integers(0, 2, (2, ROWS))
    path = write_npz(tmp_path, label_side=np.where(side, "left", "right"), label_hand=hand)
    write_recipe(Given(f"npz:{path}", "activity, side", "z,hand"), tmp_path / "mine.toml")
    recipe = Recipe.find(tmp_path / "mine.toml")
    assert (recipe.data.targets, recipe.data.sensitives) == (["activity", "side"], ["z", "hand"])
    assert 'target = ["activity", "side"] ' in (tmp_path / "mine.toml").read_text()
    found = datasets.load(recipe)
    assert set(found.joint) == {"y", "z"}
    assert len(found.y_names) == len(found.z_names) == 4
    with pytest.raises(BadInput, match='got "side" twice'):
        write_recipe(Given(f"npz:{path}", "activity,side", "side"), tmp_path / "other.toml")


def test_several_columns_of_a_table_and_one_whose_name_has_a_comma(tmp_path):
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 2, (ROWS, 3))
    rows = [f"{a},{b},{c},{x:.2f}" for (a, b, c), x in zip(cells, rng.normal(size=ROWS), strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(['Count,"Left, right",group,x', *rows]))
    both = Given(f"csv:{tmp_path / 'a.csv'}", "Count,group", "Left, right")
    write_recipe(both, tmp_path / "mine.toml")
    recipe = Recipe.find(tmp_path / "mine.toml")
    assert recipe.data.columns.also == {"group": "group"}
    assert (recipe.data.columns.target, recipe.data.columns.sensitive) == ("Count", "Left, right")
    found = datasets.load(recipe)
    assert (found.y == 2 * cells[:, 0] + cells[:, 2]).all()
    assert (found.z == cells[:, 1]).all()
    assert found.input.shape == (1,)
    assert look(Given(f"csv:{tmp_path / 'a.csv'}", "Count,groop", "Left, right")).wrong == [
        f'{tmp_path / "a.csv"}: there is no column "groop" for target (did you mean "group"?); it has "Count", '
        '"Left, right", "group", "x".'
    ]


def camera(folder, **words):
    return Given(f"images:{folder}", sensitive="group", subject="person", **words)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    pytest.importorskip("cv2")
    return write_folder(tmp_path_factory.mktemp("pictures"), people=24, each=8, height=48, width=64)


def test_the_camera_is_one_option(pictures, tmp_path):
    words = {"capture": "64x48x3", "size": "12x16x1", "crop": "48x48"}
    write_recipe(camera(pictures, **words), tmp_path / "mine.toml", kind="codebook")
    recipe = Recipe.find(tmp_path / "mine.toml")
    found = recipe.capture
    assert (found.frame.shape, found.frame.dtype) == ([48, 64, 3], "uint8")
    assert (found.window, found.size, found.channels, found.resize) == ([0, 8, 48, 48], [16, 12], 1, "area")
    assert recipe.data.low is recipe.data.high is None  # of frames, not of samples
    assert datasets.load(recipe).input.shape == (16, 12, 1)
    # A camera gives many frames of a person: a code for each would tell who it is.
    assert recipe.perturber.hold == "period:600s"
    fit, _ = fit_and_validation(datasets.load(recipe), "perturber")
    people = [len(np.unique(fit.cluster[fit.y == y])) for y in (0, 1)]
    assert recipe.perturber.fewest_subjects == min(people)  # more, and it would not train


def test_a_part_of_the_frame_has_its_place(pictures, tmp_path):
    write_recipe(camera(pictures, capture="64x48x3", crop="20x30+40+10"), tmp_path / "mine.toml", kind="label-only")
    recipe = Recipe.find(tmp_path / "mine.toml")
    assert (recipe.capture.window, recipe.sensor) == ([10, 40, 30, 20], "camera")


@pytest.fixture(scope="module")
def depth(tmp_path_factory):
    """Frames of a simulated doorway: y whether a person walks in, z who of two, a session for each crossing."""
    scene = Scene(seed=3, people=1, shape=(106, 128), cast=2)
    frames, about, crossing, before = [], [], 0, False
    for tick in range(1, 3000):
        there = scene.anybody(tick / 10)
        crossing += before and not there
        before = there
        frame = scene.frame(tick / 10)
        if there and len(scene.walkers) == 1:
            (walker,) = scene.walkers
            frames.append(frame)
            about.append((int(walker.inward), walker.who, crossing))
    y, z, session = np.array(about).T
    path = tmp_path_factory.mktemp("depth") / "door.npz"
    np.savez(path, x=np.stack(frames), y=y, z=z, session=session, consent=session % 2)
    return path


def test_people_under_a_depth_camera_are_cut_out(depth, tmp_path):
    given = Given(f"npz:{depth}", capture="128x106x1", crop="people", size="16x16")
    (_, note) = write_recipe(given, tmp_path / "mine.toml", kind=None)
    assert "`capture.frame.unit_mm` and `capture.crop.focal_px`" in note
    recipe = Recipe.find(tmp_path / "mine.toml")
    found = recipe.capture
    assert (found.frame.dtype, found.frame.unit_mm, found.measure) == ("uint16", 1.0, "height")
    assert (found.crop.size, found.crop.focal_px, found.size, found.resize) == ([45, 45], 91.2, [16, 16], "nearest")
    dataset = datasets.load(recipe)
    frames = np.load(depth)["x"]
    assert 0.3 * len(frames) < len(dataset.x) <= len(frames)
    assert (dataset.input.shape, dataset.input.dtype) == ((16, 16, 1), "uint8")
    assert len(dataset.consent) == len(dataset.x)
    # Near the middle of each patch is somebody's head, or shoulders where it is beyond the picture: at 1 to 2 m.
    top = dataset.x[:, 4:12, 4:12].max(axis=(1, 2, 3)) / 255 * 2200
    assert ((top > 1000) & (top < 2100)).all()
    assert (top > 1300).mean() > 0.9


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ({"capture": "64x48x3", "crop": "people"}, r"found in depth, .*; these are uint8 \(48, 64, 3\). Name"),
        ({"capture": "64x48"}, "--camera frame: expected pixels as in 640x480x3"),
        ({"capture": "48x64x3"}, "expected what the pictures are, 64x48x3; got 48x64x3"),
        ({"capture": "64x48x3", "size": "2x2"}, "at least 4x4"),
        ({"capture": "64x48x3", "crop": "65x10"}, "a part of the camera's 64x48"),
        ({"capture": "64x48x3", "crop": "10x10+60+0"}, "a part of the camera's 64x48"),
        ({"size": "12x12"}, "--camera size does not go with images: they are of --camera frame"),
        ({"leave_out": ("x",)}, "--leave-out does not go with images"),
    ],
)
def test_what_is_wrong_about_the_camera_is_one_sentence(pictures, words, match, tmp_path):
    with pytest.raises(BadInput, match=match):
        write_recipe(camera(pictures, **words), tmp_path / "mine.toml")
    assert not (tmp_path / "mine.toml").exists()


def test_columns_that_are_not_named_are_asked_for_with_those_there_are(pictures, tmp_path):
    with pytest.raises(
        BadInput, match=r'labels.csv has the columns "file", "group", "person". Name --sensitive COLUMN'
    ):
        write_recipe(Given(f"images:{pictures}"), tmp_path / "mine.toml")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadInput, match="Name --target COLUMN and --sensitive COLUMN"):
        write_recipe(Given(f"csv:{tmp_path / 't.csv'}"), tmp_path / "mine.toml")


def test_large_pictures_without_a_capture_are_told_of_it(tmp_path):
    pytest.importorskip("cv2")
    folder = write_folder(tmp_path / "large", people=24, each=4, height=144, width=192)
    note, *_ = write_recipe(camera(folder), tmp_path / "mine.toml", kind="label-only")
    assert note == (
        "The network is as large as the pictures, 192 x 144. A smaller one for them: "
        "--camera frame=192x144x3 --camera size=32x24."
    )
