"""A receiver that refuses the connection, the password, the certificate or the topic: the reason and what to do.

Against real parts: mosquitto with a password file and an access list, TLS with authorities made here, HTTP servers.
"""

import contextlib
import json
import signal
import socket
import subprocess
import threading
import urllib.request

import pytest

from edgeveil.edge_runtime.outside import status
from edgeveil.edge_runtime.sinks import open_sinks
from edgeveil.edge_runtime.sinks.network_base import LOGIN, NOTHING_YET, explain
from tests.edge_runtime.outside.test_service import wide  # noqa: F401 - a fixture
from tests.edge_runtime.sinks.test_network_http_tcp import Server
from tests.support import broker_services, network_receivers, programs

pytestmark = pytest.mark.programs
WRITE = "let the board's user write hall/door and hall/door/# in the broker's access list"
SECRETS = ("sesame", "barley", "hook-7c1")


def password(folder, word):
    """Set the password of the user ``door`` in the file of the broker."""
    (folder / "passwords").touch(mode=0o600)
    tool = programs.need("mosquitto_passwd", "mosquitto")
    subprocess.run([tool, "-b", str(folder / "passwords"), "door", word], check=True, capture_output=True)


@pytest.fixture
def broker(tmp_path):
    """Starts a mosquitto that knows the user ``door``, who may write hall/door."""
    with contextlib.ExitStack() as ends:

        def start(*settings, allowed="user door\ntopic readwrite hall/#\ntopic write homeassistant/#\n"):
            password(tmp_path, "open sesame")
            for name, text in (("acl", allowed), ("right", "open sesame\n"), ("wrong", "open barley\n")):
                (tmp_path / name).write_text(text)
                (tmp_path / name).chmod(0o600)
            files = [f"password_file {tmp_path}/passwords", f"acl_file {tmp_path}/acl", "allow_anonymous false"]
            made = network_receivers.Broker(tmp_path, *files, "user root", *settings)
            ends.callback(made.kill)
            return made

        yield start


@contextlib.contextmanager
def problem_of(uri):
    """Says the problem of a sink that gets frames, by its name, once it has one; the name and it hold no secret."""
    said = []
    options = {"say": said.append, "backoff": {"first_s": 0.05, "most_s": 0.2}}
    group = open_sinks([uri], network_receivers.OUTPUTS, network_receivers.MANIFEST, options)
    ((name, sink),) = group.sinks.items()

    def problem():
        assert network_receivers.eventually(lambda: sink.problem() not in ("", NOTHING_YET), 15.0), said
        ((shown, text),) = group.receivers().items()
        assert shown == name
        assert not any(word in shown + text + "".join(said) for word in SECRETS)
        return text

    try:
        for number in range(5):
            group.write(network_receivers.frame(number))
        yield problem, group, said
    finally:
        group.close()


def test_records_that_arrive_are_no_problem(broker, tmp_path):
    uri = f"mqtt://127.0.0.1:{broker().port}/hall/door?user=door&password_file={tmp_path}/right"
    with problem_of(uri) as (_, group, _said):
        assert network_receivers.eventually(lambda: [*group.receivers().values()] == ["ok"])


def test_a_wrong_password_until_it_is_right(broker, tmp_path):
    made = broker()
    uri = f"mqtt://127.0.0.1:{made.port}/hall/door?user=door&password_file={tmp_path}/wrong"
    with problem_of(uri) as (problem, group, said):
        assert problem() == f"the broker refuses the connection (Not authorized); {LOGIN}"
        assert said[0].endswith(f"/hall/door: {problem()}. Frames wait, and the connection is tried again.")
        password(tmp_path, "open barley")
        made._process.send_signal(signal.SIGHUP)
        assert network_receivers.eventually(lambda: [*group.receivers().values()] == ["ok"])


def test_a_topic_that_the_access_list_denies(broker, tmp_path):
    made = broker(allowed="user door\ntopic readwrite $SYS/#\ntopic write hall/door/#\ntopic deny hall/door\n")
    uri = f"mqtt://127.0.0.1:{made.port}/hall/door?user=door&password_file={tmp_path}/right&discovery=off"
    with problem_of(uri) as (problem, _, _said):
        assert problem() == f"the broker refuses records for hall/door (Not authorized); {WRITE}"


@pytest.mark.parametrize(
    ("host", "given", "settings", "words"),
    [
        ("localhost", "", [], "its certificate is refused ("),
        ("localhost", "", [], "); name its authority: ca=FILE"),
        ("127.0.0.1", "?ca={0}/ca.pem", [], "its certificate is for another name (IP address mismatch, "),
        ("127.0.0.1", "?ca={0}/ca.pem", [], "not valid for '127.0.0.1'); write the name that the certificate has"),
        ("localhost", "?ca={0}/ca.pem", ["require_certificate true", "cafile {0}/ca.pem"], "cert= and key="),
    ],
)
def test_a_certificate(broker, tmp_path, host, given, settings, words):
    _, cert, key = network_receivers.certificates(tmp_path)
    made = broker(f"certfile {cert}", f"keyfile {key}", *(one.format(tmp_path) for one in settings))
    with problem_of(f"mqtts://{host}:{made.port}/hall/door" + given.format(tmp_path)) as (problem, _, _said):
        assert words in problem()


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("mqtt://127.0.0.1:{closed}/hall/door", "connection refused; start the receiver there, or name its"),
        ("tcp://127.0.0.1:{closed}", "connection refused; start the receiver there, or name its host and port"),
        ("https://127.0.0.1:{closed}/hook-7c1", "connection refused; start the receiver there"),
        ("mqtt://no-such-host.invalid/hall/door", "; write its address, or have the board's DNS know it"),
        ("tcp://127.0.0.1:{ends}", "; see its own log"),
        ("mqtt://127.0.0.1:{ends}/hall/door", "ends the connection before it answers; name the port of an MQTT broker"),
        ("mqtts://127.0.0.1:{plain}/hall/door", "; name its port for TLS"),
    ],
)
def test_no_receiver_there_or_one_of_another_kind(uri, words):
    with socket.create_server(("127.0.0.1", 0)) as ends:

        def end():
            with contextlib.suppress(OSError):
                while True:
                    with ends.accept()[0] as one:
                        one.settimeout(2)
                        one.recv(1)

        threading.Thread(target=end, daemon=True).start()
        server = Server()
        try:
            ports = {"closed": network_receivers.free_port(), "ends": ends.getsockname()[1], "plain": server.port}
            with problem_of(uri.format(**ports)) as (problem, _, _said):
                assert words in problem()
        finally:
            server.close()
            ends.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (401, "the server answers 401; name a file with the Authorization header that it wants: authorization_file="),
        (404, "the server answers 404; name the path that takes a POST"),
        (301, "the server answers 301; name the address that it leads to"),
        (500, "the server answers 500; see its own log"),
        (413, "the server refuses what is sent (413); see its own log"),
    ],
)
def test_a_server_that_takes_no_record(code, words):
    server = Server(*[code] * 1000)
    try:
        with problem_of(f"http://127.0.0.1:{server.port}/hook-7c1") as (problem, group, _said):
            assert problem() == words
            assert [*group.receivers()] == [f"http://127.0.0.1:{server.port}/..."]
    finally:
        server.close()


def test_the_service_names_it_where_status_looks(broker, wide, tmp_path, monkeypatch):  # noqa: F811 - a fixture
    """A service that runs and sends, its broker with another password: healthz, and what ``status`` reads there."""
    port = network_receivers.free_port()
    uri = f"mqtt://127.0.0.1:{broker().port}/hall/door?user=door&password_file={tmp_path}/wrong"
    words = broker_services.arguments(wide, "fake:0", uri, health=f"127.0.0.1:{port}")
    process = broker_services.start(words, tmp_path)
    refusal = f"the broker refuses the connection (Not authorized); {LOGIN}"

    def receivers():
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
            return json.loads(answer.read())["receivers"]
        return {}

    try:
        shown = uri.partition("?")[0]
        assert network_receivers.eventually(lambda: receivers() == {shown: refusal}, 30.0)
        (tmp_path / "units").mkdir()
        (tmp_path / "units/edgeveil.service").write_text("")
        monkeypatch.setattr(status.paths, "UNITS", str(tmp_path / "units"))
        monkeypatch.setattr(status, "_unit_state", lambda _: "active")
        monkeypatch.setattr(status.config, "read", lambda _: {"health": f"127.0.0.1:{port}"})
        assert status.service_state(status.paths.ROOT)["receivers"] == {shown: refusal}
    finally:
        process.send_signal(signal.SIGTERM)
        broker_services.finish(process)


@pytest.mark.parametrize(
    ("name", "text", "reason", "cure"),
    [
        ("CertificateError", "hostname 'a' doesn't match 'b'", "its certificate is for another name (", "write the"),
        (
            "SSLError",
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed (_ssl.c:1)",
            "verify failed)",
            "name its",
        ),
        ("SSLCertVerificationError", "certificate has expired", "has expired)", "renew it, or set the board's clock"),
        (
            "SSLError",
            "[SSL: X] tlsv1 alert unknown ca (_ssl.c:1)",
            "refuses this board's certificate (tlsv1",
            "give one",
        ),
        ("timeout", "timed out", "timed out", "let the board reach"),
        ("OSError", "No route to host", "no route to host", "let the board reach"),
        ("ValueError", "anything", "anything", ""),
    ],
)
def test_words_of_errors_that_are_not_made_here(name, text, reason, cure):
    found = explain(name, text)
    assert reason in found[0]
    assert found[1].startswith(cure)
    assert bool(found[1]) == bool(cure)
