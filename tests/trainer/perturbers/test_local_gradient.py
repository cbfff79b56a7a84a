"""Gradients as a recipe: trained, exported and sealed as every perturber is, and decoded by a collector."""

import numpy as np
import pytest

from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline
from edgeveil.trainer.audit.sections import board_section, spending_section
from edgeveil.trainer.collect.collect import collect
from edgeveil.trainer.collect.federation.federate import gradient_of
from edgeveil.trainer.collect.reporting import reporting
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.export.export import export
from edgeveil.trainer.perturbers import local
from edgeveil.trainer.recipe.perturber import Local
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.received import as_received
from edgeveil.trainer.scaffold.given import Given
from edgeveil.trainer.scaffold.new import write_recipe
from edgeveil.trainer.sealing.keys import keygen
from edgeveil.trainer.sealing.seal import seal
from edgeveil.trainer.train import train
from tests.support.small_runs import ROWS, small_recipe

SECTION = {
    "kind": "local",
    "of": "gradient",
    "mechanism": "duchi-linf",
    "epsilon": 1.0,
    "loss": "logistic",
    "clip": 2.0,
}
LOW, HIGH = [-8, -8, 0], [8, 8, 1]
SPENDING = {"unit": "subject", "most": 1.0}


def write_people(folder):
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, ROWS), rng.integers(0, 2, ROWS)
    x = np.column_stack([rng.normal(size=ROWS) + 4 * y, rng.normal(size=ROWS) + 4 * z, y]).astype(np.float32)
    np.savez(folder / "people.npz", x=x, y=y, z=z)
    return folder / "people.npz"


def recipe(path, perturber, low=LOW, high=HIGH):
    data = {"source": f"npz:{path}", "target": "y", "sensitive": "z", "low": low, "high": high}
    return small_recipe(path, data=data, perturber=perturber, spending=SPENDING, floor=0.01)


def test_from_recipe_to_collector(tmp_path, capfd):
    run = train(recipe(write_people(tmp_path), SECTION), tmp_path / "run")
    assert "Expected error of the mean gradient, in units of its clip" in capfd.readouterr().err
    assert (run.facts["spending"]["of"], run.facts["spending"]["values"]) == ("gradient", 2)
    fitted = run.perturber()
    found = spending_section.section(fitted.description(), dict(fitted.tables), from_training=False)
    assert found["recomputed"] <= 1.0 == found["claimed"]
    exported = export(run.folder, ["workstation"], tmp_path / "export")
    assert board_section.draws(exported.manifest)[0]["dtype"] == "float32"
    keygen(tmp_path / "keys", development=True)
    seal(tmp_path / "export", tmp_path / "keys" / "signing.key", tmp_path / "tally.veil", allow_unaudited=True)
    bundle = read_bundle(tmp_path / "tally.veil", open_trust(tmp_path / "keys"))
    Perturber.open(str(tmp_path / "tally.veil"), trust=str(tmp_path / "keys")).close()
    stage, _ = gradient_of(bundle)
    assert (stage.loss, stage.clip) == ("logistic", 2.0)
    made = load_pipeline(bundle.manifest, bundle.members, "numpy")
    made.set_parameters(np.array([0.5, -0.25], np.float32))
    x = np.repeat(np.array([[2.0, 1.0, 0.0]], np.float32), 200_000, axis=0)
    values = reporting(bundle).decoder.values(made.run(x)["report"])
    truth = 1 / (1 + np.exp(-0.75)) * np.array([2.0, 1.0])
    assert (np.abs(values.mean(axis=0) - truth) < 5.5 * values.std(axis=0) / np.sqrt(len(x))).all()
    with pytest.raises(BadInput, match="use edgeveil federate"):
        collect(bundle, reporting(bundle), [], "mean")


def test_a_receiver_decodes_no_sample_of_a_gradient():
    fitted = local.gradient(Local(**SECTION), InputSpec("vector", (3,), "float32", (-8.0, -8.0, 0.0), (8.0, 8.0, 1.0)))
    facts = fitted.description()
    report = {"report": np.ones((4, 2), np.int8)}
    declared, received = as_received(facts["outputs"], facts["input"], fitted.tables, report)
    assert [one["kind"] for one in declared] == ["code"]
    assert received["report"].shape == (4, 2)
    assert parse(facts).stages[1].stage == "parameters"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"clip": 0.0}, "`perturber.clip`: expected greater than 0"),
        ({"loss": None}, '`loss` with `of = "gradient"`'),
        ({"clip": None}, '`clip` with `of = "gradient"`'),
        ({"radius": 2.0}, "no `radius` but with readings"),
        ({"mechanism": "k-rr"}, 'with `of = "gradient"`; got "k-rr"'),
        ({"of": "reading"}, 'no `loss` with `of = "reading"`'),
    ],
)
def test_bad_sections_get_one_sentence(tmp_path, change, says):
    with pytest.raises(BadInput, match=says) as caught:
        recipe(tmp_path / "none.npz", {key: value for key, value in {**SECTION, **change}.items() if value is not None})
    assert "\n" not in str(caught.value)


def test_labels_that_a_loss_does_not_know_and_pictures_are_refused():
    wide = InputSpec("vector", (3,), "float32", (-8.0, -8.0, 0.0), (8.0, 8.0, 2.0))
    with pytest.raises(BadInput, match="0 to 2"):
        local.gradient(Local(**SECTION), wide)
    local.gradient(Local(**{**SECTION, "loss": "median"}), wide)
    for spec in (InputSpec("image", (2, 2, 1), "uint8", 0, 255), InputSpec("vector", (1,), "float32", (0.0,), (1.0,))):
        with pytest.raises(BadInput, match="features and a label"):
            local.gradient(Local(**SECTION), spec)


def test_a_recipe_of_gradients_is_written_and_read(tmp_path):
    write_recipe(Given(f"npz:{write_people(tmp_path)}"), tmp_path / "new.toml", kind="local", of="gradient")
    found = Recipe.find(tmp_path / "new.toml")
    assert (found.perturber.of, found.perturber.loss) == ("gradient", "logistic")
    assert found.limits.target_accuracy == 0.01
    with pytest.raises(BadInput, match="--of gradient is for --kind local"):
        write_recipe(Given(f"npz:{tmp_path}/people.npz"), tmp_path / "b.toml", kind="label-only", of="gradient")
