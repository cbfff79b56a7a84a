"""Cameras over HTTP as they are: no lengths, odd boundaries, Digest, a redirect, one picture a request."""

import hashlib
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import cv2
import numpy as np
import pytest

from edgeveil.edge_runtime.errors import Disconnected, FrameDropped, Unsupported
from edgeveil.edge_runtime.sources import http as cameras

PICTURES = [
    cv2.imencode(".jpg", np.random.default_rng(seed).integers(0, 256, (24, 32, 3)).astype(np.uint8))[1].tobytes()
    for seed in range(4)
]
USER, PASSWORD = "ann", 'pass: "word\\'


class Server(ThreadingHTTPServer):
    """A camera's server; ``answer`` makes one answer, ``seen`` has the times, paths and logins of the requests."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Camera)
        self.at, self.seen, self.answer = f"127.0.0.1:{self.server_address[1]}", [], Camera.picture


class Camera(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        self.server.seen.append((time.monotonic(), self.path, self.headers.get("Authorization")))
        self.server.answer(self)

    def log_message(self, *_):
        pass

    def begin(self, status, **headers):
        self.send_response(status)
        for name, value in headers.items():
            for one in value if isinstance(value, list) else [value]:
                self.send_header(name.replace("_", "-"), one)
        self.end_headers()

    def picture(self, data=PICTURES[0]):
        self.begin(200, Content_Type="image/jpeg", Content_Length=str(len(data)))
        self.wfile.write(data)


@pytest.fixture
def camera():
    server = Server()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def opened(camera, answer, *, user="", path="/video", **more):
    camera.answer = answer
    return cameras.Pictures(f"http://{user}{camera.at}{path}", **more)


def stream(boundary, parts, *, written=None):
    """An answer of parts; ``written`` is the boundary as the header has it."""

    def answer(to):
        to.begin(200, Content_Type=f"multipart/x-mixed-replace; boundary={written or boundary}".replace("==", " ="))
        for head, data in parts:
            to.wfile.write(b"--" + boundary.encode() + b"\r\n" + head + b"\r\n\r\n" + data + b"\r\n")
        to.wfile.write(b"--" + boundary.encode() + b"--\r\n")

    return answer


JPEG = b"Content-Type: image/jpeg"


@pytest.mark.parametrize("written", [None, '"Frame7"', "--Frame7", "Frame7; charset=utf-8", " frame7", "=--Frame7"])
@pytest.mark.parametrize("length", [True, False])
def test_a_stream_gives_each_picture_with_or_without_a_length(camera, written, length):
    heads = [JPEG + (b"\r\nContent-Length: %d" % len(one) if length else b"") for one in PICTURES]
    pictures = opened(camera, stream("Frame7", list(zip(heads, PICTURES, strict=True)), written=written))
    assert [pictures.next_jpeg() for _ in PICTURES] == PICTURES
    with pytest.raises(Disconnected, match="closed the connection"):
        pictures.next_jpeg()


def raw(kind, *pieces):
    def answer(to):
        to.begin(200, **{"Content_Type": kind} if kind else {})
        to.wfile.write(b"".join(pieces))

    return answer


def part(data, head=JPEG):
    return b"--f\r\n" + head + b"\r\nContent-Length: %d\r\n\r\n" % len(data) + data + b"\r\n"


STREAM = "multipart/x-mixed-replace; boundary=f"
BIG = cv2.imencode(".jpg", np.random.default_rng(9).integers(0, 256, (480, 640, 3)).astype(np.uint8))[1].tobytes()


@pytest.mark.parametrize(
    ("answer", "gives"),
    [
        (raw(STREAM, part(BIG)[5:], *map(part, PICTURES)), PICTURES),  # the first has no boundary before it
        (raw(STREAM, b"\r\n" * 99, *map(part, PICTURES)), PICTURES),
        (raw(STREAM, part(b""), part(PICTURES[0]), part(b""), part(b""), part(PICTURES[1])), PICTURES[:2]),
        *(
            (raw(kind, PICTURES[0]), PICTURES[:1] * 2)
            for kind in (None, "image/jpg", "application/octet-stream", STREAM)
        ),
    ],
)
def test_what_a_camera_sends_is_found_by_its_bytes(camera, answer, gives):
    pictures = opened(camera, answer, tick_hz=1000)
    assert [pictures.next_jpeg() for _ in gives] == gives


def test_a_camera_that_is_busy_costs_a_picture_and_one_that_never_gave_any_is_another_address(camera):
    pictures = opened(camera, Camera.picture, tick_hz=1000)
    pictures.next_jpeg()
    for busy in (raw("text/plain", b"Device Busy"), raw("image/jpeg")):
        camera.answer = busy
        with pytest.raises(FrameDropped):
            pictures.next_jpeg()
    camera.answer = Camera.picture
    assert pictures.next_jpeg() == PICTURES[0]
    with pytest.raises(Unsupported, match="look for another address"):
        opened(camera, raw("text/html", b"<html>"))
    with pytest.raises(Disconnected, match="sends no JPEG"):  # motionEye's first answer after a while
        opened(camera, raw("image/jpeg"))


def test_a_picture_without_an_end_is_not_read_for_ever(camera, monkeypatch):
    monkeypatch.setattr(cameras, "MAX_JPEG_BYTES", 2**17)

    def answer(to):
        to.begin(200, Content_Type="multipart/x-mixed-replace; boundary=b")
        to.wfile.write(b"--b\r\n" + JPEG + b"\r\n\r\n" + b"\xff" * 2**19)

    pictures = opened(camera, answer)
    with pytest.raises(Unsupported, match="too much without the boundary that it names"):
        pictures.next_jpeg()


def test_a_camera_of_one_picture_a_request_is_asked_once_a_tick(camera):
    pictures = opened(camera, Camera.picture, tick_hz=20)
    assert [pictures.next_jpeg() for _ in range(7)] == [PICTURES[0]] * 7
    times = [at for at, _, _ in camera.seen]
    assert len(times) == 7
    assert times[-1] - times[0] >= 6 / 20 - 0.01
    pictures._due_s = time.monotonic() - 10  # a reader that was late does not catch up
    before = time.monotonic()
    for _ in range(3):
        pictures.next_jpeg()
    assert time.monotonic() - before >= 2 / 20 - 0.01


def digest_of(header):
    return dict(re.findall(r'(\w+)="?((?:[^",\\]|\\.)*)"?', header.partition(" ")[2]))


def guarded(algorithm, qop, *, uses=1000, offers_basic=True):
    """An answer behind a login by RFC 7616, whose nonce lasts for some ``uses``; the server's own arithmetic."""
    state = {"nonce": 0, "left": 0}
    hashed = hashlib.sha256 if "256" in algorithm else hashlib.md5

    def h(text):
        return hashed(text.encode()).hexdigest()

    def answer(to):
        given = to.headers.get("Authorization") or ""
        found = digest_of(given) if given.startswith("Digest ") else {}
        if found.get("nonce") == f"n{state['nonce']}" and state["left"] > 0:
            secret = h(f"{USER}:cam 1:{PASSWORD}")
            if algorithm.endswith("-sess"):
                secret = h(f"{secret}:{found['nonce']}:{found['cnonce']}")
            end = h(f"GET:{to.path}")
            middle = f"{found['nonce']}:{found['nc']}:{found['cnonce']}:auth" if qop else found["nonce"]
            if found["response"] == h(f"{secret}:{middle}:{end}") and found["uri"] == to.path:
                state["left"] -= 1
                to.picture()
                return
        state["nonce"] += 1
        state["left"] = uses
        challenge = f'Digest realm="cam 1", nonce="n{state["nonce"]}", algorithm={algorithm}, opaque="o"'
        challenge += ', qop="auth,auth-int"' if qop else ""
        to.begin(401, WWW_Authenticate=(['Basic realm="cam 1"'] if offers_basic else []) + [challenge])

    return answer


@pytest.mark.parametrize(
    ("algorithm", "qop"), [("MD5", True), ("MD5", False), ("SHA-256", True), ("SHA-256", False), ("MD5-sess", True)]
)
def test_digest_is_answered_and_no_password_is_sent(camera, algorithm, qop):
    login = "ann:pass%3A%20%22word%5C@"
    pictures = opened(camera, guarded(algorithm, qop, uses=2), user=login, tick_hz=1000)
    assert [pictures.next_jpeg() for _ in range(5)] == [PICTURES[0]] * 5
    sent = [header for _, _, header in camera.seen]
    assert sent[0] is None
    assert all(header is None or header.startswith("Digest ") for header in sent)
    assert "word" not in repr(sent)


def test_another_password_is_said_once_and_not_tried_again(camera):
    with pytest.raises(Unsupported, match="needs another name and password"):
        opened(camera, guarded("MD5", True), user="ann:wrong@")
    assert len(camera.seen) == 2


@pytest.mark.parametrize(
    ("offer", "sent"),
    [
        ("Digest", "Basic "),
        ("Digest realm", "Basic "),
        ('Digest realm=, nonce="n"', 'Digest username="ann", realm="", nonce="n"'),
        ('Digest realm="x", nonce="n", opaque=', 'Digest username="ann", realm="x", nonce="n"'),
        ('DIGEST Realm="x",NONCE=n', 'Digest username="ann", realm="x", nonce="n"'),
        (
            'Basic realm="x", Digest realm="a, \\"b\\"", nonce="n"',
            r'Digest username="ann", realm="a, \"b\"", nonce="n"',
        ),
    ],
)
def test_a_challenge_that_is_odd_or_none_is_answered_as_far_as_it_goes(camera, offer, sent):
    def answer(to):
        if to.headers.get("Authorization"):
            to.picture()
        else:
            to.begin(401, WWW_Authenticate=offer)

    assert opened(camera, answer, user="ann:secret@").next_jpeg() == PICTURES[0]
    assert camera.seen[1][2].startswith(sent)


@pytest.mark.parametrize("offers", [['Basic realm="x"'], [], ['Digest realm="x", nonce="n", algorithm=SHA-1024']])
def test_basic_where_nothing_better_is_known(camera, offers):
    def answer(to):
        if to.headers.get("Authorization") == "Basic YW5uOnNlY3JldA==":
            to.picture()
        else:
            to.begin(401, WWW_Authenticate=offers)

    assert opened(camera, answer, user="ann:secret@").next_jpeg() == PICTURES[0]


def moved(*locations):
    left = list(locations)

    def answer(to):
        if left:
            to.begin(302, Location=left.pop(0).format(at=to.server.at))
        else:
            to.picture()

    return answer


@pytest.mark.parametrize("location", ["/live?x=1", "http://{at}/live?x=1", "live?x=1"])
def test_one_redirect_within_the_host_is_followed(camera, location):
    assert opened(camera, moved(location)).next_jpeg() == PICTURES[0]
    assert [path for _, path, _ in camera.seen] == ["/video", "/live?x=1"]


@pytest.mark.parametrize(
    ("locations", "error", "words"),
    [
        (["http://192.0.2.1/live"], Unsupported, "redirects to another host or port"),
        (["http://127.0.0.1:9/live"], Unsupported, "redirects to another host or port"),
        (["https://{at}/live"], Unsupported, "redirects to another host or port"),
        (["//192.0.2.1/live"], Unsupported, "redirects to another host or port"),
        (["/a", "/b"], Disconnected, "answers 302"),
        (["http://[bad/"], Disconnected, "cannot be reached"),
        (["http://{at}9999/live"], Disconnected, "cannot be reached"),
    ],
)
def test_no_redirect_elsewhere_and_no_second_one(camera, locations, error, words):
    with pytest.raises(error, match=words):
        opened(camera, moved(*locations), user="ann:secret@")
    assert {header for _, _, header in camera.seen} == {None}


def test_a_login_goes_to_no_other_host(camera):
    """A server that asks for a login, and then sends the client away, gets nothing for another host."""
    turns = [lambda to: to.begin(401, WWW_Authenticate='Basic realm="x"'), moved("http://192.0.2.1/live")]

    with pytest.raises(Unsupported, match="redirects to another host"):
        opened(camera, lambda to: turns.pop(0)(to), user="ann:secret@")


def test_a_picture_beyond_the_limit_is_dropped(camera, monkeypatch):
    monkeypatch.setattr(cameras, "MAX_JPEG_BYTES", 100)
    with pytest.raises(FrameDropped):
        opened(camera, Camera.picture).next_jpeg()
