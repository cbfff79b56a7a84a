"""The Python API: every example in its docstrings runs, one after the other, and an import loads nothing heavy."""

import ast
import doctest
import json
import subprocess
import sys

import numpy as np
import pytest

import edgeveil
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.sealing.seal import keygen, seal
from tests.support.checkout import ROOT
from tests.support.trial import short_audit

CALLS = ("load_recipe", "train", "export", "audit", "open_bundle")
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
    assert set(edgeveil.__all__) == {*CALLS, "Perturber", "__version__"}
    assert set(edgeveil.__all__) <= set(dir(edgeveil))
    assert all(callable(getattr(edgeveil, name)) and example(name).examples for name in CALLS)
    with pytest.raises(AttributeError, match="module 'edgeveil' has no attribute 'Perturbator'"):
        _ = edgeveil.Perturbator


def test_the_example_of_load_recipe_runs():
    run_example("load_recipe")


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


def test_an_import_loads_nothing_heavy():
    code = "import json, sys, edgeveil; dir(edgeveil); print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout)
    assert {name for name in loaded if name.startswith("edgeveil")} == {"edgeveil", "edgeveil.edge_runtime"}
    assert not {"numpy", "pydantic", "typer", "keras", "tensorflow"} & set(loaded)


def test_it_can_be_parsed_on_python_3_6():
    ast.parse(SOURCE.read_text(), feature_version=(3, 6))
