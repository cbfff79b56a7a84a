"""Networks on Rockchip's RK3588: what the NPU takes of them, and how far its simulator is from the float file.

The networks are those of one recipe for each form of network (or of every recipe), untrained, with their real inputs as
calibration rows, as they are compiled by rknn-toolkit2 in a Python of its own. Nothing ran on an NPU. Records
docs/results/devices/rk3588.json; exit code 3 where a recipe is not compiled.

    EDGEVEIL_DATA=... python -m scripts.reproduce.estimator.rk3588 --python .venvs/rknn/bin/python --every
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.device import RK3588
from edgeveil.trainer.export.compilers import rockchip
from edgeveil.trainer.export.compilers.compiled import NotCompiled
from edgeveil.trainer.export.convert import to_onnx
from scripts.reproduce import record
from scripts.reproduce.estimator.survey import Tool, survey
from scripts.reproduce.estimator.untrained import Untrained

RESULT = Path("docs/results/devices/rk3588.json")


def simulated(name: str, one: Untrained, *, python: Path) -> dict[str, Any]:
    """One recipe's row: operations by place, and each output's distance, in shares of the float output's range."""
    import onnxruntime

    data = to_onnx.convert(one.network, ["float32"], one.inputs)["float32"]
    row: dict[str, Any] = {"recipe": name, "kind": one.recipe.perturber.kind}
    try:
        found = rockchip.simulate(python, RK3588, data, one.inputs, one.inputs)
    except NotCompiled as error:
        return {**row, "not_compiled": str(error)}
    session = onnxruntime.InferenceSession(data)
    names = [output.name for output in session.get_outputs()]
    rows = range(len(next(iter(one.inputs.values()))))
    answers = [session.run(names, {key: value[at : at + 1] for key, value in one.inputs.items()}) for at in rows]
    outputs = []
    for place, output in enumerate(names):
        exact = np.concatenate([answer[place] for answer in answers])
        apart = np.abs(found.outputs[output] - exact) / float(np.ptp(exact))
        outputs.append({"output": output, "max": round(float(apart.max()), 5), "mean": round(float(apart.mean()), 6)})
    place = {"on_npu": found.on_npu, "on_cpu": list(found.on_cpu), "bytes": len(found.file)}
    return {**row, **place, "rows": len(rows), "outputs": outputs}


TOOL = Tool(rockchip.TOOLKIT, "toolkit", rockchip.version, simulated, failed="not_compiled")


def main() -> int:
    """Compile and simulate all of them, and write the record."""
    return survey(__file__, __doc__, RESULT, TOOL)


if __name__ == "__main__":
    record.run(main)
