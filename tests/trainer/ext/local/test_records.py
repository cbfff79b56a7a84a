"""Many records at a time are what the runtime's own format says one by one."""

import numpy as np

from edgeveil.edge_runtime.sinks import wire
from edgeveil.trainer.ext.local.blocks import Records
from tests.support import network_receivers


def test_as_the_wire_decodes_them():
    manifest = network_receivers.MANIFEST
    form, records = wire.Format(manifest.outputs, manifest), Records(manifest, manifest.outputs[1])
    sent = [
        form.encode(network_receivers.frame(n, slot=n % 2), bytes([n]) + b"\0tream\0", 2**64 - 5 + n) for n in range(5)
    ]
    block = records.block(sent)
    for place, record in enumerate(sent):
        one = form.decode(record)
        assert block.reports[place] == one.outputs["label"]
        assert (block.round[place], block.slot[place]) == (one.index, one.slot)
        assert f"{block.sender[place].ljust(8, bytes(1)).hex()}-{block.number[place]}" == one.id
    assert block.reports.dtype == np.int64
    assert records.mine(sent[0])
    assert not records.mine(sent[0][:-1])
    assert not records.mine(b"EVF1abcd" + sent[0][8:])
