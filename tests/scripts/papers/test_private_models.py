"""The scripts on papers 003 and 004, on small budgets: known figures, and bounds that hold."""

import numpy as np
import pytest

from edgeveil.trainer.ext.private.estimators.perturbed_risk import Huber, Logistic, minimum
from scripts.papers import adult_of_paper_4, erm, functional

# gamma: epsilon_s, epsilon_n, as paper 004 prints them
PRINTED = {
    0.5: (0.52, 1.04),
    0.25: (0.265, 1.061),
    0.1: (0.107, 1.074),
    0.05: (0.054, 1.079),
    0.025: (0.027, 1.081),
    0.01: (0.011, 1.082),
}


def test_table_2_of_paper_004_is_exact():
    ours = {row["gamma"]: (row["sensitive"], row["ordinary"]) for row in functional.table_2()}
    for gamma, printed in PRINTED.items():
        assert ours[gamma] == pytest.approx(printed, abs=0.0006)


def test_its_budgets_spend_no_more_than_they_say():
    assert [round(row["triangle"], 3) for row in functional.table_2()][:4] == [1.0, 0.981, 0.971, 0.964]
    assert max(row["exact"] for row in functional.table_2()) < 0.35


@pytest.mark.usefixtures("data_folder")
def test_adult_is_that_of_paper_004_and_the_attack_reads_no_answer():
    people = adult_of_paper_4.load()
    assert people.x.shape == (30_162, 13)
    assert people.x.min() == -1
    assert people.x.max() == 1
    assert (people.x[:, functional.S] > 0).mean() == pytest.approx(0.467, abs=5e-4)
    folds = list(people.folds(np.random.default_rng(0)))
    assert sum(len(test.y) for _, test in folds) == 30_162
    accuracy, attack = functional.one_fold(functional.Setting(10.0), *folds[0], 0)
    assert accuracy == pytest.approx(0.823, abs=0.015)
    assert attack == pytest.approx(0.619, abs=0.02)


def table(n=3000, d=6):
    """Two classes by a plane, rows of norm 1."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return erm.Table(rows, np.where(rows[:, 0] > 0.1 * rng.normal(size=n), 1.0, -1.0))


def test_both_lemmas_hold_and_the_error_falls_with_epsilon(tmp_path):
    made = erm.measured("made", table(), (0.1, 5.0), 3, draws=1, work=tmp_path)
    assert 0 < made["lemmas"]["lemma_1"]["most"] <= 1
    assert 0 < made["lemmas"]["lemma_2"]["most"] <= 0.5
    assert made["lemmas"]["draws"] == 2 * 5 * 2 * 3
    rows = {(row["loss"], row["method"], row["epsilon"]): row["error"]["estimate"] for row in made["errors"]}
    assert rows["logistic", "objective", 5.0] < rows["logistic", "objective", 0.1]
    assert rows["Huber", "output", 5.0] < rows["Huber", "output", 0.1]


def test_splits_that_are_done_are_read_back_and_the_others_made(tmp_path, monkeypatch):
    small = table(600, 3)
    whole = erm.measured("some Table", small, (1.0,), 3, draws=2, work=tmp_path / "a")
    erm.measured("some Table", small, (1.0,), 2, draws=2, work=tmp_path / "b")
    made, plain = [], erm.fits

    def counted(*asked):
        made.append(asked[3])
        return plain(*asked)

    monkeypatch.setattr(erm, "fits", counted)
    assert erm.measured("some Table", small, (1.0,), 3, draws=2, work=tmp_path / "b") == whole
    assert made == [2]
    assert erm.measured("some Table", small, (1.0,), 3, draws=1, work=tmp_path / "b") != whole
    assert made == [2, 0, 1, 2]  # other draws are other fits


def test_the_difference_is_that_of_the_same_splits(tmp_path):
    made = erm.measured("made", table(600, 3), (1.0,), 3, draws=1, work=tmp_path)
    errors = {(row["loss"], row["method"]): row["error"]["estimate"] for row in made["errors"]}
    for row in made["objective_less_output"]:
        less = errors[row["loss"], "objective"] - errors[row["loss"], "output"]
        assert row["estimate"] == pytest.approx(less, abs=1e-12)
        assert row["low"] < row["estimate"] < row["high"]


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5)], ids=["logistic", "huber"])
def test_a_minimum_is_the_same_from_anywhere(loss):
    rows, linear = table(400, 4).rows, np.array([0.01, -0.02, 0.0, 0.005])
    cold, left = minimum(rows, loss, 1e-2, linear)
    warm, also = minimum(rows, loss, 1e-2, linear, start=np.full(4, 3.0))
    assert max(left, also) <= 1e-9
    assert np.allclose(cold, warm, atol=1e-6)


def test_too_few_repeats_are_the_users_mistake(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["script", "--repeats", "1"])
    with pytest.raises(SystemExit) as ended:
        functional.main()
    assert ended.value.code == 2
    assert "came 1" in capsys.readouterr().err
