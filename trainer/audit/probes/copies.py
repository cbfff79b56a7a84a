"""Copies: does a real sample leave unchanged?

An average over frames hides a perturber that passes every hundredth one unchanged.

Counted, not attacked: a frame that is bit for bit a sample of the data set identifies the person it is of. A donor
codebook does this by design (its bundle says "substituted"), and the first row says how often it was the same sample.
"""

from __future__ import annotations

import numpy as np

from edgeveil.trainer.attacks.rows import places
from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.audit.probes import Probe
from edgeveil.trainer.audit.sections import About
from edgeveil.trainer.measures.intervals import rate

UNCHANGED, ANY = "test frames that leave unchanged", "test frames that are some training reading"
MEANING = "counted, bit for bit: such a frame identifies the one that the sample is of: of a donor, the donor"


class Copies(Probe):
    """Counted, bit for bit."""

    name = "copies"
    asks = "copies"

    def run(self, about: About) -> list[Finding]:
        """Shares of the test rows' frames that are bit-equal to their own sample, and to any sample trained on."""
        released, dataset = about.released, about.dataset
        rows = dataset.slices.rows()
        frames, samples = released.x.reshape(len(rows), -1), dataset.x[rows].reshape(len(rows), -1)
        if frames.shape != samples.shape or frames.dtype != samples.dtype:
            reason = "outputs are of another shape or type than samples, so no frame can be one"
            return [Finding(self.asks, name, not_run=reason, more={"kind": "probe"}) for name in (UNCHANGED, ANY)]
        at = places(dataset)
        cluster = released.take(at.test).cluster
        own = (frames[at.test] == samples[at.test]).all(axis=1)
        known = {sample.tobytes() for sample in np.ascontiguousarray(samples[at.old])}
        some = np.array([frame.tobytes() in known for frame in np.ascontiguousarray(frames[at.test])], bool)
        facts = {"null": 0.0, "rows": len(own), "text": MEANING, "more": {"kind": "probe"}}
        return [
            Finding.measured(self.asks, name, "share", rate(hits, cluster), **facts)
            for name, hits in ((UNCHANGED, own), (ANY, some))
        ]
