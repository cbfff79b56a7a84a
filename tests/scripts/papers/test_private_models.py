"""The scripts on papers 002, 003 and 004, on small budgets: known figures, bounds that hold, bugs that are caught."""

import itertools
import json

import numpy as np
import pytest

from edgeveil.trainer.private.estimators.losses import Huber, Logistic
from edgeveil.trainer.private.estimators.minimiser import minimum
from edgeveil.trainer.private.noise import Seeded
from scripts.reproduce.dp.training import (
    accounting,
    adult_of_paper_4,
    audit,
    audited,
    case_study,
    erm,
    functional,
    inversion,
    planted_bugs,
    rows_needed,
)
from scripts.reproduce.pages.dp import private_page

SURE = 1 - 1e-6


def test_table_2_of_paper_004_is_exact():
    ours = {row["gamma"]: (row["sensitive"], row["ordinary"]) for row in functional.table_2()}
    for gamma, printed in private_page.TABLE_2.items():
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
    first = itertools.takewhile(lambda one: one[0] == "nothing", inversion.one_fold(people, folds[0], 0))
    right = {who: hits.mean() for _, who, hits in first}
    assert right["model"] < right["y"] < 0.75
    assert right["attributes"] > 0.98


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


def test_rows_needed_are_between_two_that_were_tried(monkeypatch):
    monkeypatch.setattr(rows_needed, "error", lambda n, d, epsilon, _: d / (epsilon * n))
    assert rows_needed.needed(8, 1.0, None) == pytest.approx(8 / rows_needed.EXCESS, rel=0.05)
    rows = [rows_needed.needed(8, epsilon, None) for epsilon in rows_needed.EPSILONS]
    assert rows_needed.slope(rows_needed.EPSILONS, rows) == pytest.approx(-1, abs=0.05)


def test_more_rows_err_less_under_the_same_noise():
    rng = np.random.default_rng(0)
    few, many = (rows_needed.error(n, 3, 1.0, rng) for n in (64, 2_000))
    assert many < 0.02 < few


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5)], ids=["logistic", "huber"])
def test_halving_finds_the_shipped_minimum(loss):
    linear = np.array([-3.0, -0.2, 0.0, 0.4, 7.0])
    ships = [minimum(np.array([[0.5]]), loss, 0.2, one)[0][0] for one in linear[:, None]]
    assert np.allclose(audited.minima(0.5, loss, 0.2, linear), ships, atol=1e-7)


BUGS = {case.name: case for case in planted_bugs.planted()}
SHIPPED = {case.name: case for case in audited.shipped()}
QUICK = [name for name in BUGS if "slides of paper 003" not in name]  # that one needs 100,000 runs


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_bug_is_caught(name):
    # That one is proved at 1.07 to 1.67 of a claimed 1 by 9,000 runs, at 1.50 to 1.83 by 40,000.
    runs = 40_000 if "l2 sensitivity" in name else 9_000
    row = audit.judged(BUGS[name]._replace(times=1), runs, 0.95)
    assert row["above"]
    assert (row["proved"] is None) == (name == "a fit without noise")


@pytest.mark.parametrize("name", ["Laplace", "DP-SGD, one step, q 1, sigma 1", "local, k-rr"])
def test_what_ships_keeps_its_claim(name):
    row = audit.judged(SHIPPED[name], 9_000, SURE)
    assert 0.5 * row["claimed"] < row["proved"] <= row["claimed"]


@pytest.mark.parametrize("code", [0, 3])
def test_the_audit_ends_with_3_where_a_claim_is_wrong(code, monkeypatch, tmp_path):
    good = audited.laplace({"zero": [0.0], "one": [1.0]}, 1.0)
    bad = audited.laplace({"zero": [0.0], "one": [1.0]}, 0.4)
    monkeypatch.setattr(audit, "shipped", lambda: [bad if code else good])
    monkeypatch.setattr(audit, "planted", lambda: [bad])
    monkeypatch.setattr("sys.argv", ["audit", "--runs", "6000", "--out", str(tmp_path / "a.json")])
    assert audit.main() == code
    assert json.loads((tmp_path / "a.json").read_text())["shipped"][0]["above"] is bool(code)


def test_the_case_study_learns_and_its_mistakes_do_not():
    x, y = case_study.people(1_000, np.random.default_rng(0))
    right = case_study.learn(x, y, 8.0, Seeded(0))
    assert (right @ case_study.THETA) / np.linalg.norm(right) > 7  # of 7.8: the direction is right
    turned = case_study.learn(x, y, None, Seeded(0), gradients=case_study.ascent)
    assert turned @ case_study.THETA < 0
    longer = case_study.learn(x, y, None, Seeded(0), clipped=case_study.clipped_by_min)
    assert np.abs(longer).max() > 5 * np.abs(right).max()


def test_the_known_example_of_the_accountant_is_held(monkeypatch):
    assert accounting.known()["held"]
    monkeypatch.setattr(accounting, "by_pld", lambda *_: 9.0)
    assert not accounting.known()["held"]


def test_the_page_says_held_unless_intervals_are_apart():
    def table(less):
        return {"objective_less_output": [{"estimate": less, "low": less - 0.03, "high": less + 0.03}]}

    assert private_page.objective_against_output([table(-0.1)]) == (1, 0, 0)
    assert private_page.objective_against_output([table(-0.1), table(0.02)]) == (2, 1, 0)
    assert private_page.objective_against_output([table(0.1), table(0.02)]) == (2, 2, 1)


def test_many_repeats_at_once_are_as_far_off_as_one_after_the_other(monkeypatch):
    monkeypatch.setattr(case_study, "MANY", 60)
    at_once = np.abs(case_study._at_once(500, 0.0, np.random.default_rng(0)) - case_study.THETA).max(axis=1)
    alone = case_study.measured(500, None, 8)["error"]["estimate"]
    assert abs(at_once.mean() - alone) < 6 * at_once.std() / np.sqrt(8)


@pytest.mark.parametrize(
    ("script", "asked"),
    [(functional, ["--repeats", "1"]), (inversion, ["--repeats", "1"]), (case_study, ["--repeats", "1"]),
     (audit, ["--runs", "10"]), (rows_needed, ["--seeds", "1"])],
    ids=["functional", "inversion", "case-study", "audit", "rows-needed"],
)  # fmt: skip
def test_too_few_runs_are_the_users_mistake(script, asked, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["script", *asked])
    with pytest.raises(SystemExit) as ended:
        script.main()
    assert ended.value.code == 2
    assert f"came {asked[1]}" in capsys.readouterr().err
