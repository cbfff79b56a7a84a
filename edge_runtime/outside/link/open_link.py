"""The link of a service to its inside: one that a service manager starts, or one that we start."""

import os
import subprocess
from typing import Callable

from edgeveil.edge_runtime.config import Settings
from edgeveil.edge_runtime.device import open_limit_s
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.outside.link.external_inside import ExternalInside
from edgeveil.edge_runtime.outside.link.inside_link import InsideLink, LinkOwner
from edgeveil.edge_runtime.outside.link.supervisor import Supervisor
from edgeveil.edge_runtime.outside.process_table import process_table


def open_link(
    settings: Settings, manifest: Manifest, bundle: int, owner: LinkOwner, *, clock: Callable[[], float]
) -> InsideLink:
    """The link that the settings ask for; it owns the descriptor ``bundle``.

    Raises ``BadInput`` where the settings do not go together, and as ``process_table`` does.
    """
    if settings.inside_at:
        os.close(bundle)
        if settings.inside_user:
            raise BadInput("expected --inside-at or --inside-user, not both: set the user in the inside's own unit")
        return ExternalInside(settings.inside_at, owner)
    return Supervisor(
        process_table(settings, manifest),
        bundle,
        owner,
        hang_after_s=settings.hang_after,
        open_limit_s=open_limit_s(settings.device),
        restarts=settings.restarts,
        stdin=None if settings.source in ("csv:-", "arff:-") else subprocess.DEVNULL,
        clock=clock,
    )
