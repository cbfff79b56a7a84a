"""Adult published at k = 10 and distinct l = 2, and counted by pycanon in the file that was written.

Records docs/results/publishing/counted.json; scripts/environments/oracles makes the environment that is asked. Seconds.
Ends with 3 where pycanon finds something else than the publication says, or less than was asked for. Needs the Adult
data.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from edgeveil.trainer.pseudonyms.master_key import MasterKey
from edgeveil.trainer.publish import table_files
from edgeveil.trainer.publish.plan import Plan
from edgeveil.trainer.publish.publication import publish
from scripts.reproduce import record
from scripts.reproduce.dp.oracles import oracles
from scripts.reproduce.publishing import adult_columns

RESULT = Path("docs/results/publishing/counted.json")
K, L, QUASI = 10, 2, 5  # and how many columns others may know


def main() -> int:
    """Publish, have it counted, and write the record."""
    script = record.Script(__file__, __doc__, "--out trial.json", out=RESULT)
    asked = script.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = _counted(Path(folder))
    document = {**record.here(), "pycanon_version": oracles.versions()["pycanon"], **found}
    record.write(asked.out, script.made_by(asked), document)
    return 0 if document["held"] else 3


def _counted(folder: Path) -> dict[str, Any]:
    """k and l of the file, as the publication says and as pycanon finds."""
    table, names = adult_columns.load(), list(adult_columns.HIERARCHIES)[:QUASI]
    columns = {name: adult_columns.texts(table, name).tolist() for name in names}
    columns["income"] = np.where(table.label, ">50K", "<=50K").tolist()
    table_files.write(folder / "adult.csv", columns)
    hierarchies = {name: adult_columns.HIERARCHIES[name].model_dump(exclude_none=True) for name in names}
    actions = {name: {"action": "quasi", "hierarchy": one} for name, one in hierarchies.items()}
    income = {"action": "sensitive", "distinct_l": L}
    plan = {"anonymity": {"k": K, "link": "rows", "suppress": 0}, "columns": {**actions, "income": income}}
    (folder / "plan.toml").write_text(tomli_w.dumps(plan))
    read, key, out = Plan.read(folder / "plan.toml"), MasterKey(bytes(64)), folder / "out"
    said = publish(folder / "adult.csv", read, key, out, recipient="anybody", vault=None)["found"]
    question = {"path": str(out / "table.csv"), "quasi": names, "sensitive": "income"}
    theirs = oracles.ask("table", question)
    ours = {"k": int(said["k"]), "l": int(said["income.distinct_l"])}
    held = {name: theirs[name] for name in ours} == ours and ours["k"] >= K and ours["l"] >= L
    return {"asked": {"k": K, "l": L}, "quasi": names, "ours": ours, "pycanon": theirs, "held": held}


if __name__ == "__main__":
    record.run(main)
