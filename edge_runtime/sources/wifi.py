"""``wifi:wlan0``: signal strengths of the bundle's access points, in its order, by ``iw``; a scan takes seconds."""

import re
import subprocess
from typing import Any, Callable, Dict, Optional

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, Disconnected, FrameDropped, Stalled, Unsupported
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.sources.base import Sensor, Source, now_ns
from edgeveil.edge_runtime.sources.install_hints import missing

SCAN_S = 30.0
BUSY = 240  # what iw exits with while another scan is running: -EBUSY as a byte
_STATION = re.compile(r"^BSS ([0-9a-f]{2}(?::[0-9a-f]{2}){5})", re.MULTILINE)
_SIGNAL = re.compile(r"^\tsignal: (-?[0-9]+(?:\.[0-9]+)?) dBm", re.MULTILINE)
_INTERFACE = re.compile(r"[A-Za-z0-9_.-]{1,15}")


def signals(text: str) -> Dict[str, float]:
    """``{address: dBm}`` from what ``iw dev INTERFACE scan`` prints; access points without a strength are left out."""
    heard = {}
    starts = list(_STATION.finditer(text))
    for start, end in zip(starts, [start.start() for start in starts[1:]] + [len(text)]):
        signal = _SIGNAL.search(text, start.end(), end)
        if signal:
            heard[start.group(1)] = float(signal.group(1))
    return heard


class WifiSource(Source):
    """One vector a scan: dBm of each access point of the bundle; one not heard has the lowest value of the type."""

    schemes = ("wifi",)
    forms = ("wifi:wlan0",)
    help = "dBm of the bundle's `access_points`, in their order; the type's lowest value if not heard (float: -200)"
    needs = ("iw",)
    sensor = "wifi"
    gives = "WiFi strengths"
    axes = 1
    shared = True
    interface = True  # of the network: a program scans it, in the system's namespace

    live = True

    def __init__(self, where: str, spec: Sensor, run: Callable[..., Any] = subprocess.run) -> None:
        if spec["kind"] != "vector":
            raise BadInput("this bundle perturbs pictures, and a Wi-Fi scan is a vector: use camera:0 or another")
        if not _INTERFACE.fullmatch(where):
            raise BadInput("expected wifi:INTERFACE such as wifi:wlan0; got {!r}".format("wifi:" + where))
        if spec["access_points"] is None:
            raise Unsupported(
                "this bundle does not say which access point each of its {} values is: give the recipe "
                "capture.access_points and export it again".format(spec["shape"][0])
            )
        dtype: np.dtype = np.dtype(spec["dtype"])
        if dtype.kind == "u":
            raise Unsupported("signal strengths are below 0 dBm; this bundle takes {}".format(dtype))
        self._interface, self._run, self._dtype = where, run, dtype
        self._order = list(spec["access_points"])
        # The lowest float would make later results infinite.
        self._unheard = np.iinfo(dtype).min if dtype.kind == "i" else -200
        self.name = "Wi-Fi " + where
        self._next = 0

    def next(self) -> Optional[RawFrame]:
        """One scan. Raises ``FrameDropped`` (``busy``) while another program scans."""
        try:
            done = self._run(
                ["iw", "dev", self._interface, "scan"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                timeout=SCAN_S,
            )
        except FileNotFoundError:
            raise missing("Wi-Fi is scanned by iw", "iw") from None
        except subprocess.TimeoutExpired:
            raise Stalled("{} did not end its scan in {:.0f} s".format(self.name, SCAN_S)) from None
        taken = now_ns()
        if done.returncode == BUSY:
            raise FrameDropped("busy")
        if done.returncode:
            # -1 is -EPERM as iw hands it on, 237 -ENODEV.
            why = (
                "it has gone"
                if done.returncode == 237
                else "to scan, iw needs CAP_NET_ADMIN and an interface that is up"
            )
            raise Disconnected("{} cannot be scanned (iw: {}): {}".format(self.name, done.returncode, why))
        heard = signals(done.stdout.decode("utf-8", "replace"))
        values = np.array([heard.get(address, self._unheard) for address in self._order], np.float64)
        if self._dtype.kind == "i":
            limits = np.iinfo(self._dtype)
            values = np.clip(np.rint(values), limits.min, limits.max)
        number, self._next = self._next, self._next + 1
        return RawFrame(values.astype(self._dtype), number, taken)
