"""edgeveil.devices.zipapp: the runtime as one file, the same bytes every time."""

import io
import json
import os
import stat
import subprocess
import sys
import zipfile
import zipimport
from pathlib import Path

import numpy as np
import pytest

from edgeveil import edge_runtime
from edgeveil.devices import zipapp
from edgeveil.devices.zipapp import build_zipapp, lean, zipapp_bytes
from edgeveil.edge_runtime import kinds, registry
from edgeveil.edge_runtime.registry import Kind
from edgeveil.edge_runtime.stages import STAGES
from tests.support import bundles


def test_the_same_sources_give_the_same_bytes(tmp_path):
    first, second = build_zipapp(tmp_path / "a.pyz"), build_zipapp(tmp_path / "b.pyz")
    assert first.read_bytes() == second.read_bytes() == zipapp_bytes()
    root = Path(edge_runtime.__file__).parent
    for path in root.rglob("*.py"):
        os.utime(path)
    zipapp._built.cache_clear()
    assert zipapp_bytes() == first.read_bytes()


def test_it_holds_the_sources_and_nothing_else():
    data = zipapp_bytes()
    assert data.startswith(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        root = Path(edge_runtime.__file__).parent
        wanted = {f"edgeveil/edge_runtime/{path.relative_to(root).as_posix()}" for path in root.rglob("*.py")}
        assert set(archive.namelist()) == wanted | {
            *("__main__.py", "edgeveil/__init__.py", "edgeveil/edge_runtime/kinds.json")
        }
        assert archive.namelist() == sorted(archive.namelist())
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.read("edgeveil/edge_runtime/cli/main.py") == lean((root / "cli/main.py").read_bytes())


def test_its_table_of_kinds_is_what_the_folders_give():
    with zipfile.ZipFile(io.BytesIO(zipapp_bytes())) as archive:
        written = json.loads(archive.read("edgeveil/edge_runtime/kinds.json"))
    folders = [f"edgeveil.edge_runtime.{name}" for name in ("sources", "sinks", "backends", "stages")]
    every = [*kinds.REGISTRIES, STAGES]
    assert sorted(written) == sorted(folders) == sorted(one.package for one in every)
    for one in every:
        assert [Kind(*row[:3], registry._tuples(row[3])) for row in written[one.package]] == list(one.kinds().values())


# A run from file to file, in which a folder of kinds is neither listed nor parsed.
NO_LISTING = """
import ast, pkgutil, sys
sys.path[:1] = [sys.argv[1]]
def refused(*_):
    raise AssertionError("kinds were looked for")
pkgutil.iter_modules = refused
real = ast.parse  # which numpy calls, too, for the header of an array
ast.parse = lambda source, filename="", mode="exec": refused() if mode == "exec" else real(source, filename, mode)
from edgeveil.edge_runtime import registry
registry._classes = registry._entry_points = refused
from edgeveil.edge_runtime.cli.main import main
code = main(sys.argv[2:])
from edgeveil.edge_runtime import kinds
assert kinds.SOURCES["npz"].facts["file"]
sys.exit(code)
"""


def test_a_start_neither_lists_a_folder_nor_parses_a_source(tmp_path):
    app = build_zipapp(tmp_path / "edgeveil-edge.pyz")
    made = bundles.make_bundle(tmp_path / "bundle", example=bundles.numpy_example())
    np.savez(tmp_path / "in.npz", x=np.zeros((4, 4), np.uint8))
    words = ["run", str(made.path), "--trust", str(made.trust), "--source", f"npz:{tmp_path}/in.npz"]
    words += ["--sink", f"npz:{tmp_path}/out.npz"]
    command = [sys.executable, "-c", NO_LISTING, str(app), *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_it_runs_by_itself_from_anywhere(tmp_path):
    app = build_zipapp(tmp_path / "edgeveil-edge.pyz")
    assert app.stat().st_mode & stat.S_IXUSR
    made = bundles.make_bundle(tmp_path / "bundle")
    done = subprocess.run(
        [sys.executable, str(app), "verify", str(made.path), "--trust", str(made.trust)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "self-test passed" in done.stdout


COUNT = """
import collections, sys, zipimport
compiled, compile_source = collections.Counter(), zipimport._compile_source
def counting(path, source):
    compiled[path] += 1
    return compile_source(path, source)
zipimport._compile_source = counting
sys.path[:1] = [sys.argv[1]]
import edgeveil.edge_runtime.cli.main, edgeveil.edge_runtime.releases.runtimes
ours = {name: module.__file__ for name, module in sys.modules.items() if name.startswith("edgeveil.")}
del compiled[sys.argv[1] + "/edgeveil/__init__.py"]
print(len(ours), set(compiled.values()), set(compiled) == set(ours.values()))
"""


@pytest.mark.skipif(not hasattr(zipimport, "_compile_source"), reason="this zipimport is not written in Python")
def test_each_module_is_compiled_once_and_has_its_name(tmp_path):
    app = build_zipapp(tmp_path / "edgeveil-edge.pyz")
    command = [sys.executable, "-c", COUNT, str(app)]
    modules, times, names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(modules) > 20
    assert (times, names) == ("{1}", "True")
