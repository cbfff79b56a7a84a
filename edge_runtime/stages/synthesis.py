"""A row of a table for each index: constants, or whole samples."""

from typing import Any, Dict

from edgeveil.edge_runtime.stages.base import Entry, Kind, Run, Value, codes_of, from_input
from edgeveil.edge_runtime.util.validate import identifier, refuse


class Row(Kind):
    """The row that an index picks."""

    name = "synthesis row"
    chooses = "op"
    reads = {"input": "index"}
    fields = {"table": identifier()}

    def make(self, stage: Entry, at: str, flow: Any, *taken: Value) -> Value:
        """As ``Kind``."""
        declared = flow.input
        table = flow.table(stage["table"], at + ".table", "float32", declared["dtype"])
        if table["dtype"] == "float32":
            return Value("row", table["shape"][1:], "float32")
        if table["shape"][1:] != declared["shape"]:
            refuse("output-mismatch", at + ".table", "its rows do not have the shape of the input")
        return Value("frame", declared["shape"], declared["dtype"])

    def compile(self, stage: Any, context: Any) -> Run:
        """As ``Kind``."""
        table, checked = context.table(stage.table), codes_of(context)
        return from_input(stage, lambda codes: table.take(checked(codes, len(table)), 0))

    def measure(self, stage: Any, manifest: Any, artefact: str, shapes: Dict[str, Any], counts: Dict[str, int]) -> None:
        """As ``Kind``."""
        shapes[stage.output] = manifest.tables[stage.table].shape[1:]
