"""RAPPOR from recipe to estimate: trained, exported, sealed, run with a ledger, collected; an answer costs once."""

import csv
import json

import numpy as np
import pytest

from tests.support import small_runs
from tests.support.promised.counted_bundles import MACHINE
from tests.trainer.cli.test_promise_whole_way import board, trainer

pytestmark = pytest.mark.slow
PEOPLE, EACH, EPSILON, ONCE = 3_000, 3, 4.0, 2.0
SHARE = 0.9  # of the first class


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A sealed bundle that lets two answers of each subject leave."""
    folder = tmp_path_factory.mktemp("rappor")
    trainer("key", "new", folder / "keys", "--development")
    perturber = {"kind": "local", "of": "label", "mechanism": "rappor", "epsilon": EPSILON}
    data = {"source": f"npz:{small_runs.write_npz(folder)}", "target": "y", "sensitive": "z", "low": -8.0, "high": 8.0}
    recipe = small_runs.small_recipe(
        None,
        data=data,
        perturber={**perturber, "hold": "track", "instantaneous": ONCE},
        spending={"unit": "subject", "most": 2 * EPSILON},
        budget={"classifier_epochs": 30, "epochs": 1, "batch": 16},
        floor=0.01,
    )
    (folder / "recipe.toml").write_text(recipe.toml())
    trainer("train", folder / "recipe.toml", "--out", folder / "run")
    trainer("export", folder / "run", "--for", "jetson-nano", "--out", folder / "export")
    trainer("seal", folder / "export", "--key", folder / "keys/signing.key", "--out", folder / "b.veil", "--no-audit")
    facts = json.loads((folder / "run" / "run.json").read_text())["spending"]
    assert (facts["epsilon"], facts["repeats"]) == (EPSILON, True)
    assert facts["instantaneous_epsilon"] == pytest.approx(ONCE)
    return folder


def test_a_kept_answer_is_charged_once_and_its_reports_say_the_truth(made, tmp_path, monkeypatch, capsys):
    (tmp_path / "machine-id").write_text(MACHINE + "\n")
    monkeypatch.setattr("edgeveil.edge_runtime.machine._MACHINE_IDS", (str(tmp_path / "machine-id"),))
    # Each where no classifier is in doubt; a person's readings come one after another, and are of one class.
    x = np.random.default_rng(1).normal(scale=0.3, size=(PEOPLE * EACH, small_runs.FEATURES))
    person = np.repeat(np.arange(PEOPLE), EACH)
    x[:, 0] += 4 * (person % 10 == 0)
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([f"p{one}", *row] for one, row in zip(person, x.tolist(), strict=True))
    assert board("ledger", "new", tmp_path / "ledger")[0] == 0
    words = ["run", made / "b.veil", "--trust", made / "keys", "--ledger", tmp_path / "ledger"]
    words += ["--source", f"csv:{tmp_path}/in.csv", "--subject-column", 1, "--sink", f"npz:{tmp_path}/out.npz"]
    for code, answers in ((0, 1), (0, 2), (3, 2)):
        # Another start draws another answer, and the third has no budget.
        assert board(*words)[0] == code
        spent = json.loads(board("ledger", "show", tmp_path / "ledger", "--json")[1])["lifetime_epsilon"]
        assert spent == pytest.approx(answers * PEOPLE * EPSILON)
        if answers == 1:
            (tmp_path / "out.npz").rename(tmp_path / "first.npz")
    with np.load(tmp_path / "first.npz") as file:
        bits = file["x"].reshape(PEOPLE, EACH, 2)
    changed = (bits[:, 0] != bits[:, 1]).any(axis=1).mean()
    assert 0.2 < changed < 0.9  # instantaneous answers differ; fresh permanent ones would, too, but less of the truth
    with np.load(tmp_path / "out.npz") as file:
        assert len(file["x"]) == 0
    capsys.readouterr()
    words = ["--from", f"npz:{tmp_path}/first.npz", "--estimate", "histogram", "--json"]
    trainer("local", "collect", made / "b.veil", "--trust", made / "keys", *words)
    found = json.loads(capsys.readouterr().out)
    assert (found["units"], found["interval_95"]) == (1, None)  # answers of one device hang together
    assert found["reports"]["counted"] == PEOPLE * EACH
    # A person's mean has a variance of at most that of one answer, q(1 - q)/(p - q)^2 = 0.92, here below 0.5.
    assert np.abs(np.array(found["shares"]) - [SHARE, 1 - SHARE]).max() < 6 * np.sqrt(0.92 / PEOPLE)
