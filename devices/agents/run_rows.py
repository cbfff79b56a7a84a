"""Perturbs samples with a bundle on the board that will run it. Sent by ``edgeveil audit --on``, and not kept there.

The runtime that is installed there verifies the bundle and runs it, one sample at a time as with a camera.
This is not a command of that runtime: the outputs of an audit (a code before its channel, the drawn noise) must never
leave a board in use.

    python3 - ROOT BUNDLE ARTEFACT DEVICE                       prints what would run
    python3 - ROOT BUNDLE ARTEFACT DEVICE ROWS OUT FURTHER      ROWS.npz (``x``) through it into OUT.npz

FURTHER is JSON: entries of outputs as in a manifest, for what is returned as well. One JSON document is printed.
The board's keys decide and its owner's policy does not: an audit is how a bundle comes to meet that policy.
"""

import importlib.util
import json
import os
import platform
import sys
import time
from typing import Any, Dict, List


def main(root: str, bundle: str, artefact: str, device: str, *rest: str) -> int:
    """Do one of the two; returns an exit code as ``edgeveil-edge`` does. No part of a sample is ever printed."""
    # As edgeveil-edge.pyz has it: wheels that a flash brought along come first.
    places = ("site", "runtime/current/edgeveil-edge.pyz", "current/edgeveil-edge.pyz")  # the last: of version 0.1
    sys.path[:0] = [os.path.join(root, place) for place in places]
    try:
        from edgeveil.edge_runtime.errors import EdgeVeilError, describe
    except ImportError:
        old = importlib.util.find_spec("edge_runtime") is not None
        what = "the runtime in {} is from before 0.2: flash a bundle sealed by 0.2 or later first"
        text = what if old else "there is no EdgeVeil in {}: flash the board first"
        sys.stderr.write("error: {}\n".format(text.format(root)))
        return 2
    try:
        document = _done(root, bundle, artefact, device, *rest)
    except EdgeVeilError as error:
        sys.stderr.write("error: {}\n".format(error))
        return error.exit_code
    except Exception as error:
        sys.stderr.write("error: stopped by an unexpected {}\n".format(describe(error)))
        return 4
    print(json.dumps(document, sort_keys=True))
    return 0


def _done(
    root: str, bundle: str, artefact: str, device: str, rows: str = "", out: str = "", further: str = "[]"
) -> Dict[str, Any]:
    import numpy as np

    from edgeveil.edge_runtime import __version__
    from edgeveil.edge_runtime.bundle.policy import NoPolicyForAudit
    from edgeveil.edge_runtime.bundle.trust_store import open_trust
    from edgeveil.edge_runtime.pipeline.perturber import Perturber

    trust = open_trust(os.path.join(root, "trust"), policy=NoPolicyForAudit())
    with Perturber.open(bundle, trust=trust, artefact=artefact, device=device) as perturber:
        facts = dict(perturber.info, edge_runtime=__version__, numpy=np.__version__, python=platform.python_version())
        if rows:
            begin = time.time()
            arrays = perturb(perturber.manifest.document, perturber.pipeline, np.load(rows)["x"], json.loads(further))
            facts["seconds"] = time.time() - begin
            with open(out, "wb") as file:
                np.savez_compressed(file, **arrays)
            os.chmod(out, 0o644)  # ours may be root's umask, and who fetches it is not root; its folder is closed
    return facts


def perturb(manifest: Dict[str, Any], opened: Any, x: Any, further: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Perturb raw samples x (n, ...) one at a time; every output, the ``further`` ones too, by name, each (n, ...).

    ``opened`` is the manifest's pipeline, whose tables and interpreters are used. Raises ``DeviceFailed`` where a
    sample is dropped.
    """
    import numpy as np

    from edgeveil.edge_runtime.errors import DeviceFailed, FrameDropped
    from edgeveil.edge_runtime.manifest.manifest import parse
    from edgeveil.edge_runtime.pipeline.pipeline import Pipeline

    tables = {name: opened.table(name) for name in manifest["tables"]}
    whole = dict(manifest, outputs=list(manifest["outputs"]) + further)
    pipeline = Pipeline(parse(whole), tables=tables, runners=opened.runners)
    rows, reason = [], ""
    try:
        for at in range(len(x)):
            rows.append(pipeline.run(x[at : at + 1]))
    except FrameDropped as drop:
        reason = drop.reason
    if reason:
        raise DeviceFailed("sample {} was dropped ({}), so this board cannot be audited".format(len(rows), reason))
    return {name: np.concatenate([one[name] for one in rows]) for name in rows[0]}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
