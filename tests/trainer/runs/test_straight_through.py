"""What the losses see of readings of few levels, and that a run of them sends whole numbers."""

import numpy as np
import pytest
import tensorflow as tf

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.runs.checkpoint_score import straight_through
from edgeveil.trainer.train import train
from tests.support.small_runs import ROWS, small_recipe, write_npz


def test_values_are_rounded_and_slopes_pass():
    spec = InputSpec("vector", (3,), "uint8", (0.0, 1.0, 0.0), (1.0, 2.0, 4.0))
    v = tf.Variable([[0.4, 0.6, 0.4]])
    with tf.GradientTape() as tape:
        sent = straight_through(spec)(v)
        loss = tf.reduce_sum(sent * [[1.0, 2.0, 3.0]])
    np.testing.assert_allclose(sent, [[0.0, 1.0, 0.5]], atol=1e-6)
    np.testing.assert_allclose(tape.gradient(loss, v), [[1.0, 2.0, 3.0]])


def test_real_numbers_have_no_levels():
    with pytest.raises(BadInput, match=r"whole numbers; these are float32\. Leave it out"):
        straight_through(InputSpec("vector", (3,), "float32", 0.0, 1.0))


def test_binary_readings_leave_binary_and_changed(tmp_path):
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, ROWS), rng.integers(0, 2, ROWS)
    x = (rng.random((ROWS, 12)) < 0.5).astype(np.uint8)
    x[:, :3], x[:, 3:6] = y[:, None], z[:, None]
    path = write_npz(tmp_path, x=x, y=y, z=z)
    generator = {"architecture": "mlp", "width": 32, "blocks": 1}
    section = {
        "kind": "ngp",
        "alpha": 10.0,
        "distance": 2.0,
        "straight_through": True,
        "learning_rate": 5e-3,
        "generator": generator,
    }
    run = train(small_recipe(path, epochs=20, floor=0.5, perturber=section), tmp_path / "run")
    sent = run.perturber().perturb(x)["frame"]
    assert run.perturber().kind == "ngp"
    assert set(np.unique(sent)) == {0, 1}
    # What is learned differs from seed to seed: over five, 95 % of rows changed at least, and the cross-entropy of D_z
    # fell to 0.37 of what it is after one epoch, when hardly a bit has turned. D_z may still be right: eq. (8) asks for
    # doubt, not for error.
    assert (sent != x).any(axis=1).mean() > 0.5
    first, found = run.metrics("perturber")[0], run.facts["validation"]
    assert found["unchanged"] < found["rows"] / 2
    assert found["med_cross_entropy"] < 0.7 * first["validation_med_cross_entropy"]
