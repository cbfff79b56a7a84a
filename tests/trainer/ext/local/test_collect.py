"""What is let through: the first report of a unit in a round, where a subject has all slots of its sender."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.ext.local.blocks import Block
from edgeveil.trainer.ext.local.collect import Gate, collect
from edgeveil.trainer.ext.local.reporting import reporting
from tests.support.promised import collector_bundles


@pytest.mark.parametrize(
    ("unit", "counted"), [("release", [0, 2, 3, 4]), ("track", [0, 2, 3, 4]), ("subject", [0, 3, 4])]
)
def test_a_unit_counts_once_in_a_round(tmp_path, unit, counted):
    found = reporting(collector_bundles.opened(collector_bundles.made(tmp_path, "duchi-linf", unit=unit)))
    gate = Gate(found, slots=2)
    rows = np.array([[-1, 1, 1, 1], [1, -1, 1, 1], [1, 1, -1, 1], [1, 1, 1, -1], [1, 1, 1, 1]], np.int8)
    sender = np.array([b"a", b"a", b"a", b"a", b"b"], "S8")
    block = Block(rows, sender, np.arange(5).astype(np.uint64), np.uint16([0, 0, 1, 0, 0]), np.int64([7, 7, 7, 8, 7]))
    assert gate.passed(block).reports.tolist() == rows[counted].tolist()
    assert gate.refused == {"second of its round": 5 - len(counted)}
    again = Block(*(column[[0, 4]] for column in block))._replace(number=np.array([50, 60], np.uint64))
    assert len(gate.passed(again).reports) == 0
    assert gate.senders == {b"a": len(counted) - 1, b"b": 1}


class Once:
    """A feed of one block."""

    refused = 0

    def __init__(self, rows):
        self._rows = rows

    def blocks(self):
        n = len(self._rows)
        yield Block(
            np.array(self._rows, np.int8),
            np.array([b"%d" % i for i in range(n)], "S8"),
            np.arange(n).astype(np.uint64),
            np.zeros(n, np.uint16),
            np.arange(n, dtype=np.int64),
        )


def test_one_device_is_no_average(tmp_path):
    bundle = collector_bundles.opened(collector_bundles.made(tmp_path, "duchi-linf", unit="release"))
    with pytest.raises(BadInput, match="at least 2 devices were expected"):
        collect(bundle, reporting(bundle), [Once([[1, 1, 1, 1]])], "mean")
    assert collect(bundle, reporting(bundle), [Once([[1, 1, 1, 1], [1, -1, 1, 1]])], "mean")["reports"]["counted"] == 2
