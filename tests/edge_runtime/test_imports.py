"""Importing edge_runtime pulls in numpy and the standard library, and little of that."""

import json
import subprocess
import sys

import pytest

from edgeveil.edge_runtime import api
from tests.support.checkout import ROOT

LIST = """
import json, sys
{first}
before = set(sys.modules)
{then}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded(first, then):
    code = LIST.format(first=first, then=then)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_import_pulls_in_nothing_but_numpy_and_the_standard_library():
    foreign = {name.partition(".")[0] for name in loaded("", "import edgeveil.edge_runtime.api")}
    assert foreign - set(sys.stdlib_module_names) == {"edgeveil", "numpy"}


def test_import_leaves_heavy_parts_of_the_standard_library_alone():
    loads = loaded("import numpy", "import edgeveil.edge_runtime.api")
    for name in ("argparse", "logging", "zipfile", "asyncio", "socket", "tempfile", "subprocess"):
        assert name not in loads


@pytest.mark.parametrize(
    "module",
    [
        "cli.main",
        "bench.protocol",
        "pipeline.batch",
        "inside.process",
        "outside.service",
        "bundle.reader",
        "pipeline.reconstruction",
        "sources",
        "sinks",
        "backends",
    ],
)
def test_no_module_needs_more_until_it_is_asked(module):
    foreign = {name.partition(".")[0] for name in loaded("import numpy", f"import edgeveil.edge_runtime.{module}")}
    assert foreign - set(sys.stdlib_module_names) <= {"edgeveil", "numpy"}


def test_verifying_and_running_on_numpy_loads_nothing_else(tmp_path):
    from tests.support import bundles

    made = bundles.make_bundle(tmp_path)
    then = (
        "from edgeveil.edge_runtime.api import Perturber\n"
        f"Perturber.open({str(made.path)!r}, trust={str(made.trust)!r})"
    )
    loads = loaded("import numpy", then)
    assert {name.partition(".")[0] for name in loads} - set(sys.stdlib_module_names) <= {"edgeveil", "numpy"}
    # What this bundle does not have costs its start nothing.
    for part in (
        "manifest.count",
        "ext.ledger.book",
        "ext.ledger.allowance",
        "ext.counting.inside",
        "ext.shift.distance",
        "stages.mechanism",
        "stages.hold",
    ):
        assert f"edgeveil.edge_runtime.{part}" not in loads


def test_the_recorded_ratio_is_below_the_limit():
    recorded = json.loads((ROOT / "docs/results/import_time.json").read_text())
    assert recorded["ratio"] <= recorded["limit"] == 1.15


def test_the_public_face_is_what_all_says():
    public = {
        name
        for name, value in vars(api).items()
        if not name.startswith("_") and not hasattr(value, "__path__") and type(value).__name__ != "module"
    }
    assert public == set(api.__all__)
    assert api.__all__ == sorted(api.__all__)
