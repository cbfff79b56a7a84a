"""Programs that are sent to a board and run there alone: standard library, Python 3.6, no import of each other."""

import os


def read_agent(name: str) -> bytes:
    """The source of one of them."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py"), "rb") as file:
        return file.read()
