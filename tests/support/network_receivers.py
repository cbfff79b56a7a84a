"""Frames, formats and a real broker for the tests of sinks."""

import contextlib
import datetime
import ipaddress
import os
import signal
import socket
import subprocess
import time

import numpy as np

from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame
from edgeveil.edge_runtime.manifest.manifest import parse
from tests.support import programs

MANIFEST = parse(
    {
        "name": "hall",
        "created": "2026-11-21T12:00:00Z",
        "security_version": 1,
        "perturber": {"kind": "prgan", "target": "posture", "sensitive": "who", "target_classes": ["empty", "walking"]},
        "input": {"name": "x", "kind": "image", "shape": [4, 5, 1], "dtype": "uint8", "low": 0.0, "high": 255.0},
        "outputs": [
            {"name": "frame", "kind": "frame", "tensor": "x_out", "shape": [4, 5, 1], "dtype": "uint8"},
            {"name": "label", "kind": "label", "tensor": "label", "shape": [], "dtype": "int64"},
        ],
        "privacy": {"file": None, "speaks_of": {}},
    }
)
OUTPUTS = MANIFEST.outputs


def frame(index, slot=0):
    data = np.full((4, 5, 1), index % 251, np.uint8)
    return PerturbedFrame(
        index, {"frame": data, "label": np.int64(index % 2)}, _PIPELINE, slot=slot, tick_ns=10**18 + index * 10**8
    )


def free_port():
    """A port outside those that the system gives to clients: who tries to connect there again and again while nobody
    listens can in the end be connected to themselves, and then nobody can listen."""
    while True:
        port = 15_000 + int.from_bytes(os.urandom(2), "big") % 15_000
        with contextlib.closing(socket.socket()) as server, contextlib.suppress(OSError):
            server.bind(("127.0.0.1", port))
            return port


def eventually(condition, seconds=10.0):
    """Whether it comes true in that time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class Broker:
    """A real mosquitto on a port of its own, which can be killed and started again."""

    def __init__(self, folder, *settings):
        self.port = free_port()
        self._file = folder / "mosquitto.conf"
        lines = [f"listener {self.port} 127.0.0.1", "persistence false", "max_queued_messages 0", *settings]
        if not any("allow_anonymous" in line for line in settings):
            lines.append("allow_anonymous true")
        self._file.write_text("\n".join(lines) + "\n")
        self._process = None
        self.start()

    def start(self):
        self._process = subprocess.Popen(
            [programs.need("mosquitto"), "-c", str(self._file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        assert eventually(self._listens)

    def _listens(self):
        with contextlib.closing(socket.socket()) as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def hang(self):
        self._process.send_signal(signal.SIGSTOP)

    def kill(self):
        self._process.kill()
        self._process.wait()


class Listener:
    """A subscriber that keeps every message and comes back by itself when the broker does."""

    def __init__(self, port, topic="#", **tls):
        import paho.mqtt.client as mqtt

        self.messages = []
        self._ready = 0
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        self.client.reconnect_delay_set(0.1, 0.2)
        if tls:
            self.client.tls_set(**tls)
        self.client.on_connect = lambda client, *_: client.subscribe(topic, qos=1)
        self.client.on_subscribe = lambda *_: setattr(self, "_ready", self._ready + 1)
        self.client.on_message = lambda _client, _data, message: self.messages.append(message)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        self.subscribed(1)

    def subscribed(self, times):
        assert eventually(lambda: self._ready >= times)

    def on(self, topic):
        return [message.payload for message in list(self.messages) if message.topic == topic]

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


def certificates(folder, host="localhost"):
    """An authority and a server's certificate for ``host``, made now; ``(ca, cert, key)``."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    day = datetime.timedelta(days=1)
    now = datetime.datetime.now(datetime.timezone.utc)

    def made(name, key, issuer, issuer_key, *extensions):
        builder = x509.CertificateBuilder(
            issuer, name, key.public_key(), x509.random_serial_number(), now - day, now + day
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=True)
        return builder.sign(issuer_key, hashes.SHA256())

    def named(text):
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = made(named("a test"), ca_key, named("a test"), ca_key, x509.BasicConstraints(ca=True, path_length=None))
    alternative = x509.SubjectAlternativeName([x509.DNSName(host), x509.IPAddress(ipaddress.ip_address("::1"))])
    cert = made(named(host), key, named("a test"), ca_key, alternative)
    pem = serialization.Encoding.PEM
    paths = folder / "ca.pem", folder / "cert.pem", folder / "key.pem"
    paths[0].write_bytes(ca.public_bytes(pem))
    paths[1].write_bytes(cert.public_bytes(pem))
    paths[2].write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return paths
