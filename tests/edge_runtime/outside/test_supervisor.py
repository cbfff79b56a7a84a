"""The inside of a flashed release finds the wheels that were flashed with it."""

import json
import subprocess
import sys

import pytest

from edgeveil.devices.zipapp import build_zipapp
from edgeveil.edge_runtime.outside import supervisor

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


@pytest.mark.parametrize(
    ("how", "message", "sentence"),
    [
        ("by signal 9", "", "the inside ended by signal 9."),
        ("with exit code 4", "the camera has ended", "the inside ended with exit code 4: the camera has ended."),
        ("with exit code 4", "It has gone. Plug it in.", "the inside ended with exit code 4: It has gone. Plug it in."),
    ],
)
def test_how_an_inside_ended_is_one_sentence_whatever_it_gave_as_its_reason(how, message, sentence):
    assert supervisor.ended(how, message) == sentence
