"""The buffer of an IIO device: a tree of files as its driver makes it, and a pipe for the device's node."""

import os
import struct

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, Disconnected, Unsupported
from edgeveil.edge_runtime.kinds import SOURCES
from edgeveil.edge_runtime.manifest.manifest import Sampling
from edgeveil.edge_runtime.sources.iio_buffer import IioBuffer, IioDevice, layout, open_iio

SAMPLING = Sampling(100.0, ("accel_y", "accel_x"), ("m/s^2", "m/s^2"))
ELEMENTS = {
    "in_accel_x": (0, "be:s12/16>>4"),
    "in_accel_y": (1, "be:s12/16>>4"),
    "in_accel_z": (2, "be:s12/16>>4"),
    "in_timestamp": (3, "le:s64/64>>0"),
}


@pytest.fixture
def tree(tmp_path):
    """A three-axis accelerometer of twelve bits, and its node below dev."""
    device = tmp_path / "iio:device3"
    files = {
        "name": "kxcjk", "in_accel_x_raw": "0", "in_accel_scale": "0.5", "sampling_frequency": "25",
        "buffer/enable": "0", "buffer/length": "2",
    }  # fmt: skip
    for name, (index, text) in ELEMENTS.items():
        files |= {f"scan_elements/{name}_{what}": str(v) for what, v in (("en", 1), ("index", index), ("type", text))}
    for name, text in files.items():
        (device / name).parent.mkdir(parents=True, exist_ok=True)
        (device / name).write_text(text + "\n")
    (tmp_path / "dev").mkdir()
    os.mkfifo(tmp_path / "dev" / "iio:device3")
    return tmp_path


def opened(tree, where="kxcjk,100,buffered", sampling=SAMPLING):
    return IioBuffer(where, sampling, root=str(tree), dev=str(tree / "dev"))


@pytest.fixture
def device(tree):
    made = opened(tree)
    writer = os.open(tree / "dev" / "iio:device3", os.O_WRONLY)
    yield made, writer
    made.close()
    os.close(writer)


def scan(x, y, time_ns):
    """x and y of twelve bits in the upper ones of two big-endian bytes, then the time at a multiple of eight."""
    return struct.pack(">hh", x << 4, y << 4) + b"\0" * 4 + struct.pack("<q", time_ns)


def test_samples_have_their_values_and_the_kernels_times(device):
    made, writer = device
    data = b"".join(scan(n, -2048 + n, 10**9 + n * 10**7) for n in range(5))
    os.write(writer, data[:-3])  # a scan may come in pieces
    first = made.read()
    os.write(writer, data[-3:])
    samples = first + made.read()
    assert [len(first), len(samples)] == [4, 5]
    assert [time for time, _ in samples] == pytest.approx([1.0, 1.01, 1.02, 1.03, 1.04])
    np.testing.assert_array_equal([values for _, values in samples], [[0.5 * (n - 2048), 0.5 * n] for n in range(5)])


def test_the_device_is_told_what_to_do_and_stopped_at_the_end(tree):
    made = opened(tree)
    told = {str(path.relative_to(tree / "iio:device3")): path.read_text().strip() for path in tree.rglob("*_en")}
    assert told == {
        "scan_elements/in_accel_x_en": "1",
        "scan_elements/in_accel_y_en": "1",
        "scan_elements/in_accel_z_en": "0",
        "scan_elements/in_timestamp_en": "1",
    }
    here = tree / "iio:device3"
    assert (here / "sampling_frequency").read_text().strip() == "100"
    assert (here / "buffer/length").read_text().strip() == "200"
    assert (here / "buffer/enable").read_text().strip() == "1"
    made.close()
    assert (here / "buffer/enable").read_text().strip() == "0"


def test_nothing_in_time_is_nothing_and_a_device_that_goes_is_said(tree):
    made = opened(tree)
    writer = os.open(tree / "dev" / "iio:device3", os.O_WRONLY)
    assert made.read() == []
    os.close(writer)
    with pytest.raises(Disconnected, match="went away"):
        made.read()
    made.close()


def change(tree, name, text):
    (tree / "iio:device3" / name).write_text(text)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("buffer/enable", "1", "another program reads"),
        ("scan_elements/in_accel_x_type", "le:f32/32>>0", "'le:f32/32>>0', which is not known"),
        ("scan_elements/in_accel_x_type", "le:s16/16X2>>0", "not known"),
        ("scan_elements/in_accel_x_type", "le:s16/16>>4", "not known"),
        ("scan_elements/in_accel_x_index", "first", "holds no number"),
        ("in_accel_scale", "much", "holds no number"),
    ],
)
def test_what_its_files_say_wrong_is_refused(tree, name, text, words):
    change(tree, name, text)
    with pytest.raises(Unsupported, match=words):
        opened(tree)
    assert (tree / "iio:device3/buffer/enable").read_text().strip() == ("1" if name == "buffer/enable" else "0")


def test_a_device_without_buffer_time_or_channel_is_refused(tree):
    with pytest.raises(Unsupported, match=r"no channel 'anglvel_x'.*accel_x, accel_y, accel_z"):
        opened(tree, sampling=Sampling(100.0, ("anglvel_x",), ("rad/s",)))
    (tree / "iio:device3/scan_elements/in_timestamp_en").unlink()
    with pytest.raises(Unsupported, match="no timestamp"):
        opened(tree)
    for path in (tree / "iio:device3/scan_elements").iterdir():
        path.unlink()
    with pytest.raises(Unsupported, match="no buffer: read it without ,buffered"):
        opened(tree)
    with pytest.raises(Disconnected, match="no IIO device is called 'lsm'"):
        opened(tree, "lsm,100,buffered")


def test_a_node_that_is_not_there_stops_the_capture(tree):
    (tree / "dev/iio:device3").unlink()
    with pytest.raises(Unsupported, match=r"no such file.*current_trigger"):
        opened(tree)
    assert (tree / "iio:device3/buffer/enable").read_text().strip() == "0"


def test_the_address_says_which_way(tree):
    assert SOURCES["iio"].load() is IioDevice
    made = open_iio("kxcjk,100,buffered", SAMPLING, root=str(tree), dev=str(tree / "dev"))
    assert isinstance(made, IioBuffer)
    made.close()
    polled = open_iio("kxcjk,100", Sampling(100.0, ("accel_x",), ("g",)), root=str(tree))
    assert isinstance(polled, IioDevice)
    polled.close()
    for wrong in ("kxcjk,100,fast", "kxcjk,100,buffered,1"):
        with pytest.raises(BadInput, match="iio:NAME,RATE,buffered"):
            open_iio(wrong, SAMPLING, root=str(tree))
    with pytest.raises(BadInput, match="up to 1000"):
        open_iio("kxcjk,0,buffered", SAMPLING, root=str(tree))


@pytest.mark.parametrize(
    ("text", "stored", "value"),
    [
        ("le:s16/16>>0", b"\xfe\xff", -2),
        ("be:s16/16>>0", b"\xff\xfe", -2),
        ("le:u16/16>>0", b"\xfe\xff", 65534),
        ("le:s12/16>>4", b"\x0f\x80", -2048),  # the low bits are another's
        ("le:u12/16", b"\x34\xf2", 0x234),
        ("be:s24/32>>8", b"\xff\xff\xff\x07", -1),
        ("le:u8/8>>0", b"\xff", 255),
        ("le:s64/64>>0", b"\xff" * 8, -1),
    ],
)
def test_bits_of_every_kind(text, stored, value):
    elements, size = layout({"x": (0, text)})
    assert size == len(stored)
    assert elements["x"].decode(np.frombuffer(stored, np.uint8)[None]).tolist() == [value]


def test_elements_lie_at_multiples_of_their_size():
    types = {"a": (0, "le:u8/8"), "b": (2, "le:s16/16"), "c": (5, "le:s64/64"), "d": (7, "le:u8/8")}
    elements, size = layout(types)
    assert {name: element.offset for name, element in elements.items()} == {"a": 0, "b": 2, "c": 8, "d": 16}
    assert size == 24
