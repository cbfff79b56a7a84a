"""The membership script on a small budget: attacks on a classifier that was trained for a moment."""

import numpy as np

from edgeveil.trainer.attacks.training_data.membership_inference import halves
from edgeveil.trainer.audit.probes.areas import area, curve
from edgeveil.trainer.graphs.prediction import predict
from scripts.reproduce.dp.training import membership


def test_both_attacks_are_measured_on_the_artefact_of_the_target(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    u = (0.4 * rng.random((400, 28, 28, 1)) + 0.5 * y[:, None, None, None]).astype(np.float32)
    asked = []

    def of_artefact(model, x):
        asked.append((model, found := shipped(model, x)))
        return found

    shipped = membership.of_artefact
    monkeypatch.setattr(membership, "of_artefact", of_artefact)
    monkeypatch.setattr(membership, "TEST", 100)
    monkeypatch.setattr(membership, "WIDTH", 2)
    found = membership.measured(membership.Setting("a moment", 100, 20, 2, 2, 2), u, y, tmp_path)
    assert set(found["attacks"]) == {"loss", "LiRA"}
    for attack in found["attacks"].values():
        assert 0 <= attack["auc"]["low"] <= attack["auc"]["estimate"] <= attack["auc"]["high"] <= 1
        assert 0 <= attack["tpr"]["estimate"] < 1
    assert found["claim"] is None
    assert found["targets"] == 4
    assert 0 < found["artefact_off"] < 1e-4
    ((model, logits),) = asked  # of the first target
    order = np.random.default_rng(0).permutation(400)[:200]
    assert np.allclose(logits, predict(model, u[order]), atol=1e-4)
    monkeypatch.setattr(membership, "trained", None)
    assert membership.measured(membership.Setting("a moment", 100, 20, 2, 2, 2), u, y, tmp_path) == found


def test_more_blocks_of_shadows_tell_more_and_none_is_the_targets_own():
    rng = np.random.default_rng(0)
    inside = np.stack([halves(2000, 4, rng) for _ in range(4)])
    found = 4 * rng.normal(size=2000) + 1.5 * inside + rng.normal(size=inside.shape)
    areas = [area(curve(membership.ratios(found, inside, blocks), inside.reshape(-1))) for blocks in (1, 3)]
    assert 0.7 < areas[0] < areas[1] - 0.01
    alone = membership.ratios(found, inside, 3).reshape(inside.shape)
    found[0, 1:] = 0
    assert np.array_equal(membership.ratios(found, inside, 3).reshape(inside.shape)[0, 0], alone[0, 0])
