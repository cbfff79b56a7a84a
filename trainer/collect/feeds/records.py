"""The runtime's network records, many at a time: ``edge_runtime.sinks.network.wire`` takes them one by one."""

from __future__ import annotations

import numpy as np

from edgeveil.edge_runtime.manifest.manifest import Manifest, Output
from edgeveil.edge_runtime.sinks.network import wire
from edgeveil.trainer.collect.feeds.blocks import Block

_HEAD = [
    ("magic", "S4"),
    ("key", "S4"),
    ("sender", "S8"),
    ("number", ">u8"),
    ("index", ">i8"),
    ("tick_ns", ">i8"),
    ("slot", ">u2"),
    ("zero", ">u2"),
    ("bytes", ">u4"),
]  # as wire.Format packs it


class Records:
    """Decodes the records of one bundle. ``mine`` tells those from others."""

    def __init__(self, manifest: Manifest, output: Output) -> None:
        self.format = wire.Format(manifest.outputs, manifest)
        self.mine = self.format.mine
        columns = [(f"output {one.name}", np.dtype(one.dtype).newbyteorder("<"), one.shape) for one in manifest.outputs]
        self._dtype = np.dtype([*_HEAD, *columns])
        self._column, self._native = f"output {output.name}", np.dtype(output.dtype)

    def block(self, records: list[bytes]) -> Block:
        """The reports of records that are ``mine``."""
        rows = np.frombuffer(b"".join(records), self._dtype)
        reports = rows[self._column].astype(self._native)
        return Block(
            reports, rows["sender"], rows["number"].astype(np.uint64), rows["slot"], rows["index"].astype(np.int64)
        )
