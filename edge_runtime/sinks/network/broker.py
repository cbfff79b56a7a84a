"""An MQTT broker: where ``mqtt://HOST/TOPIC`` or ``mqtts://`` leads, and a client for it, through paho-mqtt."""

import importlib
import os
import re
from typing import Any, Optional

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.sinks.network import tls
from edgeveil.edge_runtime.sinks.uri import LOOPBACK, Known, address, secret


class NeedsPaho(DeviceFailed):
    """paho-mqtt is not installed. The user can install it: exit code 2."""

    exit_code = 2


def paho() -> Any:
    """The client module, of paho-mqtt 1.6 (Python 3.6) or 2; raises ``NeedsPaho``."""
    try:
        return importlib.import_module("paho.mqtt.client")
    except ImportError:
        raise NeedsPaho("MQTT needs paho-mqtt, which is not here: pip install 'paho-mqtt>=1.6,<3'") from None


def checked_topic(text: str) -> str:
    """A topic to publish to or listen on; raises ``BadInput`` for one with wildcards or empty levels."""
    if not re.fullmatch(r"[^+#\x00-\x1f$/][^+#\x00-\x1f]{0,199}", text) or text.endswith("/") or "//" in text:
        raise BadInput("expected a topic as hall/door, without + and #; got {!r}".format(text))
    return text


class Broker(object):
    """The broker of a URI: ``host`` and ``port`` (``where``), ``path`` and ``topic``; ``name`` is all that without
    secrets.

    ``options`` are those of the URI, of which ``known`` are not the broker's. The password comes from a file or the
    environment. Raises ``BadInput``, ``NeedsPaho``.
    """

    def __init__(self, uri: str, known: Optional[Known] = None) -> None:
        secure = uri.startswith("mqtts:")
        options: Known = dict(known or {}, user=str, password_file=str, client_id=str, **(tls.FILES if secure else {}))
        self.host, self.port, self.path, self.options = address(uri, 8883 if secure else 1883, options)
        self.topic, self.where = checked_topic(self.path[1:]), "{}:{}".format(self.host, self.port)
        self.paho = paho()
        self._user = self.options.get("user") or os.environ.get("EDGEVEIL_MQTT_USERNAME")
        self._password = secret(
            self.options.get("password_file"), os.environ.get("EDGEVEIL_MQTT_PASSWORD"), "the password for the broker"
        )
        if self._password and not self._user:
            raise BadInput("a password for the broker needs user=NAME, or EDGEVEIL_MQTT_USERNAME")
        if self._password and not secure and self.host not in LOOPBACK:
            raise BadInput("the password would cross the network in the clear: use mqtts://")
        self._tls = tls.context(self.options) if secure else None
        self.name = "{}://{}/{}".format("mqtts" if secure else "mqtt", self.where, self.topic)

    def client(self, client_id: str, *, reconnect: bool) -> Any:
        """A client that is not connected. ``reconnect``: it comes back by itself after a lost connection."""
        settings = {"client_id": client_id, "reconnect_on_failure": reconnect, "clean_session": True}
        if hasattr(self.paho, "CallbackAPIVersion"):
            settings["callback_api_version"] = self.paho.CallbackAPIVersion.VERSION2
        client = self.paho.Client(**settings)
        if self._user:
            client.username_pw_set(self._user, self._password)
        if self._tls:
            client.tls_set_context(self._tls)
        return client
