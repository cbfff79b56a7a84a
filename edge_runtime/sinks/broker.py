"""An MQTT broker: where ``mqtt://HOST/TOPIC`` or ``mqtts://`` leads, and a client for it, through paho-mqtt."""

import http.client
import os
import re
import ssl
from typing import Any, Dict, Optional

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, Missing
from edgeveil.edge_runtime.late_imports import load
from edgeveil.edge_runtime.sinks.network_base import TIMEOUT_S, ConnectionLost
from edgeveil.edge_runtime.sinks.uri import LOOPBACK, Known, address, secret

# TLS for sinks: certificates and host names are always checked.


FILES: Known = {"ca": str, "cert": str, "key": str}


def context(options: Dict[str, Any]) -> ssl.SSLContext:
    """A client's context: ``ca`` is a file of authorities (default: the system's), ``cert`` and ``key`` its own.

    Raises ``BadInput`` where a file is not there or not what it should be.
    """
    if ("cert" in options) != ("key" in options):
        raise BadInput("a client certificate needs both cert=FILE and key=FILE")
    try:
        tls_context = ssl.create_default_context(cafile=options.get("ca"))
        if hasattr(tls_context, "minimum_version"):
            tls_context.minimum_version = ssl.TLSVersion.TLSv1_2  # novm: asked for in the line above
        else:
            # Python 3.6.
            tls_context.options |= ssl.OP_NO_TLSv1 | ssl.OP_NO_TLSv1_1
        if "cert" in options:
            tls_context.load_cert_chain(options["cert"], options["key"])
    except (OSError, ssl.SSLError):
        files = ", ".join("{}={}".format(name, options[name]) for name in sorted(FILES) if name in options)
        raise BadInput("expected readable PEM files for TLS; got {}".format(files)) from None
    return tls_context


class NeedsClient(DeviceFailed):
    """A broker's client is not installed. The user can install it: exit code 2."""

    exit_code = 2


def client(module: str, what: str, library: str) -> Any:
    """``late_imports.load``; raises ``NeedsClient``."""
    try:
        return load(module, what, library)
    except Missing as problem:
        raise NeedsClient(str(problem)) from None


def paho() -> Any:
    """The client module, of paho-mqtt 1.6 (Python 3.6) or 2; raises ``NeedsClient``."""
    return client("paho.mqtt.client", "MQTT needs paho-mqtt", "paho")


def checked_topic(text: str) -> str:
    """A topic to publish to or listen on; raises ``BadInput`` for one with wildcards, empty levels, or characters that
    a broker refuses."""
    right = re.fullmatch(r"[^+#$/][^+#]{0,199}", text) and text.isprintable()
    if not right or text.endswith("/") or "//" in text:
        raise BadInput("expected a topic as hall/door, printable and without + and #; got {!a}".format(text))
    return text


class Broker(object):
    """The broker of a URI: ``host`` and ``port`` (``where``), ``path`` and ``topic``; ``name`` is all that without
    secrets.

    ``options`` are those of the URI, of which ``known`` are not the broker's. The password comes from a file or the
    environment. Raises ``BadInput``, ``NeedsClient``.
    """

    def __init__(self, uri: str, known: Optional[Known] = None) -> None:
        secure = uri.startswith("mqtts:")
        options: Known = dict(known or {}, user=str, password_file=str, client_id=str, **(FILES if secure else {}))
        self.host, self.port, self.path, self.options = address(uri, 8883 if secure else 1883, options)
        for name in ("client_id", "user"):
            if not self.options.get(name, "").isprintable():
                raise BadInput("expected printable characters in {}; got others".format(name))
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
        self._tls = context(self.options) if secure else None
        self.name = "{}://{}/{}".format("mqtts" if secure else "mqtt", self.where, self.topic)

    @property
    def newest(self) -> int:
        """The newest version of MQTT that the installed client has with reasons: 5, or 4, which is called 3.1.1."""
        return 5 if hasattr(self.paho, "CallbackAPIVersion") else 4

    def client(self, client_id: str, *, reconnect: bool, version: int = 4) -> Any:
        """A client that is not connected. ``reconnect``: it comes back by itself after a lost connection."""
        settings = {"client_id": client_id, "reconnect_on_failure": reconnect}  # type: Dict[str, Any]
        if version == 5:
            settings["protocol"] = self.paho.MQTTv5
        else:
            settings["clean_session"] = True
        if hasattr(self.paho, "CallbackAPIVersion"):
            settings["callback_api_version"] = self.paho.CallbackAPIVersion.VERSION2
        client = self.paho.Client(**settings)
        if self._user:
            client.username_pw_set(self._user, self._password)
        if self._tls:
            client.tls_set_context(self._tls)
        return client


# An HTTP server: where ``http://HOST/PATH`` or ``https://`` leads, and one POST to it.


_ANSWER_BYTES = 2**16


class Server(object):
    """The server of a URI: its ``path``, and ``name``, which is all that without secrets.

    ``options`` are those of the URI, of which ``known`` are not the server's. An Authorization header comes from a file
    or the environment. Raises ``BadInput``.
    """

    def __init__(self, uri: str, known: Optional[Known] = None) -> None:
        secure = uri.startswith("https:")
        options: Known = dict(known or {}, authorization_file=str, **(FILES if secure else {}))
        self._host, self._port, path, self.options = address(uri, 443 if secure else 80, options)
        self.path = path or "/"
        if any(ord(c) <= 32 or ord(c) > 126 for c in self.path):
            raise BadInput("expected an address of printable ASCII without spaces; got another character in its path")
        authorization = secret(
            self.options.get("authorization_file"),
            os.environ.get("EDGEVEIL_HTTP_AUTHORIZATION"),
            "an Authorization header",
        )
        if authorization and not secure and self._host not in LOOPBACK:
            raise BadInput("an Authorization header would cross the network in the clear: use https://")
        self._headers = {"Authorization": authorization} if authorization else {}
        self._secure: Optional[ssl.SSLContext] = context(self.options) if secure else None
        # Without its path: that of a webhook is its password.
        rest = "/..." if self.path != "/" else "/"
        self.name = "{}://{}:{}{}".format("https" if secure else "http", self._host, self._port, rest)

    def client(self) -> Any:
        """A connection that is not open yet."""
        if self._secure:
            return http.client.HTTPSConnection(self._host, self._port, timeout=TIMEOUT_S, context=self._secure)
        return http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)

    def post(self, client: Any, kind: str, data: bytes, **headers: str) -> int:
        """The status that the server answers; follows no redirects. Raises ``ConnectionLost`` and ``OSError``."""
        try:
            client.request("POST", self.path, data, dict(self._headers, **{"Content-Type": kind}, **headers))
            answer = client.getresponse()
            rest = len(answer.read(_ANSWER_BYTES + 1))
        except http.client.HTTPException as error:
            raise ConnectionLost("the server did not answer in HTTP ({})".format(type(error).__name__)) from None
        if rest > _ANSWER_BYTES:
            raise ConnectionLost("the server answers with more than {} bytes".format(_ANSWER_BYTES))
        return int(answer.status)
