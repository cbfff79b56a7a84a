"""The network that finds people, opened and tested on this machine."""

import io
from typing import Any, Mapping, Optional

import numpy as np

from edgeveil.edge_runtime.backends import open_backend
from edgeveil.edge_runtime.errors import DeviceFailed, FrameDropped
from edgeveil.edge_runtime.manifest.manifest import Manifest


def open_detector(manifest: Manifest, members: Mapping[str, bytes], threads: int = 1) -> Optional[Any]:
    """The detector of a verified bundle on a processor; None where it has none.

    Raises ``DeviceFailed`` where nothing here runs it, or where its scores for the golden pictures are not those that
    were recorded.
    """
    rules = manifest.detector
    if rules is None:
        return None
    runner = open_backend(rules.format, members[rules.file], rules.entry, threads=threads)
    pictures, wanted = (
        np.load(io.BytesIO(members[rules.golden[name]]), allow_pickle=False) for name in ("input", "scores")
    )
    try:
        scores = np.concatenate(
            [np.asarray(runner.run({rules.entry["inputs"][0]["name"]: one[None]})["scores"]) for one in pictures]
        )
    except FrameDropped as drop:
        reason = drop.reason
    else:
        # Which box comes first may depend on the last bit of a score.
        apart = float(np.abs(np.sort(scores, axis=1) - np.sort(wanted, axis=1)).max()) if scores.size else np.inf
        if scores.shape == wanted.shape and apart <= rules.entry["tolerance"]["max_abs"]:
            return runner
        reason = "its scores are other than recorded"
    runner.close()
    raise DeviceFailed("the bundle's detector fails its self-test here ({}): nothing is counted".format(reason))
