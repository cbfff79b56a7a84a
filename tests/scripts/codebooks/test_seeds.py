"""The record of a codebook over seeds: a paired test that says what the sample supports, and the worst seed named."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from edgeveil.trainer.recipe.schema import Recipe
from scripts.codebooks import seeds
from scripts.codebooks.seeds import over_seeds, paired


def test_the_paired_test_sees_a_loss_and_bounds_what_it_cannot_see():
    reference = np.arange(2000) % 50 != 0  # 98 % right
    worse = reference.copy()
    worse[1:60:2] = False  # 30 rows lost
    found = paired(worse, reference)
    assert (found["lost"], found["gained"]) == (30, 0)
    assert found["p_worse"] < 1e-6
    assert found["worse_by"] == pytest.approx(0.015)
    assert 0.015 < found["worse_by_at_most"] < 0.022
    even = reference.copy()
    even[[1, 2, 3]], even[[50, 100, 150]] = False, True  # three lost, three gained
    found = paired(even, reference)
    assert found["p_worse"] > 0.3
    assert found["worse_by"] == 0
    assert 0 < found["worse_by_at_most"] < 0.004
    assert paired(reference, reference)["p_worse"] == 1.0


def seed(attack: float, kept: float) -> dict:
    int8 = {
        "label_accuracy": 0.97,
        "chance": {"majority": 0.6},
        "code_counts": {"accuracy": attack, "auc": 0.52},
        "code_counts_crossed": {"accuracy": 0.6, "auc": 0.51},
        "attack": {"accuracy": max(attack, 0.6)},
        "bits_over_null": 0.003,
        "kept": {"ink": kept},
    }
    return {"artefacts": {"tflite-int8": int8}, "raw": {"target": {"accuracy": 0.98}}}


def test_over_seeds_the_worst_is_the_most_leak_and_the_least_kept():
    found = over_seeds([seed(0.61, 0.8), seed(0.59, 0.9)])
    assert found["attack_over_chance_points"]["worst"] == pytest.approx(1.0)
    assert found["attack"]["seeds"] == [0.61, 0.6]  # the stronger of two attacks
    assert found["kept.ink"]["worst"] == 0.8
    assert found["kept.ink"]["mean"] == pytest.approx(0.85)
    assert found["label_accuracy_of_raw"]["worst"] == pytest.approx(0.97 / 0.98)


def rate(kind: str, accuracy: float) -> dict:
    return {"kind": kind, "name": "CNN", "accuracy": accuracy, "low": accuracy - 0.01, "high": accuracy + 0.01}


def attacked(best: float) -> dict:
    return {
        "budget": "quick",
        "sha256": "ab",
        "chance": {"prior": 0.5, "majority": 0.59},
        "adversaries": [rate("fixed", 0.52), rate("transfer", 0.51), rate("adaptive", best)],
        "worst_adaptive": {**rate("adaptive", best), "auc": 0.531},
    }


def test_networks_are_added_to_what_is_on_record_and_asked_for_once(tmp_path, monkeypatch, capsys):
    done = {**seed(0.61, 0.8), "seed": 0, "sha256": {"tflite-int8": "cd"}}
    settings = Recipe.find("digits-codebook").model_dump(mode="json", exclude={"seed"}, exclude_none=True)
    record = tmp_path / "record.json"
    record.write_text(json.dumps({"recipe": "digits-codebook", "settings": settings, "seeds": [done]}))
    calls = []
    monkeypatch.setattr(seeds, "networks", lambda *words: calls.append(words) or attacked(0.6))
    monkeypatch.setattr(seeds, "load_tensorflow", lambda: None)
    words = ["x", "digits-codebook", "--seeds", "0", "--out", str(tmp_path), "--record", str(record)]
    monkeypatch.setattr(sys, "argv", [*words, "--networks", "quick"])
    seeds.main()
    seeds.main()
    assert len(calls) == 1
    found = json.loads(record.read_text())["seeds"][0]
    assert found["networks"]["worst_adaptive"]["accuracy"] == 0.6
    assert "not the one on record" in capsys.readouterr().err  # another artefact than the record's was attacked


def test_a_thorough_attack_is_not_replaced_by_a_quick_one(tmp_path, monkeypatch):
    thorough = {**attacked(0.6), "budget": "thorough"}
    record = recorded(tmp_path, {**seed(0.61, 0.8), "seed": 0, "sha256": {"tflite-int8": "cd"}, "networks": thorough})
    monkeypatch.setattr(seeds, "networks", lambda *_words: pytest.fail("attacked again"))
    again(monkeypatch, tmp_path, record, "--networks", "quick")
    assert json.loads(record.read_text())["seeds"][0]["networks"] == thorough


@pytest.mark.parametrize(("now", "kept"), [("cd", True), ("ef", False)])
def test_what_is_measured_again_keeps_networks_of_the_same_artefact_alone(tmp_path, monkeypatch, now, kept):
    old = {**seed(0.61, 0.8), "seed": 0, "sha256": {"tflite-int8": "cd"}, "networks": attacked(0.6)}
    record = recorded(tmp_path, {**seed(0.59, 0.8), "seed": 1, "sha256": {"tflite-int8": "ab"}}, old)
    new = {**seed(0.63, 0.9), "seed": 0, "sha256": {"tflite-int8": now}}
    monkeypatch.setattr(seeds, "seed_record", lambda *_words: dict(new))
    again(monkeypatch, tmp_path, record, "--again")
    found = json.loads(record.read_text())
    assert [one["seed"] for one in found["seeds"]] == [0, 1]
    assert ("networks" in found["seeds"][0]) == kept
    assert found["over_seeds"]["kept.ink"]["seeds"] == [0.9, 0.8]


def recorded(folder: Path, *seeds: dict) -> Path:
    settings = Recipe.find("digits-codebook").model_dump(mode="json", exclude={"seed"}, exclude_none=True)
    (folder / "record.json").write_text(json.dumps({"recipe": "digits-codebook", "settings": settings, "seeds": seeds}))
    return folder / "record.json"


def again(monkeypatch, folder: Path, record: Path, *options: str) -> None:
    monkeypatch.setattr(seeds, "load_tensorflow", lambda: None)
    words = ["x", "digits-codebook", "--seeds", "0", "--out", str(folder), "--record", str(record)]
    monkeypatch.setattr(sys, "argv", [*words, *options])
    seeds.main()
