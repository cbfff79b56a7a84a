"""Every parser that reads a stranger's bytes, as a function of bytes: it ends, or refuses with an error of ours.

Behind a signature, what is signed is fuzzed: the signature is taken as good here, and is a target of its own in
``tests/edge_runtime/signing``. ``TARGETS`` says for each what file of ``edge_runtime`` or ``devices`` it is in.
"""

from __future__ import annotations

import contextlib
import io
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

from edgeveil.devices.agents import serial_link
from edgeveil.edge_runtime.bundle import archive, policy, trust_file, trust_store
from edgeveil.edge_runtime.bundle import policy as audit_scope
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, DeviceFailed, EdgeVeilError, FrameDropped
from edgeveil.edge_runtime.ipc import counters, notes, record
from edgeveil.edge_runtime.manifest import model_lint, schema
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.releases import index
from edgeveil.edge_runtime.signing import ed25519, envelope
from edgeveil.edge_runtime.signing.roles import Role
from edgeveil.edge_runtime.sinks import page_server
from edgeveil.edge_runtime.sources import arff, from_pipe, http, picture_size, text
from edgeveil.edge_runtime.util import strict_json
from tests.edge_runtime.sources import series_example
from tests.support import bundles

KEY = bundles.trusted()
_SENSOR = {"kind": "vector", "shape": (4,), "dtype": "uint8", "low": None, "high": None, "unit_mm": None}
_PICTURE = {**_SENSOR, "kind": "image", "shape": (4, 4, 1)}


class Target(NamedTuple):
    """``run`` may raise ``refusals``; ``file`` is where its parser stands, ``seeds`` what it takes."""

    run: Callable[[bytes], Any]
    file: str
    refusals: tuple[type[Exception], ...]
    seeds: tuple[bytes, ...]


def attempt(name: str, data: bytes) -> str:
    """``"taken"``, or the kind of the refusal. Anything else that comes out is a finding, and raises."""
    target = TARGETS[name]
    try:
        target.run(data)
    except target.refusals as refusal:
        if isinstance(refusal, EdgeVeilError) and len(str(refusal)) > 2000:
            raise AssertionError("a refusal must be short") from refusal
        return type(refusal).__name__
    return "taken"


def _enveloped(kind: str, data: bytes) -> bytes:
    return envelope.wrap(data.decode("ascii", "replace").replace("\ufffd", "?").encode(), KEY.key, bytes(64))


def _signed(kind: str, read: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def run(data: bytes) -> Any:
        with mock.patch.object(ed25519, "verify", return_value=None):
            return read(_enveloped(kind, data))

    return run


def _archive(data: bytes) -> None:
    with contextlib.suppress(BundleRefused):
        archive.read_first(data, 2)
    members = archive.read_archive(data)
    assert archive.pack(members) == data
    assert archive.read_first(data, 2) == members[:2]


def _manifest(data: bytes) -> None:
    try:
        document = strict_json.loads(data)
    except strict_json.BadJson as error:
        raise BundleRefused(error.reason, str(error)) from None
    schema.check_manifest(document)
    parse(document)


def _audit(data: bytes) -> None:
    with contextlib.suppress(strict_json.BadJson, LookupError, TypeError, AttributeError):
        audit_scope.audits_of(strict_json.loads(data), "numpy", "cpu", ("a", "b"))


@contextlib.contextmanager
def _pipe(data: bytes) -> Iterator[int]:
    reading, writing = os.pipe()
    try:
        os.write(writing, data[: 1 << 15])
        os.close(writing)
        yield reading
    finally:
        os.close(reading)


def _records(data: bytes) -> None:
    layout = record.Layout(parse(bundles.with_members(*bundles.numpy_example())).outputs)
    with _pipe(data) as handle:
        for one in record.RecordReader(handle, layout).records():
            assert set(one.frame.outputs) == {column[0] for column in layout.columns}


def _notes(data: bytes) -> None:
    events, rest = notes.parse_notes(data)
    assert len(rest) <= notes.MOST_NOTE
    assert all(isinstance(event.name, str) and isinstance(event.facts, dict) for event in events)


def _counters(data: bytes) -> None:
    page = counters.Counters()
    page._page[: min(len(data), len(page._page))] = data[: len(page._page)]
    assert all(name.isprintable() for name in page.all())


def _serial(data: bytes) -> None:
    pieces = [data[at : at + 64] for at in range(0, len(data), 64)]
    ticks = iter(range(1 << 20))
    link = serial_link.Link(lambda _: pieces.pop(0) if pieces else b"", lambda _: None, clock=lambda: next(ticks))
    link.receive(patience_s=8)


def _mjpeg(data: bytes) -> None:
    stream = http.Pictures.__new__(http.Pictures)
    stream.name, stream._stream, stream._boundary = "a camera", True, b"--b"
    stream._answer, stream._connection = io.BytesIO(data), None
    for _ in range(8):
        stream.next_jpeg()


def _fetched(data: bytes) -> None:
    with _pipe(data) as handle:
        source = from_pipe.FetchedSource(handle, "a camera", _PICTURE)
        for _ in range(8):
            source._read()


def _lines(make: Callable[..., Any]) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        with (
            mock.patch.object(text, "_open_file", return_value=_Raw(data)),
            contextlib.closing(make("x", _SENSOR)) as s,
        ):
            while (frames := s.next_block()) is not None:
                assert all(frame._data.shape == (4,) for frame in frames)
            s.refused()

    return run


class _Raw(io.BytesIO):
    """A file as ``_open_file`` gives it."""

    def read1(self, size: int | None = -1) -> bytes:
        return super().read(size)


def _arff_rows(data: bytes) -> None:
    lines = [(number, line) for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1)]
    rest = iter(lines)
    attributes = arff.read_header(rest)
    for row in arff.read_rows(attributes, rest):
        assert len(row) == len(attributes)


def _size(data: bytes) -> None:
    size = picture_size.read_size(data)
    assert size is None or min(size) > 0


class _Asked(page_server._Handler):
    """The preview's handler, of one request in memory."""

    def __init__(self, data: bytes, token: str | None) -> None:
        self.rfile, self.wfile = io.BytesIO(data), io.BytesIO()
        self.client_address, self.server = ("192.0.2.1", 1), mock.Mock(token=token, server_address=("", 8080))
        self.request = None
        self.server.answers = lambda path, query, local: (
            page_server.Answer("text/plain", b"the preview") if path == "/" else None
        )
        self.close_connection = True
        self.handle_one_request()


def _preview(data: bytes) -> None:
    for token in (None, "x" * 16):
        answered = _Asked(data, token).wfile.getvalue()
        if b"the preview" in answered:
            assert (b"=" + b"x" * 16) in data or token is None
            assert token or any(name in data.lower() for name in (b"localhost", b"127.0.0.1", b"::1"))


def _seed_archive() -> bytes:
    return archive.pack([("manifest.json", b"{}"), ("signature.json", b"{}"), ("golden/input.npy", b"1")])


def _json(value: Any) -> bytes:
    return strict_json.dumps(value)


def _record_seed() -> bytes:
    body = bytes([1, 2, 3, 4]) + struct.pack("<q", 1)
    return struct.pack("<4sBxHqI", b"EVR1", 0, 0, 7, zlib.crc32(body)) + body


_REFUSED = (BundleRefused, BadInput)
_TRUST = {"audience": "", "keys": [KEY._asdict()], "revoked": [], "schema": 1, "security_version": 0, "version": 1}
_DEMAND = {"attribute": "who", "measure": "accuracy", "at_most": 0.5}
_RELEASE = {
    "manifest_sha256": "0" * 64,
    "name": "a",
    "security_version": 1,
    "sha256": "0" * 64,
    "size": 1,
    "url": "a.veil",
}
_INDEX = {"name": "a", "releases": [_RELEASE], "schema": 1, "version": 1}
_PART = b"--b\r\nContent-Type: image/jpeg\r\nContent-Length: 3\r\n\r\nabc\r\n"
# A graph with a constant, whose data is in it; the same constant with its data in the file "x".
_ONNX = b"\x08\x08\x3a\x0a\x2a\x08\x08\x01\x10\x01\x4a\x02ab"
_ONNX_ELSEWHERE = b"\x3a\x17\x2a\x15\x6a\x0d\x0a\x08location\x12\x01x\x70\x01\x08\x01\x10\x01"
_TIFF = struct.pack("<4sIHHHIIHHII", b"II*\0", 8, 2, 256, 3, 1, 5, 257, 3, 1, 4) + bytes(4)
_PICTURES = (
    b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR" + struct.pack(">II", 5, 4),
    b"BM" + bytes(12) + struct.pack("<Iii", 40, 5, -4),
    b"BM" + bytes(12) + struct.pack("<IHH", 12, 5, 4),
    _TIFF,
    b"P5\n# made by hand\n5 4\n255\n",
    b"\xff\xd8\xff\xc0\0\x0b\x08\0\4\0\5\1\1\x11\0",
)
TARGETS = {
    "archive": Target(_archive, "edge_runtime/bundle/archive.py", _REFUSED, (_seed_archive(),)),
    "manifest": Target(
        _manifest,
        "edge_runtime/manifest/schema.py",
        _REFUSED,
        (
            _json(bundles.with_members(*bundles.numpy_example())),
            _json(bundles.with_members(*bundles.captured_example())),
            _json(bundles.with_members(*series_example.example())),
        ),
    ),
    "trust": Target(
        _signed(trust_file.KIND, lambda data: trust_file.read_trust_file(data, KEY)),
        "edge_runtime/bundle/trust_file.py",
        _REFUSED,
        (_json(_TRUST),),
    ),
    "signed-policy": Target(
        _signed(trust_store.POLICY_KIND, lambda data: trust_store.read_signed_policy(data, Role((KEY,)))),
        "edge_runtime/bundle/trust_store.py",
        _REFUSED,
        (_json({"policy": {"demands": [_DEMAND], "schema": 1}, "schema": 1, "version": 1}),),
    ),
    "policy": Target(
        policy.read_policy, "edge_runtime/bundle/policy.py", _REFUSED, (_json({"demands": [_DEMAND], "schema": 1}),)
    ),
    "index": Target(
        _signed(index.KIND, lambda data: index.read_index(data, bundles.trust())),
        "edge_runtime/releases/index.py",
        _REFUSED,
        (_json(_INDEX),),
    ),
    "envelope": Target(
        lambda data: envelope.unwrap("trust", data, lambda key: None),
        "edge_runtime/signing/envelope.py",
        _REFUSED,
        (_enveloped("trust", b"{}"),),
    ),
    "audit": Target(
        _audit,
        "edge_runtime/bundle/policy.py",
        _REFUSED,
        (b'{"speaks_of":["numpy"],"others":[{"speaks_of":{"numpy":1},"on_board":{"device":"cpu"}}]}',),
    ),
    "records": Target(_records, "edge_runtime/ipc/record.py", (DeviceFailed,), (_record_seed(),)),
    "notes": Target(_notes, "edge_runtime/ipc/notes.py", (), (b'{"event":"ready","locked":true}\n{"event":1}\nx',)),
    "counters": Target(_counters, "edge_runtime/ipc/counters.py", (), (b"frames-in".ljust(40, b"\0") + bytes(8),)),
    "serial": Target(
        _serial,
        "devices/agents/serial_link.py",
        (serial_link.LineBroken,),
        (serial_link.frame(b"B", 1, 0, 1, b'{"code":0}\n'), serial_link.frame(b"A", 1, 0, 1, b"\x01")),
    ),
    "mjpeg": Target(_mjpeg, "edge_runtime/sources/http.py", (DeviceFailed, FrameDropped), (_PART * 2,)),
    "fetched": Target(
        _fetched,
        "edge_runtime/sources/from_pipe.py",
        (EdgeVeilError, FrameDropped),
        (from_pipe.MESSAGE.pack(b"R", 16) + bytes(16) + from_pipe.MESSAGE.pack(b"D", 5) + b"shape",),
    ),
    "csv": Target(
        _lines(text.LinesSource), "edge_runtime/sources/text.py", _REFUSED, (b"a,b,c,d\n1,2,3,4\n5,6,7,300\n",)
    ),
    "arff": Target(
        _lines(text.ArffSource),
        "edge_runtime/sources/arff.py",
        _REFUSED,
        (b"@relation r\n" + b"".join(b"@attribute a%d numeric\n" % n for n in range(4)) + b"@data\n1,2,3,4\n{0 1}\n",),
    ),
    "arff-rows": Target(
        _arff_rows, "edge_runtime/sources/arff.py", _REFUSED, (b"@relation 'a b'\n@attribute x {p,'q'}\n@data\np\n?\n",)
    ),
    "onnx": Target(
        lambda data: model_lint.problems(data, "onnx"),
        "edge_runtime/manifest/model_lint.py",
        (),
        (_ONNX, _ONNX_ELSEWHERE),
    ),
    "picture": Target(_size, "edge_runtime/sources/picture_size.py", (), _PICTURES),
    "preview": Target(
        _preview,
        "edge_runtime/sinks/page_server.py",
        (),
        (
            b"GET / HTTP/1.1\r\nHost: localhost:8080\r\nCookie: a=b\r\n\r\n",
            b"GET /?token=xxxxxxxxxxxxxxxx HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: lo\tcalhost:8080\r\n\r\n",
        ),
    ),
}
