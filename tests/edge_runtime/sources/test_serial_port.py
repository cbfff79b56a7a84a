"""A microcontroller over a pty: lines and COBS frames, whole, lost and broken."""

import contextlib
import os
import struct
import threading
import tty
import zlib

import numpy as np
import pytest

from edgeveil.devices.agents.serial_link import cobs
from edgeveil.edge_runtime.errors import BadInput, Disconnected, FrameDropped, Stalled
from edgeveil.edge_runtime.manifest.manifest import parse_capture
from edgeveil.edge_runtime.sources import open_source, serial_port
from tests.edge_runtime.sources.series_example import SPEC, capture, recording

CAPTURE = parse_capture(capture())


@pytest.fixture
def line():
    """Both ends of a serial line: the microcontroller's descriptor, and the path of ours."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    yield ours, os.ttyname(theirs)
    for handle in (ours, theirs):
        with contextlib.suppress(OSError):
            os.close(handle)


def framed(time_us, values):
    body = struct.pack(f"<I{len(values)}f", time_us % 2**32, *values)
    return cobs(body + struct.pack("<I", zlib.crc32(body))) + b"\0"


def typed(time_us, values, *, checked=True):
    told = ",".join([str(time_us % 2**32), *(f"{value:.6f}" for value in values)])
    check = 0
    for byte in told.encode():
        check ^= byte
    return (told + (f"*{check:02X}" if checked else "") + "\n").encode()


FORMS = {"lines": typed, "cobs": framed}


def sent(form, steps, *, start_us=0):
    time, values = recording(steps)
    return values, [FORMS[form](start_us + round(t * 1e6), row) for t, row in zip(time, values, strict=True)]


def taken(line, form, pieces, windows):
    """So many windows that a source gives while ``pieces`` are written, and the reasons of drops."""
    theirs, path = line
    found, dropped = [], []
    with open_source(f"serial:{path},115200,{form}", SPEC, CAPTURE) as source:
        assert source.live
        writer = threading.Thread(target=lambda: [os.write(theirs, piece) for piece in pieces])
        writer.start()
        while len(found) < windows:
            try:
                found.append(source.next()._data)
            except FrameDropped as drop:
                dropped.append(drop.reason)
        writer.join()
    return found, dropped


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("start_us", [0, 2**32 - 300_000])
def test_windows_are_the_samples_even_where_the_clock_wraps(line, form, start_us):
    values, pieces = sent(form, 41, start_us=start_us)
    found, dropped = taken(line, form, pieces, 9)
    assert dropped == []
    # The first piece is not trusted: it may have lost its beginning.
    np.testing.assert_allclose(found[0], values[1:9], atol=1e-5)
    np.testing.assert_allclose(found[8], values[33:41], atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_lost_and_broken_bytes_cost_their_samples_alone(line, form):
    rng = np.random.default_rng(3)
    values, pieces = sent(form, 400)
    broken = set(rng.choice(np.arange(20, 380), 12, replace=False).tolist())
    for number in broken:
        piece = bytearray(pieces[number])
        place = int(rng.integers(0, len(piece) - 1))
        if number % 2:
            del piece[place]
        else:
            piece[place] ^= 1 << int(rng.integers(0, 7))
        pieces[number] = bytes(piece)
    windows = []
    found, dropped = taken(line, form, pieces, 88)
    assert 8 <= dropped.count("unreadable") <= 24
    assert set(dropped) <= {"unreadable", "gap"}
    known = np.round(values, 3)
    for window in found:
        near = np.abs(known[:, None] - window[None]).max(axis=2).min(axis=0)
        windows.append(near.max())
    assert max(windows) < 0.2  # what was lost is bridged; no broken number came through


@pytest.mark.parametrize("form", FORMS)
def test_noise_of_a_wrong_speed_is_a_stall_that_says_what_to_check(line, form, monkeypatch):
    theirs, path = line
    clock = iter(np.arange(0, 1000, 1.0))
    monkeypatch.setattr(serial_port, "WAIT_S", 0.01)
    with open_source(f"serial:{path},9600,{form}", SPEC, CAPTURE) as source:
        source._clock = lambda: next(clock)
        os.write(theirs, np.random.default_rng(0).integers(0, 256, 3000).astype(np.uint8).tobytes())
        with pytest.raises(Stalled, match="check its speed"):
            drain(source)


def drain(source):
    while True:
        with contextlib.suppress(FrameDropped):
            source.next()


def test_an_unplugged_port_is_disconnected(line):
    theirs, path = line
    with open_source(f"serial:{path},115200,lines", SPEC, CAPTURE) as source:
        os.close(theirs)
        with pytest.raises(Disconnected, match="unplugged"):
            source.next()


@pytest.mark.parametrize("where", ["/dev/ttyACM0", "/dev/ttyACM0,115200", "/dev/x,12345,lines", "/dev/x,9600,json"])
def test_an_address_that_is_none(where):
    with pytest.raises(BadInput, match="expected serial:PORT,SPEED,lines or cobs"):
        open_source(f"serial:{where}", SPEC, CAPTURE)


def test_no_port_and_no_serial_port(tmp_path):
    with pytest.raises(Disconnected, match="no such file"):
        open_source(f"serial:{tmp_path}/none,9600,lines", SPEC, CAPTURE)
    path = tmp_path / "file"
    path.write_bytes(b"")
    with pytest.raises(BadInput, match="another kind of file"):
        open_source(f"serial:{path},9600,lines", SPEC, CAPTURE)


BROKEN = [b"", b"\x02", b"\x05abc", b"\x01", b"\x00\x01", b"\xff" * 300]


@pytest.mark.parametrize("piece", BROKEN)
def test_a_frame_that_is_none(piece):
    assert serial_port._Frame(2)(piece) is None


@pytest.mark.parametrize(
    "piece",
    [
        b"1,2",
        b"1,2,3,4",
        b"-1,2,3",
        b"1,2,x",
        b"1,2,nan",
        b"1,2,3*00",
        b"4294967296,1,2",
        "1,\u0662,3".encode(),
        b"1;2;3",
    ],
)
def test_a_line_that_is_none(piece):
    assert serial_port._Line(2)(piece) is None


@pytest.mark.parametrize(
    "piece", [b"7, 1.5, -2\r", b"  7,1.5,-2 ", b"7,+1.50,\t-2.", b"7 ,15e-1,-.2E1", b"7, 1.5,-2*22"]
)
def test_a_line_as_a_sketch_prints_it(piece):
    assert serial_port._Line(2)(piece).tolist() == [7, 1.5, -2]


def test_what_cobs_gives_back_is_what_was_coded():
    rng = np.random.default_rng(0)
    for size in (0, 1, 2, 253, 254, 255, 600):
        data = rng.integers(0, 3, size).astype(np.uint8).tobytes()
        assert serial_port.uncobs(cobs(data)) == data


def test_noise_is_never_taken_for_a_sample_of_another_length():
    rng = np.random.default_rng(9)
    line, frame = serial_port._Line(2), serial_port._Frame(2)
    good = [typed(1234, [0.5, -1.0])[:-1], framed(1234, [0.5, -1.0])[:-1]]
    for number in range(4000):
        piece = bytearray(good[number % 2])
        for _ in range(int(rng.integers(1, 4))):
            place = int(rng.integers(0, len(piece) + 1))
            noise = rng.integers(0, 256, int(rng.integers(0, 3))).astype(np.uint8).tobytes()
            piece[place : place + int(rng.integers(0, 2))] = noise
        for decode in (line, frame):
            values = decode(bytes(piece))
            assert values is None or (values.shape == (3,) and np.isfinite(values).all())
