"""What is installed: one name, edgeveil, with all of the four roots and nothing else of the checkout."""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tomllib

from edgeveil import __version__, edge_runtime
from tests.support import bundles
from tests.support.checkout import ROOT, docs_tool

ROOTS = ("trainer", "models", "devices", "edge_runtime")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")
OFFLINE = ("--no-deps", "--no-build-isolation", "--no-index")
MINE = "WHOSE = 'mine'\n"


def said(*command, cwd, path=""):
    """What a command prints. ``path`` is searched for modules first; nothing else of the checkout is."""
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(path)}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def installed_name(path):
    """Where a file of the checkout lies in the wheel."""
    inner = path.relative_to(ROOT)
    return f"edgeveil/{inner.relative_to('trainer/api') if inner.parts[:2] == ('trainer', 'api') else inner}"


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy of what a wheel is built from: building leaves files behind."""
    folder = tmp_path_factory.mktemp("source")
    for root in ROOTS:
        shutil.copytree(ROOT / root, folder / root, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    said(*PIP, "wheel", *OFFLINE, "--wheel-dir", str(out), str(source), cwd=out)
    (made,) = out.glob("*.whl")
    return made


@pytest.fixture
def clean(tmp_path):
    """A folder of a user's own, with modules that are called as our roots are."""
    for root in ROOTS:
        (tmp_path / "work" / root).mkdir(parents=True)
        (tmp_path / "work" / root / "__init__.py").write_text(MINE)
    return tmp_path / "work"


@pytest.fixture
def python(tmp_path):
    """A virtual environment that has what ours has, but not the project."""
    said(sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv"), cwd=tmp_path)
    made = tmp_path / "venv/bin/python"
    site = said(str(made), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip()
    # Of a folder that a .pth names no .pth is read: the project's own editable install is not seen.
    Path(site, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return made


def check_installed(python, clean):
    """The commands and the imports of an installed project, beside a user's own modules."""
    each = (f"import {root}, edgeveil.{root} as ours; print({root}.WHOSE, ours.__name__)" for root in ROOTS)
    code = "\n".join(
        [
            "import edgeveil",
            *each,
            "print(edgeveil.load_recipe('digits').name, edgeveil.Perturber.__name__)",
            "import edgeveil.devices.profiles as profiles; print(profiles.load('coral-dev-board').name)",
        ]
    )
    expected = [*(f"mine edgeveil.{root}" for root in ROOTS), "digits-codebook Perturber", "coral-dev-board"]
    assert said(str(python), "-c", code, cwd=clean).splitlines() == expected
    for command in ("edgeveil", "edgeveil-edge"):
        assert said(str(python.parent / command), "--version", cwd=clean) == f"{command} {__version__}\n"


def test_the_wheel_holds_all_of_the_roots_under_one_name_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    ours = (path for root in ROOTS for path in (ROOT / root).rglob("*") if path.is_file())
    assert held == {installed_name(path) for path in ours if "__pycache__" not in path.parts}
    assert {"edgeveil/__init__.py", "edgeveil/py.typed", "edgeveil/trainer/recipe/library/mnist-codebook.toml"} <= held


def test_the_wheel_says_its_version_and_licence(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA"))
        assert any(name.endswith("/licenses/LICENSE") for name in archive.namelist())
    assert f"\nVersion: {__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata


def test_the_version_is_the_same_everywhere():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == edge_runtime.__version__
    assert re.search(rf"^## .*{re.escape(__version__)}", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_a_wheel_installs_beside_a_users_own_modules(wheel, clean, python):
    said(*PIP, "--python", str(python), "install", "--no-compile", *OFFLINE, str(wheel), cwd=clean)
    check_installed(python, clean)


@pytest.mark.nightly  # by day the wheel; these tests themselves run beside an editable install
def test_an_editable_install_works_beside_a_users_own_modules(source, clean, python):
    said(*PIP, "--python", str(python), "install", "--no-compile", *OFFLINE, "--editable", str(source), cwd=clean)
    check_installed(python, clean)
    where = said(str(python), "-c", "import edgeveil.models as m; print(m.__file__)", cwd=clean)
    assert Path(where.strip()) == source / "models/__init__.py"


def test_the_bare_wheel_runs_on_a_board_and_says_what_the_workstation_lacks(wheel, clean, tmp_path):
    """What ``pip install edgeveil`` gives: the wheel, and numpy alone."""
    said(sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv"), cwd=tmp_path)
    python, programs = tmp_path / "venv/bin/python", tmp_path / "venv/bin"
    site = said(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip()
    for name in ("numpy", "numpy.libs"):
        Path(site, name).symlink_to(Path(sysconfig.get_path("purelib"), name))
    said(*PIP, "--python", str(python), "install", "--no-compile", *OFFLINE, str(wheel), cwd=clean)
    done = subprocess.run([programs / "edgeveil", "--help"], cwd=clean, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: typer is not installed, which edgeveil, the workstation's command, needs. On CPython 3.11 to 3.13, "
        "run: pip install 'edgeveil[trainer]'. A board needs edgeveil-edge alone.\n"
    )
    made = bundles.make_bundle(tmp_path)
    np.savez(tmp_path / "in.npz", x=np.zeros((3, 4), np.uint8))
    words = ["run", str(made.path), "--trust", str(made.trust), "--source", f"npz:{tmp_path}/in.npz"]
    said(str(programs / "edgeveil-edge"), *words, "--sink", f"npz:{tmp_path}/out.npz", cwd=clean)
    with np.load(tmp_path / "out.npz") as out:
        assert out["label"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("root", ROOTS)
def test_a_root_under_its_old_name_says_its_new_one(root):
    done = subprocess.run([sys.executable, "-c", f"import {root}"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: {root} is imported as edgeveil.{root} since 0.2; CHANGELOG.md lists where each module moved"
    )


def test_the_wheel_is_one_that_an_index_takes(wheel):
    for tool, words in (("twine", ("check", "--strict")), ("check-wheel-contents", ())):
        done = subprocess.run([docs_tool(tool), *words, str(wheel)], cwd=wheel.parent, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


# The container images: every step names what is there.


def steps():
    """(instruction, rest) of each step of the Containerfile, on one line."""
    text = (ROOT / "containers/Containerfile").read_text().replace("\\\n", " ")
    lines = (line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#"))
    return [(name, " ".join(rest.split())) for name, rest in lines]


def ignored(name):
    """Whether .dockerignore, which names what is let through, leaves it out."""
    through = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    return not any(name == one or name.startswith(f"{one}/") for one in through)


def test_every_step_of_the_containers_names_what_is_there():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    stages, bases, copied, started = {"python:3.11-slim-bookworm"}, [], [], []
    for name, rest in steps():
        if name == "FROM":
            base, _, stage = rest.partition(" AS ")
            assert base in stages
            stages.add(stage)
            bases.append(stage)
        elif name == "COPY" and not rest.startswith("--from="):
            copied += rest.split()[:-1]
        elif name == "ENTRYPOINT":
            started += json.loads(rest)
        elif name == "RUN":
            asked = [Path(one).name for one in re.findall(r"--requirement (\S+)", rest)]
            assert all("--hash=" in (ROOT / "requirements" / one).read_text() for one in asked), rest
            assert "install" not in rest or rest.count("pip install") == rest.count("--require-hashes") + rest.count(
                "--no-index /tmp/wheel"
            )
    assert bases == ["wheel", "edge", "trainer", "trainer-gpu"]
    assert [one for one in copied if ignored(one) or not (ROOT / one).exists()] == []
    assert set(ROOTS) <= set(copied)
    assert set(started) == set(scripts)
    page, workflow = (ROOT / "docs/how-to/containers.md").read_text(), (ROOT / ".github/workflows/ci.yml").read_text()
    assert all(f"`{stage}`" in page and stage in workflow for stage in bases[1:])


def test_the_workflow_calls_what_ci_runs():
    assert "run: bash .ci/run\n" in (ROOT / ".github/workflows/ci.yml").read_text()
