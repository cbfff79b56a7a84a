"""edgeveil.devices.zipapp: the runtime as one file, the same bytes every time."""

import io
import os
import stat
import subprocess
import sys
import zipfile
import zipimport
from pathlib import Path

import pytest

from edgeveil import edge_runtime
from edgeveil.devices import zipapp
from edgeveil.devices.zipapp import build_zipapp, lean, zipapp_bytes
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
        assert set(archive.namelist()) == wanted | {"__main__.py", "edgeveil/__init__.py"}
        assert archive.namelist() == sorted(archive.namelist())
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.read("edgeveil/edge_runtime/cli/main.py") == lean((root / "cli/main.py").read_bytes())


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
