"""The rows beside every perturber: as it was, nothing of it, and the label alone, drawn in two ways."""

import numpy as np
import pytest
from small_runs import small_recipe, write_npz

from edge_runtime.errors import BadInput, BundleRefused
from edge_runtime.pipeline import load_pipeline
from trainer.export import export
from trainer.perturbers.comparison import ROWS
from trainer.train import train

DONOR = {"kind": "label-only", "picture": "donor", "donors": 8}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    return train(small_recipe(write_npz(folder), kind="label-only"), folder / "run")


def rows_of(run, name):
    return ROWS[name](run, np.random.default_rng(0))


def test_the_original_is_the_reading_itself_and_random_has_nothing_of_it(run):
    dataset = run.dataset()
    x = dataset.part("perturber").x
    np.testing.assert_allclose(rows_of(run, "original").perturb(x)["frame"], x, atol=1e-5)
    made = rows_of(run, "random").perturb(np.repeat(x[:1], 5000, axis=0))["frame"]
    u = dataset.unit(made)
    assert abs(u.mean() - 0.5) < 0.01
    assert abs(np.corrcoef(u[:, 0], u[:, 1])[0, 1]) < 0.1


def test_a_random_donor_is_any_reading_of_the_predicted_class(run):
    dataset, test = run.dataset(), run.dataset().part("test")
    sent = rows_of(run, "label-only donor").perturb(test.x)
    second = dataset.part("perturber")
    of = {row.tobytes(): label for row, label in zip(dataset.unit(second.x), second.y, strict=True)}
    found = [of[row.tobytes()] for row in dataset.as_sent(dataset.unit(sent["frame"]))]
    assert (np.array(found) == sent["label"]).all()
    assert len(np.unique(sent["frame"], axis=0)) > 20
    np.testing.assert_array_equal(rows_of(run, "label-only").perturb(test.x)["label"], sent["label"])


@pytest.mark.parametrize("name", ["original", "random"])
def test_neither_of_these_two_can_be_exported(run, name, tmp_path, monkeypatch):
    monkeypatch.setattr(type(run), "perturber", lambda self: rows_of(self, name))
    with pytest.raises((BadInput, BundleRefused), match="may come here"):
        export(run.folder, ["workstation"], tmp_path / "export")


def test_a_donor_needs_consent(tmp_path):
    with pytest.raises(BadInput, match="real person's record"):
        train(small_recipe(write_npz(tmp_path), perturber=DONOR), tmp_path / "run")


def test_only_those_who_agreed_are_donors_on_the_board_too(tmp_path):
    agreed = np.arange(300) % 3 == 0
    run = train(small_recipe(write_npz(tmp_path, consent=agreed), perturber=DONOR), tmp_path / "run")
    exported = export(run.folder, ["raspberry-pi-cpu"], tmp_path / "export")
    assert exported.manifest["perturber"]["substituted"] is True
    dataset = run.dataset()
    name = exported.manifest["preference"][0]
    pipeline = load_pipeline(exported.manifest, exported.members, name)
    sent = dataset.unit(pipeline.run(dataset.x)["frame"])
    shown = {row.tobytes() for row in dataset.as_sent(sent)}
    of = {row.tobytes(): who for row, who in zip(dataset.as_sent(dataset.unit(dataset.x)), agreed, strict=True)}
    assert len(shown) == 16
    assert all(of[row] for row in shown)
