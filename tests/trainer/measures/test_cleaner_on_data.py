"""Cleaners on Mulan's scene and wq: the theorem on every vector, and the paper's figures within their bands."""

import hashlib

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.loaders.mulan import SceneLabels, Water, arff_bytes
from edgeveil.trainer.linear import algorithm1, approximate, exact, homogeneous, least_squares
from edgeveil.trainer.measures.predictor_metrics import LinearRefit, e_utility, promised

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def sets(data_folder):
    return {"scene": SceneLabels.load(), "wq": Water.load()}


def test_published_counts(sets):
    assert sets["scene"].x.shape == (2407, 294)
    assert dict(zip(sets["scene"].label_names, (sets["scene"].labels > 0).sum(axis=0).tolist(), strict=True)) == {
        "Beach": 427,
        "Sunset": 364,
        "FallFoliage": 397,
        "Field": 433,
        "Mountain": 533,
        "Urban": 431,
    }
    assert sets["wq"].x.shape == (1060, 16)
    assert set(np.unique(sets["wq"].labels)) == {0, 1, 3, 5}


@pytest.mark.parametrize(("name", "wanted"), [("scene", n) for n in (1, 3, 5)] + [("wq", n) for n in (1, 7, 13)])
def test_theorem_on_every_vector(sets, name, wanted):
    data = sets[name]
    x = homogeneous(data.x)
    operator = least_squares(x, data.labels)
    a_d, a_c = operator[:, :wanted], operator[:, wanted:]
    for eps in (0.01 * wanted, 10.0):
        expected = promised(a_d, x, eps)
        for cleaner in (algorithm1(a_d, a_c, eps=eps), approximate(a_d, eps=eps)):
            assert np.abs(e_utility(a_d, x, cleaner.clean(x)) - expected).max() <= 1e-9
            small = x.astype(np.float32)
            error = np.abs(e_utility(a_d, small, cleaner.clean(small)) - promised(a_d, small, eps))
            assert error.max() <= 1e-5 * max(1, eps)
        if eps == 10:
            assert (expected < eps).any(), "no vector of the edge case |A_d^T x|^2 < eps"
    assert e_utility(a_d, x, exact(a_d).clean(x)).max() <= 1e-20


def leak(predicted, on_raw, truth, at_mean):
    """e_privacy and CP of predictions (n, labels), next to those of raw vectors and of the mean."""
    worse = np.abs(predicted - truth) > np.abs(at_mean - truth)
    return {"e_privacy": np.mean((predicted - on_raw) ** 2), "cp": worse.mean()}


@pytest.mark.nightly  # by day the recorded figures: test_predictors.py
def test_scene_3_3_over_three_splits(sets):
    """The whole of figures 1 to 3 is in docs/results/predictors; here a part, in seconds."""
    x, labels = homogeneous(sets["scene"].x), sets["scene"].labels
    found = []
    for seed in range(3):
        order = np.random.RandomState(seed).permutation(len(x))
        train, test = order[:2166], order[2166:]
        operator = least_squares(x[train], labels[train])
        cleaned = algorithm1(operator[:, :3], operator[:, 3:], eps=0.03).clean(x)
        hidden, on_raw = labels[:, 3:], (x @ operator)[test, 3:]
        at_mean = hidden[train].mean(axis=0)
        none = leak(cleaned[test] @ operator[:, 3:], on_raw, hidden[test], at_mean)
        attack = leak(LinearRefit(cleaned[train], hidden[train]).predict(cleaned[test]), on_raw, hidden[test], at_mean)
        found.append([*none.values(), *attack.values()])
    e_none, cp_none, e_attack, _ = np.mean(found, axis=0)
    assert e_none == pytest.approx(1.28, abs=0.05)
    assert cp_none == pytest.approx(0.805, abs=0.01)
    assert e_attack == pytest.approx(0.231, abs=0.02)


def test_missing_and_altered_files_are_refused(data_folder, tmp_path, monkeypatch):
    monkeypatch.delenv("EDGEVEIL_DATA")
    with pytest.raises(BadInput, match="EDGEVEIL_DATA is not set"):
        Water.load()
    monkeypatch.setenv("EDGEVEIL_DATA", str(tmp_path))
    with pytest.raises(BadInput, match=r"wq\.arff \(or \.gz\) was expected"):
        Water.load()
    (tmp_path / "mulan_wq").mkdir()
    (tmp_path / "mulan_wq" / "wq.arff").write_bytes(b"@relation r\n@attribute a real\n@data\n1\n")
    with pytest.raises(BadInput, match="SHA-256 differs"):
        Water.load()


def test_unpacked_files_are_found(data_folder, tmp_path, monkeypatch):
    data = arff_bytes(data_folder / "mulan_wq" / "wq.arff.gz")
    assert hashlib.sha256(data).hexdigest() == Water.files["mulan_wq/wq.arff"]
    (tmp_path / "mulan_wq").mkdir()
    (tmp_path / "mulan_wq" / "wq.arff").write_bytes(data)
    monkeypatch.setenv("EDGEVEIL_DATA", str(tmp_path))
    assert Water.load().x.shape == (1060, 16)
