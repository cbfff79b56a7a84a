"""onnxruntime's wheels identify a machine to their maker, unless they are asked not to before they are loaded."""

import os
import subprocess
import sys

import pytest

from edgeveil.devices.agents import gather_facts

LOADS = {
    "the runtime": ["-c", "import edgeveil.edge_runtime.backends.onnx"],
    "the workstation": ["-c", "import edgeveil.trainer.graphs.files, onnxruntime"],
    "the probe of a board": ["-c", gather_facts._PROBE, "onnxruntime"],
}


@pytest.mark.parametrize("who", LOADS)
def test_nothing_that_loads_onnxruntime_lets_it_write_who_this_machine_is(who, tmp_path):
    pytest.importorskip("onnxruntime")
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    subprocess.run([sys.executable, *LOADS[who]], env=environment, check=True, capture_output=True)
    assert [str(path) for path in tmp_path.rglob("*") if not path.is_dir()] == []
