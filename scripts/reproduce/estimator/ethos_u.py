"""Every recipe's int8 networks on Arm's Ethos-U NPUs: what the NPU takes and how long Vela expects a frame to take.

The networks are those of the recipes, untrained, with their real inputs as calibration rows: which operations the NPU
takes does not depend on what a network has learned, and its time hardly (Vela packs the weights). Nothing is run. Takes
two minutes. Records docs/results/devices/ethos-u.json; exit code 3 where an operation is left to a CPU.

    EDGEVEIL_DATA=... python -m scripts.reproduce.estimator.ethos_u
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from pathlib import Path
from typing import Any

from edgeveil.trainer.export.convert import to_tflite
from edgeveil.trainer.graphs import vela
from edgeveil.trainer.graphs.cost import file_cost
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from scripts.reproduce import record
from scripts.reproduce.estimator import untrained
from scripts.reproduce.estimator.untrained import Untrained

RESULT = Path("docs/results/devices/ethos-u.json")
NPUS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")


class Compiler:
    """Compiles networks, each once: recipes of the same network with the same inputs share what was found."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Any]] = {}

    def row(self, name: str, one: Untrained) -> dict[str, Any]:
        """One recipe's row."""
        known = one.digest()
        if known not in self._found:
            data = to_tflite.convert(one.network, ["int8"], one.inputs)["int8"]
            cost = file_cost(data, "tflite")
            on = [where.document() for where in vela.place(data, NPUS)]
            self._found[known] = {"macs": cost.macs, "parameters": cost.parameters, "on": on}
        return {"recipe": name, "kind": one.recipe.perturber.kind, **self._found[known]}


def _text(row: dict[str, Any] | None) -> str:
    if row is None:
        return "no network"
    return "; ".join(f"{one['npu']} {one['on_npu']} on, {one['on_cpu']} off, {one['ms']:.3g} ms" for one in row["on"])


def main() -> int:
    """Compile all of them and write the record."""
    script = record.Script(__file__, __doc__, "faces-prgan")
    script.add_argument("--work", type=Path, default=Path("runs/ethos-u"), help="folder of what was finished")
    script.add_argument("recipes", nargs="*", metavar="RECIPE", help="these alone, and no record")
    asked = script.parse_args()
    load_tensorflow()
    rows, without = [], []
    for name, row in untrained.rows(asked.recipes or Recipe.names(), Compiler().row, asked.work):
        say(f"{name}: {_text(row)}")
        if row is None:
            without.append(name)
        else:
            rows.append(row)
    left = sum(there["on_cpu"] for row in rows for there in row["on"])
    if asked.recipes:
        return 3 if left else 0
    document = {
        "kind": "ethos-u",
        "what": __doc__.splitlines()[0],
        "vela": vela.version(),
        "npus": list(NPUS),
        "left_to_a_cpu": left,
        "rows": rows,
        "without_a_network": without,
        **record.here(),
    }
    record.write(RESULT, script.path, document)
    return 3 if left else 0


if __name__ == "__main__":
    record.run(main)
