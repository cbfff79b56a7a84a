"""A process's bundle and trust: read and verified once at a start and once at a reload, then passed on."""

import os
from typing import Any, Mapping, NamedTuple, Optional, Union

from edgeveil.edge_runtime.bundle.policy import Policy, count_price_of, price_of
from edgeveil.edge_runtime.bundle.reader import Bundle, read_bundle
from edgeveil.edge_runtime.bundle.trust_file import Trust
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.manifest.manifest import Price


class Opened(NamedTuple):
    """A verified bundle and the trust that it was verified by. What was verified is what is used: nothing that has
    one of these reads the files again."""

    bundle: Bundle
    trust: Trust

    @property
    def policy(self) -> Optional[Policy]:
        """The owner's policy; None where there is none."""
        return self.trust.policy

    @property
    def audit(self) -> Optional[Mapping[str, Any]]:
        """The checked audit document; None where the bundle was not audited."""
        return self.bundle.audit

    @property
    def price(self) -> Optional[Price]:
        """What one release costs under the policy of this device; None where the bundle promises nothing."""
        return price_of(self.bundle.manifest, self.policy)

    @property
    def count_price(self) -> Optional[Price]:
        """As ``price``, for the counts of one period; None where they leave without noise, or there are none."""
        return count_price_of(self.bundle.manifest, self.policy)


def open_verified(
    bundle: Union[str, "os.PathLike[str]", bytes], trust: Union[str, "os.PathLike[str]", Trust]
) -> Opened:
    """Read and verify a bundle, as ``read_bundle``, by a ``Trust`` or the one of a folder, as ``open_trust``."""
    known = trust if isinstance(trust, Trust) else open_trust(trust)
    return Opened(read_bundle(bundle, known), known)
