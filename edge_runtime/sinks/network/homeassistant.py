"""Home Assistant's MQTT discovery: one retained document for each entity, and for each trigger of an automation.

Its reader says what may stand there: https://www.home-assistant.io/integrations/mqtt/#mqtt-discovery
"""

import re
from typing import Any, Dict, Iterator, Optional, Tuple

from edgeveil.edge_runtime.manifest.count import CountRules
from edgeveil.edge_runtime.sinks.network.labels import Labels

Document = Dict[str, Any]
_ONLINE = "{{ 'online' if value_json.state == 'running' else 'offline' }}"
_LATE_S = 30  # after two periods: then a count is as good as none
STATES = ("running", "degraded", "spent", "offline")


class Discovery(object):
    """The documents of one stream under ``topic``. ``prefix`` is Home Assistant's; ``about`` as ``about.about`` has it;
    ``rules`` are those of what is counted, or None."""

    def __init__(self, topic: str, prefix: str, labels: Labels, about: Document, rules: Optional[CountRules]) -> None:
        self._topic, self._prefix, self._labels, self._about, self._rules = topic, prefix, labels, about, rules
        self._node = "edgeveil_" + _word(topic)

    def documents(self) -> Iterator[Tuple[str, Document]]:
        """(topic, document) of everything there is."""
        yield from self._of_labels()
        if self._rules is not None:
            yield from self._of_counts(self._rules)
        yield from self._of_device()

    def _of_labels(self) -> Iterator[Tuple[str, Document]]:
        labels = self._labels
        for name in labels.names:
            for slot in range(labels.slots):
                document: Document = {
                    "name": "{} {}".format(labels.target, slot + 1) if labels.slots > 1 else labels.target,
                    "state_topic": labels.topic_of(name, slot),
                    "value_template": "{{ value_json.name }}" if labels.classes else "{{ value_json.label }}",
                }
                if labels.classes:
                    document.update(device_class="enum", options=labels.classes)
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
        # Unknown where nobody measured it.
        attack = "{{ value_json.attack if value_json.attack is none else (100 * value_json.attack) | round(1) }}"
        yield self._entity(
            "sensor",
            "attack",
            dict(about, name="best attack found", value_template=attack, unit_of_measurement="%"),
        )
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


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", text)


def _bin(edges: Any, number: int) -> str:
    if number == 0:
        return "under {:g} s".format(edges[0])
    if number == len(edges):
        return "over {:g} s".format(edges[-1])
    return "{:g} to {:g} s".format(edges[number - 1], edges[number])
