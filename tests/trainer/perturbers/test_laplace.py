"""The Laplace mechanism from recipe to board: as much noise as the target bears, and eps accounted for by OpenDP."""

from fractions import Fraction

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.export.export import export
from edgeveil.trainer.perturbers import laplace
from edgeveil.trainer.train import train
from tests.support.small_runs import small_recipe, write_npz


def binary(folder):
    """Ten copies of y, ten of z: y can be read through a good deal of noise."""
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, 1500), rng.integers(0, 2, 1500)
    x = np.concatenate([np.tile(y[:, None], 10), np.tile(z[:, None], 10)], axis=1).astype(np.uint8)
    return write_npz(folder, x=x, y=y, z=z)


def laplace_recipe(path, low, high, **sections):
    """A small recipe with public bounds, which an epsilon asks for."""
    data = {"source": f"npz:{path}", "target": "y", "sensitive": "z", "low": low, "high": high}
    return small_recipe(path, data=data, **sections)


@pytest.fixture(scope="module")
def of_bits(tmp_path_factory):
    """Trains a section on ``binary``; D_y and D_z, which depend on none, once."""
    path, lent = binary(tmp_path_factory.mktemp("bits")), []

    def run(section, folder, **sections):
        recipe = laplace_recipe(path, 0, 1, perturber={"kind": "laplace", **section}, **sections)
        made = train(recipe, folder / "run", classifiers=lent[0] if lent else None)
        lent.append(made.folder)
        return made

    return run


@pytest.mark.parametrize("eps", [0.013, 1.0, 4.2, 10.0])
@pytest.mark.parametrize("levels", [1, 16, 255, 4095])
def test_the_scale_costs_no_more_than_was_asked_for(eps, levels):
    scale = laplace.scale_for(eps, levels)
    assert scale >= Fraction(levels) / Fraction(eps)
    assert laplace.eps_of(scale, levels) == pytest.approx(float(levels / scale), rel=1e-9)
    assert 0.99 * eps <= laplace.eps_of(scale, levels) <= eps * (1 + 1e-9)


def test_whole_numbers_are_their_own_grid():
    assert laplace.grid(InputSpec("image", (8, 8, 1), "uint8", 0.0, 16.0), 255) == 16
    assert laplace.grid(InputSpec("vector", (2,), "uint8", (0.0, 1.0), (1.0, 2.0)), 255) == 1
    assert laplace.grid(InputSpec("vector", (2,), "uint8", (0.0, 0.0), (1.0, 2.0)), 255) == 255
    assert laplace.grid(InputSpec("vector", (2,), "float32", 0.0, 16.0), 100) == 100
    with pytest.raises(BadInput, match="needs a range"):
        laplace.grid(InputSpec("vector", (2,), "float32", None, None), 100)


def test_as_much_noise_as_the_target_bears_and_no_more(of_bits, tmp_path):
    run = of_bits({}, tmp_path, floor=0.9)
    found = run.facts["laplace"]
    assert found["levels"] == 1
    assert found["eps_reading"] == pytest.approx(20 * found["eps"])
    lines = run.metrics("perturber")
    needed = 0.9 + 2 * np.sqrt(0.9 * 0.1 / len(run.validation()))
    assert (
        min(line["validation_target_accuracy"] for line in lines[:-1]) >= needed - 1e-9
    )  # n rows may give the limit itself
    assert lines[-1]["validation_target_accuracy"] < needed - 1e-9
    assert lines[-1]["eps"] < found["eps"] <= lines[-2]["eps"]
    assert 0.2 < found["eps"] < 5  # ten votes: a bit of each may be wrong with probability 1/4


@pytest.mark.nightly  # by day data that bear it, above
def test_data_that_do_not_bear_the_noise_of_eps_10_get_less(tmp_path):
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, 1500), rng.integers(0, 2, 1500)
    x = np.concatenate([np.tile(y[:, None], 10), np.tile(z[:, None], 10)], axis=1).astype(np.float32)
    path = write_npz(tmp_path, x=x, y=y, z=z)
    # A sixteenth of the range tells y: the noise of eps 10 has more than twice that for its deviation.
    run = train(laplace_recipe(path, 0, 16, floor=0.9, perturber={"kind": "laplace"}), tmp_path / "run")
    assert run.facts["limit_met"]
    assert 10 < run.facts["laplace"]["eps"] < 100


def test_it_ships_without_a_network_and_runs_as_exported(of_bits, tmp_path):
    run = of_bits({"eps": 1.0}, tmp_path)
    exported = export(run.folder, ["raspberry-pi-cpu"], tmp_path / "export")
    assert exported.manifest["preference"] == []
    assert exported.manifest["perturber"]["identity_allowed"] is True
    x = np.zeros((400, 20), np.uint8)
    sent = load_pipeline(parse(exported.manifest), exported.members, "numpy").run(x)["frame"]
    # A bit turns where the noise is 1 step or more: q / (1 + q) with q = exp(-eps), randomised response of eps.
    expected = np.exp(-1) / (1 + np.exp(-1))
    assert sent.mean() == pytest.approx(expected, abs=5 * np.sqrt(expected / sent.size))


def test_real_numbers_are_taken_to_a_grid(tmp_path):
    section = {"kind": "laplace", "eps": 5.0, "levels": 10}
    run = train(laplace_recipe(write_npz(tmp_path), -8, 8, perturber=section), tmp_path / "run")
    dataset = run.dataset()
    sent = dataset.unit(run.perturber().perturb(dataset.x)["frame"])
    np.testing.assert_allclose(sent * 10, np.rint(sent * 10), atol=1e-3)
    assert len(np.unique(np.rint(sent * 10))) == 11


def test_it_promises_what_its_values_add_up_to(of_bits, tmp_path):
    run = of_bits({"eps": 0.5}, tmp_path, spending={"unit": "release", "most": 100.0})
    assert run.facts["spending"]["epsilon"] == pytest.approx(run.facts["laplace"]["eps_reading"], abs=2e-6) == 10.0


def test_bounds_from_training_rows_are_refused_unless_they_are_asked_for(tmp_path, capfd):
    section = {"kind": "laplace", "eps": 5.0}
    with pytest.raises(BadInput, match="public bounds"):
        train(small_recipe(write_npz(tmp_path), perturber=section), tmp_path / "refused")
    data = {"source": f"npz:{tmp_path / 'small.npz'}", "target": "y", "sensitive": "z", "bounds": "from-training"}
    train(small_recipe(tmp_path / "small.npz", data=data, perturber=section), tmp_path / "run")
    assert "extremes of training rows" in capfd.readouterr().err
