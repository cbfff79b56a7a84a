"""What a command loads: help next to nothing, and TensorFlow only where something is trained, exported or audited."""

import json
import sys

import pytest

from edgeveil.edge_runtime.util.atomic import write_atomic
from tests.support import small_runs, tiny_models
from tests.support.checkout import ROOT
from tests.support.output import packages_after
from tests.trainer.cli.test_main import commands

HEAVY = {"pydantic", "numpy", "rich", "scipy", "sklearn", "cryptography", "paramiko", "onnx", "tensorflow", "keras"}
FLEET = '[[board]]\nname = "a"\ntarget = "ssh://pi@127.0.0.1:1"\nprofile = "raspberry-pi-cpu"\ntrust = "root"\n'


def test_help_loads_nothing_heavy(tmp_path):
    for words in (["--help"], ["--version"]):
        ((code, packages),) = packages_after([words], tmp_path)
        assert (code, packages & HEAVY) == (0, set()), words


@pytest.mark.parametrize("share", [8, pytest.param(1, marks=pytest.mark.nightly)])  # of the commands: an eighth, or all
def test_help_of_a_command_loads_what_reads_options(share, tmp_path):
    every = [[*name.split(), "--help"] for name, _ in commands()][::share]
    for words, (code, packages) in zip(every, packages_after(every, tmp_path), strict=True):
        # Typer reads options with pydantic.
        assert (code, packages & HEAVY - {"pydantic"}) == (0, set()), words


@pytest.fixture
def folder(tmp_path):
    """A bundle with its key, two networks, data, a run, and a fleet that does not answer."""
    made = tiny_models.write(tmp_path)
    small_runs.write_npz(tmp_path)
    for name in ("tflite-int8", "onnx-float32"):
        (entry,) = (model["artefacts"][name] for model in made.manifest["models"].values())
        write_atomic(str(tmp_path / f"net-{name.split('-')[1]}.{name.split('-')[0]}"), made.members[entry["file"]])
    (tmp_path / "runs/one").mkdir(parents=True)
    (tmp_path / "runs/one/recipe.toml").write_text('[perturber]\nkind = "prgan"\n')
    (tmp_path / "runs/one/run.json").write_text(json.dumps({"recipe": "mine", "budget": "full", "state": "training"}))
    (tmp_path / "fleet.toml").write_text(FLEET)
    return made


def test_what_does_not_train_export_or_audit_does_not_load_tensorflow(folder):
    bundle = [folder.path, "--trust", folder.trust]
    (public,) = folder.trust.glob("*.pub")
    lines = [
        ["data", "inspect", "npz:small.npz"],
        ["recipe", "list"],
        ["recipe", "show", "digits"],
        ["recipe", "new", "npz:small.npz", "--out", "new.toml", "--no-trial"],
        ["run", "list"],
        ["run", "show", "runs/one"],
        ["board", "list"],
        ["board", "show", "jetson-nano"],
        ["bundle", "inspect", *bundle],
        ["bundle", "verify", *bundle],
        ["key", "new", "keys", "--no-passphrase"],
        ["trust", "init", "root", "--key", public, "--no-passphrase"],
        ["trust", "show", "root"],
        ["update", "runtime", "--key", "root/signing.key", "--out", "edge.runtime"],
        ["bundle", "cost", "net-float32.onnx"],
        ["bundle", "cost", *bundle],
        ["board", "estimate", *bundle, "--for", "raspberry-pi-cpu"],
        ["bench", *bundle, "--against", "net-int8.tflite", "--rounds", "3"],
        ["doctor"],
    ]
    offline = [["fleet", "fleet.toml", "status"], ["board", "status", "--on", "ssh://pi@127.0.0.1:1"]]
    found = packages_after([*lines, *offline], folder.path.parent, EDGEVEIL_BENCH_PYTHON=sys.executable)
    for words, (code, packages) in zip([*lines, *offline], found, strict=True):
        assert code == (4 if words in offline else 0), words
        assert not packages & {"tensorflow", "keras"}, words


def test_the_recorded_time_of_help_is_below_the_limit():
    recorded = json.loads((ROOT / "docs/results/command_time.json").read_text())
    assert recorded["now_wall_s"] <= recorded["limit_s"] == 0.35
    assert recorded["ratio_wall_s"] < 0.6
