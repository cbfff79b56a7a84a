"""The workstation on each CPython that it is for: wheels of its lock by platform, and both ways to install it.

For each Python, in a folder of its own that is removed again: a copy of the checkout, scripts/environment and the quick
demo; the wheel with its trainer extra in a bare environment, and there `edgeveil --version`, `edgeveil doctor` and a
small training. Downloads TensorFlow for each, where pip has it not yet, and takes about 10 minutes a Python and 8 GB of
disk. A missing interpreter is recorded as missing. Ends with 3 where anything failed. Records
docs/results/pythons.json.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime import __version__
from edgeveil.trainer.recipe.schema import Recipe
from scripts import record
from scripts.environments.locked_wheels import LOCK, MUST, PLATFORMS, PYTHONS, wheels
from scripts.environments.pythons import interpreter
from scripts.record import ROOT

RESULT = Path("docs/results/pythons.json")
SAY_VERSIONS = """
import importlib.metadata, json, platform
names = "tensorflow-cpu", "keras", "ai-edge-litert", "onnx", "onnxruntime", "tf2onnx", "numpy", "scipy", "scikit-learn"
print(json.dumps({"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in names}}))
"""


def checkout(folder: Path) -> Path:
    """A copy of the files of this checkout, as they are now."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def steps(commands: Sequence[tuple[str, Sequence[str | Path]]], folder: Path, python: str) -> list[dict[str, Any]]:
    """What each command came to, run in ``folder``, until one fails; what came after that one is left out."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"EDGEVEIL_PYTHON": python, "TF_CPP_MIN_LOG_LEVEL": "3"}
    outcomes = []
    for name, words in commands:
        began = time.monotonic()
        command = [str(word) for word in words]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        outcomes.append({"step": name, "exit_code": done.returncode, "seconds": round(time.monotonic() - began)})
        print(f"{name}: {outcomes[-1]['exit_code']}, {outcomes[-1]['seconds']} s", file=sys.stderr)
        if done.returncode:
            outcomes[-1]["said"] = (done.stderr or done.stdout)[-2000:]
            break
    return outcomes


def versions(python: Path) -> dict[str, str]:
    """Of that environment: its Python, and the packages that numbers depend on; nothing where they are not there."""
    done = subprocess.run([str(python), "-c", SAY_VERSIONS], capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def from_lock(python: str, folder: Path) -> dict[str, Any]:
    """scripts/environment and the quick demo, in a copy of the checkout."""
    copy = checkout(folder / "checkout")
    commands = [("scripts/environment", ["scripts/environment"]), ("scripts/demo --quick", ["scripts/demo", "--quick"])]
    outcomes = steps(commands, copy, python)
    return {"way": "lock", "steps": outcomes, "versions": versions(copy / ".venv/bin/python")}


def from_wheel(python: str, folder: Path) -> dict[str, Any]:
    """The wheel with its trainer extra, from the index, and the first commands of somebody who installed it."""
    copy, bin_ = checkout(folder / "source"), folder / "venv/bin"
    (folder / "work").mkdir()
    recipe = Recipe.text("digits-label-only").replace("classifier_epochs = 90", "classifier_epochs = 9")
    (folder / "work/tiny.toml").write_text(recipe)
    pip = [bin_ / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheel = f"{folder}/edgeveil-{__version__}-py3-none-any.whl[trainer]"
    commands = [
        ("python -m venv", [python, "-m", "venv", folder / "venv"]),
        ("pip wheel", [*pip, "wheel", "--no-deps", "--wheel-dir", folder, copy]),
        ("pip install 'edgeveil[trainer]'", [*pip, "install", wheel]),
        ("edgeveil --version", [bin_ / "edgeveil", "--version"]),
        ("edgeveil doctor", [bin_ / "edgeveil", "doctor"]),
        ("edgeveil train", [bin_ / "edgeveil", "train", "tiny.toml", "--budget", "quick", "--out", "run"]),
    ]
    return {"way": "wheel", "steps": steps(commands, folder / "work", python), "versions": versions(bin_ / "python")}


WAYS: dict[str, Callable[[str, Path], dict[str, Any]]] = {"lock": from_lock, "wheel": from_wheel}


def failed(row: dict[str, Any]) -> bool:
    """Whether a way to install did not end well; a missing interpreter is no failure."""
    return any(step["exit_code"] for step in row["steps"])


def tried(version: str) -> list[dict[str, Any]]:
    """Both ways on that Python."""
    python = interpreter(version)
    rows = []
    for way, install in WAYS.items():
        if python is None:
            rows.append({"asked": version, "way": way, "missing": True, "steps": [], "versions": {}})
            continue
        print(f"Python {version}, from the {way}:", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix=f"edgeveil-{version}-") as folder:
            rows.append({"asked": version, "missing": False, **install(python, Path(folder))})
    return rows


def main() -> int:
    """Ask, try and record."""
    script = record.Script(__file__, __doc__, "--pythons 3.12 3.13", out=RESULT)
    script.add_argument("--pythons", nargs="*", metavar="X.Y", default=list(PYTHONS), help="those to install on")
    options = script.parse_args()
    if unknown := [one for one in options.pythons if one not in PYTHONS]:
        script.error(f"{', '.join(PYTHONS)} were expected; came {', '.join(unknown)}")
    lock = LOCK.read_text()
    table = [wheels(lock, python, platform) for platform in PLATFORMS for python in PYTHONS]
    rows = [row for version in options.pythons for row in tried(version)]
    document = {
        "kind": "pythons",
        "what": __doc__.splitlines()[0],
        "lock_sha256": hashlib.sha256(lock.encode()).hexdigest(),
        "platforms": PLATFORMS,
        "wheels": table,
        "installed": rows,
        **record.here(),
    }
    record.write(options.out, script.made_by(options), document)
    lacking = any(row["without"] for row in table if row["platform"] in MUST)
    return 3 if lacking or any(map(failed, rows)) else 0


if __name__ == "__main__":
    record.run(main)
