"""The bundle of a service: this process opens and verifies its file once."""

import os
from typing import Tuple

from edgeveil.edge_runtime.bundle.reader import Bundle, open_file, read_all, read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.kinds import check_sensor, check_shape
from edgeveil.edge_runtime.manifest.schema import PRIVACY_MEMBER
from edgeveil.edge_runtime.manifest.sensor import expected


def open_bundle(path: str, trust: str, source: str) -> Tuple[int, Bundle]:
    """Open and verify the bundle at ``path`` by the keys in the folder ``trust``.

    Raises as ``read_bundle`` does, and ``BadInput`` where the bundle is for other frames than ``source`` gives.
    Returns the file's descriptor, for the inside, which verifies the same file itself; and the bundle. Of its members
    only the audit is kept: the models belong to the inside and need not be in memory twice.
    """
    keys = open_trust(trust)
    handle = open_file(path)
    try:
        bundle = read_bundle(read_all(handle), keys)
        manifest = bundle.manifest
        check_sensor(source, manifest.input.sensor)
        check_shape(source, expected(manifest.input, manifest.capture)["shape"])
    except BaseException:
        os.close(handle)
        raise
    kept = {name: data for name, data in bundle.members.items() if name == PRIVACY_MEMBER}
    return handle, bundle._replace(members=kept)
