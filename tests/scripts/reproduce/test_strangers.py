"""The way of public data: what scikit-learn itself has is written, looked at, and an end is told from a fault."""

import sys

import numpy as np
import pytest

from edgeveil.trainer.scaffold.given import Given
from edgeveil.trainer.scaffold.new import write_recipe
from scripts.reproduce.strangers import strangers, strangers_page
from scripts.reproduce.strangers.public_data import SETS


def test_a_table_of_scikit_learn_becomes_a_recipe_and_figures(tmp_path):
    SETS["wine"].write(tmp_path / "wine.npz")
    with np.load(tmp_path / "wine.npz") as data:
        assert (data["x"].shape, data["y"][0]) == ((178, 12), "class_0")  # the column that became z is no feature
    write_recipe(Given(f"npz:{tmp_path / 'wine.npz'}"), tmp_path / "wine.toml")
    found = strangers.figures(tmp_path, "wine")
    assert (found["rows"], found["sample"], found["architecture"], found["classes"]) == (178, [12], "normed-mlp", 3)
    assert found["forest"] == pytest.approx(found["look"], abs=1e-3)
    assert found["forest"] > 0.8


@pytest.mark.parametrize(
    ("program", "code", "said", "traceback"),
    [
        ("import sys; print('error: no such y', file=sys.stderr); sys.exit(2)", 2, "no such y", False),
        ("raise ValueError('oh')", 1, "ValueError: oh", True),
    ],
)
def test_a_reason_is_told_from_a_traceback(program, code, said, traceback):
    log = []
    with pytest.raises(strangers.Ended):
        strangers.command("train", log=log, program=(sys.executable, "-c", program))
    assert {key: log[0][key] for key in ("code", "said", "traceback")} == {
        "code": code,
        "said": said,
        "traceback": traceback,
    }


def test_sets_without_a_row_are_named():
    rest = [name for name in SETS if name != "iris"]
    assert strangers_page.missing({"rows": [{"name": "iris"}]}) == rest
    assert len(SETS) >= 12
