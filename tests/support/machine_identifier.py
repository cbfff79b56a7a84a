"""An identifier of this machine for tests, where the system has none (a container, a root of mmdebstrap)."""

import os
from pathlib import Path

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.errors import BadInput

VARIABLE = "EDGEVEIL_TEST_MACHINE_ID"  # the file, for the processes that tests start


def make(folder: Path) -> None:
    """Where the system has none, this process and those with ``live_fakes`` have the one of ``folder``."""
    try:
        machine.machine_id()
    except BadInput:
        os.environ[VARIABLE] = str(folder / "machine-id")
        (folder / "machine-id").write_text("0123456789abcdef" * 2 + "\n")
        use()


def use() -> None:
    """Read the file that ``make`` left, if it did."""
    if VARIABLE in os.environ:
        machine._MACHINE_IDS = (os.environ[VARIABLE],)
