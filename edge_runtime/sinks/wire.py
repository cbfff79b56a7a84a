"""The network format: one record of fixed size a frame. ``docs/reference/sinks.md`` describes it for receivers.

A record holds its tick, its slot in that tick and the outputs of the manifest. Its size depends on the bundle only, so
that an observer of encrypted traffic learns nothing from it.
"""

import hashlib
import json
import re
import struct
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from edgeveil.edge_runtime import ext
from edgeveil.edge_runtime.bundle.audit_figures import best_attack, chances
from edgeveil.edge_runtime.bundle.policy import audits_of, current_place
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.count import CountRules
from edgeveil.edge_runtime.manifest.manifest import Manifest, Output, PerturberFacts

MAGIC = b"EVF1"
NO_TICK = -(2**63)
# magic, format, stream, number in the stream, tick, tick_ns, slot, 0, bytes that follow
_HEADER = struct.Struct(">4s4s8sQqqHHI")
HEADER_BYTES = _HEADER.size

Record = NamedTuple(
    "Record",
    [
        ("id", str),  # the stream and the number in it; the same when a record is sent twice
        ("index", int),
        ("tick_ns", Optional[int]),
        ("slot", int),
        ("outputs", Dict[str, Any]),
    ],
)


def json_bytes(document: Dict[str, Any]) -> bytes:
    """A JSON document with sorted keys."""
    return json.dumps(document, sort_keys=True).encode("utf-8")


class Format(object):
    """Encodes and decodes the frames of one bundle.

    ``outputs`` are the manifest's, ``manifest`` is the whole of it, or None. Receivers get ``document`` before the
    first record; ``key``, four bytes in every record, identifies it.
    """

    def __init__(self, outputs: List[Output], manifest: Optional[Manifest] = None) -> None:
        bundle: Optional[Dict[str, Any]] = None
        if manifest:
            bundle = {name: getattr(manifest, name) for name in ("name", "created", "security_version")}
        self.outputs: List[Dict[str, Any]] = [
            {"name": o.name, "kind": o.kind, "shape": list(o.shape), "dtype": o.dtype} for o in outputs
        ]
        document = {"schema": 1, "kind": "edgeveil-format", "record": "EVF1", "outputs": self.outputs, "bundle": bundle}
        self.key = hashlib.sha256(json_bytes(document)).digest()[:4]
        self.document: Dict[str, Any] = dict(document, key=self.key.hex())
        self._dtypes = [np.dtype(o.dtype).newbyteorder("<") for o in outputs]
        counts = [int(np.prod(o.shape, dtype=np.int64)) for o in outputs]
        self._sizes = [dtype.itemsize * count for dtype, count in zip(self._dtypes, counts)]
        self.payload_bytes = sum(self._sizes)
        self.record_bytes = HEADER_BYTES + self.payload_bytes

    def encode(self, frame: Any, stream: bytes, number: int) -> bytes:
        """The record of a ``PerturbedFrame``, number ``number`` of ``stream`` (eight bytes)."""
        tick_ns = NO_TICK if frame.tick_ns is None else frame.tick_ns
        parts = [_HEADER.pack(MAGIC, self.key, stream, number, frame.index, tick_ns, frame.slot, 0, self.payload_bytes)]
        for output, dtype in zip(self.outputs, self._dtypes):
            parts.append(np.ascontiguousarray(frame.outputs[output["name"]]).astype(dtype, copy=False).tobytes())
        return b"".join(parts)

    def mine(self, record: bytes) -> bool:
        """Whether these bytes are a record of this format."""
        return len(record) == self.record_bytes and record[:8] == MAGIC + self.key

    def decode(self, record: bytes) -> Record:
        """The ``Record`` of these bytes. Raises ``BadInput`` if they are none of this format."""
        if not self.mine(record):
            raise BadInput(
                "expected a record of {} bytes of the format {}; got {} bytes".format(
                    self.record_bytes, self.key.hex(), len(record)
                )
            )
        _, _, stream, number, index, tick_ns, slot, _, _ = _HEADER.unpack_from(record)
        outputs, at = {}, HEADER_BYTES
        for output, dtype, size in zip(self.outputs, self._dtypes, self._sizes):
            outputs[output["name"]] = np.frombuffer(record[at : at + size], dtype).reshape(output["shape"])
            at += size
        name = "{}-{}".format(stream.hex(), number)
        return Record(name, index, None if tick_ns == NO_TICK else tick_ns, slot, outputs)


# What a bundle is, as one retained document: its version and the attack figure of its audit.


def about(manifest: Optional[Manifest], audit: Optional[Mapping[str, Any]], runs: Mapping[str, str]) -> Dict[str, Any]:
    """``bundle`` and ``version`` (when it was made), None without a manifest; ``sensitive``; ``attack``, the share that
    the best attack found guesses, and ``chance`` (by the prior), both None where no one measured what runs here;
    ``watched``, whether the codes that leave are compared with those of the audit.

    ``audit`` is the checked audit document, ``runs`` has the ``artefact`` and the ``device`` that runs it.
    """
    document: Dict[str, Any] = dict.fromkeys(("attack", "bundle", "chance", "sensitive", "version"))
    document.update(kind="edgeveil-about", schema=1, watched=False)
    if manifest is None:
        return document
    document.update(bundle=manifest.name, version=manifest.created, sensitive=manifest.perturber.sensitive)
    document["watched"] = ext.distance.reference_of(audit, manifest.crops) is not None
    if audit is not None:
        device = runs.get("device", CPU)
        shown = [audit] if device == CPU else audits_of(audit, runs.get("artefact", ""), device, current_place())
        if shown:
            worst = max(shown, key=lambda part: best_attack(part)["value"])
            document.update(attack=best_attack(worst)["value"], chance=chances(worst)["prior"])
    return document


# Labels as events.
#
# A label is sent with every tick, changed or not, in messages of one size, so that an observer of encrypted traffic
# does not learn when it changes. Receivers find the changes themselves.


class Labels(object):
    """The label outputs of a bundle, under ``topic``: their ``names`` and ``classes``, and the number of ``slots``."""

    def __init__(self, topic: str, outputs: List[Output], manifest: Optional[Manifest]) -> None:
        self._topic = topic
        self.names = [o.name for o in outputs if o.kind == "label"]
        self._facts = manifest.perturber if manifest else PerturberFacts(target="label")
        self.classes, self.target = list(self._facts.target_classes), self._facts.target
        self.slots = manifest.capture.slots if manifest and manifest.capture else 1
        # JSON allows spaces after a document. 192 leaves room for ticks and numbers to grow.
        self.message_bytes = 192 + max([len(json.dumps(name)) for name in self.classes] or [0])

    def events(self, record: Record) -> Iterator[Tuple[str, bytes]]:
        """Topic and message of each label of a record."""
        for name in self.names:
            yield self.topic_of(name, record.slot), self._message(record, name)

    def name_of(self, label: int) -> Optional[str]:
        """The class of a label; None where the bundle names none."""
        return self._facts.class_of(label)

    def topic_of(self, name: str, slot: int) -> str:
        """Where the label ``name`` of a slot is sent to."""
        return "{}/label/{}/{}".format(self._topic, name, slot)

    def _message(self, record: Record, name: str) -> bytes:
        label = int(record.outputs[name])
        document = {"id": record.id, "label": label, "tick": record.index, "tick_ns": record.tick_ns}
        document["name"] = self.name_of(label)
        return json_bytes(document).ljust(self.message_bytes, b" ")


# Home Assistant's MQTT discovery: one retained document for each entity, and for each trigger of an automation.
#
# Its reader says what may stand there: https://www.home-assistant.io/integrations/mqtt/#mqtt-discovery


Document = Dict[str, Any]
_ONLINE = "{{ 'online' if value_json.state == 'running' else 'offline' }}"
_LATE_S = 30  # after two periods: then a count is as good as none
_SHORT = 12  # digits of a manifest's hash
NO_STATE = frozenset(["None", "unavailable", "unknown"])  # words by which Home Assistant means that there is no state
STATES = ("running", "degraded", "spent", "aiming", "offline")


class Discovery(object):
    """The documents of one stream under ``topic``. ``prefix`` is Home Assistant's; ``about`` as ``about.about`` has it;
    ``rules`` are those of what is counted, or None; ``pictures``: the frames are sent as PNG too."""

    def __init__(
        self,
        topic: str,
        prefix: str,
        labels: Labels,
        about: Document,
        rules: Optional[CountRules],
        *,
        pictures: bool = False,
    ) -> None:
        self._topic, self._prefix, self._labels, self._about, self._rules = topic, prefix, labels, about, rules
        self._pictures = pictures
        self._node = "edgeveil_" + _word(topic, "[A-Za-z0-9/-]+")

    def documents(self) -> Iterator[Tuple[str, Document]]:
        """(topic, document) of everything there is."""
        yield from self._of_labels()
        if self._rules is not None:
            yield from self._of_counts(self._rules)
        for slot in range(self._labels.slots if self._pictures else 0):
            picture = {
                "name": "picture {}".format(slot + 1) if self._labels.slots > 1 else "picture",
                "image_topic": picture_topic(self._topic, slot),
                "content_type": "image/png",
            }
            yield self._entity("image", "picture_{}".format(slot), picture, while_running=True)
        yield from self._of_device()

    def _of_labels(self) -> Iterator[Tuple[str, Document]]:
        labels, template = self._labels, "{{ value_json.name }}" if self._labels.classes else "{{ value_json.label }}"
        if NO_STATE.intersection(labels.classes):
            template = "{{ '(%s)' % value_json.name if value_json.name in RESERVED else value_json.name }}"
            template = template.replace("RESERVED", repr(sorted(NO_STATE)))
        for name in labels.names:
            for slot in range(labels.slots):
                document: Document = {
                    "name": "{} {}".format(labels.target, slot + 1) if labels.slots > 1 else labels.target,
                    "state_topic": labels.topic_of(name, slot),
                    "value_template": template,
                }
                if labels.classes:
                    document.update(device_class="enum", options=[_shown(name) for name in labels.classes])
                yield self._entity("sensor", "{}_{}".format(_word(name), slot), document, while_running=True)

    def _of_counts(self, rules: CountRules) -> Iterator[Tuple[str, Document]]:
        for kind, place, what in rules.names:
            if what.startswith("dwell-"):
                value = "value_json.zones['{}'].dwell[{}]".format(place, what[6:])
                name = "{} stays {}".format(place, _bin(rules.dwell_s, int(what[6:])))
            else:
                value = "value_json.{}s['{}']['{}']".format(kind, place, what)
                name = "{} {}".format(place, "people" if what == "occupancy" else what)
            counted = {"name": name, "value_template": "{{ " + value + " }}", "state_class": "measurement"}
            yield self._count("sensor", "{}_{}_{}".format(kind, _word(place), _word(what)), counted, rules)
            # With noise, a number above 0 does not say that anybody is there.
            if what == "occupancy" and rules.noise is None:
                template = "{{ 'None' if VALUE is none else ('ON' if VALUE > 0 else 'OFF') }}".replace("VALUE", value)
                occupied = {"name": place + " occupied", "device_class": "occupancy", "value_template": template}
                yield self._count("binary_sensor", "zone_{}_occupied".format(_word(place)), occupied, rules)

    def _of_device(self) -> Iterator[Tuple[str, Document]]:
        state = {
            "name": "state",
            "state_topic": self._topic + "/status",
            "value_template": "{{ value_json.state }}",
            "device_class": "enum",
            "options": list(STATES),
            "entity_category": "diagnostic",
        }
        yield self._entity("sensor", "state", state)
        about = {"state_topic": self._topic + "/about", "entity_category": "diagnostic"}
        version = "{{ value_json.bundle }} {{ value_json.version }}"
        yield self._entity("sensor", "version", dict(about, name="version", value_template=version))
        # Unknown where no one measured it.
        attack = "{{ value_json.attack if value_json.attack is none else (100 * value_json.attack) | round(1) }}"
        yield self._entity(
            "sensor", "attack", dict(about, name="best attack found", value_template=attack, unit_of_measurement="%")
        )
        update = {
            "name": "release",
            "state_topic": self._topic + "/update",
            "device_class": "firmware",
            "entity_category": "diagnostic",
        }
        yield self._entity("update", "update", update)
        if self._about["watched"]:
            yield from self._of_shift()
        for word in STATES:
            trigger = {
                "automation_type": "trigger",
                "type": word,
                "subtype": "stream",
                "topic": self._topic + "/status",
                "value_template": "{{ value_json.state }}",
                "payload": word,
            }
            yield self._place("device_automation", word), self._whose(trigger)

    def _of_shift(self) -> Iterator[Tuple[str, Document]]:
        at = {"state_topic": self._topic + "/shift", "entity_category": "diagnostic"}
        value = "{{ none if value_json.distance is undefined else (100 * value_json.distance) | round(1) }}"
        share = dict(at, name="shift from the audit", value_template=value, unit_of_measurement="%")
        yield self._entity("sensor", "shift", share)
        template = "{{ 'ON' if value_json.state == 'shifted' else 'OFF' }}"
        shifted = dict(at, name="shifted", device_class="problem", value_template=template)
        yield self._entity("binary_sensor", "shifted", shifted)

    def _count(self, component: str, thing: str, document: Document, rules: CountRules) -> Tuple[str, Document]:
        topics = {"state_topic": self._topic + "/count", "expire_after": 2 * rules.period_s + _LATE_S}
        return self._entity(component, thing, dict(document, **topics), while_running=True)

    def _entity(
        self, component: str, thing: str, document: Document, *, while_running: bool = False
    ) -> Tuple[str, Document]:
        """``while_running``: it is unavailable in any other state."""
        own: Document = {
            "unique_id": "{}_{}".format(self._node, thing),
            "default_entity_id": component + "." + re.sub("[^a-z0-9_]", "_", (self._node + "_" + thing).lower()),
        }
        if while_running:
            own.update(availability_topic=self._topic + "/status", availability_template=_ONLINE)
        return self._place(component, thing), self._whose(dict(document, **own))

    def _place(self, component: str, thing: str) -> str:
        return "{}/{}/{}/{}/config".format(self._prefix, component, self._node, thing)

    def _whose(self, document: Document) -> Document:
        device = {"identifiers": [self._node], "name": self._topic, "manufacturer": "EdgeVeil"}
        if self._about["bundle"] is not None:
            device.update(model=self._about["bundle"], sw_version=self._about["version"])
        return dict(document, device=device, origin={"name": "EdgeVeil"})


def picture_topic(topic: str, slot: int) -> str:
    """Where the pictures of a slot are sent to."""
    return "{}/picture/{}".format(topic, slot)


def update_document(title: Optional[str], running: str, offered: str) -> Document:
    """What Home Assistant's ``update`` reads: a release is called by its manifest's hash."""
    installed, latest = ("sha256:" + one[:_SHORT] for one in (running, offered))
    return {"installed_version": installed, "latest_version": latest, "title": title or "EdgeVeil"}


def _shown(name: str) -> str:
    """A class as Home Assistant shows it."""
    return "({})".format(name) if name in NO_STATE else name


def _word(text: str, plain: str = "[A-Za-z0-9_-]+") -> str:
    """``text`` as an identity of Home Assistant, which has letters, digits, "_" and "-" alone: another for each text.

    One of ``plain`` characters is its own, and has nothing to be told apart from.
    """
    word = re.sub(r"[^A-Za-z0-9_-]", "_", text)
    return word if re.fullmatch(plain, text) else word + "_" + hashlib.sha256(text.encode("utf-8")).hexdigest()[:8]


def _bin(edges: Any, number: int) -> str:
    if number == 0:
        return "under {:g} s".format(edges[0])
    if number == len(edges):
        return "over {:g} s".format(edges[-1])
    return "{:g} to {:g} s".format(edges[number - 1], edges[number])
