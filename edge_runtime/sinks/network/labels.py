"""Labels as events.

A label is sent with every tick, changed or not, in messages of one size, so that an observer of encrypted traffic does
not learn when it changes. Receivers find the changes themselves.
"""

import json
from typing import Iterator, List, Optional, Tuple

from edgeveil.edge_runtime.manifest.manifest import Manifest, Output
from edgeveil.edge_runtime.sinks.network.wire import Record, json_bytes


class Labels(object):
    """The label outputs of a bundle, under ``topic``: their ``names`` and ``classes``, and the number of ``slots``."""

    def __init__(self, topic: str, outputs: List[Output], manifest: Optional[Manifest]) -> None:
        self._topic = topic
        self.names = [o.name for o in outputs if o.kind == "label"]
        self.classes = list(manifest.perturber.target_classes) if manifest else []
        self.target = manifest.perturber.target if manifest else "label"
        self.slots = manifest.capture.slots if manifest and manifest.capture else 1

    def events(self, record: Record) -> Iterator[Tuple[str, bytes]]:
        """Topic and message of each label of a record."""
        for name in self.names:
            yield self.topic_of(name, record.slot), self._message(record, name)

    def topic_of(self, name: str, slot: int) -> str:
        """Where the label ``name`` of a slot is sent to."""
        return "{}/label/{}/{}".format(self._topic, name, slot)

    def _message(self, record: Record, name: str) -> bytes:
        label = int(record.outputs[name])
        called = self.classes[label] if 0 <= label < len(self.classes) else None
        document = {"id": record.id, "label": label, "name": called, "tick": record.index, "tick_ns": record.tick_ns}
        longest_name = max([len(json.dumps(name)) for name in self.classes] or [0])
        # JSON allows spaces after a document. 192 leaves room for ticks and numbers to grow.
        return json_bytes(document).ljust(192 + longest_name, b" ")
