"""The inside of a flashed release finds the wheels that were flashed with it."""

import json
import subprocess
import sys

from edgeveil.devices.zipapp import build_zipapp

ASK = """
import json, sys
sys.path.insert(0, sys.argv[1])
from edgeveil.edge_runtime.outside.process_table import command
print(json.dumps(command("inside.process")))
"""


def test_what_a_release_starts_has_the_flashed_wheels(tmp_path):
    release = tmp_path / "releases" / "0123"
    release.mkdir(parents=True)
    build_zipapp(release / "edgeveil-edge.pyz")
    (tmp_path / "current").symlink_to(release)
    wheels = tmp_path / "site" / "numpy"
    wheels.mkdir(parents=True)
    (wheels / "__init__.py").write_text("raise SystemExit('the numpy that was flashed')")
    runtime = tmp_path / "current" / "edgeveil-edge.pyz"
    asked = subprocess.run([sys.executable, "-c", ASK, runtime], capture_output=True, text=True, timeout=60, check=True)
    began = subprocess.run(
        json.loads(asked.stdout), capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
    )
    assert began.stderr.strip() == "the numpy that was flashed"
