"""``vl53l5cx:1``: the distances of a VL53L5CX (8 x 8 zones) at an I2C bus, by vl53l5cx-ctypes, in its own process."""

import time
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, Disconnected
from edgeveil.edge_runtime.sources.base import STALL_S, Sensor
from edgeveil.edge_runtime.sources.convert import DepthCamera, need_shape, scale_depth
from edgeveil.edge_runtime.sources.install_hints import load

SIDE, RATE_HZ = 8, 15
WAIT_S = 0.005
VALID = (5, 9)  # of target_status: a distance, and one of a half of the zone (UM2884, table 4)


class Vl53l5cxSource(DepthCamera):
    """Depth uint16 (8, 8, 1) in the bundle's ``unit_mm``, 15 a second; 0 where a zone has no valid target."""

    schemes = ("vl53l5cx",)
    forms = ("vl53l5cx:1",)
    help = "distances (8 x 8) of a VL53L5CX at I2C bus 1, in a process of its own"
    needs = ("vl53l5cx",)
    apart = True
    bare = False
    devices = ("char-i2c",)
    groups = ("i2c_group",)

    def __init__(self, where: str, spec: Sensor) -> None:
        if not where.isdigit():
            raise BadInput("expected the number of an I2C bus as vl53l5cx:1; got {!r}".format("vl53l5cx:" + where))
        super(Vl53l5cxSource, self).__init__("a VL53L5CX", "VL53L5CX at I2C bus " + where, spec)
        need_shape(np.zeros((SIDE, SIDE, 1)), spec, self.name)
        self._chip: Any = None
        self._start(where)

    def _open(self, where: str) -> None:
        library = load("vl53l5cx_ctypes", "a VL53L5CX is read by vl53l5cx-ctypes", "vl53l5cx")
        bus = load("smbus2", "a VL53L5CX is read by vl53l5cx-ctypes", "vl53l5cx")
        try:
            chip = library.VL53L5CX(i2c_dev=bus.SMBus(int(where)))
            chip.set_resolution(SIDE * SIDE)
            chip.set_ranging_frequency_hz(RATE_HZ)
            chip.start_ranging()
        except (OSError, RuntimeError) as error:
            raise Disconnected("{} does not answer ({})".format(self.name, str(error)[:120])) from None
        self._chip = chip

    def _read(self) -> np.ndarray:
        end = time.monotonic() + STALL_S
        try:
            while not self._chip.data_ready():
                if time.monotonic() > end:
                    raise self._stalled()
                time.sleep(WAIT_S)
            found = self._chip.get_data()
        except OSError:
            raise Disconnected("{} does not answer any more".format(self.name)) from None
        distances, states = (
            np.array(one).reshape(-1)[: SIDE * SIDE] for one in (found.distance_mm, found.target_status)
        )
        valid = np.where(np.isin(states, VALID), np.maximum(distances, 0), 0).reshape(SIDE, SIDE)
        return scale_depth(valid, 1.0 / (self._spec["unit_mm"] or 1.0))

    def close(self) -> None:
        """Stop ranging."""
        if self._chip is not None:
            self._chip.stop_ranging()
            self._chip = None
