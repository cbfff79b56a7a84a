"""Networks on Rockchip's RK3588: what the NPU takes of them, and how far its simulator is from the float file.

The networks are those of one recipe for each form of network (or of every recipe), untrained, with their real inputs as
calibration rows, as they are compiled by rknn-toolkit2 in a Python of its own. Nothing ran on an NPU. Records
docs/results/devices/rk3588.json; exit code 3 where a recipe is not compiled.

    EDGEVEIL_DATA=... python -m scripts.reproduce.estimator.rk3588 --python rknn/bin/python
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.device import RK3588
from edgeveil.trainer.export.compilers import rockchip
from edgeveil.trainer.export.compilers.compiled import NotCompiled
from edgeveil.trainer.export.convert import to_onnx
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from scripts.reproduce import record
from scripts.reproduce.estimator import untrained
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


def main() -> int:
    """Compile and simulate all of them, and write the record."""
    script = record.Script(__file__, __doc__, "--python rknn/bin/python faces-prgan")
    script.add_argument("--python", type=Path, required=True, help="the Python that has rknn-toolkit2")
    script.add_argument("--work", type=Path, default=Path("runs/rk3588"), help="folder of what was finished")
    script.add_argument("--every", action="store_true", help="every recipe, and not one for each form of network")
    script.add_argument("recipes", nargs="*", metavar="RECIPE", help="these alone, and no record")
    asked = script.parse_args()
    toolkit = rockchip.version(asked.python)
    load_tensorflow()
    rows: list[dict[str, Any]] = []
    names = untrained.FORMS if not asked.every else Recipe.names()
    for name, row in untrained.rows(asked.recipes or names, partial(simulated, python=asked.python), asked.work):
        say(f"{name}: {row}")
        rows += [] if row is None else [row]
    failed = [row["recipe"] for row in rows if "not_compiled" in row]
    if not asked.recipes:
        document = {"kind": "rk3588", "what": __doc__.splitlines()[0], "toolkit": toolkit, "rows": rows}
        record.write(RESULT, script.path, {**document, **record.here()})
    return 3 if failed else 0


if __name__ == "__main__":
    record.run(main)
