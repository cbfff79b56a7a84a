"""What a code keeps of the pixels, and points that are on record are not made again."""

import json
import sys

import numpy as np
import pytest

from scripts.reproduce.codebooks import token_recipes
from scripts.reproduce.codebooks.tokens import share_kept
from scripts.reproduce.pages import codebooks_page


def test_what_is_kept_is_what_a_linear_receiver_explains_within_y():
    """Of x, y is known anyway; of the rest, code and noise have a variance of 1 each: half is kept."""
    x, sent, y = {}, {}, {}
    for number, name in enumerate(("perturber", "test")):
        rng = np.random.default_rng(number)
        y[name], code = rng.integers(0, 2, (2, 4000))
        x[name] = (50.0 * y[name] + 2.0 * code + rng.normal(size=4000))[:, None]
        sent[name] = np.eye(4)[2 * y[name] + code]
    assert share_kept(x, sent, y, "perturber", classes=2) == pytest.approx(0.5, abs=0.05)
    nothing = {name: np.eye(2)[of] for name, of in y.items()}
    assert share_kept(x, nothing, y, "perturber", classes=2) == pytest.approx(0, abs=0.01)


def test_every_setting_is_a_point_once(tmp_path, monkeypatch):
    made = []

    def point(recipe, first, folder):
        made.append((recipe.perturber.tokens, recipe.perturber.codes_of_class, recipe.perturber.price, first))
        return {"kept": 0.2, "priced_bits": 0.01, "bits": 0.002, "label_accuracy": 0.98}

    monkeypatch.setattr(token_recipes, "point", point)
    monkeypatch.setattr(token_recipes, "load_tensorflow", lambda: None)
    record = tmp_path / "token-recipes.json"
    words = ["token_recipes", "mnist-codebook", "--out", str(tmp_path), "--record", str(record), "--prices", "2"]
    monkeypatch.setattr(sys, "argv", words)
    token_recipes.main()
    first = tmp_path / "mnist-codebook-1-of-64-2" / "run"
    assert made == [(1, 64, 2.0, first), (2, 64, 2.0, first)]
    token_recipes.main()
    assert len(made) == 2
    page = codebooks_page.token_recipes(json.loads(record.read_text()))
    assert "| 2 of 8 codes | 2 | 0.200 | 10 | 2 | 98.0 |" in page
