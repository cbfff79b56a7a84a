"""``mlx90640:1``: the thermal picture of an MLX90640 at an I2C bus, by Adafruit's library, in a process of its own."""

from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, Disconnected, FrameDropped, Unsupported
from edgeveil.edge_runtime.sources.base import Camera, Sensor
from edgeveil.edge_runtime.sources.install_hints import load

SHAPE = (24, 32, 1)
SPEED_HZ = 1000000  # of the bus; it must be as fast for 8 pictures a second


class Mlx90640Source(Camera):
    """Temperatures in degrees Celsius, float32 (24, 32, 1), 4 a second; the chip gives half a picture at a time."""

    schemes = ("mlx90640",)
    forms = ("mlx90640:1",)
    help = "temperatures (24 x 32, float32, degrees C) of an MLX90640 at I2C bus 1, in a process of its own"
    needs = ("mlx90640", "i2c-bus")
    gives = "temperatures of 24 x 32 pixels"
    axes = 3
    channels = (1,)
    apart = True
    devices = ("char-i2c",)
    groups = ("i2c_group",)

    def __init__(self, where: str, spec: Sensor) -> None:
        if not where.isdigit():
            raise BadInput("expected the number of an I2C bus as mlx90640:1; got {!r}".format("mlx90640:" + where))
        if tuple(spec["shape"]) != SHAPE or np.dtype(spec["dtype"]) != np.float32:
            raise Unsupported(
                "an MLX90640 gives float32 {}; this bundle takes {} {}".format(
                    SHAPE, spec["dtype"], tuple(spec["shape"])
                )
            )
        super(Mlx90640Source, self).__init__("MLX90640 at I2C bus " + where, spec)
        self._start(where)

    def _open(self, where: str) -> None:
        bus = load("adafruit_extended_bus", "an MLX90640 is read by Adafruit's libraries", "i2c-bus")
        library: Any = load("adafruit_mlx90640", "an MLX90640 is read by Adafruit's libraries", "mlx90640")
        try:
            self._chip = library.MLX90640(bus.ExtendedI2C(int(where), frequency=SPEED_HZ))
            self._chip.refresh_rate = library.RefreshRate.REFRESH_8_HZ
        except (OSError, ValueError, RuntimeError) as error:
            raise Disconnected("{} does not answer ({})".format(self.name, str(error)[:120])) from None

    def _read(self) -> np.ndarray:
        values = [0.0] * (SHAPE[0] * SHAPE[1])
        try:
            self._chip.getFrame(values)
        except (ValueError, RuntimeError):
            raise FrameDropped("unreadable") from None  # of a bus that is too slow; the next may be whole
        except OSError:
            raise Disconnected("{} does not answer any more".format(self.name)) from None
        return np.array(values, np.float32).reshape(SHAPE)
