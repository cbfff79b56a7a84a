"""The Python API: every example in its docstrings runs, one after the other, and an import loads nothing heavy."""

import ast
import contextlib
import doctest
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import nbclient
import nbformat
import numpy as np
import pytest
from sklearn.base import BaseEstimator

import edgeveil
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.sealing.seal import keygen, seal
from tests.support import once
from tests.support.checkout import ROOT
from tests.support.trial import no_trial, short_audit

CALLS = ("load_recipe", "new_recipe", "train", "export", "audit", "open_bundle", "wrap")
RUNTIME = ("PerturbedFrame", "Perturber", "RawFrame", "EdgeVeilError", "FrameDropped")
ERRORS = ("BadInput", "BundleRefused", "DeviceFailed", "LimitNotMet", "PrivacyStop")
ESTIMATORS = (
    "DPSGDClassifier",
    "FunctionalLinearRegression",
    "FunctionalLogisticRegression",
    "PATEClassifier",
    "PrivateHuberSVM",
    "PrivateLasso",
    "PrivateLogisticRegression",
)
SOURCE = ROOT / "trainer" / "api" / "__init__.py"


def example(name):
    """The one example of a call (of the module itself: "edgeveil"), as doctest found it."""
    found = {test.name: test for test in doctest.DocTestFinder(recurse=True).find(edgeveil, "edgeveil")}
    return found["edgeveil" if name == "edgeveil" else f"edgeveil.{name}"]


def run_example(name, **known):
    test = example(name)
    assert test.examples, name
    test.globs.update(known)
    said = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append)
    assert result.failed == 0, "".join(said)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder in which the examples run in order: each finds what those before it left there."""
    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


def test_every_public_name_is_there_and_every_call_has_an_example():
    assert set(edgeveil.__all__) == {*CALLS, *RUNTIME, *ERRORS, *ESTIMATORS, "__version__"}
    assert set(edgeveil.__all__) <= set(dir(edgeveil))
    assert all(callable(getattr(edgeveil, name)) and example(name).examples for name in CALLS)
    assert all(issubclass(getattr(edgeveil, name), edgeveil.EdgeVeilError) for name in ERRORS)
    with pytest.raises(AttributeError, match="module 'edgeveil' has no attribute 'Perturbator'"):
        _ = edgeveil.Perturbator


def test_the_example_of_private_estimators_runs_and_each_is_one(capsys):
    page = (ROOT / "docs/get-started/python-api.md").read_text().partition("## Private estimators")[2]
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(400, 5))
    known = {"x": x, "y": (x[:, 0] > 0.5).astype(int)}
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], known)  # noqa: S102 - ours
    assert capsys.readouterr().out.startswith("Replacing one row by any other of the training data changes the odds of")
    assert known["model"].predict(x).shape == (400,)
    assert all(issubclass(getattr(edgeveil, name), BaseEstimator) and name in page for name in ESTIMATORS)


def test_the_examples_of_recipes_run(workplace):
    run_example("load_recipe")
    run_example("new_recipe", numpy=np)


class Frame:
    """A data frame as another package has it."""

    def to_csv(self, path, index):
        rows = [f"{i % 7},{i % 2},{i // 2 % 2}" for i in range(400)]
        path.write_text("\n".join(["size,keep,hide", *rows]) + "\n")


def test_a_data_frame_is_taken_and_nothing_is_overwritten(tmp_path):
    out = tmp_path / "mine.toml"
    found = edgeveil.new_recipe(Frame(), out, target="keep", sensitive="hide", kind="label-only")
    assert repr(found) == "<Recipe mine-label-only: label-only keeps keep, hides hide>"
    with pytest.raises(BadInput, match=r"mine\.toml exists and is not overwritten"):
        edgeveil.new_recipe({"x": np.zeros((9, 2))}, out)
    assert not (tmp_path / "mine.npz").exists()


def test_data_that_are_refused_leave_nothing_that_is_in_the_way_of_better_ones(tmp_path):
    x, y = np.zeros((9, 2)), np.arange(9) % 2
    for _ in range(2):
        with pytest.raises(BadInput, match=r"the array `z` is missing"):
            edgeveil.new_recipe({"x": x, "y": y}, tmp_path / "mine.toml")
        assert list(tmp_path.iterdir()) == []
    with pytest.raises(BadInput, match=r"Arrays by name, a data frame with to_csv, .* got builtins\.list\. Write it"):
        edgeveil.new_recipe([x, y], tmp_path / "mine.toml")


def test_an_exception_of_a_frame_is_a_sentence_for_every_reason():
    for reason in ("dtype", "shape", "not-finite", "code-range"):
        assert re.fullmatch(rf"This frame was dropped \({reason}\): .+\.", str(edgeveil.FrameDropped(reason)))


def test_the_examples_of_train_export_and_bundles_run(workplace):
    for name in ("train", "export"):
        run_example(name)
    keygen(workplace / "keys", development=True)
    seal(
        workplace / "runs/digits-export",
        workplace / "keys/signing.key",
        workplace / "digits.veil",
        allow_unaudited=True,
    )
    run_example("open_bundle")
    run_example("edgeveil", picture=np.zeros((8, 8, 1), np.uint8))


def test_a_run_and_an_export_are_taken_as_they_were_returned(workplace):
    with pytest.raises(BadInput, match="runs/digits-export exists"):
        edgeveil.export(Run.open(Path("runs/digits")), ["workstation"], "runs/digits-export")
    with pytest.raises(BadInput, match="no-such"):
        edgeveil.audit(ExportFolder.open(Path("runs/digits-export")), artefact="no-such")


def test_what_a_notebook_shows_is_short(workplace):
    assert repr(Run.open(Path("runs/digits"))) == "<Run runs/digits: digits-label-only, finished>"
    assert repr(ExportFolder.open(Path("runs/digits-export"))).startswith("<ExportFolder runs/digits-export: digits-")
    made = (edgeveil.load_recipe("digits"), edgeveil.open_bundle("digits.veil", trust="keys"))
    assert repr(made[0]) == "<Recipe digits-codebook: codebook keeps parity, hides less-than-five>"
    assert re.fullmatch(
        r"<Bundle digits-label-only: \d+ files, \d\.\d MB, not audited, signed by [0-9a-f]{16}\.\.\.>", repr(made[1])
    )
    assert repr(made[1].manifest) == "<Manifest digits-label-only: uint8 (8, 8, 1)>"
    with edgeveil.Perturber.open("digits.veil", trust="keys") as perturber:
        assert repr(perturber) == "<Perturber digits-label-only: tflite-int8 on cpu>"
        with pytest.raises(edgeveil.FrameDropped, match=r"This frame was dropped \(dtype\): its type is not that of"):
            perturber.perturb(edgeveil.RawFrame(np.zeros((8, 8, 1)), index=0))


@pytest.mark.nightly  # by day the notebook and cli/test_bring_your_own.py
@pytest.mark.slow
def test_the_example_of_audit_runs(workplace, monkeypatch):
    short_audit.shorten(monkeypatch, families=short_audit.FEW)
    if not (workplace / "runs/digits-export").is_dir():
        for name in ("train", "export"):
            run_example(name)
    run_example("audit")


def test_a_recipe_may_be_named_and_what_is_wrong_is_one_sentence(tmp_path):
    with pytest.raises(BadInput, match=r"`perturber\.distance`: expected"):
        edgeveil.load_recipe("digits-prgan", {"perturber.distance": -1.0})
    with pytest.raises(BadInput, match='There is no recipe "digit" '):
        edgeveil.train("digit", tmp_path / "run")
    with pytest.raises(BadInput, match="A run was expected"):
        edgeveil.export(tmp_path, "workstation", tmp_path / "export")
    with pytest.raises(BadInput, match=r"An export folder or a \.veil bundle was expected"):
        edgeveil.audit(tmp_path / "none")


def in_a_kernel(notebook):
    """What its cells show, in Jupyter."""
    outputs = [one for cell in nbclient.NotebookClient(notebook).execute().cells for one in cell.get("outputs", [])]
    return [one.get("text") or one["data"]["text/plain"] for one in outputs if one.get("name") != "stderr"]


def here(notebook):
    """The same in this process: what is printed, and the last expression of each cell."""
    known, shown = {}, []
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        *body, last = ast.parse(cell.source).body
        body, last = (body, last.value) if isinstance(last, ast.Expr) else ([*body, last], ast.Constant(None))
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(ast.Module(body, []), "cell", "exec"), known)  # noqa: S102 - ours
            value = eval(compile(ast.fix_missing_locations(ast.Expression(last)), "cell", "eval"), known)  # noqa: S307 - ours
        shown += [text for text in (printed.getvalue(), "" if value is None else repr(value)) if text]
    return shown


@pytest.mark.parametrize("shown_by", [here, pytest.param(in_a_kernel, marks=pytest.mark.nightly)])
def test_the_notebook_runs_on_what_the_demo_left(shown_by, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    no_trial.shorten(monkeypatch)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/demo").symlink_to(once.demo()[0])
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    notebook = nbformat.read(ROOT / "docs/get-started/notebook.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    shown = shown_by(notebook)
    assert max(map(len, shown)) < 4000
    assert any(re.match(r"<PerturbedFrame 0: \w+ uint8 \(8, 8, 1\)", text) for text in shown)
    assert shown[-1] == "<Recipe mine-label-only: label-only keeps y, hides z>"
    assert any(text.startswith("This frame was dropped (dtype)") for text in shown)


def test_an_import_loads_nothing_heavy():
    code = "import json, sys, edgeveil; dir(edgeveil); print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout)
    assert {name for name in loaded if name.startswith("edgeveil")} == {"edgeveil", "edgeveil.edge_runtime"}
    assert not {"numpy", "pydantic", "typer", "keras", "tensorflow"} & set(loaded)


def test_it_can_be_parsed_on_python_3_6():
    ast.parse(SOURCE.read_text(), feature_version=(3, 6))
