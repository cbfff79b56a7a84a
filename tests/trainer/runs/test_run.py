"""A run folder: all that is needed to repeat a training, whole at any moment; one sentence where it does not fit."""

import errno
import json

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, EdgeVeilError
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Checkpoint, Run
from tests.support.small_runs import ROWS, small_recipe, write_npz


@pytest.fixture
def run(tmp_path):
    return Run.create(tmp_path / "run", small_recipe(write_npz(tmp_path)))


def test_a_new_run_holds_what_is_needed_to_repeat_it(run):
    facts = json.loads((run.folder / "run.json").read_text())
    assert facts["seed"] == run.recipe.seed
    assert {"python", "edgeveil", "keras", "numpy"} <= set(facts["versions"])
    assert set(facts["machine"]) == {"processor", "cores", "system"}
    assert facts["state"] == "started"
    assert Recipe.find(run.folder / "recipe.toml") == run.recipe
    with np.load(run.folder / "slices.npz") as slices:
        rows = np.concatenate([slices[name] for name in ("classifiers", "perturber", "test")])
    assert sorted(rows) == list(range(ROWS))


def test_an_opened_run_has_the_same_slices(run):
    again = Run.open(run.folder)
    np.testing.assert_array_equal(again.dataset().slices.test, run.dataset().slices.test)
    np.testing.assert_array_equal(again.validation().index, run.validation().index)
    assert not set(again.validation().index) & set(again.dataset().slices.test)


def test_a_run_from_before_there_were_four_slices_opens_with_nothing_in_the_fourth(run):
    with np.load(run.folder / "slices.npz") as file:
        three = {name: file[name] for name in ("classifiers", "perturber", "test")}
    np.savez(run.folder / "slices.npz", **three)
    dataset = Run.open(run.folder).dataset()
    assert len(dataset.slices.attack) == 0
    for name, rows in three.items():
        np.testing.assert_array_equal(getattr(dataset.slices, name), rows)
    np.savez(run.folder / "slices.npz", **{name: rows for name, rows in three.items() if name != "test"})
    with pytest.raises(BadInput, match="slices of the run"):
        Run.open(run.folder).dataset()


def test_wrong_data_leave_no_folder_behind(tmp_path):
    recipe = small_recipe(write_npz(tmp_path, y=np.zeros(ROWS, int)))
    with pytest.raises(BadInput, match="y must have at least 2 classes"):
        Run.create(tmp_path / "run", recipe)
    assert not (tmp_path / "run").exists()


def test_a_folder_in_the_way_is_not_touched(run, tmp_path):
    with pytest.raises(BadInput, match="It holds a run: add --resume"):
        Run.create(run.folder, run.recipe)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    with pytest.raises(BadInput, match="exists and is not empty"):
        Run.create(tmp_path / "other", run.recipe)
    with pytest.raises(BadInput, match="exists and is not empty"):
        Run.create(tmp_path / "other" / "mine.txt", run.recipe)
    with pytest.raises(BadInput, match="cannot be made"):
        Run.create(tmp_path / "other" / "mine.txt" / "run", run.recipe)


def test_there_must_be_a_run_to_resume_or_open(run, tmp_path):
    for attempt in (lambda: Run.open(tmp_path / "no"), lambda: Run.create(tmp_path / "no", run.recipe, resume=True)):
        with pytest.raises(BadInput, match="A run was expected in"):
            attempt()


def test_only_the_epochs_and_the_batch_may_change_on_resume(run):
    longer = run.recipe.model_copy(update={"budget": run.recipe.budget.model_copy(update={"epochs": 9})})
    assert Run.create(run.folder, longer, resume=True).recipe.budget.epochs == 9
    assert Run.open(run.folder).recipe.budget.epochs == 9
    with pytest.raises(BadInput, match="`seed` differs"):
        Run.create(run.folder, run.recipe.model_copy(update={"seed": run.recipe.seed + 1}), resume=True)
    fewer = run.recipe.model_copy(update={"budget": run.recipe.budget.model_copy(update={"rows": 200})})
    with pytest.raises(BadInput, match=r"`budget.rows` differs"):
        Run.create(run.folder, fewer, resume=True)


def test_data_that_changed_are_refused(run, tmp_path):
    path = write_npz(tmp_path, seed=1)
    with pytest.raises(BadInput, match=r"are not those that .* was started with"):
        Run.open(run.folder).dataset()
    with np.load(path) as file:
        fewer = {name: file[name][:200] for name in file.files}
    np.savez(path, **fewer)
    with pytest.raises(BadInput, match="has 200 rows, fewer than when its slices were cut"):
        Run.open(run.folder).dataset()


def test_damaged_slices_are_refused(run):
    (run.folder / "slices.npz").write_bytes(b"PK")
    with pytest.raises(BadInput, match=r"slices of the run .* cannot be read"):
        Run.open(run.folder).dataset()


def test_unfinished_runs_say_so(run):
    with pytest.raises(BadInput, match="no target classifier yet"):
        run.classifiers()
    with pytest.raises(BadInput, match="no perturber yet"):
        run.perturber()


def test_metrics_are_lines_and_tensorboard_events(run):
    for step in (1, 2, 3):
        run.metric(stage="perturber", step=step, loss=1 / step)
    run.metric(stage="target", step=1, loss=0.5)
    assert [line["step"] for line in run.metrics("perturber")] == [1, 2, 3]
    assert list((run.folder / "tensorboard").iterdir())
    resumed = Run.open(run.folder)  # from the checkpoint of step 1
    for step in (2, 3):
        resumed.metric(stage="perturber", step=step, loss=1.0)
    lines = [(line["stage"], line["step"], line["loss"]) for line in resumed.metrics()]
    assert lines == [("perturber", 1, 1.0), ("target", 1, 0.5), ("perturber", 2, 1.0), ("perturber", 3, 1.0)]
    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write('{"stage": "perturber", "st')
    assert len(run.metrics()) == 4


class Holder:
    """What a checkpoint needs of a network."""

    def __init__(self, value):
        import keras

        self.variables = [keras.Variable(np.full((2, 3), value, np.float32))]


def test_a_checkpoint_puts_back_what_it_saved(tmp_path):
    holder = Holder(1.0)
    checkpoint = Checkpoint(tmp_path / "last.npz", network=holder)
    assert checkpoint.restore() is None
    checkpoint.save(epoch=3, rank=[0.0, 1.5])
    holder.variables[0].assign(np.zeros((2, 3)))
    assert checkpoint.restore() == {"epoch": 3, "rank": [0.0, 1.5]}
    assert holder.variables[0].numpy().mean() == 1.0


def test_a_damaged_checkpoint_is_refused(tmp_path):
    checkpoint = Checkpoint(tmp_path / "last.npz", network=Holder(1.0))
    checkpoint.save(epoch=1)
    (tmp_path / "last.npz").write_bytes((tmp_path / "last.npz").read_bytes()[:-30])
    with pytest.raises(BadInput, match="does not fit this recipe's networks or is damaged"):
        checkpoint.restore()


def test_a_full_disk_leaves_the_last_checkpoint_whole(tmp_path, monkeypatch):
    checkpoint = Checkpoint(tmp_path / "last.npz", network=Holder(1.0))
    checkpoint.save(epoch=1)

    def full(*args, **arrays):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(EdgeVeilError, match="free some space") as caught:
        checkpoint.save(epoch=2)
    assert caught.value.exit_code == 2
    assert checkpoint.restore() == {"epoch": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["last.npz"]
