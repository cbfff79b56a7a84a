"""``recipe new`` tries small networks on y, says what data cannot support, and leaves a figure for training."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.cli import main
from edgeveil.trainer.datasets.base import Dataset, InputSpec, Slices
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.scaffold import first_look
from edgeveil.trainer.scaffold import new as data_limits
from edgeveil.trainer.scaffold.first_look import Look, Seen, Tried, expected, notes
from edgeveil.trainer.scaffold.given import Given
from edgeveil.trainer.scaffold.look import look
from edgeveil.trainer.scaffold.new import write_recipe
from tests.support.small_runs import ROWS, write_npz
from tests.support.trial import no_trial

pytestmark = pytest.mark.usefixtures("few_trees")


def new(path, out, **words):
    """The recipe that is written and what is said."""
    said = write_recipe(Given(f"npz:{path}"), out, **words)
    return Recipe.find(out), "\n".join(said)


def test_networks_are_tried_and_the_best_is_written(tmp_path, monkeypatch):
    no_trial.shorten(monkeypatch)
    y = np.random.default_rng(1).integers(0, 2, ROWS)
    x = np.random.default_rng(0).normal(size=(ROWS, 8, 8)) + 2 * y[:, None, None]
    recipe, said = new(write_npz(tmp_path, x=x.astype(np.float32), y=y), tmp_path / "mine.toml", trial=True)
    text = (tmp_path / "mine.toml").read_text()
    assert recipe.classifiers.architecture in ("normed-cnn", "small")
    assert f"The recipe has {recipe.classifiers.architecture}." in said
    for name in ("normed-cnn", "small"):
        assert f"by the network {name}" in text
    assert recipe.limits.target_accuracy == pytest.approx(0.87)  # ten points below what the quick run kept
    assert "keeps y in 97.0% of 80 rows (by D_y); the limit is 87%." in said


def test_what_nothing_reads_and_what_y_tells_is_refused_with_its_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(first_look, "with_networks", lambda *_, **__: [Tried("normed-mlp", 0.51)])
    x = np.random.default_rng(0).normal(size=(ROWS, 8)).astype(np.float32)
    with pytest.raises(
        LimitNotMet, match=r"y cannot be read from x\. A .* reads it in [0-9.]+%, normed-mlp in .* guessing"
    ):
        new(write_npz(tmp_path, x=x), tmp_path / "mine.toml", trial=True)
    z = np.where(np.arange(ROWS) % 50, np.arange(ROWS) % 2, 1 - np.arange(ROWS) % 2)
    with pytest.raises(LimitNotMet, match=r"No recipe is written: z follows from y alone in 9[0-9.]+% of rows"):
        new(write_npz(tmp_path, y=np.arange(ROWS) % 2, z=z), tmp_path / "mine.toml", trial=True)
    assert not (tmp_path / "mine.toml").exists()


def seen(kept, kind="codebook", network="normed-mlp", rows=400):
    """What a quick run showed."""
    return Seen(kind, network, kept, "the label that is sent", rows, 0.9)


def test_where_a_run_does_not_keep_y_the_next_network_and_the_next_kind_are_tried(tmp_path, monkeypatch):
    tried = []

    def quick_run(recipe, folder, classifiers=None):
        tried.append((recipe.perturber.kind, recipe.classifiers.architecture, classifiers and classifiers.name))
        return seen(0.9 if recipe.perturber.kind == "label-only" else 0.6, *tried[-1][:2])

    monkeypatch.setattr(
        first_look, "with_networks", lambda *_, **__: [Tried("normed-mlp", 0.95), Tried("table1-wifi", 0.9)]
    )
    monkeypatch.setattr(first_look, "quick_run", quick_run)
    recipe, _ = new(write_npz(tmp_path), tmp_path / "mine.toml", trial=True)
    assert tried == [
        ("codebook", "normed-mlp", None),
        ("codebook", "table1-wifi", None),
        ("label-only", "normed-mlp", "codebook-normed-mlp"),
    ]
    assert (recipe.perturber.kind, recipe.limits.target_accuracy) == ("label-only", 0.8)
    monkeypatch.setattr(first_look, "quick_run", lambda recipe, *_: seen(0.6))
    with pytest.raises(LimitNotMet, match=r"the best of 2 quick runs, codebook .* keeps y in 60\.0% of 400 rows"):
        new(write_npz(tmp_path), tmp_path / "other.toml", trial=True, kind="codebook")
    assert not (tmp_path / "other.toml").exists()


def test_few_rows_are_given_their_luck_and_a_lower_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(first_look, "with_networks", lambda *_, **__: [Tried("normed-mlp", 0.97)])
    runs = {"codebook": 0.8, "label-only": 0.86}  # at least .87 are needed
    monkeypatch.setattr(
        first_look, "quick_run", lambda recipe, *_: seen(runs[recipe.perturber.kind], recipe.perturber.kind, rows=40)
    )
    recipe, said = new(write_npz(tmp_path), tmp_path / "mine.toml", trial=True)
    assert (recipe.perturber.kind, recipe.limits.target_accuracy) == ("label-only", 0.75)
    assert "keeps y in 86.0% of 40 rows" in said
    monkeypatch.setattr(
        first_look,
        "quick_run",
        lambda recipe, *_: seen(runs[recipe.perturber.kind], recipe.perturber.kind, rows=40_000),
    )
    with pytest.raises(LimitNotMet, match=r"keeps y in 86\.0% of 40000 rows"):
        new(write_npz(tmp_path), tmp_path / "other.toml", trial=True)


def test_the_time_of_a_trial_is_no_time_of_others_and_none_of_compiling():
    wall, processor = iter([100.0, 130.0, 131.0]), iter([10.0, 12.0, 40.0])
    share = first_look._Share([lambda: next(wall), lambda: next(processor)], 20.0)
    assert [share.over(), share.over(), share.over()] == [False, False, True]


def test_ctrl_c_in_a_quick_run_names_no_folder_that_will_be_gone(tmp_path, monkeypatch, capsys):
    from edgeveil.trainer import train

    def stopped(_run):
        raise KeyboardInterrupt

    monkeypatch.setattr(first_look, "with_networks", lambda *_, **__: [Tried("normed-mlp", 0.97)])
    monkeypatch.setattr(train, "train_classifiers", stopped)
    with pytest.raises(KeyboardInterrupt):
        new(write_npz(tmp_path), tmp_path / "mine.toml", trial=True)
    assert "checkpoint" not in capsys.readouterr().err
    assert not (tmp_path / "mine.toml").exists()


def test_a_real_quick_run_shows_what_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(first_look, "with_networks", lambda *_, **__: [Tried("normed-mlp", 0.97)])
    recipe, said = new(write_npz(tmp_path), tmp_path / "mine.toml", trial=True, kind="label-only")
    kept = float(re.search(r"A quick run \(label-only, .*keeps y in ([0-9.]+)%", said)[1]) / 100
    assert kept > 0.9
    assert recipe.limits.target_accuracy == pytest.approx(first_look.floor(kept, 0.5, 20), abs=0.06)


@pytest.mark.slow
@pytest.mark.nightly  # by day that it is among those tried: networks/test_networks.py
def test_a_flat_window_is_read_by_convolutions():
    """A burst anywhere in 96 steps of 2 channels: no vector network finds it, and `windows` does."""
    rng = np.random.default_rng(0)
    y, at = rng.integers(0, 2, 600), rng.integers(0, 80, 600)
    x = rng.normal(0.5, 0.1, (600, 96, 2)).astype(np.float32)
    for row in range(600):
        x[row, at[row] : at[row] + 12, y[row]] += np.sin(np.arange(12)) * 0.4
    spec = InputSpec("vector", (192,), "float32", 0.0, 1.0)
    slices = Slices(np.arange(300), np.arange(300, 600), np.arange(0))
    ones = np.ones((2, 1))
    dataset = Dataset("made", x.reshape(600, -1), y, 0 * y, ("a", "b"), ("c",), ones, spec, slices)
    tried = first_look.with_networks(dataset, batch=32, epochs=40, shift=0)
    assert tried[0].architecture == "windows"
    assert tried[0].accuracy > tried[1].accuracy + 0.1


def test_without_a_trial_it_has_the_forests_figure(tmp_path):
    recipe, said = new(write_npz(tmp_path), tmp_path / "mine.toml")
    assert (recipe.classifiers.architecture, recipe.classifiers.shift) == ("normed-mlp", 0)
    assert recipe.classifiers.look > 0.9
    assert recipe.limits.target_accuracy == pytest.approx(recipe.classifiers.look - 0.1, abs=0.01)
    assert "The recipe has" not in said


def test_the_flag_reaches_it(tmp_path, monkeypatch):
    path, asked = write_npz(tmp_path), []
    no_trial.shorten(monkeypatch)
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
    assert "No network here reads y as a random forest can (70.0%)" in said
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
    assert "z follows from y alone in 9" in said


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
    with pytest.raises(BadInput, match=r"have 200 rows of 8 subjects: 90 rows of 15 subjects in all are enough\."):
        new(path, tmp_path / "mine.toml")
    assert "rows of 8 subjects" in look(Given(f"npz:{path}")).wrong[0]
    few = write_npz(tmp_path, rows=60)
    assert "have 40 rows: 90 rows in all are enough." in look(Given(f"npz:{few}")).wrong[0]


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
