"""RTSP over TLS: a camera whose certificate is not trusted gets no byte of a password, whatever FFmpeg thinks of it."""

import contextlib
import json
import os
import socket
import ssl
import threading

import pytest

from edgeveil.edge_runtime import camera_address
from edgeveil.edge_runtime.errors import SourceFailed, Unsupported
from edgeveil.edge_runtime.sandbox import allowed_calls
from edgeveil.edge_runtime.sources import rtsp
from tests.support import network_receivers, programs
from tests.support.boards import rtsp_bundle, rtsp_tls
from tests.support.checkout import ROOT

pytestmark = pytest.mark.programs


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return network_receivers.certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def trusted(certificates, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates[0]))


@contextlib.contextmanager
def camera(certificates, plain=False):
    """A server that answers every line with the same in capitals; its port, and what it was told."""
    context, told = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), []
    context.load_cert_chain(*certificates[1:])

    def answer(connection):
        with contextlib.suppress(OSError):
            if not plain:
                connection = context.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as lines:
                for line in lines:
                    told.append(line)
                    connection.sendall(line.upper())

    def serve():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], told
        server.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def tunnel_to(place):
    tunnel = rtsp.TlsTunnel(camera_address.parse(f"rtsps://{place}/x"))
    try:
        yield tunnel
    finally:
        tunnel.end()


def test_bytes_go_both_ways_and_it_may_be_opened_again(certificates, trusted):
    with camera(certificates) as (port, _), tunnel_to(f"localhost:{port}") as tunnel:
        for _ in range(2):
            tunnel.open()
            with socket.create_connection(("127.0.0.1", tunnel.port), timeout=5) as near, near.makefile("rb") as lines:
                for text in (b"describe\n", b"x" * 300_000 + b"\n", b"play\n"):
                    near.sendall(text)
                    assert lines.readline() == text.upper()
                tunnel.close()
                assert lines.readline() == b"", "the reader is told of the end"


@pytest.mark.parametrize(
    ("host", "trust", "plain", "error", "words"),
    [
        ("localhost", False, False, Unsupported, "does not trust"),
        ("127.0.0.1", True, False, Unsupported, "does not trust"),  # the certificate has another name
        ("localhost", True, True, SourceFailed, "localhost"),
    ],
)
def test_nothing_is_said_to_a_camera_that_is_not_trusted(
    certificates, monkeypatch, tmp_path, host, trust, plain, error, words
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates[0] if trust else tmp_path / "none"))
    monkeypatch.setattr(rtsp, "STALL_S", 1)
    with camera(certificates, plain) as (port, told), tunnel_to(f"{host}:{port}") as tunnel:
        with pytest.raises(error, match=words):
            tunnel.open()
        # A caller is left alone: nobody carries what it says.
        with socket.create_connection(("127.0.0.1", tunnel.port), timeout=0.3) as near:
            near.sendall(b"password\n")
            with pytest.raises(TimeoutError):
                near.recv(1)
    assert b"password\n" not in told


def test_it_is_private_and_has_its_own_port():
    assert camera_address.is_private("rtsps://camera.example/x")
    assert camera_address.parse("rtsps://camera.example/x").port == 322
    assert camera_address.parse("rtsps://camera.example/x").shown == "rtsps://camera.example:322/..."


def test_it_takes_calls_at_the_socket_that_listens_and_can_make_no_other_one_listen():
    plain = allowed_calls.fetching(1)
    more = allowed_calls.accepting(plain)
    assert more.allowed - plain.allowed == {"accept", "accept4"}
    assert "listen" not in more.allowed
    assert more.checked == plain.checked


@pytest.mark.nightly  # by day its tunnel, above; three processes, test_network_fetch.py; and test_leaks.py
@pytest.mark.cameras
def test_a_service_reads_it_behind_the_filter_and_nothing_raw_is_elsewhere(certificates, tmp_path):
    programs.need(*programs.RTSP_SERVER)
    made = rtsp_bundle.make(tmp_path)
    done = rtsp_tls.watch(made, rtsp_bundle.manifest_of(made), certificates, 7, 1, written=["/dev/shm"])  # noqa: S108 - searched
    assert (done["exit_code"], done["unaccounted"]) == (0, 0)
    assert done["frames_out"] > 5
    assert "filter" in done["isolation"]
    assert done["events"]["fault"] >= 1, "the server was killed"
    assert (done["row_found_in_files"], done["password_printed"]) == (0, False)
    if os.geteuid() == 0:
        assert min(done["row_found_in_memory"][who] for who in ("camera's", "inside")) > 0
        assert done["row_found_in_memory"]["outside"] == 0


def test_the_record_accounts_for_every_frame_and_found_nothing_raw():
    done = json.loads((ROOT / rtsp_tls.RESULT).read_text())
    assert (done["exit_code"], done["unaccounted"], done["server_killed"]) == (0, 0, 5)
    assert done["seconds"] >= 1800
    found = done["row_found_in_memory"]
    assert min(found["camera's"], found["inside"]) > 0 == found["outside"] == done["row_found_in_files"]
    assert not done["password_printed"]
