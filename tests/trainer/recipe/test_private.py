"""[private] of a recipe: what it asks, its short form, and what it cannot guard."""

import copy

import pytest
import tomllib

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli import main
from edgeveil.trainer.recipe.schema import Recipe

GOOD = tomllib.loads(Recipe.find("mnist-label-only").toml()) | {"private": {"epsilon": 8.0, "delta": 1e-5}}


def changed(name="mnist-label-only", **sections):
    table = copy.deepcopy(GOOD) if name == "mnist-label-only" else tomllib.loads(Recipe.find(name).toml())
    return Recipe.check({**table, "private": GOOD["private"], **sections})


def test_what_is_asked_is_kept():
    assert Recipe.parse(changed().toml()) == changed()


def test_the_command_takes_it(monkeypatch, tmp_path, capsys):
    taken = []

    def taking(recipe, out, **_):
        taken.append(recipe)
        raise BadInput("enough")

    monkeypatch.setattr("edgeveil.trainer.train.train", taking)
    words = ["train", "mnist-label-only", "--out", str(tmp_path / "run"), "--set", "private.epsilon=8"]
    words += ["--set", "private.delta=1e-5"]
    monkeypatch.setattr("sys.argv", ["edgeveil", *words])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert (ended.value.code, capsys.readouterr().err) == (2, "error: enough\n")
    assert taken == [changed()]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"epsilon": 0.0}, "private.epsilon"),
        ({"epsilon": 50.1}, "private.epsilon"),
        ({"delta": 0.0}, "private.delta"),
        ({"delta": 1.0}, "private.delta"),
        ({"clip": 0.0}, "private.clip"),
        ({"lot": 0}, "private.lot"),
        ({"steps": 0}, "private.steps"),
        ({"pictures": 1.0}, "private.pictures"),
        ({"unit": "session"}, "private.unit"),
    ],
)
def test_settings_that_mean_nothing_are_refused(keys, words):
    with pytest.raises(BadInput, match=words):
        changed(private={**GOOD["private"], **keys})


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("mnist-prgan", "a generator sees the readings again in every step"),
        ("mnist-minimax", "a generator sees the readings again in every step"),
        ("mnist-laplace", "carries no noise"),
        ("wq", "carries no noise"),
    ],
)
def test_other_kinds_are_refused_with_the_reason(name, why):
    with pytest.raises(BadInput, match=why):
        changed(name)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"perturber": {"kind": "label-only"}}, "D_y itself is chosen by validation"),
        ({"perturber": {**GOOD["perturber"], "picture": "donor"}}, "somebody's own sample"),
        ({"prior": {"kind": "counted"}}, "counts people of the training data"),
        ({"data": {**GOOD["data"], "bounds": "from-training"}}, "extremes of training rows"),
    ],
)
def test_what_would_ship_unpaid_is_refused(sections, words):
    with pytest.raises(BadInput, match=words):
        changed(**sections)
