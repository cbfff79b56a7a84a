"""An acceptance on the pages of the preview: ``preview:PORT?accept=30m``."""

import json
import time
from typing import Any, Dict, Mapping, Optional

from edgeveil.edge_runtime.acceptance.shift import reference_of
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.sinks.page_server import Answer
from edgeveil.edge_runtime.sinks.preview.accept_page import files
from edgeveil.edge_runtime.sinks.preview.tallies import Tallies


class Acceptance(object):
    """The pages of one acceptance, and its ``tallies``. Raises ``BadInput`` where the bundle sends nothing to tap."""

    def __init__(
        self, manifest: Optional[Manifest], audit: Optional[Mapping[str, Any]], *, length_s: float, sha256: str
    ) -> None:
        if manifest is None:
            raise BadInput("An acceptance needs a bundle: this stream has no manifest.")
        reference = reference_of(audit, manifest.crops)
        self.tallies = Tallies(manifest, reference, length_s=length_s, clock=time.monotonic, manifest_sha256=sha256)
        if not (self.tallies.lines or self.tallies.classes):
            raise BadInput(
                "Expected a bundle that sends y of one place, or counts by lines, for preview:PORT?accept=; this one "
                "sends neither."
            )
        self._files = files(self.tallies.lines, manifest.perturber.target, self.tallies.classes)

    def answer(self, path: str) -> Optional[Answer]:
        """The page at ``path``; None where it is none of these."""
        if path == "/acceptance.json":
            return _json(self.tallies.document())
        if path == "/accept.state":
            return self._state(taken=True)
        file = self._files.get(path)
        return None if file is None else Answer(*file)

    def post(self, path: str, query: Dict[str, str], _is_local: bool) -> Optional[Answer]:
        """Take a tap."""
        if path != "/tap":
            return None
        if "undo" in query:
            return self._state(taken=self.tallies.undo())
        if "line" in query:
            return self._state(taken=self.tallies.tap_passage(query["line"], query.get("way", "")))
        number = query.get("y", "")
        return self._state(taken=number.isdigit() and self.tallies.tap_class(int(number[:6])))

    def _state(self, *, taken: bool) -> Answer:
        return _json({"taken": taken, "left_s": round(self.tallies.left_s, 1), "taps": self.tallies.taps})


def _json(document: Dict[str, Any]) -> Answer:
    return Answer("application/json", json.dumps(document, allow_nan=False).encode("utf-8"))
