"""Programs that are sent to a board and run there alone: standard library, Python 3.6, no import of each other.

``try_settings`` is one of the runtime's own modules: an installed runtime uses it too.
"""

import os

from edgeveil.edge_runtime import releases


def read_agent(name: str) -> bytes:
    """The source of one of them."""
    folder = os.path.dirname(os.path.abspath(releases.__file__ if name == "try_settings" else __file__))
    with open(os.path.join(folder, name + ".py"), "rb") as file:
        return file.read()
