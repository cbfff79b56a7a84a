"""The edge runtime as one file, ``edgeveil-edge.pyz``: runs on any Python from 3.6 with numpy."""

from __future__ import annotations

import functools
import io
import threading
import zipfile
from pathlib import Path

from edgeveil import edge_runtime
from edgeveil.devices.lean_source import lean
from edgeveil.edge_runtime.storage.atomic import write_atomic

_SHEBANG = b"#!/usr/bin/env python3\n"
# Flashing unpacks wheels into ROOT/site; this file is ROOT/releases/SHA/*.pyz.
_MAIN = b"""import os
import sys

# The release's own path, not the link to it: later imports must come from the same release.
sys.path[0] = os.path.realpath(sys.path[0])
site = os.path.join(os.path.dirname(os.path.realpath(sys.argv[0])), "..", "..", "site")
if os.path.isdir(site):
    sys.path.insert(0, os.path.realpath(site))

from edgeveil.edge_runtime.cli.main import main

sys.exit(main())
"""
# Runs before any other module of ours is looked for, in every process.
_INIT = b"""import os
import sys
import zipimport


class Importer(zipimport.zipimporter):
    # From Python 3.10 on, zipimport compiles a module twice: for its file's name, and to run it.

    def get_filename(self, fullname):
        ending = os.sep + "__init__.py" if self.is_package(fullname) else ".py"
        return os.path.join(self.archive, *fullname.split(".")) + ending


def importer(path):
    if not path.startswith(os.path.dirname(__file__)):
        raise ImportError(path)
    return Importer(path)


sys.path_hooks.insert(0, importer)
"""


_one = threading.Lock()  # a fleet flashes in threads, and CPython 3.11 fails where two of them parse at a time


def zipapp_bytes() -> bytes:
    """The zipapp: ``edge_runtime`` without what only people read, sorted and undated: equal sources give equal bytes.

    Sources, for any Python; not compressed, for the bytes would depend on the version of zlib.
    """
    with _one:
        return _built()


@functools.cache
def _built() -> bytes:
    root = Path(edge_runtime.__file__).parent
    sources = {f"edgeveil/edge_runtime/{path.relative_to(root).as_posix()}": path for path in root.rglob("*.py")}
    contents = {"__main__.py": _MAIN, "edgeveil/__init__.py": _INIT}
    contents |= {name: lean(path.read_bytes()) for name, path in sources.items()}
    file = io.BytesIO()
    file.write(_SHEBANG)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(contents):
            entry = zipfile.ZipInfo(name)
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, contents[name])
    return file.getvalue()


def build_zipapp(out: Path) -> Path:
    """Write the zipapp to ``out``, executable; returns ``out``. Raises ``DeviceFailed`` where it cannot be written."""
    write_atomic(out, zipapp_bytes(), mode=0o777)
    return out
