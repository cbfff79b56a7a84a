"""The int8 networks of every shipped recipe on Arm's Ethos-U NPUs: what Vela places there, and a frame's time by Vela.

The files are those that tf.lite made of the runs of scripts/measure/converters.py; each network is compiled by Arm's
own compiler, and nothing is run. Of a recipe without a run the record keeps what it has, of its untrained network.
Exit code 3 where an operation is left to a CPU.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.graphs import vela
from edgeveil.trainer.graphs.cost import file_cost
from edgeveil.trainer.recipe.schema import Recipe
from scripts import record
from scripts.measure.converters import WORK

OUT = record.RESULTS / "devices" / "ethos-u.json"
NPUS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")


def figures(name: str, work: Path) -> dict[str, Any]:
    """A recipe's networks on each NPU; ``refused``: why there is none, or what Vela says."""
    found = record.read(work / f"{name}.json")
    if "refused" in found:
        return {"recipe": name, "refused": found["refused"]}
    files = sorted((work / f"{name}-files" / "tf.lite-tflite-int8" / "artefacts").glob("*"))
    if not files:
        row = next((one for one in found["files"] if one["artefact"] == "tflite-int8"), {})
        return {"recipe": name, "refused": row.get("refused", "its artefacts are float32, and an Ethos-U has int8")}
    data = [file.read_bytes() for file in files]
    costs = [file_cost(one, "tflite") for one in data]
    row = {"recipe": name, "kind": found["kind"], "macs": sum(one.macs for one in costs)}
    try:
        placed = [vela.place(one, NPUS) for one in data]
    except BadInput as error:
        return {**row, "refused": str(error)[:300]}
    (on,) = placed  # every recipe with int8 files ships one network
    return {**row, "parameters": sum(one.parameters for one in costs), "on": [where.document() for where in on]}


def main() -> int:
    """Compile all of them and write the record."""
    script = record.Script(__file__, __doc__, out=OUT)
    script.add_argument("--work", type=Path, default=WORK, help="folder of scripts/measure/converters.py")
    asked = script.parse_args()
    before = {row["recipe"]: {**row, "untrained": True} for row in record.read(asked.out).get("rows", ())}
    found = []
    for name in Recipe.names():
        print(name, file=sys.stderr, flush=True)
        row: dict[str, Any] = {"recipe": name, "refused": "not run"}
        if (asked.work / f"{name}.json").is_file():
            row = record.kept(asked.work / "ethos-u" / f"{name}.json", lambda one=name: figures(one, asked.work))
        found.append(row if "on" in row else before.get(name, row))
    rows = [row for row in found if "on" in row]
    left = sum(there["on_cpu"] for row in rows for there in row["on"])
    facts = {"kind": "ethos-u", "vela": vela.version(), "npus": list(NPUS), "left_to_a_cpu": left, "rows": rows}
    record.write(
        asked.out, script.path, {**facts, "without": [row for row in found if "on" not in row], **record.here()}
    )
    return 3 if left else 0


if __name__ == "__main__":
    record.run(main)
