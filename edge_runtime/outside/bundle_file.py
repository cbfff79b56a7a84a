"""The bundle of a service: this process opens and verifies its file once."""

import os
from typing import NamedTuple

from edgeveil.edge_runtime.bundle.reader import Bundle, open_file, read_all, read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.manifest.schema import PRIVACY_MEMBER

BundleFile = NamedTuple("BundleFile", [("handle", int), ("bundle", Bundle)])


def open_bundle(path: str, trust: str) -> BundleFile:
    """Open and verify the bundle at ``path`` by the keys in the folder ``trust``. Raises as ``read_bundle`` does.

    The inside gets the descriptor and verifies the same file itself. Of the members only the audit is kept: the models
    belong to the inside and need not be in memory twice.
    """
    keys = open_trust(trust)
    handle = open_file(path)
    try:
        bundle = read_bundle(read_all(handle), keys)
    except BaseException:
        os.close(handle)
        raise
    kept = {name: data for name, data in bundle.members.items() if name == PRIVACY_MEMBER}
    return BundleFile(handle, bundle._replace(members=kept))
