"""``recipe new`` tries small networks on y, says what data cannot support, and leaves a figure for training."""

from types import SimpleNamespace

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli import main
from edgeveil.trainer.datasets.base import Slices
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.scaffold import first_look
from edgeveil.trainer.scaffold import new as data_limits
from edgeveil.trainer.scaffold.first_look import Look, Tried, expected, notes
from edgeveil.trainer.scaffold.given import Given
from edgeveil.trainer.scaffold.look import look
from edgeveil.trainer.scaffold.new import write_recipe
from tests.support.small_runs import ROWS, write_npz


def new(path, out, **words):
    """The recipe that is written and what is said."""
    said = write_recipe(Given(f"npz:{path}"), out, **words)
    return Recipe.find(out), "\n".join(said)


def test_networks_are_tried_and_the_best_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(first_look, "TRIAL_S", 0.0)  # an epoch of each
    path = write_npz(tmp_path, x=np.random.default_rng(0).normal(size=(ROWS, 8, 8)).astype(np.float32))
    recipe, said = new(path, tmp_path / "mine.toml", trial=True)
    text = (tmp_path / "mine.toml").read_text()
    assert recipe.classifiers.architecture in ("normed-cnn", "small")
    assert f"The recipe has {recipe.classifiers.architecture}." in said
    for name in ("normed-cnn", "small"):
        assert f"by the network {name}" in text
    assert "A random forest reads y in" in said  # nothing is there to read
    assert "had been trained to the end" in said


def test_without_a_trial_it_has_the_forests_figure(tmp_path):
    recipe, said = new(write_npz(tmp_path), tmp_path / "mine.toml")
    assert (recipe.classifiers.architecture, recipe.classifiers.shift) == ("normed-mlp", 0)
    assert recipe.classifiers.look > 0.9
    assert recipe.limits.target_accuracy == pytest.approx(recipe.classifiers.look - 0.1, abs=0.01)
    assert "The recipe has" not in said


def test_the_flag_reaches_it(tmp_path, monkeypatch):
    path, asked = write_npz(tmp_path), []
    monkeypatch.setattr(first_look, "with_networks", lambda *_, **__: asked.append(1) or [Tried("table1-wifi", 0.9)])
    for name, more in (("one", []), ("two", ["--no-trial"])):
        words = ["recipe", "new", f"npz:{path}", "--out", str(tmp_path / f"{name}.toml"), *more]
        main.app(words, standalone_mode=False)
    assert len(asked) == 1
    assert Recipe.find(tmp_path / "one.toml").classifiers.architecture == "table1-wifi"


FOREST = Look(0.7, 0.2, 6)


@pytest.mark.parametrize(
    ("tried", "wanted"),
    [
        ([], 0.7),
        ([Tried("a", 0.8)], 0.7),  # the forest's is enough
        ([Tried("a", 0.5), Tried("b", 0.3)], 0.5),  # the best that there is
        ([Tried("a", 0.21)], 0.7),  # a dead network is no measure: training is to stop
    ],
)
def test_what_training_is_held_to(tried, wanted):
    assert expected(FOREST, tried) == wanted


def test_a_forest_that_reads_more_than_any_network_is_said():
    said = "\n".join(notes(FOREST, FOREST, [Tried("a", 0.5)]))
    assert "No network here reads y as a random forest does (70.0%)" in said
    assert "No network" not in "\n".join(notes(FOREST, FOREST, [Tried("a", 0.65)]))


def test_a_trial_that_ran_to_its_end_is_not_said_to_be_cut():
    poor = Look(0.54, 0.501, 2)
    assert "were over before b had" in "\n".join(notes(poor, poor, [Tried("a", 0.55), Tried("b", 0.52, cut=True)]))
    assert "were over" not in "\n".join(notes(poor, poor, [Tried("a", 0.55), Tried("b", 0.52)]))


@pytest.mark.parametrize(
    ("accuracy", "chance", "tried", "warned"),
    [(0.54, 0.501, [], True), (0.64, 0.5, [], False), (0.54, 0.501, [Tried("a", 0.9)], False), (0.2, 0.1, [], True)],
)
def test_y_that_is_hardly_read_is_said_with_its_figure_and_a_cure(accuracy, chance, tried, warned):
    said = "\n".join(notes(Look(accuracy, chance, 2), FOREST, tried))
    assert (f"read in {accuracy:.1%} at best, hardly more than the {chance:.1%} of guessing" in said) is warned
    assert ("or more rows." in said) is warned


def test_without_a_trial_the_warning_names_the_trial(tmp_path):
    y = np.random.default_rng(5).integers(0, 2, ROWS)  # of no reading
    path = write_npz(tmp_path, y=y, x=np.random.default_rng(6).normal(size=(ROWS, 6)).astype(np.float32))
    assert "Without --no-trial, small networks are tried as well." in new(path, tmp_path / "mine.toml")[1]
    assert "--no-trial" not in new(path, tmp_path / "linear.toml", kind="cleaner")[1]


def test_rare_classes_few_people_and_new_pairs_are_said(tmp_path):
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], [280, 20])
    _, said = new(write_npz(tmp_path, y=y, subject=np.arange(ROWS) % 18), tmp_path / "few.toml")
    assert 'Classes of y with fewer than 30 rows: "1" 20' in said
    assert "There are 18 people" in said
    z = np.where(rng.random(ROWS) < 0.98, np.arange(ROWS) % 2, 1 - np.arange(ROWS) % 2)
    _, said = new(write_npz(tmp_path, y=np.arange(ROWS) % 2, z=z), tmp_path / "told.toml")
    assert "y alone tells z in 9" in said


def test_pairs_of_y_and_z_that_are_met_in_the_test_first_are_said():
    y, z, names = np.arange(400) % 2, np.arange(400) % 5, ("a", "b", "c", "d", "e")
    slices = Slices(np.flatnonzero(z < 2), np.flatnonzero(z == 2), np.flatnonzero(z > 2))
    dataset = SimpleNamespace(
        y=y, z=z, y_names=names[:2], z_names=names, slices=slices, cluster=y, cluster_kind="session"
    )
    (said,) = data_limits.of_data(dataset)
    assert said.startswith("100% of the test rows have a pair of y and z that no training row has")
    assert "rows of more sessions" in said


def test_fine_data_get_no_warning(tmp_path):
    _, said = new(write_npz(tmp_path), tmp_path / "mine.toml")
    assert said == "The perturber is a codebook: what it sends can be counted. Another is asked for with --kind."


def test_a_codebook_of_one_person_is_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(data_limits.synthesis, "fewest_drawn", lambda *_, **__: np.array([3, 1]))
    path = write_npz(tmp_path)
    with pytest.raises(BadInput, match=r'y "1" has 1 in the slices .*take `kind = "label-only"`'):
        new(path, tmp_path / "mine.toml", kind="codebook")
    assert not (tmp_path / "mine.toml").exists()
    assert new(path, tmp_path / "mine.toml")[0].perturber.kind == "label-only"


def test_too_few_people_for_any_adversary_are_refused_at_once(tmp_path):
    path = write_npz(tmp_path, z=np.arange(ROWS) % 2, subject=np.arange(ROWS) % 12)
    with pytest.raises(BadInput, match=r"have 200 rows of 8 subjects: add subjects, until there are 20 in all\."):
        new(path, tmp_path / "mine.toml")
    assert "rows of 8 subjects" in look(Given(f"npz:{path}")).wrong[0]


def test_a_z_that_follows_from_y_and_labels_that_are_no_classes_are_refused(tmp_path):
    y = np.arange(ROWS) % 4
    with pytest.raises(BadInput, match="z follows from y"):
        new(write_npz(tmp_path, y=y, z=y // 2), tmp_path / "mine.toml")
    with pytest.raises(BadInput, match="`z` must be whole numbers or text"):
        new(write_npz(tmp_path, z=np.linspace(0, 1, ROWS)), tmp_path / "mine.toml")
    x = np.zeros((ROWS, 6), np.float32)
    x[3] = np.nan
    with pytest.raises(BadInput, match="`x` must be finite; 1 of 300 rows"):
        new(write_npz(tmp_path, x=x), tmp_path / "mine.toml")
