"""A training is followed by MLflow at any URI and by W&B; neither can fail it, and an address is never a folder."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType, SimpleNamespace

import pytest

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, LimitNotMet
from edgeveil.trainer.cli import main
from edgeveil.trainer.runs import tracking
from edgeveil.trainer.runs.tracking import Tracker, begin, tracked, tracker, without_password

RECIPE = '[perturber]\nkind = "prgan"\nalpha = 3.0\n[budget]\nepochs = 2\n'
FACTS = {
    **{"recipe": "mine", "budget": "quick", "seed": 7, "state": "finished", "limit_met": False},
    **{"wall_time_s": {"perturber": 3.5}, "validation": {"target_accuracy": 0.953, "reader": "D_y"}},
}
WITHOUT = "which is not installed: pip install 'edgeveil[{0}]'"


class Folder:
    """What tracking sees of a ``Run``."""

    def __init__(self, folder):
        self.folder, self.facts, self.follower = folder, dict(FACTS), None

    def record(self, **facts):
        self.facts.update(facts)

    def epochs(self):
        for step in (1, 2):
            self.follower("target", step, 1.7e9 + step, {"loss": 1 / step, "validation_accuracy": 0.5 + step / 10})


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / "run.json").write_text(json.dumps(FACTS))
    (folder / "metrics.jsonl").write_text("{}\n")
    return Folder(folder)


def follow(run, text, error=None):
    """Track two epochs of ``run``, which then end or raise."""
    follower = tracker(text)
    begin(run, follower)
    with tracked(run, follower):
        run.epochs()
        if error is not None:
            raise error
    return follower


class Client:
    """MLflow's client, which remembers what it was given."""

    def __init__(self, *, tracking_uri):
        self.uri, self.done = tracking_uri, []
        self.fails = 0
        Client.last = self

    def get_experiment_by_name(self, name):
        return SimpleNamespace(experiment_id="7") if name == "edgeveil" else None

    def create_run(self, experiment, *, run_name):
        self.done.append(("create", experiment, run_name))
        return SimpleNamespace(info=SimpleNamespace(run_id="abc"))

    def update_run(self, run_id, *, status):
        self.done.append(("go on", run_id, status))

    def log_batch(self, run_id, **entities):
        self.done.append(("batch", run_id, entities))
        if self.fails and "metrics" in entities:
            self.fails += 1
            raise OSError("connection to https://me:secret@there refused")

    def log_artifact(self, run_id, path):
        self.done.append(("file", run_id, path.rpartition("/")[2]))

    def set_terminated(self, run_id, *, status):
        self.done.append(("end", run_id, status))


@pytest.fixture
def mlflow(monkeypatch):
    module, entities = ModuleType("mlflow"), ModuleType("mlflow.entities")
    module.MlflowClient = Client
    for name in ("Param", "Metric", "RunTag"):
        setattr(entities, name, lambda *values: values)
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)


ADDRESSES = [
    "http://127.0.0.1:5000",
    "https://mlflow.example/team",
    "sqlite:///mlflow.db",
    "databricks",
    "databricks://profile",
    "file:///tmp/mlruns",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_is_passed_on_as_it_is_and_no_folder_is_made_of_it(mlflow, monkeypatch, tmp_path, address):
    monkeypatch.chdir(tmp_path)
    assert tracker(f"mlflow:{address}").title == f"mlflow:{address}"
    assert Client.last.uri == address
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["localhost:5000", "http:/there", "mlflow.example:443/x", "http:there"])
def test_an_address_without_its_scheme_is_refused_and_no_folder(mlflow, monkeypatch, tmp_path, address):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=r"is an address without its scheme. Write http://HOST:PORT"):
        tracker(f"mlflow:{address}")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_becomes_the_address_of_a_folder(mlflow, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("mlruns", "./localhost:5000", "a folder"):
        tracker(f"mlflow:{name}")
        assert Client.last.uri == (tmp_path / name).as_uri()


def test_mlflow_has_each_epoch_as_it_ends_and_then_figures_and_files(mlflow, run):
    follower = tracker("mlflow:http://there")
    begin(run, follower)
    client = Client.last
    assert client.done[0] == ("create", "7", "one")
    assert ("perturber.alpha", "3.0") in client.done[1][2]["params"]
    assert ("run.seed", "7") in client.done[1][2]["params"]
    with tracked(run, follower):
        before = len(client.done)
        run.follower("target", 1, 1.7e9, {"loss": 1.0})
        assert client.done[before:] == [("batch", "abc", {"metrics": [("target/loss", 1.0, 1_700_000_000_000, 1)]})]
    final = client.done[-5][2]
    assert ("final/target_accuracy", 0.953, 0, 0) in final["metrics"]
    assert ("wall_time_s/perturber", 3.5, 0, 0) in final["metrics"]
    assert ("edgeveil.limit_met", "False") in final["tags"]
    assert [one[2] for one in client.done[-4:-1]] == ["recipe.toml", "run.json", "metrics.jsonl"]
    assert client.done[-1] == ("end", "abc", "FINISHED")
    assert run.facts["tracked"] == {"mlflow:http://there": "abc"}
    assert run.follower is None


@pytest.mark.parametrize(
    ("error", "how"),
    [(LimitNotMet("missed"), "FINISHED"), (KeyboardInterrupt(), "KILLED"), (DeviceFailed("disk"), "FAILED")],
)
def test_how_a_training_ended_is_how_its_run_ends_there(mlflow, run, error, how):
    with pytest.raises(type(error)):
        follow(run, "mlflow:http://there", error)
    assert Client.last.done[-1] == ("end", "abc", how)


def test_a_resumed_training_goes_on_with_its_run(mlflow, run):
    follow(run, "mlflow:http://there")
    follow(run, "mlflow:http://there")
    assert Client.last.done[0] == ("go on", "abc", "RUNNING")
    follow(run, "mlflow:http://elsewhere")
    assert Client.last.done[0][0] == "create"
    assert sorted(run.facts["tracked"]) == ["mlflow:http://elsewhere", "mlflow:http://there"]


def test_a_tracker_that_fails_is_named_once_and_the_training_goes_on(mlflow, run, capsys):
    follower = tracker("mlflow:https://me:secret@there")
    begin(run, follower)
    Client.last.fails = 1
    with tracked(run, follower):
        run.epochs()
    assert Client.last.fails == 2
    said = capsys.readouterr().err
    assert said.count("no longer takes figures") == 1
    assert "mlflow:https://there" in said
    assert "secret" not in said + json.dumps(run.facts)


def test_what_refuses_a_run_is_one_sentence_before_training(mlflow, run, monkeypatch):
    def refuse(self, name):
        raise RuntimeError("403 for https://me:secret@there/api\nat length")

    monkeypatch.setattr(Client, "get_experiment_by_name", refuse)
    with pytest.raises(BadInput, match=r"mlflow:https://there does not: 403 for https://there/api at length\. Correct"):
        tracker("mlflow:https://me:secret@there")


class Wandb(ModuleType):
    """W&B's package, which remembers what it was given."""

    def __init__(self):
        super().__init__("wandb")
        self.done, self.id, self.summary = [], "w1", {}

    class Settings(SimpleNamespace):
        model_fields = ("console", "disable_git", "disable_code", "save_code", "silent", "x_disable_meta")

    class Artifact(SimpleNamespace):
        def __init__(self, name, type):
            super().__init__(name=name, type=type, files=[])

        def add_file(self, path):
            self.files.append(path.rpartition("/")[2])

    def init(self, **facts):
        self.done.append(("init", facts))
        return self

    def define_metric(self, name, *, step_metric):
        self.done.append(("define", name, step_metric))

    def log(self, values):
        self.done.append(("log", values))

    def log_artifact(self, artefact):
        self.done.append(("files", artefact.files))

    def finish(self, *, exit_code):
        self.done.append(("finish", exit_code))


def test_wandb_has_the_same_and_nothing_of_the_machine(run, monkeypatch):
    module = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", module)
    follow(run, "wandb:team/veil")
    facts = module.done[0][1]
    assert (facts["entity"], facts["project"], facts["name"], facts["id"]) == ("team", "veil", "one", None)
    assert facts["config"]["perturber.alpha"] == "3.0"
    assert facts["dir"] == str(run.folder)
    assert facts["settings"].disable_git
    assert facts["settings"].disable_code
    assert facts["settings"].x_disable_meta
    assert facts["settings"].console == "off"
    assert ("define", "target/*", "target/epoch") in module.done
    logged = [values for kind, values in (one[:2] for one in module.done) if kind == "log"]
    assert [one["target/epoch"] for one in logged] == [1, 2]
    assert logged[1]["target/loss"] == 0.5
    assert module.summary["final/target_accuracy"] == 0.953
    assert module.done[-2:] == [("files", ["recipe.toml", "run.json", "metrics.jsonl"]), ("finish", 0)]
    follow(run, "wandb:team/veil")
    assert [one[1]["id"] for one in module.done if one[0] == "init"] == [None, "w1"]


def test_a_server_of_wandb_is_named_by_its_own_variable(monkeypatch):
    with pytest.raises(BadInput, match=r"wandb:PROJECT or wandb:ENTITY/PROJECT was expected.*WANDB_BASE_URL"):
        tracker("wandb:https://there/x")


@pytest.mark.parametrize(("text", "package"), [("mlflow:there", "mlflow-skinny"), ("wandb:x", "wandb")])
def test_without_the_package_it_is_named_before_anything_is_trained(monkeypatch, tmp_path, text, package):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, text.partition(":")[0], None)
    with pytest.raises(BadInput, match="pip install") as refused:
        tracker(text)
    assert f"needs the package {package}, {WITHOUT.format(text.partition(':')[0])}" in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["mlflow", "mlflow:", "tensorboard:x", "mlruns", "https://me:secret@there"])
def test_another_kind_of_tracker_is_refused(text):
    with pytest.raises(
        BadInput, match="mlflow:URI or mlflow:FOLDER or wandb:PROJECT or wandb:ENTITY/PROJECT was"
    ) as no:
        tracker(text)
    assert "secret" not in str(no.value)
    assert tracker("") is tracker(None) is None


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("https://me:pass@there:5000/x?y=1", "https://there:5000/x?y=1"),
        ("https://there/a@b", "https://there/a@b"),
        ("postgresql://me@there/db", "postgresql://there/db"),
        ("mlruns", "mlruns"),
    ],
)
def test_a_password_is_left_out(text, clean):
    assert without_password(text) == clean


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


def test_the_old_option_names_the_tracker_too(monkeypatch, capsys, tmp_path):
    from edgeveil.trainer import train as module

    class Told(Tracker):
        name, form, package = "told", "told:X", "told"

    given = []

    def end(*_, follower, **__):
        given.append(follower)
        raise BadInput("taken")

    monkeypatch.setitem(tracking.TRACKERS, "told", Told)
    monkeypatch.setattr(module, "train", end)
    train(monkeypatch, capsys, "--out", tmp_path / "run", "--track", "told:any")
    assert [one.title for one in given] == ["told:any"]


class Server(BaseHTTPRequestHandler):
    """What a run needs of MLflow's REST interface, as its clients use it."""

    def answer(self, document):
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.server.asked.append(self.path)
        info = {"run_id": "r1", "experiment_id": "3", "artifact_uri": self.server.artefacts, "status": "RUNNING"}
        known = {"experiment": {"experiment_id": "3", "name": "edgeveil"}}
        self.answer({"run": {"info": info, "data": {}}} if "runs/get" in self.path else known)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or "{}")
        self.server.asked.append((self.path.rpartition("/")[2], body))
        info = {"run_id": "r1", "experiment_id": "3", "artifact_uri": self.server.artefacts, "status": "RUNNING"}
        self.answer({"run": {"info": info, "data": {}}, "run_info": info})

    def log_message(self, *_):
        pass


@pytest.mark.nightly  # by day a folder, below
def test_mlflows_own_client_follows_at_an_http_address(run, tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason="mlflow-skinny is not installed: pip install 'edgeveil[mlflow]'")
    monkeypatch.chdir(tmp_path)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.asked, server.artefacts = [], (tmp_path / "artefacts").as_uri()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        follow(run, f"mlflow:http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()
    posts = [one for one in server.asked if isinstance(one, tuple)]
    batches = [body for name, body in posts if name == "log-batch"]
    assert [one["metrics"][0]["value"] for one in batches if one.get("metrics")][:2] == [1.0, 0.5]
    assert [body["status"] for name, body in posts if name == "update"][-1] == "FINISHED"
    assert sorted(one.name for one in (tmp_path / "artefacts").iterdir()) == sorted(tracking.FILES)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["artefacts", "runs"]


def test_mlflow_reads_back_from_a_folder_what_it_followed(run, tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="mlflow-skinny is not installed: pip install 'edgeveil[mlflow]'")
    follower = follow(run, f"mlflow:{tmp_path / 'mlruns'}")
    client = mlflow.MlflowClient(tracking_uri=(tmp_path / "mlruns").as_uri())
    found = client.get_run(follower.id)
    assert (found.info.run_name, found.info.status) == ("one", "FINISHED")
    assert found.data.params["perturber.alpha"] == "3.0"
    epochs = client.get_metric_history(follower.id, "target/loss")
    assert [(one.step, one.value) for one in epochs] == [(1, 1.0), (2, 0.5)]
    assert sorted(one.path for one in client.list_artifacts(follower.id)) == sorted(tracking.FILES)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="was expected to take a run"):
        tracker(f"mlflow:{tmp_path / 'file'}")


@pytest.mark.nightly  # by day its arguments, above
def test_wandbs_own_client_writes_a_run_without_a_network(run, monkeypatch):
    pytest.importorskip("wandb", reason="wandb is not installed: pip install 'edgeveil[wandb]'")
    monkeypatch.setenv("WANDB_MODE", "offline")
    follow(run, "wandb:veil")
    assert list((run.folder / "wandb").glob("offline-run-*/*.wandb"))
