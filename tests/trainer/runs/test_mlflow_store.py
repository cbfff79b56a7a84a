"""``edgeveil train --track mlflow:DIR``: MLflow reads back what the run says; without the package, one sentence."""

import json
import sys

import pytest

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.cli import main
from edgeveil.trainer.runs.listing import store_of

RECIPE = '[perturber]\nkind = "prgan"\nalpha = 3.0\n[budget]\nepochs = 2\n'
EPOCHS = [
    {"stage": "target", "step": step, "time_s": 1.7e9 + step, "loss": 1 / step, "validation_accuracy": 0.5 + step / 10}
    for step in (1, 2)
]
FACTS = {
    "recipe": "mine",
    "budget": "quick",
    "seed": 7,
    "state": "finished",
    "limit_met": False,
    "wall_time_s": {"perturber": 3.5},
    "validation": {"target_accuracy": 0.953, "rows": 90},
}


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / "run.json").write_text(json.dumps(FACTS))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in EPOCHS))
    return folder


def test_mlflow_reads_params_epochs_and_final_figures(run, tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="mlflow-skinny is not installed: pip install 'edgeveil[mlflow]'")
    run_id = store_of(f"mlflow:{tmp_path / 'mlruns'}").add(run)
    client = mlflow.MlflowClient(tracking_uri=(tmp_path / "mlruns").as_uri())
    found = client.get_run(run_id)
    assert client.get_experiment(found.info.experiment_id).name == "edgeveil"
    assert (found.info.run_name, found.info.status) == ("one", "FINISHED")
    assert found.data.params["perturber.alpha"] == "3.0"
    assert found.data.params["run.seed"] == "7"
    epochs = client.get_metric_history(run_id, "target/loss")
    assert [(one.step, one.value, one.timestamp) for one in epochs] == [
        (1, 1.0, 1700000001000),
        (2, 0.5, 1700000002000),
    ]
    assert found.data.metrics["final/target_accuracy"] == 0.953
    assert found.data.metrics["wall_time_s/perturber"] == 3.5
    assert found.data.tags["edgeveil.limit_met"] == "False"
    # A second run goes beside it.
    assert store_of(f"mlflow:{tmp_path / 'mlruns'}").add(run) != run_id
    assert len(client.search_runs([found.info.experiment_id])) == 2


def test_a_folder_that_is_none_is_one_sentence(tmp_path):
    pytest.importorskip("mlflow", reason="mlflow-skinny is not installed: pip install 'edgeveil[mlflow]'")
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="a folder for MLflow was expected"):
        store_of(f"mlflow:{tmp_path / 'file'}")


def test_without_the_package_it_is_named_before_anything_is_trained(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(BadInput, match=r"mlflow-skinny.*pip install 'edgeveil\[mlflow\]'"):
        store_of(f"mlflow:{tmp_path}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["mlflow", "mlflow:", "wandb:x", "mlruns"])
def test_another_kind_of_store_is_refused(text):
    with pytest.raises(BadInput, match="mlflow:DIR was expected"):
        store_of(text)


class Fake:
    """A store that remembers what it was given."""

    folder = "mlruns"

    def __init__(self):
        self.added = []

    def add(self, run):
        self.added.append(run)
        return "id"


def train(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["edgeveil", "train", "digits", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    return ended.value.code, capsys.readouterr().err


def test_train_refuses_before_it_begins_where_nothing_can_be_tracked(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setenv("EDGEVEIL_TRACK", f"mlflow:{tmp_path / 'mlruns'}")
    code, said = train(monkeypatch, capsys, "--out", tmp_path / "run")
    assert (code, said.count("\n")) == (2, 1)
    assert "mlflow-skinny" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("error", "tracked"), [(LimitNotMet("missed"), True), (BadInput("taken"), False)])
def test_a_run_that_misses_its_limit_is_tracked_and_one_that_never_began_is_not(
    monkeypatch, capsys, tmp_path, error, tracked
):
    from edgeveil.trainer import train as module
    from edgeveil.trainer.runs import listing

    def fail(*_, **__):
        raise error

    store = Fake()
    monkeypatch.setattr(listing, "store_of", lambda _: store)
    monkeypatch.setattr(module, "train", fail)
    code, _ = train(monkeypatch, capsys, "--out", tmp_path / "run", "--track", "mlflow:any")
    assert code == error.exit_code
    assert store.added == ([tmp_path / "run"] if tracked else [])
