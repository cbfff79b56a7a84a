"""Labels as events, and Home Assistant's MQTT discovery for them.

A label is sent with every tick, changed or not, in messages of one size, so that an observer of encrypted traffic does
not learn when it changes. Home Assistant finds the changes itself.
"""

import json
import re
from typing import Any, Dict, Iterator, List, Optional, Tuple

from edgeveil.edge_runtime.manifest.manifest import Manifest, Output
from edgeveil.edge_runtime.sinks.network.wire import Record, json_bytes


class Labels(object):
    """The label outputs of a bundle, under ``topic``. ``prefix`` is Home Assistant's; None turns discovery off."""

    def __init__(self, topic: str, outputs: List[Output], manifest: Optional[Manifest], prefix: Optional[str]) -> None:
        self._topic, self._prefix = topic, prefix
        self._names = [o.name for o in outputs if o.kind == "label"]
        self._classes = list(manifest.perturber.target_classes) if manifest else []
        self._target = manifest.perturber.target if manifest else "label"
        self._slots = manifest.capture.slots if manifest and manifest.capture else 1
        self.any = bool(self._names)

    def events(self, record: Record) -> Iterator[Tuple[str, bytes]]:
        """Topic and message of each label of a record."""
        for name in self._names:
            yield self._topic_of(name, record.slot), self._message(record, name)

    def discovery(self) -> Iterator[Tuple[str, Dict[str, Any]]]:
        """Retained topic and document of each label and slot, for Home Assistant's MQTT discovery."""
        if not self._prefix:
            return
        node = "edgeveil_" + re.sub(r"[^A-Za-z0-9_-]", "_", self._topic)
        for name in self._names:
            for slot in range(self._slots):
                thing = "{}_{}".format(re.sub(r"[^A-Za-z0-9_-]", "_", name), slot)
                document: Dict[str, Any] = {
                    "name": "{} {}".format(self._target, slot + 1) if self._slots > 1 else self._target,
                    "unique_id": "{}_{}".format(node, thing),
                    "object_id": "{}_{}".format(node, thing),
                    "state_topic": self._topic_of(name, slot),
                    "value_template": "{{ value_json.name }}" if self._classes else "{{ value_json.label }}",
                    "availability_topic": self._topic + "/status",
                    "availability_template": "{{ 'online' if value_json.state == 'running' else 'offline' }}",
                    "device": {"identifiers": [node], "name": self._topic, "manufacturer": "EdgeVeil"},
                    "origin": {"name": "EdgeVeil"},
                }
                if self._classes:
                    document.update(device_class="enum", options=self._classes)
                yield "{}/sensor/{}/{}/config".format(self._prefix, node, thing), document

    def _topic_of(self, name: str, slot: int) -> str:
        return "{}/label/{}/{}".format(self._topic, name, slot)

    def _message(self, record: Record, name: str) -> bytes:
        label = int(record.outputs[name])
        called = self._classes[label] if 0 <= label < len(self._classes) else None
        document = {"id": record.id, "label": label, "name": called, "tick": record.index, "tick_ns": record.tick_ns}
        longest_name = max([len(json.dumps(name)) for name in self._classes] or [0])
        # JSON allows spaces after a document. 192 leaves room for ticks and numbers to grow.
        return json_bytes(document).ljust(192 + longest_name, b" ")
