"""The bundle that perturbs an archive: verified, tested, and one that takes each frame by itself."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.bundle.audit_scope import audits_of, current_place
from edgeveil.edge_runtime.bundle.reader import Bundle, read_bundle, read_file
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.capture.crops import Capture
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.errors import BadInput, FrameDropped
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.manifest.fingerprint import pipeline_sha256
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.manifest.sensor import expected
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.sources.base import Source
from edgeveil.trainer.publish.work.leaving import Leaving

FIRST = 8  # frames of which one must fit


@dataclass(frozen=True)
class Opened:
    """A verified bundle, and its perturber after the golden self-test."""

    bundle: Bundle
    perturber: Perturber

    @classmethod
    def of(cls, path: Path, trust: Path, *, artefact: str = "auto") -> Opened:
        """Raises as ``Perturber.open``, and ``BadInput`` for a bundle that does not take each frame by itself."""
        trusted, data = open_trust(trust), read_file(str(path))
        bundle = read_bundle(data, trusted)
        _require_single_frames(bundle.manifest)
        return cls(bundle, Perturber.open(data, trust=trusted, artefact=artefact))

    @property
    def manifest(self) -> Manifest:
        """As it was signed."""
        return self.bundle.manifest

    @property
    def draws(self) -> bool:
        """Whether what it makes of a frame is drawn: then to publish twice tells twice."""
        return any(stage.stage == "draw" for stage in self.manifest.stages)

    @property
    def frame_bytes(self) -> int:
        """What leaves of one frame."""
        return sum(output.size for output in self.outputs)

    @property
    def outputs(self) -> list[Leaving]:
        """What leaves of a frame, in the manifest's order."""
        return [Leaving(one.name, tuple(one.shape), np.dtype(one.dtype)) for one in self.manifest.outputs]

    def facts(self) -> dict[str, Any]:
        """What a publication says of it."""
        privacy, artefact = self.manifest.privacy, self.perturber.artefact
        card = None if privacy.card is None else hashlib.sha256(self.bundle.members[privacy.card]).hexdigest()
        return {
            "sha256": self.bundle.manifest_sha256,
            "card_sha256": card,
            "artefact": artefact,
            "audited": bool(self.perturber.info["audited"]),
            "verdict": self._verdict(),
        }

    def pipeline_hash(self) -> str:
        """Of all that x' depends on, as the privacy card has it."""
        tables = {
            name: hashlib.sha256(self.bundle.members[table.file]).hexdigest()
            for name, table in self.manifest.tables.items()
        }
        return pipeline_sha256(self.manifest.document, self.perturber.artefact, tables)

    def require_audit(self, *, unaudited: bool) -> None:
        """Raise ``BadInput`` for a bundle that nobody measured, unless that is to be said on the card."""
        if not self.perturber.info["audited"] and not unaudited:
            raise BadInput(
                "This bundle was not audited: nobody knows what its frames tell. Audit and seal it again, or add "
                "--unaudited, which the publication then says."
            )

    def require_fit(self, source: Source) -> None:
        """Raise ``BadInput`` where the first frames all are of another shape or type."""
        capture, reasons = Capture(self.manifest), set()
        for _ in range(min(FIRST, source.size or FIRST)):
            try:
                frame = source.next()
                if frame is None:
                    break
                ((_, taken),) = capture.frames(frame)
                self.perturber.pipeline.perturb(taken)
                return
            except FrameDropped as drop:
                reasons.add(drop.reason)
        wanted = expected(self.manifest.input, self.manifest.capture)
        raise BadInput(
            f"The first frames cannot be perturbed ({', '.join(sorted(reasons)) or 'there are none'}): this bundle "
            f"takes {wanted['dtype']} {tuple(wanted['shape'])}. Take the bundle that was made for these recordings."
        )

    def _verdict(self) -> str | None:
        privacy, artefact = self.manifest.privacy, self.perturber.artefact
        if privacy.file is None:
            return None
        document = strict_json.loads(self.bundle.members[privacy.file])
        found = audits_of(document, artefact, CPU, current_place())
        return (found[0].get("verdict") or {}).get("word") if found else None


def _require_single_frames(manifest: Manifest) -> None:
    capture = manifest.capture
    if manifest.stream is not None and manifest.stream.hold != "frame":
        raise BadInput(
            "This bundle holds what it sends over the frames of a person or a time, and a publication works each frame "
            'by itself. Take a bundle whose recipe says hold = "none" or "frame".'
        )
    if capture is not None and capture.crop:
        raise BadInput(
            "This bundle cuts people out of each picture, and a row of the table has one frame. Save the cuts as "
            "recordings, and take a bundle whose input they are: its recipe has no [capture.crop]."
        )
