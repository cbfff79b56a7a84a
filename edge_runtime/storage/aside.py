"""Results are never written over: what is there already gets a dated name beside it."""

import os
import time
from typing import Optional

from edgeveil.edge_runtime.errors import BadInput


def set_aside(path: str) -> Optional[str]:
    """Give what is at ``path`` a dated name beside it, and return that; None where there is nothing.

    Raises ``BadInput`` where there are a thousand of that second, ``OSError`` where it cannot be renamed.
    """
    if not os.path.lexists(path):
        return None
    stem, suffix = (path, "") if os.path.isdir(path) else os.path.splitext(path)
    date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for number in range(1, 1000):
        old = "{}.{}{}{}".format(stem, date, "" if number == 1 else "-{}".format(number), suffix)
        if not os.path.lexists(old):
            os.rename(path, old)
            return old
    raise BadInput("{} cannot be set aside: there are too many of that second.".format(path))
