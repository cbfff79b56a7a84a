"""The server of the pages, by real sockets: strangers can neither see the pages nor keep the owner from them."""

import contextlib
import http.client
import socket
import threading
import time

import pytest

from edgeveil.edge_runtime.sinks import page_server
from edgeveil.edge_runtime.sinks.page_server import Answer, PageServer

TOKEN = "0123456789abcdef-token"  # noqa: S105 - of these tests alone


@pytest.fixture
def asked():
    return []


@pytest.fixture
def server(asked):
    def answers(path, query, _is_local):
        asked.append((path, query))
        return Answer("text/plain", b"page")

    made = PageServer("0.0.0.0", 0, TOKEN, answers)  # noqa: S104 - strangers come from other addresses
    yield made
    made.close()


def connected(server, address):
    """A connection from an address of this machine: 127.0.0.0/8 has many."""
    return socket.create_connection(
        ("127.0.0.1", server.server_address[1]), timeout=5, source_address=(f"127.0.0.{address}", 0)
    )


def owner_sees(server):
    client = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=5)
    client.request("GET", "/", headers={"Authorization": "Bearer " + TOKEN})
    answer = client.getresponse()
    seen = answer.status, answer.read()
    client.close()
    return seen


def closed_within(client, seconds):
    """Whether the other end closes this connection in time."""
    client.settimeout(seconds)
    try:
        return client.recv(1) == b""
    except socket.timeout:
        return False
    except OSError:
        return True


@pytest.mark.parametrize("addresses", [range(2, 42), [1] * 40, [2] * 40], ids=["many", "the owner's own", "one"])
def test_slow_strangers_do_not_shut_the_owner_out(server, addresses):
    """They send a byte now and then, and come again when they are closed."""
    stop = threading.Event()

    def hold(address):
        while not stop.is_set():
            with contextlib.suppress(OSError), connected(server, address) as client:
                client.sendall(b"GET / HTTP/1.1\r\nX: ")
                while not stop.wait(0.05):
                    client.sendall(b"x")

    strangers = [threading.Thread(target=hold, args=(address,)) for address in addresses]
    for one in strangers:
        one.start()
    time.sleep(0.5)
    try:
        begun = time.monotonic()
        assert [owner_sees(server) for _ in range(14)] == [(200, b"page")] * 14
        assert time.monotonic() - begun < 5
    finally:
        stop.set()
        for one in strangers:
            one.join(10)


def test_one_address_has_few_connections_and_its_oldest_goes_first(server):
    clients = [connected(server, 2) for _ in range(page_server.MOST_OF_ONE)]
    elsewhere = connected(server, 3)
    time.sleep(0.3)
    clients.append(connected(server, 2))
    assert closed_within(clients[0], 3)
    assert not any(closed_within(one, 0.05) for one in [*clients[1:], elsewhere])
    for one in [*clients, elsewhere]:
        one.close()


def test_whoever_was_let_in_is_not_closed_for_a_stranger(monkeypatch):
    slow, entered = threading.Event(), threading.Event()

    def answers(_path, _query, _is_local):
        entered.set()
        slow.wait(10)
        return Answer("text/plain", b"at last")

    server = PageServer("127.0.0.1", 0, TOKEN, answers)
    owner = connected(server, 1)
    owner.sendall(b"GET / HTTP/1.1\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n")
    assert entered.wait(5)
    strangers = [connected(server, 1 + n % 5) for n in range(40)]
    time.sleep(0.5)
    slow.set()
    owner.settimeout(5)
    assert owner.makefile("rb").read().endswith(b"at last")
    for one in [owner, *strangers]:
        one.close()
    server.close()


@pytest.mark.parametrize("each_s", [0.05, 10], ids=["a byte now and then", "nothing"])
def test_a_request_has_a_deadline_as_a_whole(server, monkeypatch, each_s):
    monkeypatch.setattr(page_server, "REQUEST_S", 0.6)
    with connected(server, 2) as client:
        begun = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - begun < 5 and not closed_within(client, each_s if each_s < 1 else 5):
                client.sendall(b"x")
        assert 0.4 < time.monotonic() - begun < 3


def test_an_endless_head_is_not_read_to_its_end(server, asked):
    with connected(server, 2) as client:
        with contextlib.suppress(OSError):
            client.sendall(b"GET /?token=" + TOKEN.encode() + b" HTTP/1.1\r\n")
            for _ in range(1000):
                client.sendall(b"X-More: " + b"x" * 1000 + b"\r\n")
            client.sendall(b"\r\n")
        assert closed_within(client, 3)
    assert asked == []


@pytest.mark.parametrize(
    "request_line", [b"GET /frame.png?slot=0 HTTP/1.1", b"GET /?token=wrong HTTP/1.1", b"POST / HTTP/1.1", b"\x00\xff"]
)
def test_nothing_is_done_for_who_has_no_token(server, asked, request_line):
    with connected(server, 2) as client:
        client.sendall(request_line + b"\r\nCookie: edgeveil=" + TOKEN.encode() + b"\r\n\r\n")
        answer = client.makefile("rb").read()
    assert b"page" not in answer.partition(b"\r\n\r\n")[2].replace(b"a page", b"").replace(b"this page", b"")
    assert TOKEN.encode() not in answer
    assert asked == []


def test_an_address_of_version_6_counts_by_its_network():
    origin = page_server._origin
    assert origin("2001:db8::1") == origin("2001:db8::ffff:2")
    assert origin("2001:db8:0:1::1") != origin("2001:db8::1")
    assert origin("::ffff:10.0.0.1") == origin("10.0.0.1") == "10.0.0.1"
    assert origin("fe80::1%eth0") == origin("fe80::2")
