"""A device of Linux's Industrial I/O, on a tree of files as its drivers make it."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, Disconnected, FrameDropped, Unsupported
from edgeveil.edge_runtime.manifest.manifest import Sampling
from edgeveil.edge_runtime.sources.iio_buffer import IioDevice
from edgeveil.edge_runtime.sources.series import WindowSource
from tests.edge_runtime.sources.series_example import SPEC, rules

SAMPLING = SPEC.series


class Time:
    """A clock that a sleep moves."""

    now = 100.0

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def tree(tmp_path):
    """A trigger, an MPU-6050 at +-8 g as its driver shows it, and a light sensor with an offset."""
    for device, files in {
        "trigger0": {"name": "mpu6050-dev0"},
        "iio:device0": {
            "name": "mpu6050", "in_accel_x_raw": "2048", "in_accel_y_raw": "-4096", "in_accel_scale": "0.002394",
            "in_anglvel_x_raw": "100", "in_anglvel_scale": "0.001064724",
        },
        "iio:device1": {
            "name": "tsl2563", "in_illuminance_raw": "150", "in_illuminance_offset": "-50",
            "in_illuminance_scale": "0.5",
        },
    }.items():  # fmt: skip
        (tmp_path / device).mkdir()
        for name, text in files.items():
            (tmp_path / device / name).write_text(text + "\n")
    return tmp_path


def opened(tree, where="mpu6050,50", sampling=SAMPLING, time=None):
    time = time or Time()
    return IioDevice(where, sampling, root=str(tree), clock=time.clock, sleep=time.sleep)


def test_a_sample_is_in_the_units_of_the_bundle(tree):
    device = opened(tree)
    ((time_s, values),) = device.read()
    assert time_s == 100.0
    np.testing.assert_allclose(values, np.array([2048, -4096]) * 0.002394 / 9.80665)
    device.close()


def test_scale_and_offset_of_one_channel(tree):
    device = opened(tree, "tsl2563,10", Sampling(10.0, ("illuminance",), ("lux",)))
    ((_, values),) = device.read()
    assert values.tolist() == [50.0]  # (150 - 50) * 0.5


def test_turns_a_second_in_degrees(tree):
    ((_, values),) = opened(tree, sampling=Sampling(50.0, ("anglvel_x",), ("deg/s",))).read()
    assert values[0] == pytest.approx(np.degrees(100 * 0.001064724))


def test_it_is_polled_at_its_rate_and_a_late_sample_is_not_made_up_for(tree):
    time = Time()
    device = opened(tree, time=time)
    times = []
    while len(times) < 50:
        times += [sample[0] for sample in device.read()]
    np.testing.assert_allclose(np.diff(times), 0.02, atol=1e-9)
    time.now += 1.0
    late = device.read() + device.read() + device.read()
    assert np.diff([sample[0] for sample in late]).min() > 0.019


def test_windows_of_it(tree):
    rng = np.random.default_rng(0)
    source = WindowSource(opened(tree), SPEC, SAMPLING, rules())
    path = tree / "iio:device0" / "in_accel_x_raw"
    source.beat = lambda: path.write_text(str(rng.integers(-30000, 30000)))
    frame = source.next()
    assert frame._data.shape == SPEC.shape
    assert np.ptp(frame._data[:, 0]) > 0


def test_what_hangs_is_stuck(tree):
    source = WindowSource(opened(tree), SPEC, SAMPLING, rules())
    with pytest.raises(FrameDropped) as drop:
        source.next()
    assert drop.value.reason == "stuck"


def test_what_it_says_that_is_no_number_is_a_broken_sample(tree):
    device = opened(tree)
    for text in ("", "none", "nan"):
        (tree / "iio:device0" / "in_accel_x_raw").write_text(text)
        samples = []
        while not samples:
            samples = device.read()
        assert samples == [None]


def test_a_device_that_goes_away(tree):
    device = opened(tree)
    device.close()
    device._files = [10**6]
    with pytest.raises(Disconnected, match="went away"):
        device.read()


@pytest.mark.parametrize(
    ("where", "sampling", "error", "problem"),
    [
        ("mpu6050", SAMPLING, BadInput, "expected iio:NAME,RATE"),
        ("mpu6050,0", SAMPLING, BadInput, "expected iio:NAME,RATE"),
        ("mpu6050,5000", SAMPLING, BadInput, "expected iio:NAME,RATE"),
        ("bmi160,50", SAMPLING, Disconnected, "no IIO device is called 'bmi160'; there is .*mpu6050, tsl2563"),
        ("tsl2563,50", SAMPLING, Unsupported, "has no channel 'accel_x'.*it has illuminance"),
        ("mpu6050,50", Sampling(50.0, ("accel_x",), ("mm",)), Unsupported, "given in m/s\\^2 or g"),
    ],
)
def test_what_it_cannot_give(tree, where, sampling, error, problem):
    with pytest.raises(error, match=problem):
        opened(tree, where, sampling)


def test_no_industrial_io_here(tmp_path):
    with pytest.raises(Disconnected, match="there is none"):
        opened(tmp_path / "none")
